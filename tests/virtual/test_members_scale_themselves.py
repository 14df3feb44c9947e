"""Mode Distributed in a closed loop: member HPAs scale, and the hub's rules do not work against one another.

Each scenario has a budget of unserved load (seconds in which pods are saturated although room exists),
needless replicas (replica minutes), writes, and writes that undo an earlier one within ten minutes.
A pod takes two minutes to start, so a step of the load costs at least 120 s.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from fedhpa.assignment import Result
from fedhpa.assignment.policies import AGGREGATED, DYNAMIC_WEIGHTED, PRIORITIZED, STATIC_WEIGHTED
from tests.support.closed_loop.member import Slots, unlimited
from tests.support.closed_loop.scenarios import (
    MINUTE,
    NAMES,
    between,
    data_centre_and_cloud,
    flapping,
    noisy,
    steps,
    three,
    tied,
    wave,
)
from tests.support.closed_loop.world import Load, Report, World
from tests.support.nightly import only_at_night

HOUR = 60 * MINUTE


class Budget(NamedTuple):
    """The most that a scenario of 90 minutes may cost."""

    unserved: float = 0
    needless: float = 0
    writes: int = 0
    reversals: int = 0


class Scenario(NamedTuple):
    name: str
    world: Callable[[], World]
    budget: Budget


def full(slots: int) -> dict[str, Slots]:
    """Nodes of the first cluster for so many pods."""
    return {"m1": lambda now: slots}


STEP = steps((0, 6), (10, 20))
ZERO = {"scales_to_zero": True}
# The first cluster holds the whole assignment; the two others get an HPA only when they are needed.
ONE_HPA: dict[str, Any] = {
    "starts": (3, 0, 0),
    "maxima": (0, 0, 0),
    "rules": {"exact": True, "assigned": False},
}
SCENARIOS = [
    # -- balanced over all ready pods ------------------------------------------------------------------------
    Scenario("quiet", lambda: three(steps((0, 9))), Budget()),
    Scenario("quiet with 15 % noise", lambda: three(noisy(steps((0, 12)), 0.15)), Budget()),
    Scenario("step", lambda: three(STEP), Budget(120)),
    Scenario("rising and falling", lambda: three(wave(12, 8)), Budget(0, 10)),
    Scenario(
        "step with two clusters at their thresholds",
        lambda: three(STEP, highs=(4, 4, None), maxima=(4, 4, 22)),
        Budget(120, 0, 6, 1),
    ),
    Scenario("above the maximum", lambda: three(steps((0, 6), (10, 50), (60, 6))), Budget(240)),
    # -- tied to clusters ------------------------------------------------------------------------------------
    Scenario("tied step", lambda: three(tied((2, 2, 2), (2, 2, 15))), Budget(360, 0, 4)),
    Scenario(
        "tied step at a threshold",
        lambda: three(tied((2, 2, 2), (2, 2, 8)), highs=(None, None, 5), maxima=(10, 10, 5)),
        Budget(120, 35, 14, 7),
    ),
    Scenario(
        "tied with 10 % noise at a threshold",
        lambda: three(noisy(tied((2, 2, 2), (2, 2, 8)), 0.1), highs=(None, None, 5), maxima=(10, 10, 5)),
        Budget(120, 150, 24, 8),
    ),
    Scenario(
        "tied and rising",
        lambda: three(lambda now: {"m1": 2 + now / HOUR * 4, "m2": 2, "m3": 2}),
        Budget(0, 0, 6),
    ),
    Scenario(
        "tied load moves",
        lambda: three(tied((20, 5, 10), (5, 20, 10), 60)),
        Budget(560, 0, 10, 1),
    ),
    # -- full nodes ------------------------------------------------------------------------------------------
    Scenario("a full cluster", lambda: three(STEP, slots=full(4)), Budget(120, 0, 12, 2)),
    Scenario(
        "a full cluster, by capacity",
        lambda: three(STEP, slots=full(4), policy=DYNAMIC_WEIGHTED),
        Budget(120, 0, 12, 2),
    ),
    Scenario(
        "nodes that come before the delay ends",
        lambda: three(
            steps((0, 6), (10, 22)), delay=300, slots={"m1": lambda now: 4 if now < 15 * MINUTE else 40}
        ),
        Budget(240),
    ),
    Scenario(
        "nodes that come and go",
        lambda: three(
            steps((0, 18)),
            starts=(6, 6, 6),
            slots={"m1": lambda now: 3 if int(now / MINUTE / 10) % 2 else 10},
        ),
        Budget(0, 0, 12, 2),
    ),
    # A cluster that always wants more is tried after 1, 2, 4, ... 30 minutes; each try costs six writes.
    Scenario(
        "all clusters full",
        lambda: three(
            steps((0, 6), (10, 30)),
            slots={"m1": lambda now: 4, "m2": lambda now: 5, "m3": lambda now: 6},
        ),
        Budget(120, 0, 48, 33),
    ),
    Scenario(
        "a full cluster with tied load and noise",
        lambda: three(noisy(tied((6, 4, 4), (6, 4, 4)), 0.1), slots=full(4)),
        Budget(0, 10, 70, 40),
    ),
    # -- lost members ----------------------------------------------------------------------------------------
    # A lost cluster's share goes to the two others in one write each, and comes back in at most three.
    Scenario("lost and back", lambda: three(steps((0, 9)), dead=between("m1", 10, 40)), Budget(0, 10, 5)),
    Scenario(
        "lost near the maximum, and back",
        lambda: three(steps((0, 24)), starts=(8, 8, 8), dead=between("m1", 10, 40)),
        Budget(0, 10, 6),
    ),
    Scenario(
        "the hub is cut off from a member",
        lambda: three(steps((0, 24), (15, 29)), starts=(8, 8, 8), away=between("m1", 10, 40)),
        Budget(0, 0, 4),
    ),
    # Its absence adds up to the lost time-out once. It never answers long enough to be back.
    Scenario("flapping each minute", lambda: three(steps((0, 9)), away=flapping("m1", 1)), Budget(0, 0, 2)),
    Scenario(
        "flapping each minute near the maximum",
        lambda: three(steps((0, 26)), starts=(9, 9, 8), away=flapping("m1", 1)),
        Budget(0, 0, 2),
    ),
    Scenario(
        "flapping each seven minutes near the maximum",
        lambda: three(steps((0, 29)), starts=(9, 9, 8), away=flapping("m1", 7)),
        Budget(0, 0, 5, 2),
    ),
    Scenario(
        "the hub is away",
        lambda: three(steps((0, 9), (15, 18)), hub_down=lambda now: 600 <= now < 1500),
        Budget(120),
    ),
    # -- clusters without replicas or without an HPA ---------------------------------------------------------
    # Two pods serve the night, so the morning takes the HPAs one step more, with its start of pods.
    Scenario("a night at zero", lambda: three(steps((0, 9), (10, 1.2), (60, 9)), rules=ZERO), Budget(255)),
    Scenario(
        "zero with 15 % noise",
        lambda: three(noisy(steps((0, 1.6)), 0.15), starts=(1, 1, 1), rules=ZERO),
        Budget(15),
    ),
    Scenario("one HPA is enough", lambda: three(steps((0, 2.6)), **ONE_HPA), Budget(0, 0, 2)),
    Scenario(
        "one HPA is not enough, because its nodes are full",
        lambda: three(steps((0, 2.6), (10, 9), (50, 2.6)), slots=full(4), **ONE_HPA),
        Budget(150, 0, 22, 9),
    ),
    Scenario(
        "one HPA is not enough, because of its threshold",
        lambda: three(steps((0, 2.6), (10, 9), (50, 2.6)), highs=(4, None, None), **ONE_HPA),
        Budget(135, 0, 8, 2),
    ),
    # -- by priority -----------------------------------------------------------------------------------------
    Scenario(
        "burst by priority",
        lambda: data_centre_and_cloud(steps((0, 5), (10, 18), (60, 5))),
        Budget(240, 30, 12, 1),
    ),
    Scenario("waves by priority", lambda: data_centre_and_cloud(wave(11, 7)), Budget(0, 15, 13, 3)),
    Scenario(
        "15 % noise by priority",
        lambda: data_centre_and_cloud(noisy(steps((0, 14)), 0.15)),
        Budget(240, 0, 9, 1),
    ),
    Scenario(
        "a lower priority that needs what it runs",
        lambda: data_centre_and_cloud(steps((0, 5), (10, 13), (40, 7.2))),
        Budget(120, 10, 12, 1),
    ),
    Scenario(
        "tied by priority",
        lambda: data_centre_and_cloud(lambda now: {"dc": 12, "cloud": 1}),
        Budget(0, 0, 6),
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[one.name for one in SCENARIOS])
def test_ninety_minutes_cost_no_more_than_their_budget(scenario: Scenario) -> None:
    """Unserved load, needless replicas, writes and reversals stay within the budget of the scenario."""
    report = scenario.world().run(1.5 * HOUR)

    found = Budget(report.unserved, report.needless, len(report.writes), report.reversals)
    assert all(spent <= most for spent, most in zip(found, scenario.budget, strict=True)), report.summary()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[one.name for one in SCENARIOS])
@only_at_night
def test_half_a_day_costs_in_proportion(scenario: Scenario) -> None:
    """Twelve further hours cost no more than six times that budget."""
    world = scenario.world()
    half = world.run(12 * HOUR)
    before = Budget(half.unserved, half.needless, len(half.writes), half.reversals)

    whole = world.run(12 * HOUR)

    spent = Budget(whole.unserved, whole.needless, len(whole.writes), whole.reversals)
    assert all(
        last - first <= 6 * most for last, first, most in zip(spent, before, scenario.budget, strict=True)
    ), whole.summary()


# -- what must happen ----------------------------------------------------------------------------------------
def sizes(report: Report, minute: float) -> tuple[int, ...]:
    """Returns the pods of all clusters at a minute."""
    return next(found for at, found in report.sizes if at >= minute * MINUTE)


def test_the_cloud_takes_the_rest_and_drains_first() -> None:
    """A burst fills the data centre, the cloud takes the rest; an hour later the cloud is empty first."""
    report = data_centre_and_cloud(steps((0, 5), (10, 18), (70, 5))).run(2 * HOUR)

    assert sizes(report, 5)[1] == 1
    assert sizes(report, 30)[0] == 10
    assert sizes(report, 30)[1] >= 6
    draining = [found for at, found in report.sizes if at > 70 * MINUTE and found[1] > 1]
    assert {dc for dc, _ in draining} == {10}
    assert sizes(report, 110) == (5, 1)


def test_a_returning_hub_writes_nothing() -> None:
    """Members scale on while the hub is away for 15 minutes, and are taken over without a write."""
    world = three(steps((0, 9), (15, 18)), hub_down=lambda now: 10 * MINUTE <= now < 25 * MINUTE)
    world.run(9 * MINUTE)
    before = len(world.hub.writes)

    report = world.run(HOUR)

    assert sum(sizes(report, 24)) >= 18
    assert len(report.writes) == before


def test_the_share_of_a_lost_cluster_goes_to_the_others() -> None:
    """Near the maximum the others get the lost cluster's maximum, and give it back without a jump."""
    report = three(steps((0, 24)), starts=(8, 8, 8), dead=between("m1", 10, 40)).run(2 * HOUR)

    assert sum(sizes(report, 25)[1:]) == 24
    assert sum(sizes(report, 60)) <= 30
    changes = [
        abs(one[0] - other[0]) for (_, one), (_, other) in zip(report.sizes, report.sizes[1:], strict=False)
    ]
    assert max(changes) <= 3


