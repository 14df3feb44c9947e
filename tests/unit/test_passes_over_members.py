"""A whole pass of mode Distributed: which bounds and scales it writes, when, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

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
from fedhpa.assignment.policies import DUPLICATED, PRIORITIZED
from tests.support.distributed import NOW

HASH = "0123456789abcdef"
MINUTE = 60


def cluster(number: int, bounds: tuple[int, int] | None, running: int, **fields: Any) -> Observed:
    """One cluster with the bounds of its HPA and the replicas that run."""
    own = {name: fields.pop(name) for name in list(fields) if name in Observed.__dataclass_fields__}
    return Observed(
        state=MemberState(cluster=f"m{number}", running=running, **fields),
        written=None if bounds is None else Bounds(minimum=bounds[0], maximum=bounds[1]),
        **own,
    )


def assigned(
    observed: Sequence[Observed], maximum: int = 12, lost: Sequence[str] = (), **states: dict[str, Any]
) -> Previous:
    """The pass before, which assigned what the members have. `states` has further fields by cluster."""
    found = {}
    for one in observed:
        name = one.state.cluster
        fields: dict[str, Any] = {"lost": name in lost}
        if one.written is not None and not one.foreign:
            fields |= {"minimum": one.written.minimum, "maximum": one.written.maximum}
        found[name] = ClusterState(**(fields | states.get(name, {})))
    return Previous(states=found, assigned_for=f"{HASH}/{maximum}", lost=frozenset(lost))


def rules(maximum: int = 12, **fields: Any) -> Rules:
    """The FederatedHPA."""
    fields = {"minimum": 1, "maximum": maximum, "assigned_for": HASH, **fields}
    return Rules(**fields)


def bounds(found: Plan) -> list[tuple[int, int] | None]:
    """The goals of all clusters, in order."""
    return [None if one is None else (one.minimum, one.maximum) for one in found.goals.values()]


def maxima(found: Plan) -> list[int]:
    """The maxima of all clusters, 0 without an HPA."""
    return [0 if one is None else one.maximum for one in found.goals.values()]


def applied(observed: Sequence[Observed], found: Plan) -> list[Observed]:
    """The same clusters after all writes succeeded, and with the replicas that the hub wrote."""
    after = []
    for one in observed:
        replicas = found.scales.get(one.state.cluster)
        state = one.state if replicas is None else replace(one.state, running=replicas)
        after.append(replace(one, written=found.goals[one.state.cluster], state=state))
    return after


def following(found: Plan) -> Previous:
    """The status for the next pass, if all writes succeed."""
    lost = frozenset(name for name, state in found.states.items() if state.lost)
    return Previous(states=found.states, assigned_for=found.assigned_for, lost=lost)


# -- first bounds --------------------------------------------------------------------------------------------
def test_the_first_pass_assigns_all_bounds_and_starts_empty_clusters() -> None:
    """A cluster without replicas starts with its minimum; running ones are scaled by their HPAs."""
    observed = [cluster(1, None, 1), cluster(2, None, 4), cluster(3, None, 20), cluster(4, None, 0)]
    found = plan(rules(10, minimum=3, policy=DUPLICATED), observed, Previous(states={}), NOW)

    assert bounds(found) == [(3, 10)] * 4
    assert found.scales == {"m4": 3}
    assert found.total is None
    assert [step.step for step in found.steps] == ["initial", "assist"]


def test_a_first_replica_is_written_until_it_runs() -> None:
    """The scale is written again in the next pass. After that, 0 replicas are the user's own choice."""
    observed = [cluster(1, None, 2), cluster(2, None, 0)]
    first = plan(rules(), observed, Previous(states={}), NOW)
    failed = [replace(one, written=first.goals[one.state.cluster]) for one in observed]
    second = plan(rules(), failed, following(first), NOW + MINUTE)
    running = plan(rules(), applied(failed, second), following(second), NOW + 2 * MINUTE)
    stopped = plan(rules(), failed, following(running), NOW + 3 * MINUTE)

    assert first.scales == second.scales == {"m2": 1}
    assert running.scales == stopped.scales == {}


