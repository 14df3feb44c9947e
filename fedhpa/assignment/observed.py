"""The input of a pass of mode Distributed: rules of the FederatedHPA, clusters as read, the pass before.

Source: docs/explanation/distributed.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from fedhpa.assignment.policies import Policy
from fedhpa.assignment.shares import Bounds, MemberState
from fedhpa.assignment.state import States


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRules:
    """The stopped directions of a hold: `down`, `up`, or both. `reason` is for people."""

    down: bool
    up: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The fields of the FederatedHPA that the bounds follow.

    `minimum` and `maximum` are its minReplicas and maxReplicas. `exact` is minimumPolicy Exact. `assists` is
    scaleAssist, `scales_to_zero` is scalingToZero. `assigned_for` is the hash of `initial.assigned_for`.
    `hold` is the hold in force, None without one.
    """

    minimum: int
    maximum: int
    policy: Policy = None
    exact: bool = False
    uid: str = ""
    assists: bool = True
    scales_to_zero: bool = False
    assigned_for: str = ""
    hold: HoldRules | None = None


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