def test_a_member_that_flaps_for_an_hour_moves_no_share() -> None:
    """Absences add up, so the cluster is failed over once. Its short answers never bring the share back."""
    report = three(steps((0, 26)), starts=(9, 9, 8), away=flapping("m1", 1)).run(HOUR + 15 * MINUTE)

    assert [(one.cluster, one.field) for one in report.writes] == [("m2", "maximum"), ("m3", "maximum")]
    assert {one.time for one in report.writes} == {10 * MINUTE}


def test_the_minima_of_a_lost_cluster_go_to_the_others_and_come_back() -> None:
    """minReplicas holds without the lost cluster. Until the lost time-out ends nothing moves."""
    world = three(steps((0, 4)), starts=(4, 4, 4), dead=between("m1", 10, 40), rules={"minimum": 12})
    world.hub.base = dict.fromkeys(NAMES, 4)
    for member in world.members.values():
        member.minimum = 4

    report = world.run(15 * MINUTE - 15)

    assert report.writes == []
    assert sizes(report, 14) == (4, 4, 4)

    world.run(15 * MINUTE)

    assert [world.members[name].minimum for name in ("m2", "m3")] == [6, 6]

    report = world.run(HOUR)

    assert [member.minimum for member in world.members.values()] == [4, 4, 4]
    assert sizes(report, 85) == (4, 4, 4)