def test_an_empty_cluster_stays_at_zero_if_the_workload_may_scale_to_zero() -> None:
    """Its HPA rests until the cluster is needed."""
    observed = [cluster(1, None, 2), cluster(2, None, 0)]
    found = plan(rules(scales_to_zero=True), observed, Previous(states={}), NOW)

    assert found.scales == {}
    assert found.states["m2"].zero_since == NOW


def test_a_cluster_that_was_away_gets_its_first_bounds_when_it_answers() -> None:
    """A candidate that nobody has reached yet has no bounds to keep."""
    observed = [cluster(1, None, 2), cluster(2, None, 0, reachable=False)]
    found = plan(rules(), observed, Previous(states={}), NOW)

    assert bounds(found) == [(1, 12), None]

    observed = [cluster(1, (1, 12), 2), cluster(2, None, 0)]
    found = plan(rules(), observed, following(found), NOW + MINUTE)

    assert all(found.goals.values())
    assert "m2 can be written for the first time" in found.steps[0].reason


def test_a_cluster_that_the_status_lost_keeps_its_replicas() -> None:
    """No entry in the status is no decision against an HPA there."""
    observed = [cluster(1, (1, 6), 2), cluster(2, None, 3)]
    previous = assigned(observed[:1])
    found = plan(rules(), observed, previous, NOW)

    assert found.scales == {}
    assert found.goals["m2"] is not None
    assert found.goals["m2"].maximum >= 3


# -- quiet ---------------------------------------------------------------------------------------------------
def test_a_quiet_world_writes_nothing_and_says_so() -> None:
    """Bounds that another division would change stay as they are."""
    observed = [cluster(1, (1, 10), 2), cluster(2, (1, 2), 1)]
    found = plan(rules(), observed, assigned(observed), NOW)

    assert found.next_writes() == ()
    assert found.steps[0].reason == "no cluster is at its maximum or has pending pods, so the bounds stay"


def test_a_pinned_cluster_gets_room() -> None:
    """The reason names the cluster and its need."""
    observed = [cluster(1, (1, 4), 4, need=8), cluster(2, (1, 4), 1), cluster(3, (1, 4), 2)]
    found = plan(rules(), observed, assigned(observed), NOW)

    assert maxima(found) == [9, 1, 2]
    assert found.steps[0].reason == "m1: at its maximum of 4 and needs 8"


def test_a_maximum_that_was_edited_in_the_member_is_written_back() -> None:
    """The status says what was assigned."""
    observed = [cluster(1, (1, 6), 2), cluster(2, (1, 6), 2)]
    previous = assigned(observed)
    observed[0] = cluster(1, (1, 40), 2)
    found = plan(rules(), observed, previous, NOW)

    assert [(one.cluster, one.after) for one in found.next_writes()] == [("m1", Bounds(minimum=1, maximum=6))]


def test_an_hpa_that_somebody_deleted_comes_back() -> None:
    """It gets the bounds that it had."""
    observed = [cluster(1, (1, 6), 2), cluster(2, (1, 6), 2)]
    previous = assigned(observed)
    observed[1] = cluster(2, None, 2)
    found = plan(rules(), observed, previous, NOW)

    assert bounds(found) == [(1, 6), (1, 6)]


def test_an_hpa_that_was_refused_is_tried_again() -> None:
    """It gets the room that is left; the other clusters keep their bounds."""
    observed = [cluster(1, None, 2), cluster(2, None, 2)]
    first = plan(rules(), observed, Previous(states={}), NOW)
    created, refused = first.next_writes()
    outcomes = [
        Outcome(write=created, result=Result.CONFIRMED),
        Outcome(write=refused, result=Result.REFUSED),
    ]
    previous = Previous(states=first.states_after(outcomes), assigned_for=first.assigned_for)
    observed[0] = replace(observed[0], written=created.after)
    second = plan(rules(), observed, previous, NOW + MINUTE)

    assert second.goals == first.goals
    assert second.steps[0].reason == "m2: gets its missing HPA"


def test_of_an_unknown_outcome_the_higher_maximum_is_remembered() -> None:
    """The member may have it."""
    observed = [cluster(1, (1, 8), 2), cluster(2, (1, 4), 4, need=9)]
    found = plan(rules(), observed, assigned(observed), NOW)
    lowered = found.next_writes()
    outcomes = [Outcome(write=one, result=Result.UNKNOWN) for one in lowered]

    assert [one.cluster for one in lowered] == ["m1"]
    assert found.states_after(outcomes)["m1"].maximum == 8
    assert found.states_after(outcomes)["m2"].maximum == 4
    assert found.next_writes(outcomes) == ()


