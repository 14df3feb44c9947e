"""One pass of mode Distributed over one FederatedHPA: its input and its result.

Source: docs/explanation/distributed.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, TypeAlias

from fedhpa.assignment.policies import Policy
from fedhpa.assignment.shares import Bounds, MemberState
from fedhpa.assignment.state import States
from fedhpa.assignment.writes import Outcome, Result, Write, next_writes

Step: TypeAlias = Literal["initial", "distribute", "assist", "hold", "zero"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The fields of the FederatedHPA that the bounds follow.

    `minimum` and `maximum` are its minReplicas and maxReplicas. `exact` is minimumPolicy Exact. `assists` is
    scaleAssist, `scales_to_zero` is scalingToZero. `assigned_for` is the hash of `initial.assigned_for`.
    """

    minimum: int
    maximum: int
    policy: Policy = None
    exact: bool = False
    uid: str = ""
    assists: bool = True
    scales_to_zero: bool = False
    assigned_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One candidate cluster as it was read.

    `state` has no bounds and no remembered size: the pass takes them from `written` and from the states.
    `written` are the bounds of its HPA, None without an HPA. Those of an unreachable cluster are the last
    known ones. `load` is `member_hpa.usage_load`. `scaled_at` is the HPA's lastScaleTime in POSIX seconds.
    `settled` are the replicas that have been ready for a minute.

    `lost` is True from the end of the lost time-out until the cluster is back. `foreign` is True if the
    member's HPA of this name is not ours: it is never written, and counts with its own bounds. `wakes` is
    True if the cluster runs nothing and an Object or External metric of its HPA asks for replicas.
    """

    state: MemberState
    written: Bounds | None = None
    load: Fraction | None = None
    scaled_at: float | None = None
    settled: int = 0
    lost: bool = False
    foreign: bool = False
    wakes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Previous:
    """The result of the pass before, from the status. `lost` are the clusters that were lost then."""

    states: States
    assigned_for: str = ""
    lost: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One step of the pass with its reason.

    `before` and `after` are sums over all clusters: of maxima for initial and distribute, of minima for
    assist and hold, of replicas for zero.
    """

    step: Step
    before: int
    after: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The result of a pass.

    `total` is the most that all maxima may add up to, None under Duplicated. `present` are the bounds that
    were read and `goals` those to write, help and hold included; None is no HPA. Both have all candidates. A
    cluster that must not change has the same bounds in both. `scales` are the replicas that the hub itself
    writes: first replicas, and 0.

    `states` and `assigned_for` are for the status, if all writes succeed. `lost` clusters count in no sum.
    `unassigned` replicas fit in no cluster. `exceeded` replicas are above the FederatedHPA's maximum.
    """

    total: int | None
    present: Mapping[str, Bounds | None]
    goals: Mapping[str, Bounds | None]
    scales: Mapping[str, int]
    states: States
    assigned_for: str
    lost: frozenset[str] = frozenset()
    unassigned: int = 0
    exceeded: int = 0
    steps: tuple[PlanStep, ...] = ()

    def next_writes(self, outcomes: Iterable[Outcome] = ()) -> tuple[Write, ...]:
        """Returns the writes that may be sent now, all at once; none when the pass has ended.

        `outcomes` are those of all earlier writes of the pass, in order.
        """
        present = {cluster: bounds for cluster, bounds in self.present.items() if cluster not in self.lost}
        wanted = {
            cluster: bounds for cluster, bounds in self.goals.items() if bounds != self.present.get(cluster)
        }
        return next_writes(self.total, present, wanted, outcomes)

    def states_after(self, outcomes: Iterable[Outcome]) -> States:
        """Returns the states with the maxima that the members have after these outcomes.

        An unknown outcome counts with the higher maximum, because the member may have it.
        """
        maxima = {cluster: _most(bounds) for cluster, bounds in self.present.items()}
        for outcome in outcomes:
            cluster, after = outcome.write.cluster, _most(outcome.write.after)
            if outcome.result is Result.CONFIRMED:
                maxima[cluster] = after
            elif outcome.result is Result.UNKNOWN:
                maxima[cluster] = max(maxima.get(cluster, 0), after)
        return {
            cluster: replace(state, maximum=maxima.get(cluster, 0) or None)
            for cluster, state in self.states.items()
        }


def _most(bounds: Bounds | None) -> int:
    return 0 if bounds is None else bounds.maximum
