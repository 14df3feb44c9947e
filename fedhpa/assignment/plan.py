"""The result of a pass of mode Distributed: the bounds to write, what to remember, and each step.

Source: docs/explanation/distributed.md, "One pass", and docs/how-to/hold-scaling.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from fedhpa.api.hold import Hold
from fedhpa.assignment.clusters import Bounds, Member, PlanStep
from fedhpa.assignment.state import NO_COURSE, NO_STATE, Course, States
from fedhpa.assignment.writes import Outcome, Result, SetBounds, next_writes

Goals = Mapping[str, Bounds | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Previous:
    """The result of the pass before, from the record."""

    states: States
    course: Course = NO_COURSE
    assigned_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The result of a pass.

    `total` is the most that all maxima may add up to, None under Duplicated. `present` are the bounds that
    were read and `goals` those to write; None is no HPA. Both have all candidates. `scales` are the replicas
    that the hub itself writes. `first` are the clusters whose maxima rise first.

    `states`, `course` and `assigned_for` are for the record, if all writes succeed. `before` is what the
    minima were divided for before. `lost` clusters count in no sum. `unassigned` replicas fit in no cluster.
    `exceeded` replicas are above maxReplicas. `unmet` replicas are needed and fit nowhere. `unconfirmed` are
    clusters with a failed write of an earlier pass, with the highest maximum that it may still bring; the
    `silent` ones of them do not answer now.
    """

    total: int | None
    present: Goals
    goals: Goals
    scales: Mapping[str, int]
    states: States
    course: Course
    assigned_for: str
    before: str = ""
    first: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    unassigned: int = 0
    exceeded: int = 0
    unmet: int = 0
    unconfirmed: Mapping[str, int] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()
    cordoned_grow: bool = False
    steps: tuple[PlanStep, ...] = ()

    def next_writes(self, outcomes: Iterable[Outcome] = ()) -> tuple[SetBounds, ...]:
        """Returns the writes that may be sent now, all at once; none when the pass has ended.

        `outcomes` are those of all earlier writes of the pass, in order.
        """
        present = {cluster: bounds for cluster, bounds in self.present.items() if cluster not in self.lost}
        wanted = {
            cluster: bounds for cluster, bounds in self.goals.items() if bounds != self.present.get(cluster)
        }
        again = {name: most for name, most in self.unconfirmed.items() if name not in self.silent}
        return next_writes(self.total, present, wanted, outcomes, self.first, again)

    def after(self, outcomes: Sequence[Outcome]) -> Plan:
        """Returns the plan with what is to be remembered after these outcomes.

        An unknown outcome counts with the higher maximum, because the member may have it. After a failure the
        next pass writes every difference, and these clusters in any case.
        """
        maxima = {
            cluster: max(_most(bounds), self.unconfirmed.get(cluster, 0))
            for cluster, bounds in self.present.items()
        }
        unconfirmed = set(self.unconfirmed)
        for outcome in outcomes:
            if not isinstance(outcome.write, SetBounds):
                continue
            cluster, after = outcome.write.cluster, _most(outcome.write.after)
            if outcome.result is Result.CONFIRMED:
                maxima[cluster] = after
                unconfirmed.discard(cluster)
                continue
            unconfirmed.add(cluster)
            if outcome.result is Result.UNKNOWN:
                maxima[cluster] = max(maxima.get(cluster, 0), after)
        failed = any(outcome.result is not Result.CONFIRMED for outcome in outcomes)
        states = {
            cluster: state
            if cluster in self.lost
            else structs.replace(state, maximum=maxima.get(cluster, 0) or None)
            for cluster, state in self.states.items()
        }
        return replace(
            self,
            states=states,
            course=structs.replace(self.course, unconfirmed=tuple(sorted(unconfirmed))),
            assigned_for=self.before if failed else self.assigned_for,
        )


def under_hold(made: Plan, hold: Hold, members: Sequence[Member], previous: Previous) -> Plan:
    """Returns what the hold allows of a pass: what it stops stays. A failover may grow under every hold.

    The states go on as if nothing were held, so the first pass after the hold writes what is due then.
    No maximum and no minimum falls below what runs under `down`. Under `up` a minimum rises only to what
    runs, or as far as minReplicas asks.
    """
    down, up = hold.stops_down, hold.stops_up and not made.lost
    goals, scales, states = dict(made.goals), dict(made.scales), dict(made.states)
    for one in members:
        cluster = one.cluster
        if not one.answers:
            continue
        was, state = previous.states.get(cluster, NO_STATE), states[cluster]
        now, goal = made.present.get(cluster), goals.get(cluster)
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
    found = {cluster: bounds for cluster, bounds in goals.items() if bounds is not None}
    least = sum(bounds.minimum for bounds in made.goals.values() if bounds is not None)
    most = sum(bounds.maximum for cluster, bounds in found.items() if cluster not in made.lost)
    after = sum(bounds.minimum for bounds in found.values())
    return replace(
        made,
        goals=goals,
        scales=scales,
        states=states,
        # A pass after the hold decides anew what it stopped, and a lowered maxReplicas acts at once then.
        assigned_for=made.assigned_for if goals == made.goals else previous.assigned_for,
        exceeded=0 if made.total is None else max(most - made.total + made.exceeded, 0),
        steps=(*made.steps, PlanStep("hold", least, after, str(hold))),
    )


def _most(bounds: Bounds | None) -> int:
    return 0 if bounds is None else bounds.maximum
