"""The controller's reaction to unavailable members, and to their return."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fedhpa.api.times import format_time, parse_time
from tests.support.controller import HPAS, METRICS_PATH, NAMESPACE, PODS_PATH, ControllerWorld, Plane, world
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


async def err(member: Plane) -> None:
    """Answer 500 to everything."""
    member.faults.status["/"] = 500


async def cut_off(member: Plane) -> None:
    """Break off every answer about scales in the middle."""
    member.faults.truncate.add("/apis/apps")
    member.end_watches()


async def spoil(member: Plane) -> None:
    """Answer with truncated JSON."""
    member.faults.body["/apis/apps"] = b'{"kind":"Scale","spec":{"replicas":'
    member.end_watches()


async def lose_pods(member: Plane) -> None:
    """Answer everything except lists and watches of pods."""
    member.faults.status[PODS_PATH] = 500
    member.end_watches()


async def lie_about_pods(member: Plane) -> None:
    """Answer the list of pods with something that decodes as an empty list."""
    member.faults.body[PODS_PATH] = b'{"status":"ok"}\n'
    member.end_watches()


async def lie_about_workloads(member: Plane) -> None:
    """Answer everything about workloads with something that decodes as an empty list."""
    member.faults.body["/apis/apps"] = b'{"status":"ok"}\n'
    member.end_watches()


async def heal(member: Plane) -> None:
    """Undo the fault."""
    member.faults.clear()
    await member.stop()
    await member.start()


def incomplete(w: ControllerWorld) -> bool:
    return w.condition("MetricsComplete")[0] == "False"


def complete(w: ControllerWorld) -> bool:
    return w.condition("MetricsComplete")[0] == "True"


@pytest.mark.parametrize(
    ("breaks", "reason"),
    [
        (refuse, "cannot connect"),
        (hang, "no answer within"),
        (err, "an error on the server"),
        (cut_off, ""),
        (spoil, "cannot be read"),
        (lose_pods, "its pods"),
        (lie_about_pods, "its pods"),
        (lie_about_workloads, "cannot be read"),
    ],
)
async def test_nothing_is_scaled_down_while_a_member_is_away(breaks: Break, reason: str) -> None:
    """An unavailable member is named with its reason and stops scale-down until it returns."""
    async with world(m1=4, m2=4) as w:
        w.scale()
        async with w.controller(sync_period=SLOW) as controller:
            await eventually(lambda: complete(w))
            await breaks(w.members["m2"])
            await eventually(lambda: incomplete(w), MISSED)
            for member in w.members.values():
                member.use(10)
            await w.reconciles(controller)
            status, why, message = w.condition("MetricsComplete")
            held = w.replicas

            await heal(w.members["m2"])
            await eventually(lambda: complete(w), 15)
            await eventually(lambda: w.replicas == {"m1": 1, "m2": 1}, 15)

        assert (status, why) == ("False", "ClustersMissing")
        assert message.startswith("m2: ")
        # A probe may fail before a list does, and says it in its own words.
        assert reason in message or "its /readyz answers HTTP 500" in message
        assert held == {"m1": 4, "m2": 4}


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


async def test_failed_metrics_are_named_and_hold_scale_down() -> None:
    """The pods of a member without metrics do not count as idle."""
    async with world(m1=4, m2=4) as w:
        w.scale()
        w.members["m2"].faults.status[METRICS_PATH] = 500
        w.members["m1"].use(10)
        async with w.controller() as controller:
            await eventually(lambda: incomplete(w))
            await w.reconciles(controller)

        assert w.condition("MetricsComplete")[2].startswith("m2: an error on the server")
        assert w.state("m2") == "MetricsMissing"
        assert w.replicas == {"m1": 4, "m2": 4}


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


async def test_failed_metrics_do_not_stop_scale_up() -> None:
    """High usage in the other member scales up even if these pods use nothing."""
    async with world(m1=4, m2=4) as w:
        w.scale(maxReplicas=12)
        w.members["m2"].faults.status[METRICS_PATH] = 500
        w.members["m1"].use(400)
        async with w.controller():
            await eventually(lambda: w.replicas == {"m1": 6, "m2": 6})


async def test_no_metrics_at_all_scale_nothing() -> None:
    """If no member has metrics, no size is computed, and the condition gives the reason."""
    async with world(m1=4, m2=4) as w:
        w.scale()
        for member in w.members.values():
            member.faults.status[METRICS_PATH] = 503
        async with w.controller() as controller:
            await w.reconciles(controller)

        assert w.condition("ScalingActive")[:2] == ("False", "FailedGetResourceMetric")
        assert w.replicas == {"m1": 4, "m2": 4}


@pytest.mark.parametrize(
    ("partial", "use", "expected"),
    [
        ({"policy": "Hold"}, 100, {"m1": 4, "m2": 4}),
        ({"policy": "Hold"}, 10, {"m1": 4, "m2": 4}),
        ({"policy": "Fallback", "fallbackReplicas": 9}, 100, {"m1": 5, "m2": 4}),
        ({"policy": "Fallback", "fallbackReplicas": 6}, 50, {"m1": 2, "m2": 4}),
        ({"policy": "Fallback"}, 10, {"m1": 4, "m2": 4}),
        ({"policy": "Proceed"}, 25, {"m1": 0, "m2": 4}),
        ({"policy": "ScaleUpOnly"}, 25, {"m1": 4, "m2": 4}),
    ],
)
async def test_policy_decides_while_a_member_is_away(
    partial: dict[str, Any], use: int, expected: dict[str, int]
) -> None:
    """Each policy of partialMetrics does what its name says."""
    async with world(m1=4, m2=4) as w:
        w.scale(maxReplicas=12, partialMetrics=partial)
        async with w.controller(sync_period=SLOW) as controller:
            await eventually(lambda: complete(w))
            await w.members["m2"].stop()
            await eventually(lambda: incomplete(w), MISSED)
            w.members["m1"].use(use)
            await eventually(lambda: w.replicas == expected)
            await w.reconciles(controller)

        assert w.replicas == expected


async def test_lost_member_no_longer_holds_scale_down() -> None:
    """After lostAfterSeconds the loss has one event, and the others are sized alone."""
    async with world(m1=4, m2=4) as w:
        w.scale(minReplicas=2, partialMetrics={"lostAfterSeconds": 1})
        async with w.controller() as controller:
            await eventually(lambda: complete(w))
            await w.members["m2"].stop()
            await eventually(lambda: w.state("m2") == "Missing")
            w.members["m1"].use(25)
            held = w.replicas
            await eventually(lambda: w.state("m2") == "Lost")
            await eventually(lambda: w.replicas["m1"] == 2)
            await w.reconciles(controller)

        assert held == {"m1": 4, "m2": 4}
        assert complete(w)
        assert len(w.events("ClusterLost")) == 1
        assert "m2" in w.events("ClusterLost")[0]
        assert w.status()["currentReplicas"] == 2


async def test_lost_member_is_taken_back() -> None:
    """The others take over the replicas of a lost member, and its own count again when it returns."""
    async with world(m1=4, m2=4) as w:
        w.scale(partialMetrics={"lostAfterSeconds": 1})
        async with w.controller():
            await eventually(lambda: complete(w))
            await w.members["m2"].stop()
            await eventually(lambda: w.replicas["m1"] == 8)
            lost = w.state("m2")
            await w.members["m2"].start()
            await eventually(lambda: w.state("m2") == "Answered")
            await eventually(lambda: w.status()["currentReplicas"] == 12)

        assert lost == "Lost"
        assert w.events("FailedOver") == ["lost cluster m2 had 4 replicas: the others have 8 now"]
        assert w.replicas == {"m1": 8, "m2": 4}


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


async def test_nobody_answers() -> None:
    """With all members unavailable nothing is scaled, and the condition says that no scale could be read."""
    async with world(m1=4, m2=4) as w:
        w.scale()
        async with w.controller() as controller:
            await eventually(lambda: complete(w))
            for member in w.members.values():
                await member.stop()
            await eventually(lambda: w.condition("AbleToScale")[:2] == ("False", "FailedGetScale"))
            await w.reconciles(controller, 2)

        assert w.status()["currentReplicas"] == 8
        assert w.replicas == {"m1": 4, "m2": 4}


async def test_loss_is_counted_from_when_it_happened() -> None:
    """lastSeen is the time of the last answer, even if the status was last written long before."""
    async with world(m1=4, m2=4) as w:
        w.scale()
        async with w.controller(sync_period=SLOW):
            await eventually(lambda: complete(w))
            stored = w.hub.find(HPAS, "web", NAMESPACE)
            assert stored is not None
            stored["status"]["lastSeen"] = format_time(w.clock.wall() - 50)
            w.hub.put(HPAS, stored)
            stopped = w.clock.wall()
            await w.members["m2"].stop()
            await eventually(lambda: w.state("m2") == "Missing", MISSED)

        (entry,) = (entry for entry in w.status()["clusters"] if entry["name"] == "m2")
        seen = parse_time(entry["lastSeen"])
        assert seen is not None
        # Times in the status are whole seconds.
        assert seen > stopped - 2
