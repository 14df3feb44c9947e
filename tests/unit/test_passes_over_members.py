"""A whole pass of mode Distributed: which bounds and scales it writes, when, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from fedhpa.api.assignment_policies import DUPLICATED, PRIORITIZED
from fedhpa.api.hold import DOWN, Hold
from fedhpa.assignment import (
    NO_STATE,
    Bounds,
    Course,
    Member,
    Outcome,
    Plan,
    Previous,
    Result,
    plan,
)
from tests.support.distributed import (
    HASH,
    NOW,
    applied,
    assigned,
    bounds,
    hpa,
    maxima,
    named,
    rules,
)

MINUTE = 60
FRESH = Previous(states={})


def with_states(previous: Previous, **states: dict[str, Any]) -> Previous:
    """The pass before, with further fields of some clusters."""
    found = {name: structs.replace(state, **states.get(name, {})) for name, state in previous.states.items()}
    return replace(previous, states=found)


# -- first bounds --------------------------------------------------------------------------------------------
def test_the_first_pass_assigns_all_bounds_and_starts_empty_clusters() -> None:
    """A cluster without replicas starts with its minimum; running ones are scaled by their HPAs."""
    members = named([hpa(None, 1), hpa(None, 4), hpa(None, 20), hpa(None, 0)])
    made = plan(rules(10, minimum=3, policy=DUPLICATED), members, FRESH, NOW)

    assert bounds(made) == [(3, 10)] * 4
    assert made.scales == {"m4": 3}
    assert made.surplus == 0
    assert [step.step for step in made.steps] == ["initial"]


def test_a_cluster_without_replicas_is_started_whoever_stopped_it() -> None:
    """The HPA of a cluster at 0 rests for ever. A first write may fail, and somebody may scale by hand."""
    members = named([hpa((1, 6), 2), hpa((2, 6), 0)])
    made = plan(rules(), members, assigned(members), NOW)

    assert made.scales == {"m2": 2}


def test_a_workload_that_may_be_at_zero_begins_there() -> None:
    """Its HPAs rest until a metric asks for replicas. With a minReplicas they are started."""
    members = named([hpa(None, 0), hpa(None, 0)])
    at_zero = plan(rules(minimum=0, scales_to_zero=True), members, FRESH, NOW)
    started = plan(rules(minimum=2, scales_to_zero=True), members, FRESH, NOW)

    assert at_zero.scales == {}
    assert [state.zero_since for state in at_zero.left.states.values()] == [NOW, NOW]
    assert started.scales == {"m1": 1, "m2": 1}


def test_a_lost_record_keeps_the_bounds_of_the_members() -> None:
    """The bounds in the HPAs stay where they are."""
    members = named([hpa((1, 9), 4), hpa((1, 3), 2)])
    made = plan(rules(), members, FRESH, NOW)

    assert made.next_writes() == ()
    assert made.left.assigned_for == f"{HASH}/12"


def test_a_cluster_that_was_away_gets_its_first_bounds_when_it_answers() -> None:
    """A candidate that nobody has reached yet has no bounds to keep, nor has one whose HPA was not ours."""
    for unable in (hpa(None, 0, answers=False), hpa(None, 1, answers=False, foreign=True, maximum=1)):
        members = named([hpa(None, 2), unable])
        first = plan(rules(), members, FRESH, NOW)
        members = [applied(members, first)[0], *named([hpa(None, 2), hpa(None, unable.running)])[1:]]
        second = plan(rules(assigned_for="m1 and m2"), members, first.left, NOW + MINUTE)

        assert first.goals["m1"] is not None
        assert first.left.states["m2"] == NO_STATE
        assert second.goals["m2"] is not None


def test_copies_above_the_maximum_are_no_surplus() -> None:
    """Under Duplicated each cluster may run all of maxReplicas, so nothing waits to go."""
    members = named([hpa((1, 12), 9), hpa((1, 12), 8)])
    made = plan(rules(policy=DUPLICATED), members, assigned(members), NOW)

    assert made.steps[0].reason == "no cluster asks for another division, so the bounds stay"
    assert made.left.course == Course(written=made.left.course.written)


# -- quiet ---------------------------------------------------------------------------------------------------
def test_a_quiet_world_writes_nothing_and_says_so() -> None:
    """Bounds that another division would change stay as they are."""
    members = named([hpa((1, 10), 2), hpa((1, 2), 1)])
    made = plan(rules(), members, assigned(members, course=Course(written=NOW - 60)), NOW)

    assert made.next_writes() == ()
    assert made.steps[0].reason == "no cluster asks for another division, so the bounds stay"


def test_the_rest_is_divided_by_policy_ten_minutes_after_the_last_write() -> None:
    """Only where a cluster has no room above what it runs, and enough moves."""
    tight = named([hpa((1, 9), 2), hpa((1, 3), 3)])
    roomy = named([hpa((1, 9), 2), hpa((1, 3), 2)])
    little = named([hpa((1, 6), 5), hpa((1, 6), 6)])

    def after(seconds: float, members: list[Member]) -> list[int]:
        return maxima(plan(rules(), members, assigned(members, course=Course(written=NOW - seconds)), NOW))

    assert after(599, tight) == [9, 3]
    assert after(600, tight) == [6, 6]
    assert after(600, roomy) == [9, 3]
    assert after(600, little) == [6, 6]


def test_a_pinned_cluster_gets_its_need_at_once() -> None:
    """The reason names the cluster. Room that others do not use goes to it."""
    members = named([hpa((1, 4), 4, need=8), hpa((1, 4), 1), hpa((1, 4), 2)])
    made = plan(rules(), members, assigned(members), NOW)

    assert maxima(made) == [8, 2, 2]
    assert made.steps[0].reason == "m1: at its maximum of 4 and needs 8"


def test_a_maximum_that_was_edited_in_the_member_is_written_back() -> None:
    """The record says what was assigned."""
    members = named([hpa((1, 6), 2), hpa((1, 6), 2)])
    previous = assigned(members)
    members[0] = replace(members[0], written=Bounds(minimum=1, maximum=40))
    made = plan(rules(), members, previous, NOW)

    assert [(one.cluster, one.after) for one in made.next_writes()] == [("m1", Bounds(minimum=1, maximum=6))]


def test_an_hpa_that_somebody_deleted_comes_back() -> None:
    """It gets the bounds that it had."""
    members = named([hpa((1, 6), 2), hpa((1, 6), 2)])
    previous = assigned(members)
    members[1] = replace(members[1], written=None)

    assert bounds(plan(rules(), members, previous, NOW)) == [(1, 6), (1, 6)]


def test_a_failed_write_is_made_by_the_next_pass() -> None:
    """Also where nothing else asks for one."""
    members = named([hpa((1, 9), 2), hpa((1, 3), 3, need=6)])
    made = plan(rules(), members, assigned(members), NOW)
    (lowered,) = made.next_writes()
    refused = made.after([Outcome(write=lowered, result=Result.REFUSED)])
    calm = named([hpa((1, 9), 2), hpa((1, 3), 3)])
    again = plan(rules(), calm, refused, NOW + MINUTE)

    assert maxima(made) == [6, 6]
    assert refused.course.unconfirmed == ("m1",)
    assert "a write of the last pass failed" in again.steps[0].reason


def test_a_write_that_nobody_confirmed_is_taken_back() -> None:
    """A Work on the hub may still have the lower bounds, though member and goal have the higher ones."""
    members = named([hpa((1, 10), 10, now=2), hpa((1, 2), 2, need=4)])
    made = plan(rules(), members, assigned(members), NOW)
    late = made.after([Outcome(write=one, result=Result.UNKNOWN) for one in made.next_writes()])
    busy = named([hpa((1, 10), 10, need=18), hpa((1, 2), 2, need=4)])
    again = plan(rules(), busy, late, NOW + MINUTE)
    silent = plan(rules(), [replace(busy[0], answers=False), busy[1]], late, NOW + MINUTE)
    (write,) = again.next_writes()

    assert bounds(made) != bounds(again) == [(1, 10), (1, 2)]
    assert (write.cluster, write.before, write.after) == ("m1", *[Bounds(minimum=1, maximum=10)] * 2)
    assert again.next_writes([Outcome(write=write, result=Result.CONFIRMED)]) == ()
    assert again.after([Outcome(write=write, result=Result.CONFIRMED)]).course.unconfirmed == ()
    assert again.after([Outcome(write=write, result=Result.UNKNOWN)]).course.unconfirmed == ("m1",)
    assert silent.next_writes() == ()
    assert silent.after([]).course.unconfirmed == ("m1",)


def test_of_an_unknown_outcome_the_higher_maximum_is_remembered() -> None:
    """The member may have it."""
    members = named([hpa((1, 8), 2), hpa((1, 4), 4, need=9)])
    made = plan(rules(), members, assigned(members), NOW)
    lowered = made.next_writes()
    outcomes = [Outcome(write=one, result=Result.UNKNOWN) for one in lowered]
    states = made.after(outcomes).states

    assert [one.cluster for one in lowered] == ["m1"]
    assert (states["m1"].maximum, states["m2"].maximum) == (8, 4)
    assert made.next_writes(outcomes) == ()


def test_pinned_clusters_rise_first() -> None:
    """Room that a failed write leaves scarce goes to them."""
    members = named([hpa((1, 8), 2), hpa((1, 3), 3, need=7), hpa((1, 1), 1), hpa((1, 4), 2)])
    made = plan(rules(18), members, assigned(members, 16), NOW)
    first = made.next_writes()
    failed = [Outcome(write=one, result=Result.REFUSED) for one in first]
    raised = {one.cluster: one.after for one in made.next_writes(failed)}

    assert raised["m2"] is not None
    assert raised["m2"].maximum >= 5


# -- maxReplicas changes -------------------------------------------------------------------------------------
def test_a_lowered_maximum_lowers_what_runs_at_once() -> None:
    """It is the one thing that removes ready pods by itself."""
    members = named([hpa((1, 6), 6), hpa((1, 6), 6), hpa((1, 6), 6)])
    made = plan(rules(10), members, assigned(members, 18), NOW)

    assert sorted(maxima(made)) == [3, 3, 4]
    assert "maxReplicas was 18, and is 10" in made.steps[0].reason


def test_a_minimum_is_never_above_its_maximum() -> None:
    """The divided minimum stays in the state, so it comes back when the maximum does."""
    members = named([hpa((5, 6), 5), hpa((5, 6), 5)])
    made = plan(rules(6, minimum=6), members, assigned(members, 12), NOW)

    assert bounds(made) == [(3, 3), (3, 3)]
    assert [state.minimum for state in made.left.states.values()] == [5, 5]


def test_a_raised_maximum_is_divided_at_once() -> None:
    """No cluster needs to be pinned for it."""
    members = named([hpa((1, 6), 2), hpa((1, 6), 2)])

    assert maxima(plan(rules(20), members, assigned(members, 12), NOW)) == [10, 10]


@pytest.mark.parametrize("stored", ["", "/", "x", "x/y", f"{HASH}", f"{HASH}/-3", f"{HASH}/" + "9" * 5000])
def test_any_stored_text_is_read(stored: str) -> None:
    """An unknown last division divides the bounds again."""
    members = named([hpa((1, 6), 2), hpa((1, 6), 2)])
    previous = replace(assigned(members), assigned_for=stored)

    assert sum(maxima(plan(rules(20), members, previous, NOW))) == 20


# -- members that are away -----------------------------------------------------------------------------------
def away(bounds: tuple[int, int], running: int, seconds: float = 0.0, **fields: Any) -> Member:
    """A cluster that has not answered for some seconds."""
    return hpa(bounds, running, answers=False, missing_for=seconds, **fields)


def test_a_missing_cluster_is_waited_for_and_then_counts_no_more() -> None:
    """After a minute a pinned survivor gets what it needs. The status says by how much M may be exceeded."""

    def after(seconds: float) -> Plan:
        members = named([hpa((1, 4), 4, need=8), away((1, 4), 4, seconds), hpa((1, 4), 2)])
        return plan(rules(), members, assigned(members), NOW)

    assert maxima(after(30)) == [6, 4, 2]
    assert maxima(after(60)) == [8, 4, 2]
    assert after(60).surplus == 2
    assert [one.cluster for one in after(60).next_writes()] == ["m3"]


def test_a_cluster_whose_hpa_is_not_ours_counts_what_it_runs() -> None:
    """It is never written, and ours may grow beside it."""
    foreign = hpa(None, 3, answers=False, foreign=True, maximum=3, written=Bounds(minimum=1, maximum=100))
    members = named([hpa((1, 6), 6, need=9), foreign])
    made = plan(rules(), members, assigned(members), NOW)

    assert bounds(made)[0] == (1, 9)
    assert made.goals["m2"] == foreign.present == Bounds(minimum=0, maximum=3)
    assert made.left.states["m2"] == NO_STATE
    assert made.scales == {}


@pytest.mark.parametrize("by_label", [True, False], ids=["label", "deletion"])
def test_a_hand_over_removes_no_replica(by_label: bool) -> None:
    """An HPA of somebody else with a maximum of 100 leaves room for others, and becomes ours as it runs."""
    tenant = Bounds(minimum=4, maximum=100)
    theirs = hpa(None, 4, answers=False, foreign=True, maximum=4, written=tenant)
    members = named([theirs, hpa(None, 2), hpa(None, 2)])
    first = plan(rules(minimum=3), members, FRESH, NOW)
    handed = replace(theirs, cluster="m1", answers=True, foreign=False, maximum=0)
    handed = replace(handed, written=tenant if by_label else None)
    second = plan(rules(minimum=3), [handed, *applied(members, first)[1:]], first.left, NOW + MINUTE)

    assert maxima(first)[1:] == [4, 4]
    assert all(most >= runs for most, runs in zip(maxima(second), (4, 2, 2), strict=True))
    assert sum(maxima(second)) == 12


def test_the_share_of_a_lost_cluster_goes_to_the_others() -> None:
    """Its bounds stay in the plan, but count in no sum. Others hold its part of minReplicas."""
    members = named([hpa((2, 4), 4), away((2, 4), 4, 400, lost=True), hpa((1, 4), 2)])
    made = plan(rules(minimum=5), members, assigned(members), NOW)

    assert sum(maxima(made)) - 4 == 12
    assert made.left.states["m2"].lost
    assert {one.cluster for one in made.next_writes()} == {"m1", "m3"}
    assert sum(least for least, _ in (each for each in bounds(made) if each)) - 2 >= 5
    assert "m2: lost, so its share goes to the others" in made.steps[0].reason


def test_a_cluster_that_is_back_has_what_it_runs() -> None:
    """The maxima follow down as members scale down; after ten minutes a step a minute goes."""
    members = named([hpa((1, 10), 10), hpa((1, 10), 10), hpa((1, 10), 10, back=True)])
    previous, sums = assigned(members, 20), []
    for minute in range(18):
        made = plan(rules(20), members, previous, NOW + minute * MINUTE)
        members, previous = applied(members, made), made.left
        sums.append(sum(maxima(made)))

    assert sums[:10] == [30] * 10
    assert sums[10:] == [28, 26, 24, 22, 20, 20, 20, 20]


def test_maxima_above_the_maximum_follow_what_runs() -> None:
    """A surplus of maxima goes as soon as what runs leaves room for it."""
    members = named([hpa((1, 8), 6), hpa((1, 12), 10), hpa((1, 12), 10)])
    made = plan(rules(30), members, assigned(members, 30, course=Course(written=NOW)), NOW)

    assert sum(maxima(made)) == 30
    assert "all maxima add up to 32" in made.steps[0].reason


def test_idle_replicas_of_a_surplus_go_first() -> None:
    """A cluster whose metrics ask for less than it runs gives before one that needs all."""
    members = named([hpa((1, 10), 10, now=6), hpa((1, 10), 10, back=True)])
    course = Course(written=NOW, step_at=NOW)
    made = plan(rules(16), members, assigned(members, 16, course=course), NOW)

    assert maxima(made) == [9, 10]


def test_without_scale_assist_the_bounds_are_left_alone() -> None:
    """Neither a pinned cluster nor a Stuck one changes a bound."""
    members = named([hpa((1, 6), 6, need=9), hpa((1, 6), 4, ready=2, membership="Stuck")])
    made = plan(rules(assists=False), members, assigned(members), NOW)

    assert [one for one in made.next_writes() if one.cluster == "m1"] == []


# -- Stuck ---------------------------------------------------------------------------------------------------
def test_a_stuck_cluster_keeps_what_is_ready_and_one_more() -> None:
    """The rest goes to clusters that can take it, and comes back by need only."""
    members = named([hpa((1, 8), 7, ready=5, membership="Stuck"), hpa((1, 4), 4, need=6)])
    made = plan(rules(), members, assigned(members), NOW)
    again = plan(rules(), applied(members, made), made.left, NOW + MINUTE)

    assert maxima(made) == [6, 6]
    assert again.next_writes() == ()


def test_what_a_stuck_cluster_cannot_hold_of_its_minimum_others_hold() -> None:
    """As far as they run it, or maxReplicas leaves room. It ends with its cause."""
    members = named([hpa((6, 8), 6, ready=2, membership="Stuck"), hpa((1, 4), 2)])
    made = plan(rules(minimum=7), members, assigned(members), NOW)
    ready = named([hpa((6, 8), 6), hpa((1, 4), 4)])
    after = plan(rules(minimum=7), ready, made.left, NOW + MINUTE)

    assert bounds(made) == [(3, 3), (4, 9)]
    assert [state.minimum for state in made.left.states.values()] == [6, 1]
    assert [each and each[0] for each in bounds(after)] == [6, 1]


# -- leaving -------------------------------------------------------------------------------------------------
def leaving(running: int, bounds: tuple[int, int], **fields: Any) -> Member:
    """A cluster that leaves."""
    return replace(hpa(bounds, running, membership="Leaving", **fields), minimum=0)


def test_a_leaving_cluster_gives_as_many_as_are_ready_elsewhere() -> None:
    """The others are raised by a step first, and the leaving HPA goes last."""
    members = named([leaving(4, (1, 4)), hpa((1, 8), 8)])
    previous, ready, steps = assigned(members), 8, []
    for minute in range(12):
        made = plan(rules(), members, previous, NOW + minute * MINUTE)
        steps.append((bounds(made), made.scales))
        members, previous = applied(members, made), made.left
        assert sum(one.ready for one in members) >= 11
        members[1] = replace(members[1], ready=min(members[1].running, ready + 1))
        ready = members[1].ready
        if made.goals["m1"] is None:
            break

    assert steps[0] == ([(1, 4), (9, 9)], {})
    assert steps[1] == ([(1, 3), (10, 10)], {})
    assert steps[-1] == ([None, (12, 12)], {"m1": 0})
    assert "m1 leaves: 0 of 1 replicas stay" in made.steps[1].reason


def test_a_leaving_cluster_without_room_elsewhere_waits() -> None:
    """Nothing is torn down."""
    members = named([leaving(4, (1, 4)), hpa((1, 8), 8, high=8)])
    made = plan(rules(), members, assigned(members), NOW)

    assert maxima(made) == [4, 8]
    assert made.scales == {}


def test_no_step_begins_in_a_rollout() -> None:
    """The cluster's pods have two templates."""
    members = named([leaving(4, (1, 4), rolling=True), hpa((1, 8), 4), hpa((1, 8), 8)])
    made = plan(rules(20), members, assigned(members, 20, course=Course(size=12)), NOW)

    assert maxima(made)[0] == 4