# -- maxReplicas changes -------------------------------------------------------------------------------------
def test_a_lowered_maximum_lowers_what_runs_at_once() -> None:
    """Neither the two-minute rule nor easing delays it."""
    observed = [cluster(number, (1, 6), 6, scaled_at=NOW - 10, load=Fraction(7)) for number in (1, 2, 3)]
    found = plan(rules(10), observed, assigned(observed, 18), NOW)

    assert sorted(maxima(found)) == [3, 3, 4]
    assert "maxReplicas was lowered from 18 to 10" in found.steps[0].reason


def test_a_minimum_is_never_above_its_maximum() -> None:
    """The divided minimum stays in the state, so it comes back when the maximum does."""
    observed = [cluster(1, (5, 6), 5), cluster(2, (5, 6), 5)]
    found = plan(rules(6, minimum=6), observed, assigned(observed, 12), NOW)

    assert bounds(found) == [(3, 3), (3, 3)]
    assert [state.minimum for state in found.states.values()] == [5, 5]


def test_a_raised_maximum_is_divided_at_once() -> None:
    """No cluster needs to be pinned for it."""
    observed = [cluster(1, (1, 6), 2), cluster(2, (1, 6), 2)]
    found = plan(rules(20), observed, assigned(observed, 12), NOW)

    assert maxima(found) == [10, 10]


def test_a_maximum_that_stays_after_scaling_does_not_rise() -> None:
    """The two-minute rule keeps a maximum from falling, and adds nothing to it in later passes."""
    observed = [
        cluster(1, (1, 5), 5, need=6, scaled_at=NOW - 30, load=Fraction(6)),
        cluster(2, (1, 7), 2, scaled_at=NOW - 30, load=Fraction(2)),
        cluster(3, (1, 4), 1),
    ]
    first = plan(rules(16), observed, assigned(observed, 16), NOW)
    second = plan(rules(16), applied(observed, first), following(first), NOW)

    assert maxima(first) == [7, 7, 2]
    assert second.next_writes() == ()


@pytest.mark.parametrize("stored", ["", "/", "x", "x/y", f"{HASH}", f"{HASH}/-3", f"{HASH}/" + "9" * 5000])
def test_any_stored_text_is_read(stored: str) -> None:
    """An unknown last division divides the bounds again."""
    observed = [cluster(1, (1, 6), 2), cluster(2, (1, 6), 2)]
    previous = replace(assigned(observed), assigned_for=stored)

    assert sum(maxima(plan(rules(20), observed, previous, NOW))) == 20


# -- members that are away -----------------------------------------------------------------------------------
def test_an_unreachable_cluster_holds_its_maximum() -> None:
    """Its bounds are those of the status, and it is never written."""
    observed = [
        cluster(1, (1, 4), 4, need=8),
        cluster(2, None, 4, reachable=False),
        cluster(3, (1, 4), 2),
    ]
    previous = assigned(observed, m2={"minimum": 1, "maximum": 4})
    found = plan(rules(), observed, previous, NOW)

    assert maxima(found) == [6, 4, 2]
    assert found.goals["m2"] == found.present["m2"]


def test_an_hpa_that_is_not_ours_is_never_written() -> None:
    """It counts with its own bounds."""
    observed = [cluster(1, (1, 6), 6, need=9), cluster(2, (2, 6), 3, foreign=True, need=9)]
    found = plan(rules(), observed, assigned(observed), NOW)

    assert bounds(found) == [(1, 6), (2, 6)]
    assert found.scales == {}


def test_the_share_of_a_lost_cluster_goes_to_the_others() -> None:
    """Its bounds stay in the plan, but count in no sum."""
    observed = [
        cluster(1, (2, 4), 4),
        cluster(2, (2, 4), 4, reachable=False, lost=True),
        cluster(3, (1, 4), 2),
    ]
    found = plan(rules(minimum=3), observed, assigned(observed), NOW)

    assert [found.goals[name].maximum for name in ("m1", "m3")] == [7, 5]  # type: ignore[union-attr]
    assert found.states["m2"].lost
    assert {one.cluster for one in found.next_writes()} == {"m1", "m3"}
    assert "m2: lost, so the share goes to the others" in found.steps[0].reason


