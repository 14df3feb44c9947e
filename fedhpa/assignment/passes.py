"""One pass of mode Distributed over one FederatedHPA.

Source: docs/explanation/distributed.md, "One pass".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from msgspec import structs

from fedhpa.api.texts import listed
from fedhpa.assignment.clusters import (
    NO_STATE,
    Bounds,
    ClusterState,
    Member,
    PlanStep,
    Rules,
    release_step,
)
from fedhpa.assignment.divide import Division, by_policy, divide, limit_of
from fedhpa.assignment.minima import NO_MOVE, Move, held_minima, initial, leave
from fedhpa.assignment.plan import Goals, Plan, Previous, under_hold
from fedhpa.assignment.zero import zero

# The rest is divided by policy again so long after the last write. A spare cluster that nobody needs leaves,
# and a surplus that members do not scale down goes, after the same time.
PERIOD_SECONDS: Final = 10 * 60
# A surplus, or a copy that leaves, goes by one step in this time.
_STEP_SECONDS: Final = 60
# People read reasons, and a status keeps them, so they name only so many clusters.
_MAX_NAMED: Final = 5
# Replicas of a workload are below 2^31.
_ALL: Final = 2**31 - 1
# The text comes from the record, which another program may have written.
_MAX_DIGITS: Final = 10


class _Pass:
    """One pass. `members` become those with the minima of this pass; those that are lost stay apart."""

    def __init__(self, rules: Rules, members: Sequence[Member], previous: Previous, now: float) -> None:
        self._rules, self._previous, self._now = rules, previous, now
        self._all = sorted(members, key=lambda one: one.cluster)
        self._members = [one for one in self._all if not one.lost]
        # A step is due only while something asks for it.
        self._course = structs.replace(previous.course, step_at=None)
        self._divides = not rules.policy.copies
        self._step = release_step(rules.maximum)
        division, _, total = previous.assigned_for.partition("/")
        self._total = int(total) if total.isdecimal() and len(total) <= _MAX_DIGITS else None
        self._anew = "" if division else "the bounds are assigned for the first time"
        if division and division != rules.assigned_for:
            self._anew = "minReplicas, the policy, the preferences or the candidate clusters changed"
        self._maxima: Mapping[str, int] | None = None
        self._reasons = [self._anew] if self._anew else []

    def plan(self, move: Move) -> Plan:
        """Returns the result of the pass. `move` is a step that clusters do not leave by."""
        rules, previous, before = self._rules, self._previous, sum(one.maximum for one in self._members)
        lost = [one for one in self._all if one.lost]
        self._set_minima(move.floors)
        if not move.stays:
            # A copy of the workload shrinks where its cluster leaves.
            shrinks = not self._divides and any(one.leaving for one in self._members) and self._steps(0)
            move = leave(self._members, rules, self._course.size, self._step, shrinks=shrinks)
        self._course = structs.replace(self._course, size=move.size)
        floors = held_minima([*self._members, *lost], rules)
        floors |= {name: max(least, floors.get(name, 0)) for name, least in move.floors.items()}
        found = self._divided(floors, move.stays)
        gone = {one.cluster: 0 for one in self._members if one.leaving and one.answers}
        maxima = {**found.maxima, **gone, **move.stays}
        states, why_zero = zero(rules, self._members, previous.states, maxima, found.unmet, self._now)
        members = (*self._members, *lost)
        goals = {one.cluster: self._goal(one, maxima.get(one.cluster, 0), floors) for one in members}
        scales = self._scales(goals, states)
        changes = scales or any(goals[one.cluster] != one.present for one in members)
        if changes or self._course.written is None:
            self._course = structs.replace(self._course, written=self._now)
        reason = _sentence(self._reasons or ["no cluster asks for another division, so the bounds stay"])
        steps = [PlanStep("initial" if self._anew else "distribute", before, sum(maxima.values()), reason)]
        steps += self._move_steps(move.stays)
        if rules.scales_to_zero:
            running = sum(one.running for one in self._members)
            change = sum(scales[one.cluster] - one.running for one in self._members if one.cluster in scales)
            reason = _sentence(why_zero or ["no cluster goes to 0 or comes back"])
            steps.append(PlanStep("zero", running, running + change, reason))
        left = Previous(
            states={
                one.cluster: self._state(one, goals[one.cluster], states, found.unmet) for one in members
            },
            course=self._course,
            assigned_for=f"{rules.assigned_for}/{rules.maximum}",
        )
        return Plan(
            rules=rules,
            members=members,
            previous=previous,
            goals=goals,
            scales=scales,
            left=left,
            unmet=found.unmet,
            cordoned_grow=found.cordoned_grow,
            steps=tuple(steps),
        )

    def _set_minima(self, floors: Mapping[str, int]) -> None:
        """Gives the members their minima of this pass, and drops spare clusters that nobody needs.

        One that a move is to fill gets an HPA.
        """
        rules = self._rules
        if self._anew:
            # A lost cluster keeps its part of minReplicas, and nothing of maxReplicas.
            everywhere = [replace(one, maximum=0) if one.lost else one for one in self._all]
            first = initial(rules, everywhere)
            if not any(one.leaving and one.running for one in self._members):
                self._maxima = first.maxima
            self._members = [replace(one, minimum=first.minima[one.cluster]) for one in self._members]
            return
        # A cluster that runs replicas has an HPA, whoever started them, if there is room beside the others.
        room = rules.maximum - sum(one.serving for one in self._members if one.has_hpa)
        for index, one in enumerate(self._members):
            fits = 0 < one.running <= room and one.answers
            idle = self._now - (self._before(one).idle_since or self._now)
            if (fits or floors.get(one.cluster)) and not (one.has_hpa or one.leaving or one.high == 0):
                self._members[index] = replace(one, minimum=0)
                room -= one.running
            elif one.minimum == 0 and one.answers and idle >= PERIOD_SECONDS:
                self._reasons.append(f"{one.cluster}: not needed for ten minutes, so its HPA goes")
                self._members[index] = replace(one, minimum=None)

    def _before(self, one: Member) -> ClusterState:
        return self._previous.states.get(one.cluster, NO_STATE)

    def _divided(self, floors: Mapping[str, int], stays: Mapping[str, int]) -> Division:
        """Returns the maxima: those of a new division if it is due, else those that are assigned."""
        rules, members = self._rules, self._members
        now = Division(
            maxima={one.cluster: one.maximum if one.has_hpa or not one.answers else 0 for one in members}
        )
        if self._maxima is not None:
            # Nothing runs yet.
            return replace(now, maxima={**now.maxima, **self._maxima, **stays})
        most = self._ceiling(stays)
        triggers = list(self._triggers(stays))
        written = self._course.written
        due = rules.assists and self._divides and (written is None or self._now - written >= PERIOD_SECONDS)
        # If nobody lacks anything, another division could only be worth it by policy.
        lacks = any(one.need is not None or one.membership for one in members)
        asks = lacks or triggers or self._reasons or (due and any(map(_is_tight, members)))
        if self._divides and not asks:
            return now

        def found(members: Sequence[Member], *, keep: bool) -> Division:
            return divide(rules, members, keep=keep, floors=floors, fixed=stays, most=most)

        # The first division is not complete before each HPA was written once.
        begins = not self._previous.assigned_for and any(one.has_hpa and not one.maximum for one in members)
        kept_rest = found(members, keep=not begins)
        if kept_rest.unmet and kept_rest.room and rules.assists and (spare := self._entering()):
            self._reasons.append(f"{spare}: gets an HPA, because others need {kept_rest.unmet} more replicas")
            self._members = members = [
                replace(one, minimum=0, load=Fraction(kept_rest.unmet), pinned_for=float(PERIOD_SECONDS))
                if one.cluster == spare
                else one
                for one in members
            ]
            return found(members, keep=True)
        self._reasons += triggers
        if not self._divides or self._reasons:
            return kept_rest
        if due:
            anew = found(members, keep=False)
            if self._is_worth(anew.maxima):
                self._reasons.append("for ten minutes nothing was written, so the rest is divided by policy")
                return anew
        return replace(kept_rest, maxima=now.maxima)

    def _entering(self) -> str:
        """Returns the first cluster without an HPA, by policy, that may get one; "" without one."""
        able = [
            one
            for one in self._members
            if one.answers and not one.has_hpa and not one.membership and one.high != 0 and not one.running
        ]
        able = [one for one in able if one.overflow == min(each.overflow for each in able)]
        if not able:
            return ""
        found = by_policy(1, able, self._rules, [0] * len(able), [1] * len(able))
        return next(name for name, number in found.items() if number)

    def _ceiling(self, stays: Mapping[str, int]) -> int:
        """Returns how many of the replicas that run may stay, also above maxReplicas.

        More than that runs after a return, for example. The maxima follow as members scale down, and after
        ten minutes they fall by a step a minute. A lowered maxReplicas acts at once.
        """
        rules = self._rules
        running = sum(one.serving for one in self._members if one.answers and (one.has_hpa or one.leaving))
        most = rules.maximum + (self._step if stays else 0)
        exceeds = self._divides and running > most and self._total == rules.maximum
        if exceeds:
            self._reasons.append(f"{running} replicas run, which is above maxReplicas {rules.maximum}")
        if not exceeds or not self._steps(PERIOD_SECONDS):
            return _ALL if exceeds else most
        assigned = sum(min(one.maximum, one.serving) for one in self._members if one.answers)
        return max(assigned - self._step, most)

    def _steps(self, waits: float) -> bool:
        """True once a minute, for the first time after `waits` seconds: then a surplus goes by one step."""
        due = self._previous.course.step_at
        due = self._now + waits if due is None else due
        goes = due <= self._now
        self._course = structs.replace(self._course, step_at=self._now + _STEP_SECONDS if goes else due)
        return goes

    def _triggers(self, stays: Mapping[str, int]) -> Iterator[str]:
        """Yields the reasons for which bounds are divided in this pass."""
        rules, assists = self._rules, self._rules.assists and self._divides
        if self._total != rules.maximum and not self._anew:
            yield f"maxReplicas was {self._total}, and is {rules.maximum}"
        able = [one for one in self._members if one.answers]
        if any(one.written and one.cluster in self._course.unconfirmed for one in able):
            yield "a write of the last pass failed"
        assigned = sum(one.maximum for one in self._members if one.has_hpa or not one.answers)
        if self._divides and assigned > rules.maximum:
            yield f"all maxima add up to {assigned}, which is above maxReplicas {rules.maximum}"
        lost = [one.cluster for one in self._all if one.lost and not self._before(one).lost]
        if lost:
            yield f"{listed(lost, _MAX_NAMED)}: lost, so its share goes to the others"
        if stays:
            yield f"{listed(sorted(stays), _MAX_NAMED)}: {self._verb(stays)}"
        yield from (f"{one.cluster}: {why}" for one in able for why in _asks(one, assists))

    def _is_worth(self, maxima: Mapping[str, int]) -> bool:
        """True if a cluster has little room, gets more, and enough moves."""
        rises = {one.cluster: max(maxima[one.cluster] - one.maximum, 0) for one in self._members}
        tight = any(rises[one.cluster] and _is_tight(one) for one in self._members)
        return tight and sum(rises.values()) >= max(2, self._rules.maximum // 10)

    def _goal(self, one: Member, most: int, floors: Mapping[str, int]) -> Bounds | None:
        if not one.answers:
            return one.present
        if not most:
            return None
        least = max(one.minimum or 0, floors.get(one.cluster, 0), 1)
        return Bounds(minimum=min(least, most), maximum=most)

    def _scales(self, goals: Goals, states: dict[str, ClusterState]) -> dict[str, int]:
        """Returns the replicas that the hub writes: 0 where no HPA stays, and the first ones elsewhere.

        Clusters without replicas begin at 0 if the whole workload may.
        """
        rules, scales = self._rules, {}
        may_begin_at_zero = rules.scales_to_zero and not rules.minimum
        for one in self._members:
            if not one.answers:
                continue
            goal, state = goals[one.cluster], states.get(one.cluster, NO_STATE)
            if may_begin_at_zero and one.has_hpa and one.written is None and not one.running:
                state = states[one.cluster] = structs.replace(state, zero_since=self._now)
            if goal is None or state.zero_since is not None:
                if one.running:
                    scales[one.cluster] = 0
            elif not one.running and not one.leaving:
                scales[one.cluster] = min(max(one.minimum or 0, 1), goal.maximum)
        return scales

    def _state(
        self, one: Member, goal: Bounds | None, states: Mapping[str, ClusterState], unmet: int
    ) -> ClusterState:
        """Returns what to remember of a cluster."""
        before = self._before(one)
        if one.foreign or (one.answers and goal is None):
            return NO_STATE
        if goal is None or not one.answers:
            return structs.replace(before, lost=one.lost, idle_since=None)
        least, state = one.minimum or 0, states.get(one.cluster, NO_STATE)
        idle = state.idle_since
        if one.minimum == 0:
            needed = one.running > 1 or one.need is not None or unmet > 0 or one.leaving
            idle = None if needed else before.idle_since or self._now
        return ClusterState(
            minimum=least,
            floor=goal.minimum if goal.minimum != max(least, 1) else None,
            maximum=goal.maximum,
            zero_since=state.zero_since,
            idle_since=idle,
        )

    def _verb(self, stays: Mapping[str, int]) -> str:
        leaves = any(one.leaving for one in self._members if one.cluster in stays)
        return "leaves" if leaves else "gives replicas back"

    def _move_steps(self, stays: Mapping[str, int]) -> Iterator[PlanStep]:
        if not stays:
            return
        there = {one.cluster: one.running for one in self._members if one.cluster in stays}
        verb = self._verb(stays)
        texts = [f"{name} {verb}: {stays[name]} of {there[name]} replicas stay" for name in sorted(stays)]
        waits = "until as many are ready elsewhere" if self._divides else "and nothing grows for them"
        before, after = sum(there.values()), sum(stays.values())
        yield PlanStep("move", before, after, f"{_sentence(texts)} {waits}")


def _sentence(reasons: Sequence[str]) -> str:
    """Returns the first reasons as one text, and the number of the others."""
    more = len(reasons) - _MAX_NAMED
    return "; ".join([*reasons[:_MAX_NAMED], *([f"{more} more"] if more > 0 else [])])


def _is_tight(one: Member) -> bool:
    return one.maximum - one.running < max(1, one.maximum // 10)


def _asks(one: Member, assists: bool) -> Iterator[str]:
    """Yields why the bounds of a cluster that answers cannot stay. `assists` is scaleAssist."""
    if one.back:
        yield "back"
    if assists and one.need is not None:
        yield f"at its maximum of {one.maximum} and needs {one.need}"
    if assists and one.stuck != one.was_stuck:
        yield "its pods do not become ready" if one.stuck else "its pods become ready again"
    if not one.has_hpa or one.leaving:
        return
    if one.written is None or not one.maximum:
        yield "gets its missing HPA"
    limit = limit_of(one)
    if limit is not None and one.maximum > limit:
        yield f"may have at most {limit}"


def plan(
    rules: Rules, members: Sequence[Member], previous: Previous, now: float, move: Move = NO_MOVE
) -> Plan:
    """Returns the bounds and scales to write, the next states, and each step with its reason.

    `members` are all candidate clusters, in any order. `now` is a POSIX time in seconds. `move` is the step
    of a return or a rebalance.
    """
    made = _Pass(rules, members, previous, now).plan(move)
    return made if rules.hold is None else under_hold(made, rules.hold)
