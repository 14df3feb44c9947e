"""Mode Distributed with --propagation=karmada: member HPAs as Works, and a scheduler that is suspended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fedhpa.api.member_hpas import MANAGED_BY
from testbed.embedded.cluster.autoscalers import HPAS
from testbed.embedded.cluster.controllers import NODES
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
from tests.support.plane_faults import Fault
from tests.virtual.test_one_cluster_under_two_names import register_again

pytestmark = pytest.mark.looptime(noop_cycles=0)

PER_POD = 50
SUSPENDED_BY = "autoscaling.karmada.io/scheduling-suspended-by"
RETAINED_BY = "autoscaling.karmada.io/replicas-retained-by"
OURS = {MANAGED_BY: "fedhpa"}
AGGREGATED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
ONLY_M1 = [{"name": "m1", "replicas": 4}]


def begin(k: Karmada, **spec: Any) -> None:
    """Put the object on the hub, with the policy's division."""
    k.f.demand(6 * PER_POD)
    k.scale(**{"minReplicas": 2, "maxReplicas": 12, "federatedHPAAssignment": {}, **spec})


async def assigned(k: Karmada, within: float = 300) -> None:
    await until(lambda: k.f.condition("Assigned")[0] == "True", within)


@asynccontextmanager
async def controlled(folder: Path, **hub: Any) -> AsyncIterator[Karmada]:
    """A hub of Karmada with a controller; 4 replicas run in m1 and 2 in m2 unless `hub` says otherwise."""
    async with (
        karmada(folder, **{"m1": 4, "m2": 2, **hub}) as k,
        k.f.controller(calm=True, propagation="karmada"),
    ):
        yield k


@asynccontextmanager
async def running(folder: Path, spec: Any = None, **hub: Any) -> AsyncIterator[Karmada]:
    """The same with an object whose bounds are assigned."""
    async with controlled(folder, **hub) as k:
        begin(k, **(spec or {}))
        await assigned(k)
        yield k


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
    async with running(tmp_path) as k:
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


def named(*clusters: str) -> Object:
    """A ClusterAffinity."""
    return {"clusterNames": list(clusters)}


def parts(**fields: Any) -> Object:
    """A placement that divides equally among all clusters."""
    how = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
    return {"replicaScheduling": how, **fields}


def weighted(**weights: int) -> Object:
    """A placement that divides by static weights."""
    listed = [{"targetCluster": named(name), "weight": weight} for name, weight in weights.items()]
    placement = parts(clusterAffinity=named(*weights))
    placement["replicaScheduling"]["weightPreference"] = {"staticWeightList": listed}
    return placement


async def test_clusters_that_karmada_left_empty_get_their_share(tmp_path: Path) -> None:
    """They are written into the ResourceBinding without replicas, and begin with their minimum."""
    async with controlled(tmp_path, placement=weighted(m1=1, m2=2, m3=3), m1=0, m2=1, m3=2) as k:
        k.f.demand(3 * PER_POD)
        k.scale(minReplicas=2, maxReplicas=10, federatedHPAAssignment={})
        await until(lambda: k.bounds["m1"] is not None, 300)
        await asyncio.sleep(300)

        assert sum(bounds[1] for bounds in k.bounds.values() if bounds is not None) == 10
        assert all(k.bounds.values())
        assert set(k.shares) == {"m1", "m2", "m3"}
        assert k.shares == k.f.replicas


@pytest.mark.parametrize("overflow", [False, True], ids=["one group", "overflow"])
async def test_the_others_run_what_a_full_cluster_cannot(tmp_path: Path, overflow: bool) -> None:
    """Karmada gave all replicas to the first cluster. Overflow clusters get an HPA once it is full."""
    placement = parts(clusterAffinity=named("m1", "m2", "m3"))
    if overflow:
        tiers = [{"affinityName": "cloud", **named("m2", "m3")}]
        group = {"affinityName": "main", **named("m1"), "overflowAffinities": tiers}
        placement = {"clusterAffinities": [group], "replicaScheduling": AGGREGATED}
    async with controlled(tmp_path, placement=placement, m1=6, m2=0, m3=0) as k:
        store = k.f.members["m1"].server.store
        node = store.get(NODES, "", "node")
        node["status"]["allocatable"]["cpu"] = "600m"
        store.update(NODES, node)
        begin(k, maxReplicas=20)
        await assigned(k)
        await asyncio.sleep(120)
        before = k.bounds["m2"]
        k.f.demand(16 * PER_POD)
        # The members' HPAs tolerate 10 %.
        await until(lambda: k.f.ready_pods >= 15, 900)

        assert (before is None) == overflow
        assert k.f.total <= 20