def test_under_duplicated_a_leaving_cluster_shrinks_by_a_step_a_minute() -> None:
    """Nothing grows for it."""
    members = named([leaving(4, (4, 20)), hpa((2, 20), 4)])
    previous, sizes = assigned(members, 20), []
    duplicated = rules(20, minimum=2, policy=DUPLICATED)
    for half_minute in range(6):
        made = plan(duplicated, members, previous, NOW + half_minute * MINUTE / 2)
        members, previous = applied(members, made), made.left
        sizes.append(maxima(made)[0])

    assert sizes == [2, 2, 0, 0, 0, 0]
    assert bounds(made)[1] == (2, 20)


# -- clusters without an HPA ---------------------------------------------------------------------------------
def test_a_cluster_without_an_hpa_enters_for_a_need_and_leaves_after_ten_minutes() -> None:
    """No running replica of another cluster makes room for it."""
    members = named([hpa((1, 4), 4, high=4, need=6), hpa((1, 8), 2, high=2), hpa(None, 0)])
    made = plan(rules(), members, assigned(members), NOW)
    full = named([hpa((1, 4), 4, high=4, need=6), hpa((1, 8), 8, high=8), hpa(None, 0)])

    assert bounds(made)[2] is not None
    assert made.scales == {"m3": 1}
    assert made.left.states["m3"].minimum == 0
    assert plan(rules(), full, assigned(full), NOW).goals["m3"] is None

    members, previous = applied(members, made), made.left
    members = [replace(one, pinned_for=None, running=min(one.running, 2), high=None) for one in members]
    for minute in range(1, 30):
        made = plan(rules(), members, previous, NOW + minute * MINUTE)
        members, previous = applied(members, made), made.left
        if made.goals["m3"] is None:
            break

    assert minute == 11
    assert made.scales == {"m3": 0}


