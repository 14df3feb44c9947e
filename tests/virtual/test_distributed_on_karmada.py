"""Mode Distributed with --propagation=karmada: member HPAs as Works, and a scheduler that is suspended."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fedhpa.api.member_hpas import MANAGED_BY
from testbed.embedded.cluster.autoscalers import HPAS
from tests.support.federation import until
from tests.support.federation.karmada import (
    BINDING,
    BINDINGS,
    FINALIZER,
    RETAIN,
    WORKS,
    Karmada,
    karmada,
)
from tests.support.federation.planes import DEPLOYMENTS, NAME, NAMESPACE, Object
from tests.support.nightly import QUIET_SECONDS

pytestmark = pytest.mark.looptime(noop_cycles=0)

PER_POD = 50
SUSPENDED_BY = "autoscaling.karmada.io/scheduling-suspended-by"
RETAINED_BY = "autoscaling.karmada.io/replicas-retained-by"
OURS = {MANAGED_BY: "fedhpa"}


def begin(k: Karmada, **spec: Any) -> None:
    """Put the object on the hub, with the policy's division."""
    k.f.demand(6 * PER_POD)
    k.scale(**{"minReplicas": 2, "maxReplicas": 12, "federatedHPAAssignment": {}, **spec})


async def assigned(k: Karmada, within: float = 300) -> None:
    await until(lambda: k.f.condition("Assigned")[0] == "True", within)


def hub_writes(k: Karmada, since: float) -> list[str]:
    """The controller's writes on the hub to Works and the workload."""
    paths = ("/works", "/resourcebindings", "/deployments")
    return [
        f"{seen.method} {seen.path}"
        for seen in k.f.hub.writes()
        if seen.at >= since and any(path in seen.path for path in paths)
    ]


@pytest.mark.nightly
async def test_works_carry_the_member_hpas(tmp_path: Path) -> None:
    """One a cluster, with our marks. The hub follows what runs, and quiet time writes nothing."""
    async with karmada(tmp_path, m1=4, m2=2) as k, k.f.controller(calm=True, propagation="karmada"):
        begin(k)
        await assigned(k)
        first = list(k.f.rescales)
        uid = k.object["metadata"]["uid"] if k.object else ""
        works, manifests = k.works, {}
        for name, work in works.items():
            (manifests[name],) = work["spec"]["workload"]["manifests"]
        k.f.demand(12 * PER_POD)
        await asyncio.sleep(600)
        grown, shares, template = k.f.replicas, k.shares, k.template
        quiet = k.f.now()
        await asyncio.sleep(QUIET_SECONDS)
        late = hub_writes(k, quiet)

        assert first == []
        assert set(works) == {"m1", "m2"}
        for name, work in works.items():
            metadata = work["metadata"]
            assert metadata["labels"].items() >= OURS.items()
            assert uid in metadata["labels"].values()
            assert metadata["finalizers"] == [FINALIZER]
            assert {NAMESPACE, NAME} <= set(metadata["annotations"].values())
            assert manifests[name]["metadata"]["labels"] == {**OURS, "karmada.io/managed": "true"}
            assert (
                manifests[name]["metadata"]["annotations"]["work.karmada.io/conflict-resolution"] == "abort"
            )
        assert sum(grown.values()) == 12
        assert shares == grown
        assert template["spec"]["replicas"] == 12
        assert template["metadata"]["labels"][RETAIN] == "true"
        assert k.suspended
        assert k.maximum == 12
        assert late == []
        assert not k.hpa_writes()


@pytest.mark.parametrize("leave", ["deletion", "mode"])
async def test_leaving_the_mode_restores_karmada_and_keeps_the_replicas(tmp_path: Path, leave: str) -> None:
    """Works and HPAs go first. The scheduler and the label are as before, and nobody scales."""
    async with karmada(tmp_path, m1=4, m2=2) as k, k.f.controller(calm=True, propagation="karmada"):
        begin(k)
        await assigned(k)
        await asyncio.sleep(300)
        before = k.f.replicas
        k.f.rescales.clear()
        if leave == "deletion":
            k.delete()
            await until(lambda: k.object is None, 120)
        else:
            k.change(mode="Centralized", federatedHPAAssignment=None)
            await until(lambda: not k.suspended, 120)
        await asyncio.sleep(600)

        assert k.works == {}
        assert set(k.bounds.values()) == {None}
        assert not k.suspended
        assert RETAIN not in k.template["metadata"]["labels"]
        assert RETAINED_BY not in (k.template["metadata"].get("annotations") or {})
        assert SUSPENDED_BY not in (k.binding["metadata"].get("annotations") or {})
        assert k.f.rescales == []
        assert k.f.replicas == before


async def test_what_somebody_else_set_stays(tmp_path: Path) -> None:
    """A suspension and a label from before the object outlive it."""
    async with karmada(tmp_path, m1=4, m2=2) as k, k.f.controller(calm=True, propagation="karmada"):
        k.edit_hub(BINDINGS, BINDING, lambda one: one["spec"].update(suspension={"scheduling": True}))
        k.edit_hub(DEPLOYMENTS, NAME, lambda one: one["metadata"]["labels"].update({RETAIN: "true"}))
        begin(k)
        await assigned(k)
        k.delete()
        await until(lambda: k.object is None, 120)

        assert k.suspended
        assert k.template["metadata"]["labels"][RETAIN] == "true"


