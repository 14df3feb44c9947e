"""Rules that scale a workload in the members: which clusters get its replicas, and what silent ones count."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import pytest

from fedhpa.api.default_values import CLUSTER_LOST_TIMEOUT_SECONDS
from fedhpa.api.taints import CORDON_TAINT, DRAIN_TAINT
from tests.support.controller import ControllerWorld, cluster_object, world
from tests.support.fakeapi import CLUSTERS, Object
from tests.support.rules import (
    DEPLOYMENT,
    history,
    minute_after,
    put_rules,
    ready,
    rules_running,
    run_rules,
    status,
    window,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)

Taint = Mapping[str, str]
DRAIN: Final[Taint] = {"key": DRAIN_TAINT, "effect": "NoSchedule"}
CORDON: Final[Taint] = {"key": CORDON_TAINT, "effect": "NoSchedule"}
# Longer than the longest time between two tries.
TRIED_AGAIN: Final = 70


def tainted(w: ControllerWorld, name: str, *taints: Taint) -> None:
    """Replaces the taints of a Cluster."""
    found = cluster_object(w, name)
    w.hub.put(CLUSTERS, {**found, "spec": {**found["spec"], "taints": [dict(each) for each in taints]}})


def sized(w: ControllerWorld, minutes: int, size: int, name: str = "size") -> Object:
    """A rule that sets the size once an hour."""
    return {"name": name, "schedule": minute_after(w, minutes), "targetReplicas": size}


def message(w: ControllerWorld) -> str:
    """The message of Ready."""
    return str(next(each["message"] for each in status(w)["conditions"] if each["type"] == "Ready"))


async def after_execution(w: ControllerWorld, size: int) -> dict[str, int]:
    """Runs a rule that sets the size once. Returns the replicas of each cluster."""
    put_rules(w, sized(w, 2, size), target=DEPLOYMENT)
    await run_rules(w, 150)
    return w.replicas


def silence(w: ControllerWorld, name: str) -> None:
    """From now on a member answers probes, but no request about a scale."""
    w.members[name].held = {("GET", "/scale"), ("PUT", "/scale")}


def answer(w: ControllerWorld, name: str) -> None:
    """Ends the silence of a member."""
    w.members[name].held = set()


# -- memberships -------------------------------------------------------------------------------------------
GONE: Final[Taint] = {"key": "gone", "effect": "NoExecute", "timeAdded": "2020-01-01T00:00:00Z"}
NO_SCHEDULE: Final[Taint] = {"key": "maintenance", "effect": "NoSchedule"}
NO_EXECUTE: Final[Taint] = {"key": "maintenance", "effect": "NoExecute"}
Sizes = tuple[int, int, int]


@pytest.mark.parametrize(
    ("before", "taints", "after"),
    [
        pytest.param((2, 2, 2), {"m3": DRAIN}, {12: (5, 5, 2)}, id="a drained cluster is never refilled"),
        pytest.param((2, 2, 2), {"m3": DRAIN}, {4: (2, 2, 0)}, id="a drained cluster shrinks first"),
        pytest.param((2, 2, 2), {"m3": CORDON}, {9: (4, 3, 2)}, id="a cordoned cluster gets nothing more"),
        pytest.param((2, 2, 2), {"m3": NO_SCHEDULE}, {9: (4, 3, 2)}, id="nor with a taint of somebody else"),
        pytest.param((2, 2, 2), {"m3": NO_EXECUTE}, {9: (4, 3, 2)}, id="which may go again soon"),
        pytest.param(
            (1, 1, 7), {"m3": CORDON}, {6: (2, 2, 2)}, id="a cordoned cluster has no more than its part"
        ),
        pytest.param(
            (2, 2, 2), {"m3": GONE}, {5: (2, 2, 1), 4: (2, 2, 0)}, id="an old eviction means that it leaves"
        ),
        pytest.param(
            (2, 2, 2),
            {"m1": DRAIN, "m2": DRAIN, "m3": CORDON},
            {9: (2, 2, 5)},
            id="without a Member a cordoned cluster grows",
        ),
        pytest.param(
            (2, 2, 2), {"m1": DRAIN, "m2": DRAIN, "m3": DRAIN}, {9: (3, 3, 3)}, id="where all leave, all grow"
        ),
    ],
)
async def test_memberships(before: Sizes, taints: Mapping[str, Taint], after: Mapping[int, Sizes]) -> None:
    """A rule's size has no other place, so it is always reached, by those that may grow or should shrink."""
    async with world(**dict(zip(("m1", "m2", "m3"), before, strict=True))) as w:
        for name, taint in taints.items():
            tainted(w, name, taint)

        assert {size: tuple((await after_execution(w, size)).values()) for size in after} == after
        assert history(w)["successfulExecutions"][0]["appliedReplicas"] in after


