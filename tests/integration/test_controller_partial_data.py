"""The controller's reaction to unavailable members, and to their return."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.support.controller import METRICS_PATH, NAMESPACE, ControllerWorld, Plane, world
from tests.support.fakeapi import CLUSTERS, PODS, eventually, join

pytestmark = pytest.mark.looptime(noop_cycles=0)

Break = Callable[[Plane], Awaitable[None]]

# For a minute the last answer of a member stands for a missed one.
BRIDGE = 60.0
MISSED = BRIDGE + 15.0
SLOW = 1.0


async def refuse(member: Plane) -> None:
    """Stop the server."""
    await member.stop()


async def hang(member: Plane) -> None:
    """Accept requests and never answer."""
    member.faults.hang.add("/")


def incomplete(w: ControllerWorld) -> bool:
    return w.condition("MetricsComplete")[0] == "False"


def complete(w: ControllerWorld) -> bool:
    return w.condition("MetricsComplete")[0] == "True"


@pytest.mark.parametrize("breaks", [refuse, hang])
async def test_scale_up_goes_on_without_an_absent_member(breaks: Break) -> None:
    """The answering member represents both and gets all new replicas; the other's share stays."""
    async with world(m1=4, m2=4) as w:
        w.scale(maxReplicas=12)
        async with w.controller(sync_period=SLOW):
            await eventually(lambda: complete(w))
            await breaks(w.members["m2"])
            await eventually(lambda: incomplete(w), MISSED)
            w.members["m1"].use(100)
            await eventually(lambda: w.replicas["m1"] == 8)

        assert w.replicas == {"m1": 8, "m2": 4}


def lose_every_pod(member: Plane) -> None:
    """Answer with an empty list of pods, although the scale has replicas."""
    for one in member.all(PODS):
        member.remove(PODS, one["metadata"]["name"], NAMESPACE)


def lose_every_sample(member: Plane) -> None:
    """Answer with an empty list of usage."""
    member.faults.body[METRICS_PATH] = (
        b'{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[]}'
    )


@pytest.mark.parametrize("lose", [lose_every_pod, lose_every_sample])
async def test_emptied_answers_are_no_idle_pods(lose: Callable[[Plane], None]) -> None:
    """A member whose pods or metrics vanish is missing after a minute in which its last answer counts."""
    async with world(m1=4, m2=4) as w:
        w.scale()
        async with w.controller(sync_period=SLOW) as controller:
            await eventually(lambda: complete(w))
            lose(w.members["m2"])
            await asyncio.sleep(BRIDGE - 10)
            quiet = w.state("m2"), complete(w), w.events("ClusterMissing")
            await eventually(lambda: incomplete(w), 25)
            state = w.state("m2")
            w.members["m1"].use(10)
            await w.reconciles(controller)

        assert quiet == ("Answered", True, [])
        assert state == "MetricsMissing"
        assert len(w.events("ClusterMissing")) == 1
        assert w.replicas == {"m1": 4, "m2": 4}


async def test_deregistered_member_is_not_missed() -> None:
    """A deleted Cluster is no candidate, and its workload stays as it is until the Cluster is back."""
    async with world(m1=4, m2=4) as w:
        w.scale()
        async with w.controller():
            await eventually(lambda: w.status().get("currentReplicas") == 8)
            w.hub.remove(CLUSTERS, "m2")
            await eventually(lambda: w.status()["currentReplicas"] == 4)
            gone = [entry["name"] for entry in w.status()["clusters"]], w.condition("MetricsComplete")[0]
            join(w.hub, "m2", w.members["m2"])
            await eventually(lambda: w.status()["currentReplicas"] == 8)

        assert gone == (["m1"], "True")
        assert w.replicas == {"m1": 4, "m2": 4}
