"""Objects that cannot be read or acted on: other objects are unaffected, and the field is named."""

from __future__ import annotations

from typing import Any

import pytest

from controller.flags import KARMADA
from tests.support.controller import HPAS, NAMESPACE, federated_hpa, reconciliations, world
from tests.support.fakeapi import eventually

pytestmark = pytest.mark.looptime(noop_cycles=0)

# Objects that a schema would refuse, as stored before there was one.
SPEC = federated_hpa(target="odd")["spec"]
MALFORMED: list[dict[str, Any]] = [
    {"spec": "nothing of the kind"},
    {"spec": ["a", "list"]},
    {"spec": None},
    {"spec": {"maxReplicas": "many"}},
    {"spec": {**SPEC, "syncPeriodSeconds": "often"}},
    {"spec": {**SPEC, "syncPeriodSeconds": {"seconds": 1}}},
    {"spec": {**SPEC, "clusterAffinity": "everywhere"}},
    {"spec": {**SPEC, "clusterAffinity": {"clusterNames": 7}}},
    {"spec": {**SPEC, "scaleTargetRef": ["web"]}},
    {"spec": {**SPEC, "scaleTargetRef": {"kind": "Deployment", "apiVersion": "a/b/c"}}},
    {"spec": {**SPEC, "metrics": {"type": "Resource"}}},
    {"spec": {**SPEC, "federatedHPAAssignment": "Duplicated"}},
    {"status": "fine"},
    {"status": {"clusters": {"m1": "fine"}}},
    {"status": {"clusters": [{"name": "m1", "currentReplicas": "four"}]}},
]


@pytest.mark.parametrize("malformed", MALFORMED, ids=lambda part: str(part)[-60:])
async def test_malformed_object_does_not_stop_the_others(malformed: dict[str, Any]) -> None:
    """No content of one object stops the reconciles of another."""
    async with world(m1=2) as w:
        w.load(200)
        odd = {**federated_hpa("odd", target="odd"), **malformed}
        w.hub.put(HPAS, odd)
        w.scale()
        async with w.controller() as controller:
            await eventually(lambda: w.replicas == {"m1": 4})
            await w.reconciles(controller, 6)
            assert not controller.task.done()
            w.load(100)
            await eventually(lambda: w.replicas == {"m1": 2})

            assert not controller.task.done()


async def test_object_that_cannot_be_read_gets_an_event() -> None:
    """One event names the field that cannot be read."""
    async with world(m1=2) as w:
        w.hub.put(HPAS, {**federated_hpa(), "spec": {"maxReplicas": "many"}})
        async with w.controller() as controller:
            await eventually(lambda: w.events("InvalidObject"))
            await w.reconciles(controller)

        (message,) = w.events("InvalidObject")
        assert "$.spec.maxReplicas" in message
        assert w.replicas == {"m1": 2}


@pytest.mark.parametrize("seconds", [-5, 0, 0.001, 10**9, True])
async def test_period_stays_within_its_bounds(seconds: Any) -> None:
    """A sync period outside the schema's bounds is clamped."""
    async with world(m1=2) as w:
        w.scale(syncPeriodSeconds=seconds)
        async with w.controller(sync_period=1.0) as controller:
            await w.reconciles(controller, 1)
            count = reconciliations(controller)

        assert count <= 2


@pytest.mark.parametrize(
    "status",
    [
        {"decision": "scale"},
        {"decision": {"version": 1, "history": {"recommendations": [{"time": "noon", "replicas": 3}]}}},
        {"decision": {"version": 1, "history": {"recommendations": [7]}}},
        {"decision": {"version": 99, "history": "none"}},
        {"clusters": [{"name": "m1", "state": "Missing", "lastSeen": "noon"}]},
    ],
)
async def test_spoiled_memory_is_forgotten(status: dict[str, Any]) -> None:
    """An unreadable status is replaced, and the object is scaled."""
    async with world(m1=2) as w:
        w.load(200)
        w.hub.put(HPAS, {**federated_hpa(), "status": status})
        async with w.controller():
            await eventually(lambda: w.replicas == {"m1": 4})
            await eventually(lambda: w.status().get("desiredReplicas") == 4)