def test_clusters_at_zero_come_back_when_the_others_need_help() -> None:
    """A cluster rests at night, and runs again when the others are at their maximum."""
    world = three(steps((0, 9), (10, 1.2), (60, 24)), rules=ZERO)

    report = world.run(2 * HOUR)

    assert sizes(report, 50) == (1, 1, 0)
    assert [(name, replicas) for _, name, replicas in world.hub.scales] == [("m3", 0), ("m3", 1)]
    assert sum(sizes(report, 110)) >= 24
    assert sizes(report, 110)[2] >= 1


def test_a_spare_cluster_leaves_when_it_is_not_needed() -> None:
    """Full nodes bring HPAs to the others. After the load fell, these clusters are empty again."""
    load = steps((0, 2.6), (10, 9), (40, 2.6))
    world = three(load, slots={"m1": lambda now: 4 if now < 45 * MINUTE else 40}, **ONE_HPA)

    report = world.run(2 * HOUR)

    assert min(sizes(report, 30)) >= 2
    assert sizes(report, 110)[1:] == (0, 0)
    assert [member.maximum for member in world.members.values()] == [30, 0, 0]


def test_failed_writes_never_lead_above_the_maximum() -> None:
    """Half of all writes fail, and the sum of all maxima stays within maxReplicas at every moment."""
    chance = random.Random(5)
    world = three(wave(14, 12), slots=full(4))
    world.hub.result = lambda cluster, now: chance.choice((Result.CONFIRMED, Result.REFUSED, Result.UNKNOWN))

    report = world.run(6 * HOUR)

    assert report.above_maximum == 0
    assert report.unserved <= 120