# -- silent members ----------------------------------------------------------------------------------------
async def test_an_execution_waits_for_a_cluster_of_which_nothing_is_known() -> None:
    """The status and an event name the cluster. The size is set when it answers."""
    async with world(m1=1, m2=1, m3=1) as w:
        silence(w, "m3")
        put_rules(w, sized(w, 2, 6), target=DEPLOYMENT)
        async with rules_running(w):
            await asyncio.sleep(200)
            waiting: Any = (dict(w.replicas), ready(w), message(w), w.events("ScaleFailed", "office"))
            answer(w, "m3")
            await asyncio.sleep(TRIED_AGAIN)

        replicas, condition, shown, events = waiting
        assert replicas == {"m1": 1, "m2": 1, "m3": 1}
        assert condition == ("False", "ScaleFailed")
        assert "cluster m3: " in shown
        assert shown.endswith("nobody knows its replicas, so the execution waits for its answer")
        assert len(events) == 1
        assert "cluster m3: " in events[0]
        assert (w.replicas, ready(w)[0]) == ({"m1": 2, "m2": 2, "m3": 2}, "True")


async def test_the_others_do_not_wait_for_a_lost_cluster() -> None:
    """After the lost time-out a cluster of which nothing is known counts as one without the workload.

    The execution stays open, so the cluster gets its part when it is back.
    """
    async with world(m1=10, m2=10, m3=10) as w:
        await w.members["m3"].stop()
        put_rules(w, sized(w, 2, 9), target=DEPLOYMENT)
        async with rules_running(w):
            await asyncio.sleep(CLUSTER_LOST_TIMEOUT_SECONDS - 30)
            waiting = dict(w.replicas)
            await asyncio.sleep(30 + TRIED_AGAIN)
            lost: Any = (dict(w.replicas), ready(w), message(w))
            await w.members["m3"].start()
            await asyncio.sleep(5 * TRIED_AGAIN)

        assert (waiting["m1"], waiting["m2"]) == (10, 10)
        replicas, condition, shown = lost
        assert replicas == {"m1": 5, "m2": 4, "m3": 10}
        assert condition == ("False", "ScaleFailed")
        assert "cluster m3: " in shown
        assert (w.replicas, ready(w)[0]) == ({"m1": 3, "m2": 3, "m3": 3}, "True")


async def test_a_new_process_knows_the_replicas_of_a_silent_cluster() -> None:
    """They are in the record since the last execution, so no cluster is stopped and none gets too much."""
    async with world(m1=1, m2=1, m3=1) as w:
        put_rules(w, sized(w, 2, 30), sized(w, 10, 9, "evening"), target=DEPLOYMENT)
        await run_rules(w, 180)
        morning = dict(w.replicas)
        silence(w, "m3")
        async with rules_running(w):
            await asyncio.sleep(500)
            silent: Any = (dict(w.replicas), ready(w), message(w))
            answer(w, "m3")
            await asyncio.sleep(TRIED_AGAIN)

        assert morning == {"m1": 10, "m2": 10, "m3": 10}
        replicas, condition, shown = silent
        assert replicas == {"m1": 3, "m2": 3, "m3": 10}
        assert condition == ("False", "ScaleFailed")
        assert "16 instead of 9 replicas until cluster m3 answers" in shown
        assert (w.replicas, ready(w)[0]) == ({"m1": 3, "m2": 3, "m3": 3}, "True")


async def test_a_window_ends_with_a_silent_cluster() -> None:
    """The baseline returns to those that answer, none is stopped, and the last one follows."""
    async with world(m1=2, m2=2, m3=2) as w:
        put_rules(w, window(w, 2, "10m", targetReplicas=30), target=DEPLOYMENT)
        async with rules_running(w):
            await asyncio.sleep(180)
            silence(w, "m3")
            await asyncio.sleep(720)
            silent = dict(w.replicas)
            answer(w, "m3")
            await asyncio.sleep(TRIED_AGAIN)

        assert silent == {"m1": 2, "m2": 2, "m3": 10}
        assert w.replicas == {"m1": 2, "m2": 2, "m3": 2}
        assert w.events("WindowOverridden", "office") == []
        assert ready(w)[0] == "True"


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("change", ["leaves", "joins"])
async def test_a_cluster_that_comes_or_goes_is_no_change_of_a_person(change: str, *, restart: bool) -> None:
    """The window ends as usual: the clusters that are there then have the baseline together."""
    async with world(m1=2, m2=2, m3=2) as w:
        put_rules(w, window(w, 2, "10m", targetReplicas=9), target=DEPLOYMENT)
        registered = cluster_object(w, "m3")
        if change == "joins":
            w.hub.remove(CLUSTERS, "m3")
        before = 180
        async with rules_running(w):
            await asyncio.sleep(before)
            opened = dict(w.replicas)
            if not restart:
                change_fleet(w, registered, change)
                await asyncio.sleep(720)
        if restart:
            change_fleet(w, registered, change)
            await run_rules(w, 720)

        baseline = 6 if change == "leaves" else 4
        there = ("m1", "m2") if change == "leaves" else ("m1", "m2", "m3")
        assert opened["m1"] + opened["m2"] == (6 if change == "leaves" else 9)
        assert sum(w.replicas[name] for name in there) == baseline
        assert w.events("WindowOverridden", "office") == []