@pytest.mark.parametrize(
    ("spec", "named", "propagation"),
    [
        ({"mode": "Distributed"}, "spec.mode", "direct"),
        ({"mode": "Distributed"}, "spec.mode", KARMADA),
        (
            {"clusterHPAPreference": {"clusterName": "m1", "maxResourceUsage": 0.5}},
            "spec.clusterHPAPreference",
            KARMADA,
        ),
    ],
)
async def test_what_is_not_built_is_named_and_not_done(
    spec: dict[str, Any], named: str, propagation: str
) -> None:
    """Nothing is written to any workload, and a condition names the field."""
    async with world(m1=2) as w:
        w.hub.deploy(2)
        w.load(400)
        w.scale(**spec)
        async with w.controller(propagation=propagation) as controller:
            await eventually(lambda: w.condition("ScalingActive")[:2] == ("False", "NotBuilt"))
            await w.reconciles(controller)

        assert named in w.condition("ScalingActive")[2]
        assert w.replicas == {"m1": 2}
        assert w.hub.replicas() == 2


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (
            {"federatedHPAAssignment": {"federatedHPAAssignmentType": "Duplicated"}},
            "spec.federatedHPAAssignment.federatedHPAAssignmentType",
        ),
        ({"autoscaleMultiClusterDelay": 60}, "spec.autoscaleMultiClusterDelay"),
    ],
)
async def test_placing_what_karmada_places_is_named_and_not_done(spec: dict[str, Any], named: str) -> None:
    """With --propagation=karmada the PropagationPolicy assigns replicas, so these fields are unsupported."""
    async with world(m1=2) as w:
        w.hub.deploy(2)
        w.load(400)
        w.scale(**spec)
        async with w.controller(propagation=KARMADA) as controller:
            await eventually(lambda: w.condition("ScalingActive")[:2] == ("False", "NotBuilt"))
            await w.reconciles(controller)

        assert named in w.condition("ScalingActive")[2]
        assert w.hub.replicas() == 2


@pytest.mark.parametrize("target", ["web", "twin"])
async def test_two_autoscalers_of_the_same_pods_scale_nothing(target: str) -> None:
    """Both objects report the ambiguity from the first reconcile on, for one Deployment or equal labels."""
    async with world(m1=2, m2=2) as w:
        for member in w.members.values():
            member.use(100)
            if target == "twin":
                member.deploy(2, name="twin")
        w.scale()
        w.scale("rival", target=target)
        async with w.controller() as controller:
            for name in ("web", "rival"):
                await eventually(lambda name=name: w.condition("ScalingActive", name)[1])  # type: ignore[misc]
            await w.reconciles(controller, 4)

        for name in ("web", "rival"):
            status, reason, message = w.condition("ScalingActive", name)
            assert (status, reason) == ("False", "AmbiguousSelector")
            assert "[shop/rival shop/web]" in message
        assert [member.request_count("PUT", "/scale") for member in w.members.values()] == [0, 0]


async def test_ambiguity_ends_with_the_rival() -> None:
    """Once the other autoscaler is deleted, this one scales."""
    async with world(m1=2) as w:
        w.load(200)
        w.scale()
        w.scale("rival")
        async with w.controller():
            await eventually(lambda: w.condition("ScalingActive")[1] == "AmbiguousSelector")
            w.hub.remove(HPAS, "rival", NAMESPACE)
            await eventually(lambda: w.replicas == {"m1": 4})


async def test_rival_of_another_namespace_is_none() -> None:
    """Equal labels in another namespace are not ambiguous."""
    async with world(m1=2) as w:
        w.load(200)
        w.scale()
        other = federated_hpa("other")
        other["metadata"]["namespace"] = "elsewhere"
        w.hub.put(HPAS, other)
        async with w.controller():
            await eventually(lambda: w.replicas == {"m1": 4})