def test_an_edited_hpa_is_repaired() -> None:
    """A maximum that somebody changed in a member is written back, and no other bound moves."""
    world = three(steps((0, 9)))
    world.run(10 * MINUTE)
    world.members["m2"].maximum = 25

    report = world.run(30 * MINUTE)

    assert [(one.cluster, one.before, one.after) for one in report.writes] == [("m2", 25, 10)]


# -- at random -----------------------------------------------------------------------------------------------
def random_world(seed: int) -> World:
    """A world with random load, nodes, thresholds, faults and policy."""
    chance = random.Random(seed)
    points = tuple(
        (minute, chance.uniform(2, 34)) for minute in range(0, 24 * 60, chance.choice((20, 45, 120)))
    )
    load: Load = noisy(steps(*points), chance.choice((0.0, 0.1)), seed)
    if chance.random() < 0.4:
        rest = {name: chance.uniform(1, 12) for name in NAMES}
        moving = steps(*points)

        def tied_load(now: float) -> dict[str, float]:
            found = moving(now)
            assert isinstance(found, float)
            return {**rest, "m1": found / 2}

        load = noisy(tied_load, chance.choice((0.0, 0.1)), seed)
    slots: dict[str, Slots] = {
        name: chance.choice((unlimited, lambda now: 5, lambda now: 4 if int(now / HOUR) % 2 else 12))
        for name in NAMES
    }
    return three(
        load,
        slots=slots,
        highs=[chance.choice((None, None, 10, 14)) for _ in NAMES],
        policy=chance.choice((None, STATIC_WEIGHTED, DYNAMIC_WEIGHTED, AGGREGATED, PRIORITIZED)),
        away=chance.choice((lambda name, now: False, flapping("m2", chance.choice((1, 4, 20))))),
    )


def stays_within_bounds(seed: int, hours: float) -> None:
    """Runs a random world. The hub itself checks that no minimum is above its maximum."""
    report = random_world(seed).run(hours * HOUR)

    assert report.unserved <= 0.15 * hours * HOUR, report.summary()
    assert len(report.writes) <= 40 * hours + 30, report.summary()


@pytest.mark.parametrize("seed", range(4))
def test_an_hour_of_a_random_world(seed: int) -> None:
    """Random loads and faults never give a minimum above its maximum, nor a flood of writes."""
    stays_within_bounds(seed, 1)


@pytest.mark.parametrize("seed", range(4, 40))
@only_at_night
def test_a_day_of_a_random_world(seed: int) -> None:
    """The same for a day, in many worlds."""
    stays_within_bounds(seed, 24)
