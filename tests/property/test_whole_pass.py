"""Properties of a whole pass of mode Distributed, under every policy and with failed writes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from fedhpa.assignment import (
    Bounds,
    ClusterState,
    MemberState,
    Observed,
    Outcome,
    Plan,
    Previous,
    Result,
    Rules,
    plan,
)
from fedhpa.assignment.policies import (
    AGGREGATED,
    DUPLICATED,
    DYNAMIC_WEIGHTED,
    PRIORITIZED,
    STATIC_WEIGHTED,
)
from fedhpa.assignment.state import Cap
from tests.support.costs import least_cpu_seconds
from tests.support.distributed import NOW

POLICIES = (None, DUPLICATED, AGGREGATED, STATIC_WEIGHTED, DYNAMIC_WEIGHTED, PRIORITIZED)
CAP = Cap(replicas=4, since=NOW - 99, until=NOW + 40, ended_early=True)
HASH = "0123456789abcdef"

seeds = st.integers(0, 2**32)
failing = st.sampled_from([0.0, 0.3, 0.8, 1.0])


class Fleet:
    """A FederatedHPA with members in any state that a hub may find, from one drawn seed."""

    def __init__(self, seed: int, *, sound: bool = False) -> None:
        """`sound` fleets have an assignment without help or holds, and no member is away or foreign."""
        self.chance = random.Random(seed)
        self.sound = sound
        chance = self.chance
        size = chance.randrange(1, 7)
        minimum = chance.randrange(0, 12)
        self.rules = Rules(
            minimum=minimum,
            maximum=max(minimum, 1) + chance.randrange(40),
            policy=chance.choice(POLICIES),
            exact=chance.random() < 0.3,
            uid=chance.choice(("", "2f1c")),
            assists=chance.random() < 0.8,
            scales_to_zero=chance.random() < 0.3,
            assigned_for=HASH,
        )
        self.left = self.rules.maximum
        self.observed = [self._observed(f"m{index}") for index in range(size)]
        known = self.rules.maximum if chance.random() < 0.8 else chance.randrange(1, 60)
        before = chance.choice(("", "another/9", f"{HASH}/{known}", f"{HASH}/{known}"))
        before = f"{HASH}/{known}" if sound else before
        states = {one.state.cluster: self._state(one) for one in self.observed}
        self.previous = Previous(
            states=states,
            assigned_for=before,
            lost=frozenset(cluster for cluster, state in states.items() if state.lost),
        )

    def _observed(self, cluster: str) -> Observed:
        chance = self.chance
        running = chance.randrange(9)
        reachable = self.sound or chance.random() < 0.85
        written = self._bounds() if chance.random() < 0.8 else None
        pending = chance.choice((0, 0, 0, 1, 4))
        need = chance.choice((None, None, chance.randrange(1, 20)))
        if self.sound:
            # An HPA keeps its replicas within its bounds, and is pinned only at its maximum.
            running = 0 if written is None else chance.randrange(written.minimum, written.maximum + 1)
            pending = min(pending, 0 if written is None else written.maximum - running)
            pinned = written is not None and running + pending == written.maximum
            need = running + pending + chance.randrange(1, 9) if pinned and need is not None else None
        return Observed(
            state=MemberState(
                cluster=cluster,
                running=running,
                pending=pending,
                capacity=chance.choice((None, running, running + chance.randrange(9))),
                need=need,
                low=chance.choice((0, 0, 2)),
                high=chance.choice((None, None, chance.randrange(13))),
                reachable=reachable,
                weight=chance.randrange(10),
                priority=chance.randrange(-1, 3),
            ),
            written=written,
            load=chance.choice((None, Fraction(chance.randrange(100), 10))),
            scaled_at=chance.choice((None, NOW - chance.randrange(400))),
            settled=chance.randrange(running + 1),
            lost=not self.sound and chance.random() < 0.1,
            foreign=not self.sound and written is not None and chance.random() < 0.1,
            wakes=not running and chance.random() < 0.5,
        )

    def _bounds(self) -> Bounds | None:
        """Bounds of all members together stay within the maximum, as every pass leaves them."""
        if not self.left:
            return None
        most = self.chance.randrange(1, self.left + 1) if self.rules.policy != DUPLICATED else self.left
        self.left -= most if self.rules.policy != DUPLICATED else 0
        return Bounds(minimum=self.chance.randrange(1, most + 1), maximum=most)

    def _state(self, one: Observed) -> ClusterState:
        chance = self.chance
        if one.foreign or (not self.sound and chance.random() < 0.1):
            return ClusterState()
        least = None if one.written is None else one.written.minimum
        state = ClusterState(
            minimum=least,
            maximum=None if one.written is None else one.written.maximum,
            cap=chance.choice(
                (None, None, Cap(replicas=4, since=NOW - 99, until=NOW + 40, ended_early=True))
            ),
            spare=one.written is not None and chance.random() < 0.1,
            starting=one.written is not None and chance.random() < 0.1,
        )
        if self.sound:
            return state
        return structs.replace(
            state,
            given=chance.choice((0, 0, 2)),
            given_since=NOW - chance.randrange(900),
            held=chance.choice((0, 0, 3)),
            lost=chance.random() < 0.15,
            over_since=chance.choice((None, NOW - chance.randrange(3600))),
            zero_since=chance.choice((None, None, NOW - 60)),
            idle_since=chance.choice((None, NOW - 900)),
        )

    def plan(self) -> Plan:
        """The pass over this fleet."""
        return plan(self.rules, self.observed, self.previous, NOW)

    def after(self, found: Plan, outcomes: Iterable[Outcome]) -> Fleet:
        """Returns the fleet after the confirmed writes, and after all written scales."""
        outcomes = list(outcomes)
        written = dict(found.present)
        for outcome in outcomes:
            if outcome.result is Result.CONFIRMED:
                written[outcome.write.cluster] = outcome.write.after
        self.observed = [
            replace(
                one,
                written=written[one.state.cluster],
                state=replace(one.state, running=replicas, pending=0) if replicas is not None else one.state,
            )
            for one in self.observed
            for replicas in (found.scales.get(one.state.cluster),)
        ]
        states = found.states_after(outcomes)
        lost = frozenset(cluster for cluster, state in states.items() if state.lost)
        self.previous = Previous(states=states, assigned_for=found.assigned_for, lost=lost)
        return self


def send(found: Plan, chance: random.Random, failing: float) -> tuple[list[Outcome], list[int]]:
    """Sends all writes of a plan. Returns the outcomes, and the sum of all maxima after each change."""
    actual = {cluster: bounds for cluster, bounds in found.present.items() if cluster not in found.lost}
    outcomes: list[Outcome] = []
    sums = [most(actual.values())]
    for _ in range(50):
        batch = found.next_writes(outcomes)
        if not batch:
            return outcomes, sums
        for write in chance.sample(batch, len(batch)):
            result = Result.CONFIRMED
            if chance.random() < failing:
                result = chance.choice((Result.REFUSED, Result.UNKNOWN))
            if result is Result.CONFIRMED or (result is Result.UNKNOWN and chance.random() < 0.5):
                actual[write.cluster] = write.after
                sums.append(most(actual.values()))
            outcomes.append(Outcome(write=write, result=result))
    raise AssertionError("the pass does not end")


def most(bounds: Iterable[Bounds | None]) -> int:
    """Returns the sum of the maxima."""
    return sum(one.maximum for one in bounds if one)


def confirmed(found: Plan) -> list[Outcome]:
    """Sends all writes without a failure."""
    return send(found, random.Random(1), 0.0)[0]


@given(seeds)
def test_every_pass_has_sound_bounds_and_reasons(seed: int) -> None:
    """1 <= min <= max, no maximum above its threshold, all candidates are there, every step has a reason."""
    fleet = Fleet(seed)
    found = fleet.plan()

    names = {one.state.cluster for one in fleet.observed}
    assert found.goals.keys() == found.present.keys() == found.states.keys() == names
    for one in fleet.observed:
        goal, name = found.goals[one.state.cluster], one.state.cluster
        if not one.state.reachable or one.lost or one.foreign:
            assert goal == found.present[name]
            assert name not in found.scales
        elif goal is not None:
            assert 1 <= goal.minimum <= goal.maximum
            assert one.state.high is None or goal.maximum <= max(one.state.high, most([one.written]))
            assert not found.scales.get(name, 0) < 0
            assert found.scales.get(name, 0) <= goal.maximum
    assert found.steps
    assert all(step.reason.strip() for step in found.steps)


@given(seeds, failing)
def test_no_failure_lets_the_maxima_pass_the_maximum(seed: int, failing: float) -> None:
    """The sum stays within maxReplicas, or does not grow where it was above before."""
    fleet = Fleet(seed)
    found = fleet.plan()
    _, sums = send(found, fleet.chance, failing)

    if found.total is not None:
        for before, after in itertools.pairwise(sums):
            assert after <= max(before, found.total)


@given(seeds)
def test_without_failures_the_goals_are_reached(seed: int) -> None:
    """All writes together lead to the goals, if their sum is within maxReplicas."""
    found = Fleet(seed).plan()
    written = dict(found.present) | {one.write.cluster: one.write.after for one in confirmed(found)}

    goal = most(bounds for cluster, bounds in found.goals.items() if cluster not in found.lost)
    if found.total is None or goal <= found.total:
        assert written == found.goals


@given(seeds, st.randoms(use_true_random=False))
def test_the_order_of_clusters_is_irrelevant(seed: int, shuffler: random.Random) -> None:
    """The same clusters in another order get the same."""
    fleet = Fleet(seed)
    found = fleet.plan()
    fleet.observed = shuffler.sample(fleet.observed, len(fleet.observed))

    assert fleet.plan() == found


@given(seeds)
def test_a_pass_over_its_own_result_writes_nothing(seed: int) -> None:
    """The second pass at the same moment finds that all is written."""
    fleet = Fleet(seed, sound=True)
    found = fleet.plan()
    again = fleet.after(found, confirmed(found)).plan()

    # A written scale changes what runs, and another cluster may start to help then.
    if not found.scales:
        assert again.next_writes() == ()


@given(seeds, failing)
def test_passes_end(seed: int, failing: float) -> None:
    """After failed writes, and with help and holds to release, repeated passes come to rest."""
    fleet = Fleet(seed)
    found = fleet.plan()
    fleet.after(found, send(found, fleet.chance, failing)[0])
    for _ in range(60):
        found = fleet.plan()
        fleet.after(found, confirmed(found))
        if not found.next_writes():
            return
    raise AssertionError(found.next_writes())


@given(seeds)
def test_a_quiet_world_writes_nothing(seed: int) -> None:
    """Replicas that come and go below every maximum cause no write."""
    fleet = Fleet(seed, sound=True)
    found = fleet.plan()
    fleet.after(found, confirmed(found))
    fleet.observed = [quiet(one, fleet.chance) for one in fleet.observed]
    found = plan(replace(fleet.rules, scales_to_zero=False), fleet.observed, fleet.previous, NOW)
    fleet.after(found, confirmed(found))
    fleet.observed = [quiet(one, fleet.chance) for one in fleet.observed]

    rules = replace(fleet.rules, scales_to_zero=False)
    if rules.policy != PRIORITIZED:
        assert plan(rules, fleet.observed, fleet.previous, NOW).next_writes() == ()


def quiet(one: Observed, chance: random.Random) -> Observed:
    """Returns a cluster that runs some replicas within its bounds and needs nothing."""
    running = 0 if one.written is None else chance.randrange(one.written.minimum, one.written.maximum + 1)
    return replace(
        one, state=replace(one.state, running=running, pending=0, need=None), settled=running, wakes=False
    )


@given(seeds)
def test_any_stored_state_is_survived(seed: int) -> None:
    """A status that another program wrote leads to sound bounds all the same."""
    fleet = Fleet(seed)
    fleet.previous = replace(
        fleet.previous,
        states={
            one.state.cluster: stored(fleet.chance) for one in fleet.observed if fleet.chance.random() < 0.9
        },
    )
    for _ in range(3):
        found = fleet.plan()
        goals = [bounds for bounds in found.goals.values() if bounds is not None]
        assert all(1 <= bounds.minimum <= bounds.maximum for bounds in goals)
        assert all(replicas >= 0 for replicas in found.scales.values())
        fleet.after(found, send(found, fleet.chance, 0.2)[0])


def stored(chance: random.Random) -> ClusterState:
    """Returns a state with any numbers and times that `read_state` lets through."""

    def number() -> int:
        return chance.choice((0, 1, 5, 40, 2**31 - 1))

    def time() -> float | None:
        return chance.choice((None, 0.0, NOW - 5000, NOW - 700, NOW))

    return ClusterState(
        minimum=chance.choice((None, number())),
        maximum=chance.choice((None, number())),
        given=number(),
        given_since=time(),
        given_share=number(),
        ready_since=time(),
        deficit_before=chance.choice((None, number())),
        ineffective_since=time(),
        held=number(),
        held_since=time(),
        lower_replicas=chance.choice((None, number())),
        cap=chance.choice((None, CAP, Cap(replicas=number(), since=0.0, minutes=30))),
        zero_since=time(),
        at_min_since=time(),
        lost=chance.random() < 0.2,
        over_since=time(),
        away=chance.random() < 0.2,
        starting=chance.random() < 0.2,
        spare=chance.random() < 0.3,
        idle_since=time(),
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("first", [True, False])
def test_a_thousand_clusters(policy: str | None, first: bool) -> None:
    """A pass over a thousand clusters takes at most 100 ms of CPU time."""
    chance = random.Random(7)
    observed = [
        Observed(
            state=MemberState(
                cluster=f"member{i}",
                running=chance.randrange(1, 20),
                pending=chance.choice([0, 0, 0, 2]),
                capacity=chance.choice([None, 20, 40]),
                need=chance.choice([None, None, 30]),
                high=chance.choice([None, None, 25]),
                weight=chance.randrange(1, 100),
                priority=chance.randrange(5),
            ),
            written=Bounds(minimum=1, maximum=20),
            load=Fraction(chance.randrange(300), 10),
            scaled_at=NOW - chance.randrange(400),
        )
        for i in range(1000)
    ]
    states = {one.state.cluster: ClusterState(minimum=1, maximum=20) for one in observed}
    rules = Rules(minimum=2_000, maximum=20_000, policy=policy, uid="2f1c", assigned_for=HASH)
    previous = Previous(states=states, assigned_for="" if first else f"{HASH}/20000")

    assert least_cpu_seconds(lambda: plan(rules, observed, previous, NOW), 0.1) < 0.1
