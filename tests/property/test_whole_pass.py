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

from fedhpa.api.assignment_policies import (
    AGGREGATED,
    DUPLICATED,
    DYNAMIC_WEIGHTED,
    EQUAL,
    PRIORITIZED,
    STATIC_WEIGHTED,
    AssignmentPolicy,
)
from fedhpa.assignment import (
    Bounds,
    ClusterState,
    Course,
    Member,
    Outcome,
    Plan,
    Previous,
    Result,
    Rules,
    SetBounds,
    plan,
)
from tests.support.costs import least_cpu_seconds
from tests.support.distributed import HASH, NOW

POLICIES = (EQUAL, DUPLICATED, AGGREGATED, STATIC_WEIGHTED, DYNAMIC_WEIGHTED, PRIORITIZED)

seeds = st.integers(0, 2**32)
failing = st.sampled_from([0.0, 0.3, 0.8, 1.0])


class Fleet:
    """A FederatedHPA with members in any state that a hub may find, from one drawn seed."""

    def __init__(self, seed: int, *, sound: bool = False) -> None:
        """The members of `sound` fleets are as a pass left them, and all of them answer."""
        self.chance = chance = random.Random(seed)
        self.sound = sound
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
        self.members = [self._member(f"m{index}") for index in range(chance.randrange(1, 7))]
        known = self.rules.maximum if sound or chance.random() < 0.8 else chance.randrange(1, 60)
        before = chance.choice(("", "another/9", f"{HASH}/{known}", f"{HASH}/{known}"))
        self.previous = Previous(
            states={one.cluster: self._state(one) for one in self.members},
            course=Course(written=NOW - chance.randrange(900)) if sound else course(chance),
            assigned_for=f"{HASH}/{known}" if sound else before,
        )

    def _member(self, cluster: str) -> Member:
        chance = self.chance
        written = self._bounds() if chance.random() < 0.8 else None
        running = chance.randrange(9)
        if self.sound:
            # An HPA keeps its replicas within its bounds.
            running = 0 if written is None else chance.randrange(written.minimum, written.maximum + 1)
        pinned = written is not None and running == written.maximum and chance.random() < 0.5
        load = Fraction(chance.randrange(10 * running + 1), 10) + (running if pinned else 0)
        lost = not self.sound and chance.random() < 0.1
        foreign = not self.sound and not lost and written is not None and chance.random() < 0.1
        answers = self.sound or (not lost and not foreign and chance.random() < 0.85)
        spare = written is not None and chance.random() < 0.1
        return Member(
            cluster=cluster,
            minimum=None if written is None or foreign else 0 if spare else written.minimum,
            maximum=running if foreign else 0 if written is None else written.maximum,
            written=written,
            running=running,
            ready=running if chance.random() < 0.8 else chance.randrange(running + 1),
            load=load if pinned else chance.choice((None, load)),
            pinned_for=float(chance.randrange(300)) if pinned and load > running and answers else None,
            room=chance.choice((None, 0, chance.randrange(9))),
            low=chance.choice((0, 0, 2)),
            high=None if self.sound else chance.choice((None, None, chance.randrange(13))),
            weight=chance.randrange(10),
            priority=chance.randrange(-1, 3),
            membership=chance.choice(("", "", "", "Stuck", "Cordoned", "Leaving")) if not self.sound else "",
            answers=answers,
            missing_for=0.0 if answers else float(chance.choice((10, 70, 400))),
            lost=lost,
            foreign=foreign,
            back=not self.sound and answers and chance.random() < 0.1,
            rolling=not self.sound and chance.random() < 0.1,
            wakes=not running and chance.random() < 0.5,
        )

    def _bounds(self) -> Bounds | None:
        """Bounds of all members together stay within the maximum, as every pass leaves them."""
        if not self.left:
            return None
        most = self.chance.randrange(1, self.left + 1) if self.rules.policy != DUPLICATED else self.left
        self.left -= most if self.rules.policy != DUPLICATED else 0
        return Bounds(minimum=self.chance.randrange(1, most + 1), maximum=most)

    def _state(self, one: Member) -> ClusterState:
        if one.foreign or (not self.sound and self.chance.random() < 0.1):
            return ClusterState()
        state = ClusterState(minimum=one.minimum, maximum=one.maximum or None, lost=one.lost)
        if self.sound:
            return state
        return structs.replace(
            state,
            lost=one.lost and self.chance.random() < 0.5,
            zero_since=self.chance.choice((None, None, NOW - 60)),
            idle_since=self.chance.choice((None, NOW - 900)),
        )

    def plan(self, at: float = NOW) -> Plan:
        """The pass over this fleet."""
        return plan(self.rules, self.members, self.previous, at)

    def after(self, made: Plan, outcomes: Iterable[Outcome]) -> Fleet:
        """Returns the fleet after the confirmed writes, and after all written scales."""
        outcomes = list(outcomes)
        written = present(made)
        for outcome in outcomes:
            if outcome.result is Result.CONFIRMED and isinstance(outcome.write, SetBounds):
                written[outcome.write.cluster] = outcome.write.after
        kept = made.after(outcomes)
        self.members = [
            replace(
                one,
                minimum=one.minimum if one.foreign else kept.states[one.cluster].minimum,
                maximum=one.maximum if one.foreign else kept.states[one.cluster].maximum or 0,
                written=one.written if one.foreign else written[one.cluster],
                running=made.scales.get(one.cluster, one.running),
                ready=min(one.ready, made.scales.get(one.cluster, one.ready)),
                back=False,
                was_stuck=one.stuck,
            )
            for one in self.members
        ]
        self.previous = kept
        return self


