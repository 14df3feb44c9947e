"""The result of a pass of mode Distributed: the bounds to write, what to remember, and each step.

Source: docs/explanation/distributed.md, "One pass", and docs/how-to/hold-scaling.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from fedhpa.api.hold import Hold
from fedhpa.assignment.clusters import NO_COURSE, NO_STATE, Bounds, Course, Member, PlanStep, Rules, States
from fedhpa.assignment.writes import Outcome, Result, Sent, SetBounds

Goals = Mapping[str, Bounds | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Previous:
    """The memory that a pass leaves for the next one, in the record."""

    states: States
    course: Course = NO_COURSE
    assigned_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The result of a pass with these `rules` over these `members`, which are all candidates.

    `goals` are the bounds to write, None for no HPA, of each candidate. `scales` are the replicas that the
    hub itself writes. `left` is for the record, if all writes succeed. `unmet` replicas are needed and fit
    nowhere. `cordoned_grow` is that of the division.
    """

    rules: Rules
    members: Sequence[Member]
    previous: Previous
    goals: Goals
    scales: Mapping[str, int]
    left: Previous
    unmet: int = 0
    cordoned_grow: bool = False
    steps: tuple[PlanStep, ...] = ()

    @property
    def surplus(self) -> int:
        """By how much the maxima are above maxReplicas, negative below it. Lost clusters count in no sum."""
        if self.rules.policy.copies:
            return 0
        goals = [self.goals[one.cluster] for one in self.members if not one.lost]
        return sum(goal.maximum for goal in goals if goal) - self.rules.maximum

    @property
    def _again(self) -> dict[str, int]:
        """The clusters that are written although their bounds stay, with the highest maximum still to come.

        Their last write failed, or their HPA has drifted.
        """
        failed, states = self.previous.course.unconfirmed, self.previous.states
        ours = (one for one in self.members if one.written and not one.foreign)
        return {
            one.cluster: (states.get(one.cluster, NO_STATE).maximum or 0) if one.cluster in failed else 0
            for one in ours
            if one.cluster in failed or (one.drift and self.goals[one.cluster] == one.written)
        }

    def _sent(self, outcomes: Iterable[Outcome]) -> Sent:
        """The bounds after these outcomes. The maxima of pinned clusters rise first."""
        present = {one.cluster: one.present for one in self.members if not one.lost}
        wanted = {name: self.goals[name] for name, now in present.items() if self.goals[name] != now}
        first = {one.cluster for one in self.members if one.need is not None}
        silent = {one.cluster for one in self.members if not one.answers}
        again = {name: most for name, most in self._again.items() if name not in silent}
        # Meanwhile, too, all maxima add up to no more than this.
        total = None if self.rules.policy.copies else self.rules.maximum + max(self.surplus, 0)
        return Sent(total, present, wanted, outcomes, first, again)

    def next_writes(self, outcomes: Iterable[Outcome] = ()) -> tuple[SetBounds, ...]:
        """Returns the writes that may be sent now, all at once; none when the pass has ended.

        `outcomes` are those of all earlier writes of the pass, in order.
        """
        return self._sent(outcomes).next()

    def all_writes(self) -> tuple[SetBounds, ...]:
        """Returns all writes of the pass in order, if each succeeds."""
        writes: tuple[SetBounds, ...] = ()
        while batch := self.next_writes([Outcome(write=one, result=Result.CONFIRMED) for one in writes]):
            writes += batch
        return writes

    def after(self, outcomes: Sequence[Outcome]) -> Previous:
        """Returns what is to be remembered after these outcomes.

        An unknown outcome counts with the higher maximum, because the member may have it. After a failure the
        next pass writes every difference, and these clusters in any case.
        """
        sent = self._sent(outcomes)
        maxima, waits = sent.maxima, self._again.keys() & set(self.previous.course.unconfirmed)
        return Previous(
            # A lost cluster is not among those that are written.
            states={
                name: structs.replace(state, maximum=maxima[name] or None) if name in maxima else state
                for name, state in self.left.states.items()
            },
            course=structs.replace(
                self.left.course, unconfirmed=tuple(sorted(sent.failed | (waits - sent.clusters)))
            ),
            assigned_for=self.previous.assigned_for if sent.failed else self.left.assigned_for,
        )


def under_hold(made: Plan, hold: Hold) -> Plan:
    """Returns what the hold allows of a pass: what it stops stays. A failover may grow under every hold.

    The states go on as if nothing were held, so the first pass after the hold writes what is due then.
    No maximum and no minimum falls below what runs under `down`. Under `up` a minimum rises only to what
    runs, or as far as minReplicas asks.
    """
    down, up = hold.stops_down, hold.stops_up and not any(one.lost for one in made.members)
    goals, scales, states = dict(made.goals), dict(made.scales), dict(made.left.states)
    for one in made.members:
        cluster = one.cluster
        if not one.answers:
            continue
        was, state = made.previous.states.get(cluster, NO_STATE), states[cluster]
        now, goal = one.present, goals[cluster]
        loses = down and now is not None and goal is None
        enters = up and now is None and goal is not None and state.minimum == 0
        if loses or enters:
            goals[cluster], states[cluster] = now, was
            scales.pop(cluster, None)
            continue
        if goal is not None:
            runs, least, most = one.running, goal.minimum, goal.maximum
            if down:
                most = max(most, runs if now is None else min(now.maximum, runs))
                least = max(least, 0 if now is None else min(now.minimum, runs))
            if up:
                least = min(least, max(0 if now is None else now.minimum, state.minimum or 0, runs, 1))
            goal = goals[cluster] = Bounds(minimum=min(least, most), maximum=most)
            states[cluster] = structs.replace(state, floor=goal.minimum, maximum=goal.maximum)
        scale = scales.get(cluster, one.running)
        # The first replicas of a cluster belong to minReplicas.
        wakes = was.zero_since is not None or was.minimum == 0
        if (down and scale < one.running) or (up and scale > one.running and wakes):
            del scales[cluster]
            zeroed = {"zero_since": was.zero_since, "idle_since": was.idle_since}
            states[cluster] = structs.replace(states[cluster], **zeroed)
    before, after = (sum(one.minimum for one in of.values() if one) for of in (made.goals, goals))
    # A pass after the hold decides anew what it stopped, and a lowered maxReplicas acts at once then.
    decided_on = made.left if goals == made.goals else made.previous
    left = Previous(states=states, course=made.left.course, assigned_for=decided_on.assigned_for)
    steps = (*made.steps, PlanStep("hold", before, after, str(hold)))
    return replace(made, goals=goals, scales=scales, left=left, steps=steps)
