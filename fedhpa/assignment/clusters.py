"""Input and output of a pass of mode Distributed, and the state that it leaves for the next one.

The state is part of the memory in the ScalingRecord of a FederatedHPA, so that a restarted controller goes on
from there. Source: docs/explanation/distributed.md, "Words".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Final, NamedTuple

import msgspec

from fedhpa.api.assignment_policies import EQUAL, AssignmentPolicy
from fedhpa.api.hold import Hold
from fedhpa.api.taints import LEAVING, MEMBER, STUCK
from fedhpa.api.times import Seconds

# The bounds of a stored number of replicas.
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
# Replicas move, and a surplus goes, by this part of maxReplicas at a time.
_STEP_PER_CENT: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The minReplicas and maxReplicas of one member HPA: 1 <= minimum <= maximum."""

    minimum: int
    maximum: int

    def __str__(self) -> str:
        """Returns the bounds for people."""
        return f"{self.minimum}-{self.maximum}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The fields of the FederatedHPA that the bounds follow.

    `minimum` and `maximum` are its minReplicas and maxReplicas. `exact` is minimumPolicy Exact. `assists` is
    scaleAssist, `scales_to_zero` is scalingToZero. `assigned_for` is the hash of `initial.assigned_for`.
    `hold` is the hold in force, None without one.
    """

    minimum: int
    maximum: int
    policy: AssignmentPolicy = EQUAL
    exact: bool = False
    uid: str = ""
    assists: bool = True
    scales_to_zero: bool = False
    assigned_for: str = ""
    hold: Hold | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One candidate cluster as it was read.

    `minimum` is its part of minReplicas: 0 for a spare cluster, which has an HPA only because the others did
    not suffice, and None without an HPA. `maximum` is what was assigned last, 0 without an HPA. `written` are
    the bounds of its HPA as read, those in the record if it does not answer, None without an HPA.

    `running` is spec.replicas, or the last known number. `ready` pods serve. `load` is the number of
    replicas that would keep the present usage exactly at target, None if unknown. `pinned_for` is for how
    many seconds the HPA has asked for more than its maximum, None if it does not. `room` is how many more
    replicas its nodes can run, None if unknown.

    `low` is autoscalingMinThreshold. `high` is the lower of autoscalingMaxThreshold and the size that
    clusterHPAPreference allows. `weight` is for StaticWeighted, `priority` for Prioritized. An `overflow`
    cluster gets an HPA only when others do not suffice: those of the lowest number first, 0 is none of them.
    Where a policy has an order, a cluster that `is_last` comes after all others.

    `answers` is False if the cluster cannot be written now, and `missing_for` is then for how many seconds.
    It is `lost` after the lost time-out. It is `back` if it answers and did not in the pass before. The HPA
    of a `foreign` one is not ours. A `rolling` cluster runs two versions of the workload. `was_stuck` is True
    if it was Stuck in the pass before. `wakes` is True if it runs nothing, and a metric asks for replicas.
    `drift` are fields of its HPA, besides the bounds, that are not as the FederatedHPA has them.
    """

    cluster: str
    minimum: int | None = None
    maximum: int = 0
    written: Bounds | None = None
    running: int = 0
    ready: int = 0
    load: Fraction | None = None
    pinned_for: float | None = None
    room: int | None = None
    low: int = 0
    high: int | None = None
    weight: int = 1
    priority: int = 0
    overflow: int = 0
    is_last: bool = False
    membership: str = MEMBER
    answers: bool = True
    missing_for: float = 0.0
    lost: bool = False
    back: bool = False
    foreign: bool = False
    rolling: bool = False
    was_stuck: bool = False
    wakes: bool = False
    drift: tuple[str, ...] = ()

    @property
    def has_hpa(self) -> bool:
        """True if it has an HPA of ours, or is to have one."""
        return self.minimum is not None

    @property
    def present(self) -> Bounds | None:
        """The bounds that count before the writes: an HPA that is not ours counts what it runs."""
        if self.foreign:
            return Bounds(minimum=0, maximum=self.running) if self.running else None
        return self.written

    @property
    def stuck(self) -> bool:
        """True if its pods do not become ready although the same pods do elsewhere."""
        return self.membership == STUCK

    @property
    def leaving(self) -> bool:
        """True if its replicas are to go to other clusters."""
        return self.membership == LEAVING

    @property
    def serving(self) -> int:
        """The replicas that a maximum must keep: what runs below the HPA's own maximum.

        Only the ready ones of a Stuck cluster count.
        """
        running = min(self.running, self.ready) if self.stuck else self.running
        return running if self.written is None else min(running, self.written.maximum)

    @property
    def wanted(self) -> int | None:
        """The replicas that its metrics ask for at present, before any window; None if unknown."""
        return None if self.load is None else math.ceil(self.load)

    @property
    def need(self) -> int | None:
        """The replicas that a pinned cluster asks for, None for others."""
        return None if self.pinned_for is None else self.wanted

    @property
    def capacity(self) -> int | None:
        """The replicas that its nodes can run; None if unknown, which counts as unlimited."""
        if self.stuck:
            return self.serving
        return None if self.room is None else self.running + self.room

    @property
    def rank(self) -> int:
        """The replicas that its nodes can run, as order and weight: an unknown number counts as `running`."""
        return self.running if self.capacity is None else self.capacity

    @property
    def capacity_known(self) -> bool:
        """True if its capacity was measured."""
        return self.room is not None


def lowest(one: int | None, other: int | None) -> int | None:
    """Returns the lower of two limits; None is no limit."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


class PlanStep(NamedTuple):
    """One step of the pass with its reason: initial, distribute, move, hold or zero.

    `before` and `after` are sums over all clusters: of maxima for initial and distribute, of minima for hold,
    of replicas for move and zero.
    """

    step: str
    before: int
    after: int
    reason: str


def release_step(maximum: int) -> int:
    """Returns how many replicas move at a time: 10 % of maxReplicas, at least 1."""
    return max(maximum * _STEP_PER_CENT // 100, 1)


class ClusterState(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    """The stored state of one cluster. None and 0 mean that there is none. Times are POSIX seconds.

    `minimum` is its part of minReplicas, 0 for a spare cluster, None without an HPA. `floor` is the
    minReplicas that was written, if that is another number. `maximum` is the assigned maxReplicas. `lost` is
    True while its bounds count in no sum. `zero_since` is when its scale was set to 0. `idle_since` is since
    when the others could do without it: it may go to 0, or lose its HPA if it is a spare cluster.
    """

    minimum: Count | None = None
    floor: Count | None = None
    maximum: Count | None = None
    lost: bool = False
    zero_since: Seconds | None = None
    idle_since: Seconds | None = None

    @property
    def bounds(self) -> Bounds | None:
        """The bounds that the HPA should have; None without an HPA."""
        if not self.maximum:
            return None
        least = (self.minimum if self.floor is None else self.floor) or 1
        return Bounds(minimum=min(least, self.maximum), maximum=self.maximum)


class Course(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    """The stored state of all clusters together. Times are POSIX seconds, None if there is none.

    Bounds were written last at `written`. While more than maxReplicas runs, or a copy leaves, the next step
    of that goes at `step_at`. `size` replicas ran when the present move began, 0 without one. `unconfirmed`
    are the clusters whose last write failed: they may still get bounds that nobody reads in them yet.
    """

    written: Seconds | None = None
    step_at: Seconds | None = None
    size: Count = 0
    unconfirmed: tuple[str, ...] = ()


States = Mapping[str, ClusterState]
NO_STATE: Final = ClusterState()
NO_COURSE: Final = Course()
