"""Taints of Cluster objects, tolerations of them, and the taints that FedHPA itself sets.

The rules are those of Kubernetes for nodes. Source: k8s.io/api/core/v1 toleration.go (ToleratesTaint).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

# status.clusters[].membership (`fedhpa.decision.membership`). A member has none.
MEMBER: Final = ""
CORDONED: Final = "Cordoned"
LEAVING: Final = "Leaving"
STUCK: Final = "Stuck"
AWAITED: Final = "Awaited"

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"
EFFECTS: Final = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
EXISTS: Final = "Exists"
OPERATORS: Final = (EXISTS, "Equal")

# `fedhpa cordon` and `fedhpa drain` set them, both with effect NoSchedule. They act at once.
CORDON_TAINT: Final = "fedhpa.io/cordon"
DRAIN_TAINT: Final = "fedhpa.io/drain"
OWN_TAINTS: Final = frozenset((CORDON_TAINT, DRAIN_TAINT))
# Karmada sets them at every failed probe. The states Missing and Lost say the same after a while.
PROBE_TAINTS: Final = frozenset(("cluster.karmada.io/not-ready", "cluster.karmada.io/unreachable"))

# More taints of one Cluster are not read.
MAX_TAINTS: Final = 64


class Taint(msgspec.Struct, frozen=True, omit_defaults=True):
    """core/v1 Taint of a Cluster; `timeAdded` is RFC 3339, None if it was not set."""

    key: str = ""
    value: str = ""
    effect: str = ""
    timeAdded: str | None = None


class Toleration(msgspec.Struct, frozen=True, rename={"seconds": "tolerationSeconds"}):
    """core/v1 Toleration; `seconds` limits how long a taint NoExecute is tolerated, None for no limit."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    seconds: float | None = None

    def tolerates(self, taint: Taint) -> bool:
        """True if it tolerates the taint, for whatever time."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        # Without a key only Exists is valid, and it tolerates every taint.
        return self.operator == EXISTS or (bool(self.key) and self.value == taint.value)


def is_avoided(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> bool:
    """Returns True if a taint PreferNoSchedule is not tolerated: other clusters are preferred."""
    tolerations = tuple(tolerations)
    return any(
        taint.effect == PREFER_NO_SCHEDULE and tolerated_for(taint, tolerations) == 0.0 for taint in taints
    )


def tolerated_for(taint: Taint, tolerations: Iterable[Toleration]) -> float | None:
    """Returns for how many seconds a taint is tolerated: 0.0 if it is not, None for ever.

    As in Kubernetes, the shortest of the tolerations that match a taint NoExecute counts.
    """
    matching = [toleration for toleration in tolerations if toleration.tolerates(taint)]
    if not matching:
        return 0.0
    if taint.effect != NO_EXECUTE:
        return None
    limits = [max(one.seconds, 0.0) for one in matching if one.seconds is not None]
    return min(limits) if limits else None