def test_overflow_clusters_come_after_all_others() -> None:
    """They get no HPA before a cluster lacks replicas, the first rank first."""
    members = named([hpa(None, 2), hpa(None, 0), hpa(None, 0, overflow=2), hpa(None, 0, overflow=1)])
    first = plan(rules(), members, FRESH, NOW)
    members = applied(members, first)
    full = replace(members[0], running=6, ready=3, membership="Stuck", written=members[0].written)
    other = replace(members[1], running=1, high=1)
    second = plan(rules(), [full, other, *members[2:]], first.left, NOW + MINUTE)

    assert maxima(first)[2:] == [0, 0]
    assert sum(maxima(first)) == 12
    assert second.goals["m3"] is None
    assert second.goals["m4"] is not None
    assert second.left.states["m4"].minimum == 0


# -- zero ----------------------------------------------------------------------------------------------------
def test_a_lost_cluster_wakes_the_clusters_at_zero() -> None:
    """Its load goes to the others, and a resting HPA starts nothing by itself."""
    members = named([away((1, 6), 3, 400, lost=True), hpa((1, 6), 0)])
    previous = with_states(assigned(members), m2={"zero_since": NOW - 900})
    made = plan(rules(scales_to_zero=True), members, previous, NOW)

    assert made.scales == {"m2": 1}
    assert made.left.states["m2"].zero_since is None