def test_a_surplus_after_a_return_leaves_by_a_tenth_in_each_pass() -> None:
    """Thirty replicas run where twenty are allowed: 28, 26, 24, 22, 20."""
    observed = [cluster(number, (1, 10), 10) for number in (1, 2, 3)]
    previous = assigned(observed, 20, lost=["m3"])
    sums = []
    for passes in range(6):
        found = plan(rules(20), observed, previous, NOW + passes * MINUTE)
        sums.append(sum(maxima(found)))
        observed = [
            replace(one, state=replace(one.state, running=most))
            for one, most in zip(applied(observed, found), maxima(found), strict=True)
        ]
        previous = following(found)
        if passes == 0:
            assert found.exceeded == 8

    assert sums == [28, 26, 24, 22, 20, 20]


def test_a_cluster_that_came_back_just_now_is_failed_over_only_for_a_need() -> None:
    """Within 30 minutes of its return its share is held, until another cluster is at its end."""
    calm = [cluster(1, (1, 6), 2), cluster(2, (1, 6), 2, reachable=False, lost=True)]
    pinned = [cluster(1, (1, 6), 6, need=9), calm[1]]
    back = {"over_since": NOW - 10 * MINUTE}
    long_ago = {"over_since": NOW - 40 * MINUTE}

    assert plan(rules(), calm, assigned(calm, m2=back), NOW).next_writes() == ()
    assert maxima(plan(rules(), pinned, assigned(pinned, m2=back), NOW))[0] == 12
    assert maxima(plan(rules(), calm, assigned(calm, m2=long_ago), NOW))[0] == 12


def test_each_return_begins_the_thirty_minutes_again() -> None:
    """A cluster that comes and goes for hours moves its share once."""
    observed = [cluster(1, (1, 6), 2), cluster(2, (1, 6), 2, reachable=False, lost=True)]
    held = plan(rules(), observed, assigned(observed, m2={"over_since": NOW - 29 * MINUTE}), NOW)
    observed[1] = cluster(2, (1, 6), 2)
    back = plan(rules(), observed, following(held), NOW + MINUTE)

    assert back.next_writes() == ()
    assert back.states["m2"].over_since == NOW + MINUTE
    assert not back.states["m2"].away


# -- help ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("need", [8, None])
def test_without_scale_assist_the_bounds_are_left_alone(need: int | None) -> None:
    """Neither a pinned cluster nor pending pods change a bound."""
    observed = [cluster(1, (1, 6), 6, need=need), cluster(2, (1, 6), 2, pending=2)]
    found = plan(rules(assists=False), observed, assigned(observed, m2={"given": 3, "held": 4}), NOW)

    assert found.next_writes() == ()
    assert "scaleAssist is false, so the bounds stay" in found.steps[0].reason


def test_help_raises_a_minimum_and_no_maximum() -> None:
    """The cluster that helps gets a higher minimum in the same pass."""
    observed = [cluster(1, (1, 4), 4, high=4, need=6), cluster(2, (1, 8), 3)]
    found = plan(rules(), observed, assigned(observed), NOW)

    assert bounds(found) == [(1, 4), (5, 8)]
    assert [(step.step, step.before, step.after) for step in found.steps] == [
        ("distribute", 12, 12),
        ("assist", 2, 6),
    ]


def test_a_cluster_without_an_hpa_helps_when_no_other_can() -> None:
    """It gets an HPA and replicas, and loses both after ten minutes in which nobody needed it."""
    observed = [
        cluster(1, (1, 4), 4, high=4, need=6),
        cluster(2, (1, 8), 2, capacity=2),
        cluster(3, None, 0, capacity=9),
    ]
    helping = plan(rules(), observed, assigned(observed), NOW)

    assert helping.goals["m3"] is not None
    assert helping.goals["m3"].maximum >= 2
    assert helping.scales["m3"] == helping.goals["m3"].minimum
    assert sum(maxima(helping)) == 12

    observed = applied(observed, helping)
    observed = [
        replace(one, state=replace(one.state, need=None, running=min(one.state.running, 3), high=None))
        for one in observed
    ]
    previous, now = following(helping), NOW
    leaving = helping
    for _ in range(30):
        now += MINUTE
        leaving = plan(rules(), observed, previous, now)
        observed = [
            replace(one, state=replace(one.state, running=min(one.state.running, 1)))
            if one.state.cluster == "m3"
            else one
            for one in applied(observed, leaving)
        ]
        previous = following(leaving)
        if leaving.goals["m3"] is None:
            break

    assert leaving.goals["m3"] is None
    assert leaving.scales == {"m3": 0}
    assert now - NOW >= 10 * MINUTE
    assert sum(maxima(leaving)) == 12


