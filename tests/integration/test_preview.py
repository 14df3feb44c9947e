"""`fedhpa preview` shows what applying an object would decide, and writes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from controller.flags import KARMADA
from fedhpa.api.errors import ConfigError
from fedhpa.cli.preview import Preview, preview_of, read_objects, to_json, to_text
from fedhpa.kube.client import ApiClient
from tests.support.controller import HPAS, NAMESPACE, ControllerWorld, Plane, federated_hpa, world
from tests.support.fakeapi import Object, eventually

pytestmark = pytest.mark.looptime(noop_cycles=0)

AUTOSCALERS = ("autoscaling/v2", "horizontalpodautoscalers")


async def previewed(w: ControllerWorld, changed: Object, propagation: str = "direct") -> Preview:
    async with ApiClient(w.hub.config()) as hub:
        return await preview_of(hub, changed, NAMESPACE, propagation, clock=w.clock)


def plain_autoscaler(plane: Plane, name: str = "web", target: str = "web") -> None:
    """Put a HorizontalPodAutoscaler of a Deployment there."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    spec = {"scaleTargetRef": reference, "maxReplicas": 3}
    plane.put(AUTOSCALERS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})


async def test_a_change_is_decided_beside_what_is() -> None:
    """The bounds hold the size now, and the change would scale it. Nothing is written."""
    async with world(m1=2, m2=2) as w:
        w.load(400)
        w.hub.put(HPAS, federated_hpa(maxReplicas=4))
        found = await previewed(w, federated_hpa(maxReplicas=20))

        assert found.now is not None
        assert found.then is not None
        assert (found.now.desired_replicas, found.then.desired_replicas) == (4, 8)
        assert (w.hub.writes, w.members["m1"].writes) == ([], [])
    text = to_text(found)
    assert "now: stay at 4 replicas" in text
    assert "with the change: scale 4 -> 8 replicas" in text
    data = to_json(found)
    assert (data["admitted"], data["now"]["desiredReplicas"], data["then"]["desiredReplicas"]) == (True, 4, 8)


async def test_an_object_that_is_new_has_no_now() -> None:
    """The preview decides as the controller would at its first reconcile."""
    async with world(m1=2) as w:
        w.load(200)
        found = await previewed(w, federated_hpa())

    assert found.now is None
    assert found.then is not None
    assert found.then.desired_replicas == 4
    assert "does not exist yet" in to_text(found)


async def test_what_admission_refuses_is_not_decided_on() -> None:
    """The message is that of admission, and the preview reads no cluster."""
    async with world(m1=2) as w:
        found = await previewed(w, federated_hpa(minReplicas=9, maxReplicas=3))

        assert w.members["m1"].seen == []
    assert "spec.maxReplicas" in found.refusal
    assert found.then is None
    assert "would be refused" in to_text(found)


async def test_a_cron_object_is_validated_and_not_simulated() -> None:
    """The object is validated, and a note says that its rules are not simulated."""
    rule = {"name": "up", "schedule": "0 8 * * *", "targetReplicas": 3}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    cron = {**federated_hpa(), "kind": "CronFederatedHPA"}
    cron["spec"] = {"scaleTargetRef": reference, "rules": [rule]}
    async with world() as w:
        found = await previewed(w, cron)

    assert found.refusal == ""
    assert "not simulated" in found.note


async def test_an_autoscaler_in_a_member_is_found() -> None:
    """The preview names the autoscaler of the same workload, and no other."""
    async with world(m1=2, m2=2) as w:
        plain_autoscaler(w.members["m2"])
        plain_autoscaler(w.members["m1"], "api", "api")
        found = await previewed(w, federated_hpa())

    assert found.competitors == (f"HorizontalPodAutoscaler {NAMESPACE}/web in m2",)
    assert "conflicts with" in to_text(found)
    assert to_json(found)["contestedBy"] == [f"HorizontalPodAutoscaler {NAMESPACE}/web in m2"]


@pytest.mark.parametrize("on_hub", [True, False])
async def test_the_controller_tells_of_another_autoscaler(on_hub: bool) -> None:
    """A condition and one event name it; once it is gone, the condition says so."""
    async with world(m1=2) as w:
        w.hub.deploy(2)
        place = w.hub if on_hub else w.members["m1"]
        plain_autoscaler(place)
        w.scale()
        async with w.controller(propagation=KARMADA, sync_period=2.0) as controller:
            await eventually(lambda: w.condition("SoleOwner")[0] == "False")
            await w.reconciles(controller)
            message = w.condition("SoleOwner")[2]
            told = w.events("AnotherAutoscaler")
            place.remove(AUTOSCALERS, "web", NAMESPACE)
            await eventually(lambda: w.condition("SoleOwner")[0] == "True", 90)

    assert f"HorizontalPodAutoscaler {NAMESPACE}/web in {'the hub' if on_hub else 'm1'}" in message
    assert told == [message]


async def test_members_that_do_not_show_their_autoscalers_are_not_blamed() -> None:
    """Without permission to list them the condition does not appear, and the workload is scaled."""
    async with world(m1=2) as w:
        w.members["m1"].refused["GET", "/horizontalpodautoscalers"] = 403
        w.load(200)
        w.scale()
        async with w.controller():
            await eventually(lambda: w.replicas == {"m1": 4})

    assert w.condition("SoleOwner") == ("", "", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no object"),
        (
            "kind: Deployment\nmetadata: {name: web}",
            "expected FederatedHPA or CronFederatedHPA, got 'Deployment'",
        ),
        ("kind: FederatedHPA", "metadata.name is missing"),
        ("a: [", "cannot be read"),
        ("- 1", "expected FederatedHPA"),
    ],
)
def test_a_file_of_something_else_is_wrong_usage(tmp_path: Any, text: str, said: str) -> None:
    """One line says what is wrong with the file."""
    path = tmp_path / "changed.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_objects(str(path))