async def test_an_excluded_cluster_gets_no_hpa(tmp_path: Path) -> None:
    """spec.clusterAffinity narrows the placement. What runs in the cluster stays as it is."""
    async with running(tmp_path, {"clusterAffinity": {"exclude": ["m2"]}}, m1=4, m2=5) as k:
        k.f.demand(20 * PER_POD)
        await asyncio.sleep(300)

        assert set(k.works) == {"m1"}
        assert k.f.replicas["m2"] == 5
        assert k.shares == k.f.replicas


async def test_another_cluster_begins_where_the_only_one_of_the_binding_is_excluded(tmp_path: Path) -> None:
    async with controlled(tmp_path, m1=4, m2=0) as k:
        begin(k, clusterAffinity={"exclude": ["m1"]})
        await until(lambda: k.bounds["m2"] == (2, 12), 300)

        assert set(k.works) == {"m2"}
        assert k.f.replicas["m1"] == 4


@pytest.mark.parametrize("how", ["excluded", "unregistered"])
async def test_a_cluster_that_goes_leaves_the_binding(tmp_path: Path, how: str) -> None:
    """The others get its share. Karmada waits for that before it deletes the Cluster.

    Of one that is excluded, the replicas and the HPA go, and Karmada removes the workload there.
    """
    async with running(tmp_path, m3=2) as k:
        if how == "excluded":
            k.change(clusterAffinity={"exclude": ["m3"]})
            await until(lambda: "m3" not in k.shares, 300)
            await asyncio.sleep(120)
        else:
            k.f.part("m3")
            await until(lambda: "m3" not in k.shares, 60)
            await asyncio.sleep(60)

        assert sum(found[1] for name, found in k.bounds.items() if found is not None and name != "m3") == 12
        if how == "excluded":
            assert set(k.works) == {"m1", "m2"}
            assert k.maximum == 12
            assert k.template["spec"]["replicas"] == sum(k.shares.values())


async def test_an_unregistered_cluster_is_lost_at_once(tmp_path: Path) -> None:
    """In mode Centralized too: Karmada has removed its Works, and nobody waits for its answers."""
    async with controlled(tmp_path) as k:
        begin(k, mode="Centralized", federatedHPAAssignment=None)
        await until(lambda: k.f.condition("MetricsComplete")[0] == "True", 120)
        k.f.part("m2")
        await until(lambda: k.f.state("m2") == "Lost", 45)

        assert k.f.condition("MetricsComplete")[0] == "True"
        assert k.f.status()["summary"]["clusters"] == "1/1"


async def test_a_tainted_cluster_does_not_begin(tmp_path: Path) -> None:
    """Karmada gives it nothing either. The tolerations of the placement count, not those of the object."""
    toleration = {"key": "gpu", "operator": "Exists"}
    placement = parts(clusterTolerations=[toleration])
    async with karmada(tmp_path, placement=placement, m1=4, m2=0, m3=0) as k:
        k.taint("m2", key="maintenance", effect="NoSchedule")
        k.taint("m3", key="gpu", effect="NoSchedule")
        async with k.f.controller(calm=True, propagation="karmada"):
            begin(k, clusterTolerations=[{"key": "maintenance", "operator": "Exists"}])
            await until(lambda: k.bounds["m3"] is not None, 300)
            await asyncio.sleep(120)

            assert set(k.works) == {"m1", "m3"}


async def test_an_eviction_of_karmada_is_reported_and_its_cluster_leaves(tmp_path: Path) -> None:
    """It leaves the ResourceBinding at once, and the other runs more before this one runs less."""
    async with running(tmp_path) as k:
        k.keeps.add("m2")
        task = {"fromCluster": "m2", "reason": "TaintUntolerated", "producer": "TaintManager"}
        k.edit_hub(
            BINDINGS, BINDING, lambda one: one["spec"].update(gracefulEvictionTasks=[task], clusters=ONLY_M1)
        )
        await asyncio.sleep(20)
        entry = next(one for one in k.f.status()["clusters"] if one["name"] == "m2")
        await asyncio.sleep(100)
        shares = k.shares
        k.taint("m2", key="broken", effect="NoExecute")
        k.keeps.clear()
        k.edit_hub(BINDINGS, BINDING, lambda one: one["spec"].update(gracefulEvictionTasks=[]))
        await until(lambda: k.bounds["m2"] is None, 300)

        assert set(shares) == {"m1"}
        assert k.f.replicas["m1"] >= 6
        assert entry["membership"] == "Leaving"
        assert entry["waitsFor"] == "Karmada evicts it (TaintManager: TaintUntolerated)"


