"""Writes that meet other writers, refusals, or the end of the process."""

from __future__ import annotations

import pytest

from controller.flags import KARMADA
from tests.support.controller import DEPLOYMENTS, NAMESPACE, SCALE_PATH, Plane, eventually_more, world
from tests.support.fakeapi import eventually

pytestmark = pytest.mark.looptime(noop_cycles=0)

SCALE_WRITE = ("PUT", "/scale")


def touch(plane: Plane) -> None:
    """Change the Deployment, but not its replicas."""
    stored = plane.find(DEPLOYMENTS, "web", NAMESPACE)
    assert stored is not None
    plane.put(DEPLOYMENTS, stored)


def at_first_write(plane: Plane, action: object) -> None:
    """Call a function right before the first write of a scale is served."""
    assert callable(action)

    def before(method: str, path: str) -> None:
        if method == "PUT" and path.endswith("/scale"):
            plane.before = lambda method, path: None
            action()

    plane.before = before


async def test_template_write_is_repeated_when_only_the_version_is_newer() -> None:
    """A conflict on the hub's template is resolved too."""
    async with world(m1=4) as w:
        w.hub.deploy(4)
        w.hub.resized = lambda: w.members["m1"].deploy(w.hub.replicas())
        w.load(400)
        at_first_write(w.hub, lambda: touch(w.hub))
        w.scale()
        async with w.controller(propagation=KARMADA):
            await eventually(lambda: w.hub.replicas() == 8)

        assert w.hub.request_count("PUT", SCALE_PATH) == 2


async def test_somebody_elses_size_is_not_overwritten() -> None:
    """If another client scaled the workload in between, a new decision is made."""
    async with world(m1=4) as w:
        w.load(400)
        at_first_write(w.members["m1"], lambda: w.members["m1"].deploy(7))
        w.scale(maxReplicas=20)
        async with w.controller():
            await eventually(lambda: w.status().get("currentReplicas") == 8)

        # From the 7 of the other client to 8: one scale-up by one.
        assert [entry["change"] for entry in w.record()["state"]["history"]["scaleUps"]] == [1]
        assert w.condition("AbleToScale")[0] == "True"
        assert "FailedRescale" not in w.events()


async def test_refused_write_is_told_and_not_remembered() -> None:
    """Without permission to scale, condition and event say so, and the history has no scale event."""
    async with world(m1=2, m2=2) as w:
        w.load(400)
        for member in w.members.values():
            member.refused[SCALE_WRITE] = 403
        w.scale()
        async with w.controller() as controller:
            await eventually(lambda: w.condition("AbleToScale")[:2] == ("False", "FailedUpdateScale"))
            await eventually(lambda: w.events("FailedRescale"))
            await w.reconciles(controller)
            status, record = w.status(), w.record()
            for member in w.members.values():
                member.refused.clear()
            await eventually(lambda: w.condition("AbleToScale")[:2] == ("True", "SucceededRescale"))

        (event,) = w.events("FailedRescale")
        assert event.startswith("New size: 8; reason: cpu resource utilization")
        assert "cluster 'm1': not for you" in event
        assert "scaleUps" not in record["state"]["history"]
        assert "lastScaleTime" not in status
        assert status["currentReplicas"] == 4
        assert w.replicas == {"m1": 4, "m2": 4}


async def test_status_that_is_refused_does_not_stop_the_scaling() -> None:
    """If the hub refuses statuses, the workload is scaled all the same, and each reconcile tries again."""
    async with world(m1=2, m2=2) as w:
        w.load(400)
        w.hub.refused[("PUT", "/web/status")] = 403
        w.scale()
        async with w.controller() as controller:
            await eventually(lambda: w.replicas == {"m1": 4, "m2": 4})
            await eventually_more(lambda: w.status_writes, 2)
            assert not controller.task.done()

        assert w.replicas == {"m1": 4, "m2": 4}