def test_replicas_that_come_back_at_zero_are_removed_again() -> None:
    """A failed write of the scale is repeated in the next pass."""
    members = named([hpa((1, 6), 2), hpa((1, 6), 1)])
    previous = with_states(assigned(members), m2={"zero_since": NOW - 60})

    assert plan(rules(scales_to_zero=True), members, previous, NOW).scales == {"m2": 0}


def test_clusters_at_zero_start_when_scaling_to_zero_is_switched_off() -> None:
    """Nothing else would start them."""
    members = named([hpa((1, 6), 2), hpa((2, 6), 0)])
    previous = with_states(assigned(members), m2={"zero_since": NOW - 900})

    assert plan(rules(), members, previous, NOW).scales == {"m2": 2}


def test_a_wave_after_a_zero_cycle_is_shared_again() -> None:
    """Clusters that come back have their minimum, and get room as they need it."""
    members = named([hpa((1, 1), 0), hpa((1, 22), 22, need=24), hpa((1, 1), 0)])
    at_zero = {"zero_since": NOW - 900}
    previous = with_states(assigned(members, 24), m1=at_zero, m3=at_zero)
    made = plan(rules(24, scales_to_zero=True), members, previous, NOW)

    assert made.scales == {"m1": 1, "m3": 1}
    assert "comes back from 0" in made.steps[-1].reason


# -- holds ---------------------------------------------------------------------------------------------------
def test_a_hold_keeps_what_runs() -> None:
    """A lowered maxReplicas acts when the hold ends."""
    members = named([hpa((1, 6), 6), hpa((1, 6), 6)])
    held = rules(8, hold=Hold(direction=DOWN, place="shop"))
    made = plan(held, members, assigned(members), NOW)

    assert maxima(made) == [6, 6]
    assert made.surplus == 4
    assert [step.step for step in made.steps] == ["distribute", "hold"]


def test_every_step_has_a_reason() -> None:
    """Also one that changes nothing."""
    members = named([hpa((1, 6), 2, priority=2), hpa((1, 6), 1, priority=1)])
    made = plan(rules(policy=PRIORITIZED, scales_to_zero=True), members, assigned(members), NOW)

    assert [step.step for step in made.steps] == ["distribute", "zero"]
    assert all(step.reason for step in made.steps)