def change_fleet(w: ControllerWorld, registered: Object, change: str) -> None:
    """Removes or registers a Cluster."""
    if change == "leaves":
        w.hub.remove(CLUSTERS, "m3")
    else:
        w.hub.put(CLUSTERS, registered)


async def test_a_change_in_one_cluster_is_a_change() -> None:
    """A person scales the workload of one member in a window: all stays as it is, with an event."""
    async with world(m1=2, m2=2) as w:
        put_rules(w, window(w, 2, "10m", targetReplicas=8), target=DEPLOYMENT)
        async with rules_running(w):
            await asyncio.sleep(180)
            w.members["m2"].deploy(7)
            await asyncio.sleep(720)

        assert w.replicas == {"m1": 4, "m2": 7}
        (text,) = w.events("WindowOverridden", "office")
        assert "set replicas to 7 in cluster m2 while a window set it to 4" in text


# -- atLeast -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("running", "expected"), [(2, 8), (10, 10)])
async def test_an_execution_with_at_least_only_raises(running: int, expected: int) -> None:
    async with world(m1=running) as w:
        put_rules(w, {**sized(w, 2, 8), "atLeast": True}, target=DEPLOYMENT)
        await run_rules(w, 180)

        assert w.replicas == {"m1": expected}
        assert history(w)["successfulExecutions"][0]["appliedReplicas"] == expected


@pytest.mark.parametrize(("running", "during"), [(2, 8), (10, 10)])
async def test_a_window_with_at_least_only_raises(running: int, during: int) -> None:
    """A plain execution in the window changes the baseline, which may be above the window's size."""
    async with world(m1=running) as w:
        rule = {**window(w, 2, "20m", targetReplicas=8), "atLeast": True}
        put_rules(w, rule, sized(w, 8, 12, "plain"), target=DEPLOYMENT)
        async with rules_running(w):
            await asyncio.sleep(240)
            opened = dict(w.replicas)
            await asyncio.sleep(300)
            raised = dict(w.replicas)
            await asyncio.sleep(1000)

        assert opened == {"m1": during}
        assert raised == {"m1": 12}
        assert w.replicas == {"m1": 12}


async def test_a_silent_cluster_counts_with_what_was_read_last() -> None:
    """The others grow to the rest of the size, as if it still runs its replicas."""
    async with world(m1=1, m2=1, m3=1) as w:
        put_rules(w, sized(w, 2, 6), sized(w, 4, 9, "more"), target=DEPLOYMENT)
        async with rules_running(w):
            await asyncio.sleep(150)
            silence(w, "m3")
            await asyncio.sleep(120)

        assert w.replicas == {"m1": 4, "m2": 3, "m3": 2}
        assert ready(w)[0] == "True"


async def test_no_cluster_is_stopped_for_a_silent_one() -> None:
    """Each keeps its own part, and the execution is open until the silent one has its part, too."""
    async with world(m1=1, m2=1, m3=1) as w:
        put_rules(w, sized(w, 2, 9), sized(w, 4, 3, "less"), target=DEPLOYMENT)
        async with rules_running(w):
            await asyncio.sleep(150)
            silence(w, "m3")
            await asyncio.sleep(120)
            silent: Any = (dict(w.replicas), ready(w), message(w))
            answer(w, "m3")
            await asyncio.sleep(TRIED_AGAIN)

        replicas, condition, shown = silent
        assert replicas == {"m1": 1, "m2": 1, "m3": 3}
        assert condition == ("False", "ScaleFailed")
        assert "5 instead of 3 replicas until cluster m3 answers, which had 3: " in shown
        assert (w.replicas, ready(w)[0]) == ({"m1": 1, "m2": 1, "m3": 1}, "True")


async def test_a_window_survives_a_restart_while_a_cluster_is_silent() -> None:
    """The new process does not take the missing replicas for the change of a person."""
    async with world(m1=2, m2=2, m3=2) as w:
        put_rules(w, window(w, 2, "10m", targetReplicas=9), target=DEPLOYMENT)
        await run_rules(w, 180)
        opened = w.replicas
        silence(w, "m3")
        async with rules_running(w):
            await asyncio.sleep(90)
            answer(w, "m3")
            await asyncio.sleep(600)

        assert opened == {"m1": 3, "m2": 3, "m3": 3}
        assert w.replicas == {"m1": 2, "m2": 2, "m3": 2}
        assert w.events("WindowOverridden", "office") == []
