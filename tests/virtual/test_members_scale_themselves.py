"""Mode Distributed in a closed loop: member HPAs scale, and the hub's bounds do not work against them.

The real controller runs in emulated fleets. test_closed_loop.py has what that costs, and these tests say what
must happen.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from benchmarks.closed_loop.actions import Action, dies, hub_away, reachable, returns, unreachable
from benchmarks.closed_loop.running import Running
from benchmarks.closed_loop.ways import DISTRIBUTED, simulate
from benchmarks.closed_loop.worlds import ALL, MINUTE, World, limited, noisy, several, steps, tied
from benchmarks.world.cluster import AUTOSCALING, HPAS, NAME, NAMESPACE, Cluster
from benchmarks.world.fleet import Load, Tally
from tests.support.nightly import only_at_night

MAXIMUM: Final = 30
# A lost cluster counts again after half of lostAfterSeconds, and gets its bounds within two periods.
STEADY_SECONDS: Final = 150.0 + 120.0
Bounds = dict[str, tuple[int, int]]


def three(load: Load, replicas: int = 9, **more: Any) -> World:
    """Three clusters that share 30 replicas by equal weights."""
    given = {"clusters": several(3, replicas), "minimum": 3, "maximum": MAXIMUM, **more}
    return World("three", "", load=load, **given)


def hpa_of(cluster: Cluster) -> dict[str, Any] | None:
    return cluster.store.find(AUTOSCALING, HPAS, NAME, NAMESPACE)


def bounds(run: Running) -> Bounds:
    """Returns minimum and maximum of each HPA."""
    found = {name: hpa_of(cluster) for name, cluster in run.fleet.clusters.items()}
    return {
        name: (hpa["spec"]["minReplicas"], hpa["spec"]["maxReplicas"])
        for name, hpa in found.items()
        if hpa is not None
    }


class Watched:
    """A run whose HPAs are looked at regularly; `steady` has those of clusters that have long answered."""

    def __init__(self, world: World, minutes: float, every: float = 5.0) -> None:
        self.bounds: dict[float, Bounds] = {}
        self.steady: dict[float, Bounds] = {}
        self._away_at: dict[str, float] = {}
        times = [every * (number + 1) for number in range(int(minutes * MINUTE / every))]
        looks = tuple((time, self._look(time)) for time in times)
        result = simulate(replace(world, events=(*world.events, *looks)), DISTRIBUTED, minutes / 60)
        self.tally: Tally = result.tally

    def _look(self, time: float) -> Action:
        def look(run: Running) -> None:
            found = self.bounds[time] = bounds(run)
            for name, cluster in run.fleet.clusters.items():
                if not cluster.server.listens:
                    self._away_at[name] = time
            away = {name for name, at in self._away_at.items() if time - at < STEADY_SECONDS}
            self.steady[time] = {name: one for name, one in found.items() if name not in away}

        return look

    def sizes(self, minute: float) -> tuple[int, ...]:
        """Returns the replicas of all clusters at a minute."""
        return self.tally.sizes[int(minute * MINUTE) - 1]

    def changed(self, first: float, last: float) -> set[str]:
        """Returns the clusters whose bounds changed between two minutes."""
        within = [found for time, found in self.bounds.items() if first * MINUTE <= time <= last * MINUTE]
        return {name for found in within for name in found if found[name] != within[0].get(name)}


def test_the_cloud_takes_what_the_data_centre_cannot_run() -> None:
    """A burst fills the data centre, and the cloud takes the rest."""
    found = Watched(ALL["burst"], 35)

    assert found.sizes(9) == (6, 1)
    # One more than its nodes hold waits: it shows when there is room again.
    assert found.sizes(34)[0] == 11
    assert sum(found.sizes(34)) >= 17


def test_a_returning_hub_writes_nothing() -> None:
    """Members scale on while the hub is away for ten minutes, and no bound changes at its return."""
    events = ((600.0, hub_away(True)), (1200.0, hub_away(False)))
    found = Watched(three(steps((0, 4.5), (12, 9)), events=events), 30)

    assert sum(found.sizes(19)) >= 18
    assert set() == found.changed(5, 30)


def test_the_share_of_a_lost_cluster_goes_to_the_others() -> None:
    """Near the maximum the others serve what it served, and the sum stays within maxReplicas."""
    events = ((600.0, dies("m1")), (1800.0, returns("m1")))
    found = Watched(three(steps((0, 12)), 24, events=events), 50)

    assert sum(found.sizes(29)[1:]) >= 24
    assert sum(found.sizes(49)) <= MAXIMUM
    after = found.bounds[49 * MINUTE]
    assert sum(most for _, most in after.values()) <= MAXIMUM


def test_an_edited_hpa_is_repaired() -> None:
    """A maximum that somebody changed in a member is written back, and no other bound moves."""

    def edit(run: Running) -> None:
        cluster = run.fleet.clusters["m2"]
        hpa = hpa_of(cluster)
        assert hpa is not None
        cluster.store.replace(AUTOSCALING, HPAS, {**hpa, "spec": {**hpa["spec"], "maxReplicas": 25}})

    found = Watched(three(steps((0, 4.5)), events=((597.0, edit),)), 15)

    assert found.bounds[600.0]["m2"][1] == 25
    assert found.bounds[595.0] == found.bounds[14 * MINUTE]
    assert {"m2"} == found.changed(9.5, 14)


def refusing(part: float, seed: int) -> tuple[tuple[float, Action], ...]:
    """Members that refuse all writes of HPAs in a part of the minutes."""
    chance = random.Random(seed)

    def refuse(fails: dict[str, bool]) -> Action:
        def act(run: Running) -> None:
            for name, cluster in run.fleet.clusters.items():
                cluster.server.faults.refuses = (f"/apis/{AUTOSCALING}",) if fails[name] else ()

        return act

    minutes = range(1, 120)
    return tuple(
        (minute * MINUTE, refuse({name: chance.random() < part for name in ("m1", "m2", "m3")}))
        for minute in minutes
    )


def test_failed_writes_never_lead_above_the_maximum() -> None:
    """Half of the time HPAs cannot be written; all maxima together stay within maxReplicas."""
    world = three(noisy(steps((0, 3), (10, 12), (25, 4)), 0.1), events=refusing(0.5, 5))
    world = replace(world, clusters=limited(world.clusters, "m1", 4))
    found = Watched(world, 40)

    complete = [one for one in found.bounds.values() if len(one) == 3]
    assert complete
    assert max(sum(most for _, most in one.values()) for one in complete) <= MAXIMUM


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
    return three(load, clusters=clusters, events=tuple(faults), spec=spec)


def stays_within_bounds(seed: int, minutes: float) -> None:
    """Runs a random world.

    No minimum is above its maximum, and the maxima of clusters that answer stay within maxReplicas.
    """
    found = Watched(random_world(seed), minutes)

    assert all(0 < least <= most for one in found.bounds.values() for least, most in one.values())
    for time, one in found.steady.items():
        assert sum(most for _, most in one.values()) <= MAXIMUM, (time, one)
    assert found.tally.unserved <= 0.25 * found.tally.demand


@pytest.mark.parametrize("seed", range(3))
def test_a_random_world(seed: int) -> None:
    """Random loads, nodes and outages of half an hour."""
    stays_within_bounds(seed, 30)


@pytest.mark.parametrize("seed", range(3, 27))
@only_at_night
def test_two_hours_of_a_random_world(seed: int) -> None:
    """The same for two hours, in many worlds."""
    stays_within_bounds(seed, 120)
