"""The memory that one decision leaves to the next: the state in the ScalingRecord of a FederatedHPA.

`MemoryState` is the struct and its own codec: JSON with times as POSIX seconds and without defaults. Of a
quiet cluster only its share is stored, so that the state of 300 clusters stays below 48 KiB.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fedhpa.assignment import NO_STATE, ClusterState, Count, Seconds
from fedhpa.decision.absence import ANSWERED, Absence
from fedhpa.decision.history import History

# A state of another version is neither read nor overwritten. Fields that are only added do not raise it.
VERSION: Final = 1


class Rebalance(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rebalance that an annotation asked for last.

    `requested` is the annotation's value. It began at `since`, in POSIX seconds. `size` are the replicas
    without the surge. `ended` is why it ended, "" while it goes on.
    """

    requested: str
    since: Seconds
    size: Count
    ended: str = ""


class ClusterMemory(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    """One cluster after a decision; times are POSIX seconds.

    `replicas` is its share, None if unknown. `state` is that of status.clusters. `seen` is when it answered
    last, None if it did at the decision. `scaled` is when its share changed last. `holds_hpa` is True if our
    HPA may be in the cluster although `assignment` has no maximum: it was about to be written.
    """

    replicas: Count | None = None
    state: str = ANSWERED
    seen: Seconds | None = None
    scaled: Seconds | None = None
    assignment: ClusterState = NO_STATE
    holds_hpa: bool = False

    @property
    def may_have_hpa(self) -> bool:
        """True if the cluster may have an HPA of ours."""
        return bool(self.assignment.maximum) or self.holds_hpa


class MemoryState(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    """The memory of one FederatedHPA; the default is a fresh start.

    `size` is that of the workload after the decision, None if unknown. `absences` are the clocks of lost
    clusters. `assigned_for` is what the bounds of mode Distributed were divided for.
    """

    size: Count | None = None
    history: History = History()
    absences: dict[str, Absence] = {}
    rebalance: Rebalance | None = None
    clusters: dict[str, ClusterMemory] = {}
    assigned_for: str = ""

    @property
    def shares(self) -> dict[str, int]:
        """The clusters' replicas after the decision, as far as known."""
        return {name: one.replicas for name, one in self.clusters.items() if one.replicas is not None}

    @property
    def states(self) -> dict[str, str]:
        """The state of each cluster that the decision knew."""
        return {name: one.state for name, one in self.clusters.items()}

    @property
    def remembers_full(self) -> bool:
        """True if a cluster is remembered whose nodes were full."""
        return any(one.assignment.cap is not None for one in self.clusters.values())

    def assignment(self, cluster: str) -> ClusterState:
        """Returns what mode Distributed remembers of a cluster."""
        known = self.clusters.get(cluster)
        return NO_STATE if known is None else known.assignment


NO_MEMORY: Final = MemoryState()
