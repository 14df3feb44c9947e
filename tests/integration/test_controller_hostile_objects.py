"""Objects that cannot be read or acted on: other objects are unaffected, and the field is named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from controller import publish
from controller.federatedhpa import centralized, snapshot
from controller.federatedhpa.memory import ObjectMemory
from controller.flags import KARMADA
from controller.hub_check import HubCheck
from tests.support.controller import HPAS, NAMESPACE, federated_hpa, reconciliations, world
from tests.support.fakeapi import PODS, eventually

pytestmark = pytest.mark.looptime(noop_cycles=0)

AMBIGUOUS = "AmbiguousSelector"
# Objects that a schema would refuse, as stored before there was one.
SPEC = federated_hpa(target="odd")["spec"]
MALFORMED: list[dict[str, Any]] = [
    {"spec": "nothing of the kind"},
    {"spec": ["a", "list"]},
    {"spec": None},
    {"spec": {"maxReplicas": "many"}},
    {"spec": {**SPEC, "syncPeriodSeconds": "often"}},
    {"spec": {**SPEC, "syncPeriodSeconds": {"seconds": 1}}},
    {"spec": {**SPEC, "syncPeriodSeconds": 10**400}},
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


async def test_malformed_objects_do_not_stop_the_others() -> None:
    """No content of one object stops the reconciles of another."""
    async with world(m1=2) as w:
        w.load(200)
        for number, malformed in enumerate(MALFORMED):
            w.hub.put(HPAS, {**federated_hpa(f"odd{number}", target=f"odd{number}"), **malformed})
        w.scale()
        async with w.controller() as controller:
            await eventually(lambda: w.replicas == {"m1": 4})
            await w.reconciles(controller, 6)
            assert not controller.task.done()
            w.load(100)
            await eventually(lambda: w.replicas == {"m1": 2})

            assert not controller.task.done()


TARGET = SPEC["scaleTargetRef"] | {"name": "web"}


def usage(**target: Any) -> dict[str, Any]:
    """A spec with one CPU metric of this target."""
    return {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"maxReplicas": None}, "InvalidObject"),
        ({"scaleTargetRef": None}, "InvalidObject"),
        ({"scaleTargetRef": {**TARGET, "kind": ""}}, "InvalidObject"),
        ({"scaleTargetRef": {**TARGET, "name": ""}}, "InvalidObject"),
        ({"scaleTargetRef": {**TARGET, "name": "../deployments/web"}}, "FailedGetScale"),
        ({"scaleTargetRef": {**TARGET, "name": ".."}}, "ReconcileFailed"),
        (
            {"clusterAffinity": {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}},
            "FailedGetScale",
        ),
        ({"metrics": [{"type": "Pods"}]}, "FailedGetPodsMetric"),
        ({"minReplicas": 0}, "InvalidObject"),
        ({"minReplicas": 9, "maxReplicas": 8}, "InvalidObject"),
        ({"federatedMaxReplicas": 7}, "InvalidObject"),
        (usage(type="Utilization"), "FailedGetResourceMetric"),
        (usage(type="AverageValue", averageValue="0m"), "FailedGetResourceMetric"),
    ],
    ids=str,
)
async def test_what_only_the_webhook_refuses_scales_nothing(spec: dict[str, Any], reason: str) -> None:
    """A hub without the webhook stores these objects. `Ready` says why nothing is scaled."""
    async with world(m1=2) as w:
        w.load(200)
        w.scale(**spec)
        async with w.controller():
            await eventually(lambda: w.condition("Ready")[:2] == ("False", reason))
            await asyncio.sleep(5)

        assert w.replicas == {"m1": 2}
        assert not [line for line in w.members["m1"].writes if "/namespaces/" in line]


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
    ("spec", "named"),
    [
        ({"mode": "Distributed"}, "spec.mode"),
        (
            {"clusterHPAPreference": {"clusterName": "m1", "maxResourceUsage": 0.5}},
            "spec.clusterHPAPreference",
        ),
        (
            {"federatedHPAAssignment": {"federatedHPAAssignmentType": "Duplicated"}},
            "spec.federatedHPAAssignment.federatedHPAAssignmentType",
        ),
        ({"autoscaleMultiClusterDelay": 60}, "spec.autoscaleMultiClusterDelay"),
    ],
)
async def test_what_is_not_built_is_named_and_not_done(spec: dict[str, Any], named: str) -> None:
    """Nothing is written to any workload, and a condition names the field. With --propagation=karmada the
    PropagationPolicy assigns the replicas.
    """
    async with world(m1=2) as w:
        w.hub.deploy(2)
        w.load(400)
        w.scale(**spec)
        async with w.controller(propagation=KARMADA) as controller:
            await eventually(lambda: w.condition("ScalingActive")[:2] == ("False", "NotBuilt"))
            await w.reconciles(controller)

        assert named in w.condition("ScalingActive")[2]
        assert w.replicas == {"m1": 2}
        assert w.hub.replicas() == 2


@pytest.mark.parametrize(
    ("target", "first", "second"),
    [("web", {}, {}), ("twin", {}, {}), ("web", {"minReplicas": 8}, {"maxReplicas": 5})],
    ids=["one target", "equal labels", "other bounds"],
)
async def test_two_autoscalers_of_the_same_pods_scale_nothing(
    target: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    """Both objects report the ambiguity from the first reconcile on, for one Deployment or equal labels. The
    smallest size of one and the largest of the other do not move one target to and fro.
    """
    async with world(m1=3, m2=3) as w:
        for member in w.members.values():
            member.use(100)
            if target == "twin":
                member.deploy(2, name="twin")
        w.scale(**first)
        w.scale("rival", target=target, **second)
        async with w.controller() as controller:
            for name in ("web", "rival"):
                await eventually(lambda name=name: w.condition("ScalingActive", name)[1])  # type: ignore[misc]
            await w.reconciles(controller, 6)

        for name in ("web", "rival"):
            status, reason, message = w.condition("ScalingActive", name)
            assert (status, reason) == ("False", "AmbiguousSelector")
            assert "[shop/rival shop/web]" in message
        assert [member.request_count("PUT", "/scale") for member in w.members.values()] == [0, 0]


def nested(levels: int) -> Any:
    """A value of so many objects within each other."""
    value: Any = "deep"
    for _ in range(levels):
        value = {"x": value}
    return value


async def test_deeply_nested_objects_do_not_stop_the_others() -> None:
    """An object with any nesting stops no other one, also when it changes."""
    async with world(m1=2) as w:
        w.load(200)
        odd = [federated_hpa(f"odd{levels}", target=f"odd{levels}") for levels in (60, 190, 500, 850)]
        for obj, levels in zip(odd, (60, 190, 500, 850), strict=True):
            preference = {"clusterName": "m1", "maxResourceUsage": 0.5, "x": nested(levels)}
            obj["spec"]["clusterHPAPreference"] = preference
            w.hub.put(HPAS, obj)
        w.scale()
        async with w.controller() as controller:
            await eventually(lambda: w.replicas == {"m1": 4})
            for obj in odd:
                w.hub.put(HPAS, {**obj, "metadata": {**obj["metadata"], "generation": 2}})
            w.load(100)
            await eventually(lambda: w.replicas == {"m1": 2})

            assert not controller.task.done()
            await eventually(
                lambda: w.events("InvalidObject", "odd500") and w.events("InvalidObject", "odd850")
            )


def raising(error: BaseException, original: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which raises for the object `odd`."""

    def wrapped(*arguments: Any, **named: Any) -> Any:
        if any("odd" in str(argument)[:400] for argument in arguments):
            raise error
        return original(*arguments, **named)

    return wrapped