async def test_a_taint_no_execute_is_left_to_karmada(tmp_path: Path) -> None:
    """A setting of Karmada decides if its taint manager evicts, for all workloads of the hub."""
    async with running(tmp_path) as k:
        k.taint("m2", key="broken", effect="NoExecute")
        await asyncio.sleep(120)
        entry = next(one for one in k.f.status()["clusters"] if one["name"] == "m2")

        assert entry["membership"] == "Cordoned"
        assert "broken:NoExecute, on which only Karmada's taint manager evicts" in entry["waitsFor"]
        assert set(k.works) == {"m1", "m2"}


async def test_spread_constraints_leave_the_choice_to_karmada(tmp_path: Path) -> None:
    """Only the clusters of the ResourceBinding take part, and the condition says so."""
    placement = parts(spreadConstraints=[{"spreadByField": "cluster", "maxGroups": 2}])
    async with running(tmp_path, placement=placement, m3=0) as k:
        await asyncio.sleep(60)

        assert set(k.works) == {"m1", "m2"}
        assert "spreadConstraints" in k.f.condition("Assigned")[2]


def groups(*lists: list[str]) -> Object:
    """A placement with clusterAffinities, named g0, g1, and so on."""
    terms = [{"affinityName": f"g{index}", **named(*names)} for index, names in enumerate(lists)]
    return parts(clusterAffinities=terms)


async def test_one_group_takes_part_at_a_time(tmp_path: Path) -> None:
    """The next group takes part once all clusters of the first are lost, and gets all of maxReplicas."""
    async with running(tmp_path, placement=groups(["m1"], ["m2"]), m1=4, m2=0) as k:
        await asyncio.sleep(120)
        first = set(k.works)
        await k.f.members["m1"].faults.set(Fault.REFUSE)
        await until(lambda: k.bounds["m2"] == (2, 12), 900)

        assert first == {"m1"}


async def test_the_group_that_the_binding_names_takes_part(tmp_path: Path) -> None:
    async with karmada(tmp_path, placement=groups(["m1"], ["m2", "m3"]), m1=0, m2=3, m3=0) as k:
        k.observe("g1")
        async with k.f.controller(calm=True, propagation="karmada"):
            begin(k)
            await until(lambda: k.bounds["m3"] is not None, 300)
            await asyncio.sleep(60)

            assert set(k.works) == {"m2", "m3"}


@pytest.mark.parametrize(
    ("taint", "evicted", "expected"),
    [
        pytest.param({"key": "fedhpa.io/drain", "effect": "NoSchedule"}, False, {"m2"}, id="drained"),
        pytest.param({"key": "broken", "effect": "NoExecute"}, True, {"m2"}, id="evicted"),
        pytest.param({"key": "full", "effect": "NoSchedule"}, False, {"m1"}, id="cordoned"),
    ],
)
async def test_the_next_group_takes_part_where_the_first_takes_nothing(
    tmp_path: Path, taint: dict[str, str], evicted: bool, expected: set[str]
) -> None:
    """A cluster that leaves moves its replicas, and its HPA goes. A cordoned one keeps its group."""
    async with running(tmp_path, placement=groups(["m1"], ["m2"]), m1=4, m2=0) as k:
        await asyncio.sleep(60)
        k.taint("m1", **taint)
        if evicted:
            k.keeps.add("m1")
            task = {"fromCluster": "m1", "reason": "TaintUntolerated", "producer": "TaintManager"}
            edit = {"gracefulEvictionTasks": [task], "clusters": []}
            k.edit_hub(BINDINGS, BINDING, lambda one: one["spec"].update(edit))
        await asyncio.sleep(240)

        assert {name for name, bounds in k.bounds.items() if bounds is not None} == expected


