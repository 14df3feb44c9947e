"""The result of a pass of mode Distributed: the bounds to write, what to remember, and each step.

Source: docs/explanation/distributed.md, "One pass".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from fedhpa.assignment.clusters import Bounds, PlanStep
from fedhpa.assignment.state import NO_COURSE, Course, States
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


def _most(bounds: Bounds | None) -> int:
    return 0 if bounds is None else bounds.maximum