def course(chance: random.Random) -> Course:
    """A state that any pass may have left."""
    times = (None, 0.0, NOW - 5000, NOW - 700, NOW)
    return Course(
        written=chance.choice(times),
        step_at=chance.choice((*times, NOW + 50)),
        size=chance.choice((0, 0, 5, 40)),
        unconfirmed=chance.choice(((), (), ("m1",), ("m1", "m2", "gone"))),
    )


def send(found: Plan, chance: random.Random, failing: float) -> tuple[list[Outcome], list[int]]:
    """Sends all writes of a plan. Returns the outcomes, and the sum of all maxima after each change."""
    actual = {one.cluster: one.present for one in found.members if not one.lost}
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


def present(found: Plan) -> dict[str, Bounds | None]:
    """The bounds that were read."""
    return {one.cluster: one.present for one in found.members}


def confirmed(found: Plan) -> list[Outcome]:
    """Sends all writes without a failure."""
    return send(found, random.Random(1), 0.0)[0]


@given(seeds)
def test_every_pass_has_sound_bounds_and_reasons(seed: int) -> None:
    """1 <= min <= max, no maximum above its threshold, all candidates are there, every step has a reason."""
    fleet = Fleet(seed)
    made = fleet.plan()

    names = {one.cluster for one in fleet.members}
    assert made.goals.keys() == present(made).keys() == made.left.states.keys() == names
    for one in fleet.members:
        goal, name = made.goals[one.cluster], one.cluster
        if not one.answers:
            assert goal == one.present
            assert name not in made.scales
        elif goal is not None:
            assert 1 <= goal.minimum <= goal.maximum
            assert one.high is None or goal.maximum <= max(one.high, one.running)
            assert 0 <= made.scales.get(name, 0) <= goal.maximum
    assert made.steps
    assert all(step.reason.strip() for step in made.steps)


@given(seeds)
def test_no_pass_removes_a_ready_pod_without_a_reason(seed: int) -> None:
    """I3: only a lowered maximum, a threshold, a leave, take-back and an old surplus do."""
    fleet = Fleet(seed)
    made = fleet.plan()
    rules = fleet.rules
    lowered = fleet.previous.assigned_for.partition("/")[2] != str(rules.maximum)
    surplus = (fleet.previous.course.step_at or NOW + 1) <= NOW
    for one in fleet.members:
        goal = made.goals[one.cluster]
        allowed = one.leaving or lowered or surplus or not one.has_hpa or one.minimum == 0
        if one.answers and not allowed and rules.policy != DUPLICATED:
            keeps = min(one.serving, one.ready, 2**31 if one.high is None else one.high)
            if one.pinned_for is None and one.wanted is not None:
                keeps = min(keeps, one.wanted + 2)
            assert (0 if goal is None else goal.maximum) >= keeps