def tenants_hpa() -> Object:
    """An HPA of somebody else, which Karmada itself propagates."""
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"namespace": NAMESPACE, "name": NAME, "labels": {"karmada.io/managed": "true"}},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
            "minReplicas": 2,
            "maxReplicas": 3,
            "metrics": [],
        },
    }


async def test_a_tenants_hpa_is_never_taken_over(tmp_path: Path) -> None:
    """Karmada would change an HPA with its label, so no Work is written where one is."""
    async with karmada(tmp_path, m1=4, m2=2) as k, k.f.controller(calm=True, propagation="karmada"):
        k.f.members["m2"].server.store.create(HPAS, tenants_hpa())
        begin(k)
        await until(lambda: k.f.condition("Assigned")[1] == "NotOwned", 300)
        await asyncio.sleep(300)
        found = k.hpa("m2")

        assert "m2" not in k.works
        assert found is not None
        assert found["spec"]["maxReplicas"] == 3
        assert MANAGED_BY not in found["metadata"]["labels"]


async def test_a_work_that_is_not_ours_stays(tmp_path: Path) -> None:
    """The condition names it."""
    async with karmada(tmp_path, m1=4, m2=2) as k:
        async with k.f.controller(calm=True, propagation="karmada"):
            begin(k)
            await assigned(k)
            name = k.works["m1"]["metadata"]["name"]
            k.asleep = True
            store = k.f.hub.server.store
            work = store.get(WORKS, "karmada-es-m1", name)
            work["metadata"]["labels"] = {}
            store.update(WORKS, work)
            before = k.works["m1"]
            k.change(maxReplicas=10)
            await until(lambda: k.f.condition("Assigned")[0] == "False", 300)
            await asyncio.sleep(120)
            message = k.f.condition("Assigned")[2]

        assert k.works["m1"] == before
        assert f"Work karmada-es-m1/{name} is not ours" in message


async def test_karmadas_refusal_is_shown(tmp_path: Path) -> None:
    """Applied=False is a failed write with Karmada's message, until Karmada applies the Work."""
    async with karmada(tmp_path, m1=4, m2=2) as k, k.f.controller(calm=True, propagation="karmada"):
        k.refuses["m2"] = "admission webhook denied the request: no quota"
        begin(k)
        await until(lambda: "no quota" in k.f.condition("Assigned")[2], 300)
        shown = k.f.condition("Assigned")
        k.refuses.clear()
        await assigned(k)

        assert shown[:2] == ("False", "WriteFailed")
        assert "m2" in shown[2]
        assert k.maximum == 12


async def test_the_maximum_holds_while_karmada_sleeps(tmp_path: Path) -> None:
    """No maximum is raised before Karmada has lowered the others."""
    async with karmada(tmp_path, m1=4, m2=2) as k, k.f.controller(calm=True, propagation="karmada"):
        begin(k)
        await assigned(k)
        k.asleep = True
        weights = {"targetCluster": {"clusterNames": ["m1"]}, "staticWeight": 5}
        k.change(
            federatedHPAAssignment={
                "federatedHPAAssignmentType": "StaticWeighted",
                "clusterAutoscalingPreference": [weights],
            }
        )
        await asyncio.sleep(300)
        asleep = k.f.condition("Assigned")
        promised = [w["spec"]["workload"]["manifests"][0]["spec"]["maxReplicas"] for w in k.works.values()]
        k.asleep = False
        await assigned(k)
        await asyncio.sleep(300)

        assert asleep[0] == "False"
        assert "Karmada has not acted on Work karmada-es-" in asleep[2]
        assert sum(promised) <= 12
        assert k.maximum == 12


async def test_a_hub_that_drops_the_suspension_gets_no_work(tmp_path: Path) -> None:
    """Karmada's scheduler would undo the mode. The condition says which release is needed."""
    anything = {"x-kubernetes-preserve-unknown-fields": True, "type": "object"}
    listed = {"type": "array", "items": anything}
    spec = {"resource": anything, "placement": anything, "replicas": {"type": "integer"}, "clusters": listed}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    async with karmada(tmp_path, schema=schema, m1=4, m2=2) as k:
        async with k.f.controller(calm=True, propagation="karmada"):
            begin(k)
            await until(lambda: k.f.condition("Assigned")[0] == "False", 300)
            message = k.f.condition("Assigned")[2]

        assert "v1.13" in message
        assert k.works == {}


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        ({}, {"m1": (2, 12), "m2": (2, 12)}),
        ({"replicaScheduling": {"replicaSchedulingType": "Divided"}}, {"m1": (1, 6), "m2": (1, 6)}),
    ],
    ids=["copies", "parts"],
)
async def test_the_policy_divides_where_the_object_does_not(
    tmp_path: Path, placement: Object, expected: dict[str, tuple[int, int]]
) -> None:
    async with karmada(tmp_path, placement=placement, m1=3, m2=3) as k:
        async with k.f.controller(calm=True, propagation="karmada"):
            begin(k)
            await assigned(k)

        assert k.bounds == expected


async def test_other_kinds_than_deployments_are_not_built(tmp_path: Path) -> None:
    """The condition names the remedy, and nothing is written."""
    async with karmada(tmp_path, m1=4, m2=2) as k, k.f.controller(calm=True, propagation="karmada"):
        begin(k, scaleTargetRef={"apiVersion": "apps/v1", "kind": "StatefulSet", "name": NAME})
        await until(lambda: k.f.condition("ScalingActive")[1] == "NotBuilt", 120)

        assert "--propagation=direct" in k.f.condition("ScalingActive")[2]
        assert k.works == {}
        assert not k.suspended
