"""Input and output of the assignment of mode Distributed. Source: docs/explanation/distributed.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The minReplicas and maxReplicas of one member HPA: 1 <= minimum <= maximum."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberState:
    """One candidate cluster as the assignment sees it.

    `minimum` and `maximum` are the assigned bounds of its HPA, without the help of scale assist; None without
    an HPA. `pending` counts the replicas that have waited for a node longer than autoscaleMultiClusterDelay,
    and `running` the others. `capacity` is `running` and the replicas that fit on its nodes besides, None if
    unknown.

    `need` is the number of replicas that its HPA would ask for, None unless the HPA is pinned at its maximum.
    `cap` is the remembered size of a full cluster. `low` is autoscalingMinThreshold. `high` is the lower of
    autoscalingMaxThreshold and the size that clusterHPAPreference allows. `weight` is for StaticWeighted,
    `priority` for Prioritized. `spare` is True if it got its HPA only because the others did not suffice;
    `helps` are then the replicas that it is to run for others. An `overflow` cluster gets an HPA in no other
    case: those of the lowest number first, 0 is none of them. Where a policy has an order, a cluster that
    `is_last` comes after all others.
    """

    cluster: str
    minimum: int | None = None
    maximum: int | None = None
    running: int = 0
    pending: int = 0
    capacity: int | None = None
    need: int | None = None
    low: int = 0
    high: int | None = None
    reachable: bool = True
    weight: int = 1
    priority: int = 0
    cap: int | None = None
    spare: bool = False
    helps: int = 0
    overflow: int = 0
    is_last: bool = False

    @property
    def present(self) -> int:
        """All replicas, pending ones included."""
        return self.running + self.pending

    @property
    def full(self) -> int | None:
        """The size at which its nodes are full: while pods are pending, and while that is remembered.

        A remembered size below `running` would cut replicas that run, so it is raised to them.
        """
        if self.pending:
            return self.running
        return None if self.cap is None else max(self.cap, self.running)

    @property
    def limit(self) -> int | None:
        """The largest maxReplicas that it may get, by `high` and by full nodes; None without a limit."""
        return lowest(self.high, self.full)

    @property
    def room(self) -> int | None:
        """The replicas that its nodes can run; None if unknown, which counts as unlimited."""
        return lowest(self.capacity, self.full)

    @property
    def rank(self) -> int:
        """The replicas that its nodes can run, as order and weight: an unknown number counts as `running`."""
        return self.running if self.room is None else self.room

    @property
    def capacity_known(self) -> bool:
        """True if its capacity was measured."""
        return self.capacity is not None


def lowest(one: int | None, other: int | None) -> int | None:
    """Returns the lower of two limits; None is no limit."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