@given(seeds)
def test_the_maxima_of_clusters_that_answer_keep_to_the_maximum(seed: int) -> None:
    """I1: but for what runs, what is missing, and one step of a move."""
    fleet = Fleet(seed)
    made = fleet.plan()
    if fleet.rules.policy == DUPLICATED:
        return
    mine = [one for one in fleet.members if one.answers]
    total = most(made.goals[one.cluster] for one in mine)
    serving = sum(one.serving + one.stuck for one in mine)
    needs = sum(max(one.need or 0, one.serving + one.stuck, one.minimum or 0, 1) for one in mine)
    missing = any(not one.answers and one.missing_for >= 60 and not one.lost for one in fleet.members)
    step = max(fleet.rules.maximum // 10, 1)
    assert total <= max(fleet.rules.maximum + step, serving + len(mine), needs if missing else 0)


@given(seeds, failing)
def test_no_failure_lets_the_maxima_pass_the_total(seed: int, failing: float) -> None:
    """The sum stays within it, or does not grow where it was above before."""
    fleet = Fleet(seed)
    made = fleet.plan()
    _, sums = send(made, fleet.chance, failing)

    if fleet.rules.policy != DUPLICATED:
        for before, after in itertools.pairwise(sums):
            assert after <= max(before, fleet.rules.maximum + max(made.surplus, 0))


@given(seeds)
def test_without_failures_the_goals_are_reached(seed: int) -> None:
    """All writes together lead to the goals."""
    made = Fleet(seed).plan()
    bounds = [one.write for one in confirmed(made) if isinstance(one.write, SetBounds)]
    written = present(made) | {write.cluster: write.after for write in bounds}

    assert written == made.goals


@given(seeds, st.randoms(use_true_random=False))
def test_the_order_of_clusters_is_irrelevant(seed: int, shuffler: random.Random) -> None:
    """The same clusters in another order get the same."""
    fleet = Fleet(seed)
    made = fleet.plan()
    fleet.members = shuffler.sample(fleet.members, len(fleet.members))

    assert fleet.plan() == made


@given(seeds)
def test_a_pass_over_its_own_result_writes_nothing(seed: int) -> None:
    """I4: the second pass at the same moment finds that all is written."""
    fleet = Fleet(seed, sound=True)
    made = fleet.plan()
    again = fleet.after(made, confirmed(made)).plan()

    if not made.scales:
        assert again.next_writes() == ()


@given(seeds, failing)
def test_passes_end(seed: int, failing: float) -> None:
    """After failed writes repeated passes come to rest, while members stay as they are."""
    fleet = Fleet(seed)
    made = fleet.plan()
    fleet.after(made, send(made, fleet.chance, failing)[0])
    quiet = 0
    for minute in range(150):
        made = fleet.plan(NOW + minute * 60)
        fleet.after(made, confirmed(made))
        quiet = 0 if made.next_writes() else quiet + 1
        if quiet == 15:
            return
    raise AssertionError(made.next_writes())


@given(seeds)
def test_any_stored_state_is_survived(seed: int) -> None:
    """A record that another program wrote leads to sound bounds all the same."""
    fleet = Fleet(seed)
    chance = fleet.chance
    states = {one.cluster: stored(chance) for one in fleet.members if chance.random() < 0.9}
    fleet.members = [
        replace(
            one,
            minimum=states.get(one.cluster, ClusterState()).minimum,
            maximum=states.get(one.cluster, ClusterState()).maximum or 0,
        )
        if not one.foreign
        else one
        for one in fleet.members
    ]
    fleet.previous = replace(fleet.previous, states=states)
    for _ in range(3):
        made = fleet.plan()
        goals = [made.goals[one.cluster] for one in fleet.members if one.answers]
        assert all(1 <= bounds.minimum <= bounds.maximum for bounds in goals if bounds is not None)
        assert all(replicas >= 0 for replicas in made.scales.values())
        fleet.after(made, send(made, chance, 0.2)[0])


def stored(chance: random.Random) -> ClusterState:
    """Returns a state with any numbers and times that the record lets through."""

    def number() -> int | None:
        return chance.choice((None, 0, 1, 5, 40, 2**31 - 1))

    def time() -> float | None:
        return chance.choice((None, 0.0, NOW - 5000, NOW - 700, NOW))

    return ClusterState(
        minimum=number(),
        floor=number(),
        maximum=number(),
        lost=chance.random() < 0.2,
        zero_since=time(),
        idle_since=time(),
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("first", [True, False])
def test_a_thousand_clusters(policy: AssignmentPolicy, first: bool) -> None:
    """A pass over a thousand clusters takes at most 100 ms of CPU time."""
    chance = random.Random(7)
    members = [
        Member(
            cluster=f"member{i}",
            minimum=1,
            maximum=20,
            written=Bounds(minimum=1, maximum=20),
            running=running,
            ready=running,
            room=chance.choice([None, 0, 20]),
            load=Fraction(30 if running == 20 else chance.randrange(300), 10),
            pinned_for=99.0 if running == 20 else None,
            high=chance.choice([None, None, 25]),
            weight=chance.randrange(1, 100),
            priority=chance.randrange(5),
            membership=chance.choice(["", "", "", "Stuck"]),
        )
        for i in range(1000)
        for running in (chance.randrange(1, 21),)
    ]
    states = {one.cluster: ClusterState(minimum=1, maximum=20) for one in members}
    rules = Rules(minimum=2_000, maximum=20_000, policy=policy, uid="2f1c", assigned_for=HASH)
    previous = Previous(states=states, assigned_for="" if first else f"{HASH}/20000")

    assert least_cpu_seconds(lambda: plan(rules, members, previous, NOW), 0.1) < 0.1