@pytest.mark.parametrize("leave", ["deletion", "mode"])
async def test_leaving_the_mode_restores_karmada_and_keeps_the_replicas(tmp_path: Path, leave: str) -> None:
    """Works and HPAs go first. The scheduler and the label are as before, and nobody scales."""
    async with running(tmp_path) as k:
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
    async with controlled(tmp_path) as k:
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
    async with controlled(tmp_path) as k:
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
    async with controlled(tmp_path) as k:
        k.refuses["m2"] = "admission webhook denied the request: no quota"
        begin(k)
        await until(lambda: "no quota" in k.f.condition("Assigned")[2], 300)
        shown = k.f.condition("Assigned")
        k.refuses.clear()
        await assigned(k)

        assert shown[:2] == ("False", "WriteFailed")
        assert "m2" in shown[2]
        assert k.maximum == 12


def promised(k: Karmada) -> list[int]:
    """The maxima in the Works."""
    return [w["spec"]["workload"]["manifests"][0]["spec"]["maxReplicas"] for w in k.works.values()]


async def test_the_maximum_holds_while_karmada_sleeps(tmp_path: Path) -> None:
    """No maximum is raised before Karmada has lowered the others."""
    async with running(tmp_path) as k:
        k.asleep = True
        weights = {"targetCluster": named("m1"), "staticWeight": 5}
        k.change(
            federatedHPAAssignment={
                "federatedHPAAssignmentType": "StaticWeighted",
                "clusterAutoscalingPreference": [weights],
            }
        )
        await asyncio.sleep(300)
        asleep = k.f.condition("Assigned")
        maxima = promised(k)
        k.asleep = False
        await assigned(k)
        await asyncio.sleep(300)

        assert asleep[0] == "False"
        assert "Karmada has not acted on Work karmada-es-" in asleep[2]
        assert sum(maxima) <= 12
        assert k.maximum == 12


async def test_a_work_that_karmada_has_not_read_yet_is_taken_back(tmp_path: Path) -> None:
    """It may lower a maximum that the cluster needs by now, though the cluster shows the right one."""
    async with controlled(tmp_path) as k:
        begin(k)
        await assigned(k)
        before = promised(k)
        k.asleep = True
        k.change(maxReplicas=6)
        await until(lambda: promised(k) != before, 300)
        k.change(maxReplicas=12)
        await until(lambda: promised(k) == before, 300)
        k.asleep = False
        await assigned(k)

        assert promised(k) == before
        assert k.maximum == 12


async def test_the_detector_that_writes_the_binding_at_once_delays_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does so for the label that makes the members keep their replicas."""
    async with controlled(tmp_path) as k:
        store = k.f.hub.server.store
        update = store.update

        def detecting(collection: Any, found: Object, *rest: Any, **more: Any) -> Any:
            stored = update(collection, found, *rest, **more)
            if collection == DEPLOYMENTS:
                k.edit_hub(BINDINGS, BINDING, lambda one: one["metadata"]["labels"].update(seen="yes"))
            return stored

        monkeypatch.setattr(store, "update", detecting)
        begin(k)
        await assigned(k, within=5)

        assert k.suspended
        assert k.binding["metadata"]["labels"]["seen"] == "yes"


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
    async with controlled(tmp_path) as k:
        begin(k, scaleTargetRef={"apiVersion": "apps/v1", "kind": "StatefulSet", "name": NAME})
        await until(lambda: k.f.condition("ScalingActive")[1] == "NotBuilt", 120)

        assert "--propagation=direct" in k.f.condition("ScalingActive")[2]
        assert k.works == {}
        assert not k.suspended


async def test_the_other_name_of_a_cluster_stays_in_the_binding(tmp_path: Path) -> None:
    """Karmada would remove the Work of a name that goes, and with it the Deployment of the cluster itself."""
    async with karmada(tmp_path, m1=4, m2=2) as k:
        await asyncio.sleep(1)
        register_again(k.f, "m1", "a")
        k.edit_hub(
            BINDINGS, BINDING, lambda one: one["spec"]["clusters"].append({"name": "a", "replicas": 4})
        )
        async with k.f.controller(calm=True, propagation="karmada"):
            begin(k)
            await asyncio.sleep(300)

            assert "a" in k.shares
            status, reason, _ = k.f.condition("HubCompatible")
            assert (status, reason) == ("False", "DuplicateCluster")
            assert k.f.status()["summary"]["propagation"] == "karmada"
