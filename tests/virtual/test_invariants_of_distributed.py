"""Mode Distributed under disturbances of every kind: I1 to I4 hold in each second, and a quiet world rests.

The real controller runs in random worlds (benchmarks/closed_loop/random_worlds.py) in virtual time.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

import controller.federatedhpa.distributed
from benchmarks.closed_loop.actions import (
    Action,
    changes,
    controller_killed,
    dies,
    hub_away,
    quota,
    raced,
    reachable,
    releases,
    returns,
    tainted,
    unreachable,
)
from benchmarks.closed_loop.random_worlds import random_world
from benchmarks.closed_loop.running import Running
from benchmarks.closed_loop.ways import DISTRIBUTED, simulate
from benchmarks.closed_loop.worlds import DEFAULT_LEASES, DRAIN, World, steps, tied
from benchmarks.world.cluster import AUTOSCALING, HPAS, NAME, NAMESPACE, ClusterPlan
from benchmarks.world.nodes import Nodes
from fedhpa.decision import Decision, History, Snapshot, decide
from tests.support.invariants import Judge
from tests.support.nightly import NIGHT, NIGHTLY, examples

MINUTE: Final = 60.0
SETTLES: Final = examples(15, 30) * MINUTE
# A status is written at most so often where nothing happens.
STATUS_SECONDS: Final = 600


def disturbances(
    chance: random.Random, names: list[str], maximum: int, until: float
) -> list[tuple[float, Action]]:
    """Things that happen until a time, and what ends all of them then."""
    found: list[tuple[float, Action]] = []
    busy = dict.fromkeys(names, 0.0)
    at = chance.uniform(1, 6) * MINUTE
    while at < until:
        away = at + chance.uniform(0.3, 12) * MINUTE
        name = min(busy, key=lambda one: (busy[one], chance.random()))
        of_cluster = (
            ((at, unreachable(name)), (away, reachable(name))),
            ((at, dies(name)), (away, returns(name))),
            ((at, tainted(name, DRAIN)), (away, tainted(name))),
            ((at, quota(name, chance.randrange(2, 6))), (away, quota(name, None))),
            ((at, releases(name)),),
            ((at, raced(name, chance.randrange(1, 4))),),
        )
        of_hub = (
            ((at, hub_away(True)), (min(at + 4 * MINUTE, away), hub_away(False))),
            ((at, controller_killed()),),
            ((at, changes(maxReplicas=round(maximum * chance.choice((0.6, 0.8, 1))))),),
        )
        events = chance.choice(of_cluster if busy[name] < at and chance.random() < 0.6 else of_hub)
        if events in of_cluster:
            busy[name] = events[-1][0]
        found += events
        at += chance.uniform(1, 5) * MINUTE
    return [one for one in found if one[0] < until] + [(until, hub_away(False)), (until, all_well)]


def all_well(run: Running) -> None:
    """Ends what befell clusters."""
    for cluster in run.fleet.clusters.values():
        if not cluster.alive:
            cluster.revive()
        cluster.server.start()
        cluster.workload.most = None
        tainted(cluster.name)(run)


def disturbed(number: int, minutes: float) -> tuple[World, Judge, float]:
    """A random world with disturbances and then half an hour without, and its judge."""
    chance, until = random.Random(number), minutes * MINUTE
    world = random_world(number)
    load = world.load

    def ends(now: float) -> float | Mapping[str, float]:
        return load(min(now, until))

    names = [plan.name for plan in world.clusters]
    judge = Judge(world.target)
    looks = tuple((float(second), judge.look) for second in range(int(until + 2 * SETTLES) - 1))
    events = disturbances(chance, names, world.maximum, until)
    return replace(world, load=ends, events=(*looks, *events), flags=DEFAULT_LEASES), judge, until


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=NIGHT if NIGHTLY else ()) for n in range(examples(2, 81))]
)
def test_the_invariants_hold_each_second_and_a_quiet_world_rests(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses, drains, edits, rollouts, kills of the controller and a hub that is away, then nothing.

    What a pass keeps of quiet clusters for the next one saves time, and changes no decision.
    """
    minutes = examples(15, 90)
    differing: list[float] = []

    def compared(snapshot: Snapshot, history: History, now: float, *args: Any, **kept: Any) -> Decision:
        made = decide(snapshot, history, now, *args, **kept)
        if decide(snapshot, history, now, *args, **kept | {"seen": None}) != made:
            differing.append(now)
        return made

    monkeypatch.setattr(controller.federatedhpa.distributed, "decide", compared)
    world, judge, until = disturbed(number, minutes)
    quiet: list[int] = []
    marks = ((until + SETTLES, lambda _: quiet.extend((judge.writes, judge.status_writes))),)
    simulate(replace(world, events=(*world.events, *marks)), DISTRIBUTED, (until + 2 * SETTLES) / 3600)

    assert judge.broken == []
    assert differing == []
    writes, status_writes = quiet
    assert judge.writes - writes == 0
    assert judge.status_writes - status_writes <= SETTLES / STATUS_SECONDS + 1


def tight() -> World:
    """Two loads change places every six minutes: they need all of maxReplicas, and one cluster all its nodes.

    So each change of bounds gives one cluster what the other had, while somebody else writes the giver's HPA.
    """
    nodes = partial(Nodes, {"node-1": 10})
    begins = {"m1": 2, "m2": 10}
    clusters = tuple(ClusterPlan(name, n, start_seconds=15.0, nodes=nodes) for name, n in begins.items())
    turns = range(0, 30, 6)
    first, second = (
        steps(*((float(at), 5.0 if at // 6 % 2 == odd else 1.0) for at in turns)) for odd in (1, 0)
    )
    races = tuple((at * MINUTE, raced("m2" if at // 6 % 2 else "m1", 4)) for at in turns if at)
    load = tied(m1=first, m2=second)
    return World("tight", "nothing is left over", clusters, load, minimum=4, maximum=12, events=races)


def test_the_invariants_hold_where_nothing_is_left_over() -> None:
    """There a raise that does not wait, or a take-back of busy replicas, shows at once."""
    world = tight()
    judge = Judge(world.target)
    looks = tuple((float(second), judge.look) for second in range(int(30 * MINUTE)))
    simulate(replace(world, events=(*looks, *world.events)), DISTRIBUTED, 0.5)

    assert judge.broken == []
    assert judge.writes >= 12


def edited(most: int) -> Action:
    """Somebody changes the maximum of one HPA, as only the hub would."""

    def act(run: Running) -> None:
        store = run.fleet.clusters["m1"].store
        found = store.find(AUTOSCALING, HPAS, NAME, NAMESPACE)
        assert found is not None
        store.replace(AUTOSCALING, HPAS, {**found, "spec": {**found["spec"], "maxReplicas": most}})

    return act


def test_the_judge_sees_a_removal_and_a_sum_above_the_maximum() -> None:
    """Without it the fuzz would judge nothing."""
    world = random_world(18)
    judge = Judge(world.target)
    looks = tuple((float(second), judge.look) for second in range(419))
    edits = ((240.5, edited(1)), (330.5, edited(world.maximum + 50)))
    simulate(replace(world, events=(*looks, *edits)), DISTRIBUTED, 420 / 3600)

    assert {text[:2] for text in judge.broken} == {"I1", "I3"}
    assert judge.broken[0].startswith("I3 at 242")
