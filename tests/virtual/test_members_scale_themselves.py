"""Mode Distributed in a closed loop: member HPAs scale, and the hub's bounds do not work against them.

The real controller runs in emulated fleets. test_closed_loop.py has what that costs, and these tests say what
must happen.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from benchmarks.closed_loop.actions import Action, dies, reachable, returns, unreachable
from benchmarks.closed_loop.running import Running
from benchmarks.closed_loop.ways import DISTRIBUTED, simulate
from benchmarks.closed_loop.worlds import ALL, MINUTE, World, limited, noisy, several, steps, tied
from benchmarks.world.cluster import AUTOSCALING, HPAS, NAME, NAMESPACE
from benchmarks.world.fleet import Load, Tally
from tests.support.nightly import only_at_night

MAXIMUM: Final = 30
# A lost cluster counts again after half of lostAfterSeconds, and gets its bounds within two periods.
STEADY_SECONDS: Final = 150.0 + 120.0
Bounds = dict[str, tuple[int, int]]


class Watched:
    """A run whose HPAs are looked at regularly; `steady` has those of clusters that have long answered."""

    def __init__(self, world: World, minutes: float, every: float = 5.0) -> None:
        self.bounds: list[Bounds] = []
        self.steady: dict[float, Bounds] = {}
        self._away_at: dict[str, float] = {}
        times = [every * (number + 1) for number in range(int(minutes * MINUTE / every))]
        looks = tuple((time, self._look(time)) for time in times)
        result = simulate(replace(world, events=(*world.events, *looks)), DISTRIBUTED, minutes / 60)
        self.tally: Tally = result.tally

    def _look(self, time: float) -> Action:
        def look(run: Running) -> None:
            found = {}
            for name, cluster in run.fleet.clusters.items():
                if hpa := cluster.store.find(AUTOSCALING, HPAS, NAME, NAMESPACE):
                    found[name] = (hpa["spec"]["minReplicas"], hpa["spec"]["maxReplicas"])
                if not cluster.server.listens:
                    self._away_at[name] = time
            self.bounds.append(found)
            away = {name for name, at in self._away_at.items() if time - at < STEADY_SECONDS}
            self.steady[time] = {name: one for name, one in found.items() if name not in away}

        return look

    def sizes(self, minute: float) -> tuple[int, ...]:
        """Returns the replicas of all clusters at a minute."""
        return self.tally.sizes[int(minute * MINUTE) - 1]


def test_the_cloud_takes_what_the_data_centre_cannot_run() -> None:
    """A burst fills the data centre, and the cloud takes the rest."""
    found = Watched(ALL["burst"], 35)

    assert found.sizes(9) == (6, 1)
    # One more than its nodes hold waits: it shows when there is room again.
    assert found.sizes(34)[0] == 11
    assert sum(found.sizes(34)) >= 17


# -- at random -----------------------------------------------------------------------------------------------
def random_world(seed: int) -> World:
    """A world with random load, nodes, outages and policy."""
    chance = random.Random(seed)
    points = [(minute, chance.uniform(1, 16)) for minute in range(0, 240, chance.choice((12, 20, 45)))]
    shared = steps(*points)
    load: Load = noisy(shared, chance.choice((0.001, 0.1)))
    if chance.random() < 0.4:
        parts = {name: steps((0, chance.uniform(0.5, 4))) for name in ("m2", "m3")}
        load = tied(m1=lambda now: shared(now) / 2, **parts)
    clusters = several(3, 9)
    for plan in clusters:
        if chance.random() < 0.4:
            clusters = limited(clusters, plan.name, chance.randint(3, 9))
    faults: list[tuple[float, Action]] = []
    now = 300.0
    harm: Callable[[str], Action]
    while now < 4 * 3600:
        name = chance.choice(("m1", "m2", "m3"))
        harm, heal = chance.choice(((dies, returns), (unreachable, reachable)))
        lasts = chance.choice((15.0, 90.0, 900.0))
        faults += [(now, harm(name)), (now + lasts, heal(name))]
        now += lasts + chance.uniform(60, 1200)
    kinds = ("StaticWeighted", "DynamicWeighted", "Aggregated")
    spec = {"federatedHPAAssignment": {"federatedHPAAssignmentType": chance.choice(kinds)}}
    return World("random", "", clusters, load, minimum=3, maximum=MAXIMUM, events=tuple(faults), spec=spec)


def stays_within_bounds(seed: int, minutes: float) -> None:
    """Runs a random world.

    No minimum is above its maximum, and the maxima of clusters that answer stay within maxReplicas.
    """
    found = Watched(random_world(seed), minutes)

    assert all(0 < least <= most for one in found.bounds for least, most in one.values())
    for time, one in found.steady.items():
        assert sum(most for _, most in one.values()) <= MAXIMUM, (time, one)
    assert found.tally.unserved <= 0.25 * found.tally.demand


@pytest.mark.parametrize("seed", range(2))
def test_a_random_world(seed: int) -> None:
    """Random loads, nodes and outages of half an hour."""
    stays_within_bounds(seed, 30)


@pytest.mark.parametrize("seed", range(2, 27))
@only_at_night
def test_two_hours_of_a_random_world(seed: int) -> None:
    """The same for two hours, in many worlds."""
    stays_within_bounds(seed, 120)