PARTS: list[tuple[Any, str, BaseException]] = [
    (snapshot, "decode_object", RecursionError("too deep")),
    (centralized, "decide", KeyError("x")),
    (publish, "update_with_retry", MemoryError()),
    (HubCheck, "other_controller", KeyError("x")),
]


@pytest.mark.parametrize(("owner", "name", "error"), PARTS, ids=lambda part: str(part))
async def test_exception_about_one_object_is_shown_on_it_alone(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: BaseException
) -> None:
    """An error in decoding, deciding or publishing one object is counted and shown on that object."""
    async with world(m1=2) as w:
        w.load(200)
        w.members["m1"].deploy(2, name="odd", app="odd")
        w.scale("odd", target="odd")
        w.hub.find(HPAS, "odd", NAMESPACE)["metadata"]["labels"] = {"is": "odd"}  # type: ignore[index]
        w.scale()
        async with w.controller() as controller:
            monkeypatch.setattr(owner, name, raising(error, getattr(owner, name)))
            await eventually(lambda: w.replicas["m1"] >= 4)
            await eventually(lambda: w.events("ReconcileFailed", "odd"))
            failures = controller.total("fedhpa_controller_reconcile_failures_total")
            shown = w.condition("AbleToScale", "odd")
            monkeypatch.undo()
            await eventually(lambda: w.condition("AbleToScale", "odd")[0] == "True")

        (message,) = w.events("ReconcileFailed", "odd")
        assert message.startswith(f"internal error: {type(error).__name__}")
        assert failures >= 1
        assert shown[:2] == ("False", "ReconcileFailed")
        assert not w.events("ReconcileFailed", "web")


async def test_status_that_makes_the_reader_raise_is_a_fresh_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception while the memory is restored stops neither this object nor its neighbours."""
    async with world(m1=2) as w:
        w.load(200)
        w.members["m1"].deploy(2, name="odd", app="odd")
        w.scale("odd", target="odd")
        w.scale()
        broken = raising(OverflowError("year 10000"), ObjectMemory.restore)
        monkeypatch.setattr(ObjectMemory, "restore", broken)
        async with w.controller():
            await eventually(lambda: w.replicas["m1"] >= 4)
            await eventually(lambda: w.status("odd").get("desiredReplicas"))


async def test_two_autoscalers_of_one_target_without_pods_are_both_told() -> None:
    """Two objects with one target are ambiguous although no pod shows it."""
    async with world(m1=6) as w:
        plane = w.members["m1"]
        plane.pods_follow = False
        for pod in list(plane.all(PODS)):
            plane.remove(PODS, pod["metadata"]["name"], NAMESPACE)
        w.scale()
        w.scale("rival", target="web")
        async with w.controller():
            for name in ("web", "rival"):
                await eventually(lambda name=name: w.condition("ScalingActive", name)[1] == AMBIGUOUS)  # type: ignore[misc]