def test_a_spare_cluster_that_does_not_answer_keeps_its_bounds() -> None:
    """It leaves only after it answers again."""
    observed = [cluster(1, (1, 8), 2), cluster(2, (1, 4), 1, reachable=False)]
    spare = {"spare": True, "idle_since": NOW - 3600}
    found = plan(rules(), observed, assigned(observed, m2=spare), NOW)

    assert found.goals["m2"] == Bounds(minimum=1, maximum=4)
    assert found.states["m2"].minimum == 1


def test_overflow_clusters_come_after_all_others() -> None:
    """They get no HPA before a cluster lacks replicas, the first rank first, and leave last in, first out."""
    observed = [
        cluster(1, None, 2),
        cluster(2, None, 0),
        cluster(3, None, 0, overflow=2),
        cluster(4, None, 0, overflow=1),
    ]
    first = plan(rules(), observed, Previous(states={}), NOW)
    observed = applied(observed, first)
    full = replace(observed[0], state=replace(observed[0].state, running=6, pending=4, capacity=6))
    other = replace(observed[1], state=replace(observed[1].state, running=1, high=1))
    second = plan(rules(), [full, other, *observed[2:]], following(first), NOW + MINUTE)

    assert maxima(first)[2:] == [0, 0]
    assert sum(maxima(first)) == 12
    assert second.goals["m3"] is None
    assert second.goals["m4"] is not None
    assert second.states["m4"].spare


def test_an_overflow_cluster_that_runs_replicas_is_spare_from_the_start() -> None:
    """So its HPA goes once it is not needed."""
    found = plan(rules(), [cluster(1, None, 2), cluster(2, None, 3, overflow=1)], Previous(states={}), NOW)

    assert found.goals["m2"] is not None
    assert found.states["m2"].spare


# -- zero and holds ------------------------------------------------------------------------------------------
def test_a_lost_cluster_wakes_the_clusters_at_zero() -> None:
    """Its load goes to the others, and a resting HPA starts nothing by itself."""
    observed = [cluster(1, (1, 6), 3, reachable=False, lost=True), cluster(2, (1, 6), 0)]
    found = plan(rules(scales_to_zero=True), observed, assigned(observed, m2={"zero_since": NOW - 900}), NOW)

    assert found.scales == {"m2": 1}
    assert found.states["m2"].zero_since is None


def test_replicas_that_come_back_at_zero_are_removed_again() -> None:
    """A failed write of the scale is repeated in the next pass."""
    observed = [cluster(1, (1, 6), 2), cluster(2, (1, 6), 1)]
    found = plan(rules(scales_to_zero=True), observed, assigned(observed, m2={"zero_since": NOW - 60}), NOW)

    assert found.scales == {"m2": 0}


def test_clusters_at_zero_start_when_scaling_to_zero_is_switched_off() -> None:
    """Nothing else would start them."""
    observed = [cluster(1, (1, 6), 2), cluster(2, (2, 6), 0)]
    found = plan(rules(), observed, assigned(observed, m2={"zero_since": NOW - 900}), NOW)

    assert found.scales == {"m2": 2}


def test_priorities_have_a_step_for_holds() -> None:
    """Every step has a reason, also one that changes nothing."""
    observed = [cluster(1, (1, 6), 2, priority=2), cluster(2, (1, 6), 1, priority=1)]
    found = plan(rules(policy=PRIORITIZED, scales_to_zero=True), observed, assigned(observed), NOW)

    assert [step.step for step in found.steps] == ["distribute", "assist", "hold", "zero"]
    assert all(step.reason for step in found.steps)
