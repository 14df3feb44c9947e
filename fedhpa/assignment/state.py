"""The state of scale assist, hold, zero and remembered full clusters, one entry for each cluster.

It is part of the memory that the ScalingRecord of a FederatedHPA keeps, so that a restarted controller goes
on from there. Source: docs/explanation/distributed.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec.structs import replace

from fedhpa.assignment.shares import Bounds

# The bounds of stored numbers: replicas of a workload, and POSIX seconds until the year 2984.
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Seconds = Annotated[float, msgspec.Meta(ge=0, lt=3.2e10)]
# A full cluster is remembered for at most this long.
MAX_CAP_MINUTES: Final = 30
# A surplus, help and holds leave by this part of maxReplicas in each pass.
_STEP_PER_CENT: Final = 10


def release_step(maximum: int) -> int:
    """Returns how many replicas of a minimum are released in one pass: 10 % of maxReplicas, at least 1."""
    return max(maximum * _STEP_PER_CENT // 100, 1)


class Cap(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    """The remembered size of a cluster whose nodes were full.

    `since` is when pods became pending there. `until` is the end of the memory, None while pods are pending.
    `minutes` is how long it lasts after that: 1, 2, 4, ... 30. `room_seen` counts the passes without a break
    in which the cluster reported room. `ended_early` is True once the memory has ended early because of that.
    All times are POSIX seconds.
    """

    replicas: Count
    since: Seconds
    until: Seconds | None = None
    minutes: Annotated[int, msgspec.Meta(ge=1, le=MAX_CAP_MINUTES)] = 1
    room_seen: Annotated[int, msgspec.Meta(ge=0, le=1)] = 0
    ended_early: bool = False

    def holds(self, now: float) -> bool:
        """True while the size limits the cluster."""
        return self.until is None or now < self.until


class ClusterState(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    """The stored state of one cluster. None and 0 mean that there is none. Times are POSIX seconds.

    `minimum` and `maximum` are the assigned bounds; `minimum` is without help and hold.

    A cluster that helps: its minReplicas is `given` higher since `given_since`. `given_share` of it is for
    the present deficit. All of it has been ready since `ready_since`.
    A cluster that needs help: `deficit_before` are the replicas that it lacked when help was given, and
    `ineffective_since` is when that help turned out to change nothing.

    `held` is a raised minReplicas that lets lower priorities scale down first. `held_since` is
    since when it has kept replicas without a change there, and `lower_replicas` are the replicas of these
    priorities at their last change.

    `zero_since` is when its scale was set to 0. `at_min_since` is since when it could go to 0. `lost` is True
    if its share went to other clusters. `over_since` is when it came back.
    `away` is True if it is lost, but its share is held because it came back a short time before.

    `starting` is True until its first replicas are seen, or until it can be reached for its first bounds.
    `spare` is True if it has an HPA only because the others did not suffice. `idle_since` is since when such
    a cluster has not been needed.
    """

    minimum: Count | None = None
    maximum: Count | None = None
    given: Count = 0
    given_since: Seconds | None = None
    given_share: Count = 0
    ready_since: Seconds | None = None
    deficit_before: Count | None = None
    ineffective_since: Seconds | None = None
    held: Count = 0
    held_since: Seconds | None = None
    lower_replicas: Count | None = None
    cap: Cap | None = None
    zero_since: Seconds | None = None
    at_min_since: Seconds | None = None
    lost: bool = False
    over_since: Seconds | None = None
    away: bool = False
    starting: bool = False
    spare: bool = False
    idle_since: Seconds | None = None

    def floor(self, minimum: int, maximum: int) -> int:
        """Returns the minReplicas to write for these bounds. Help and hold never pass the maximum."""
        return min(maximum, max(minimum + self.given, self.held))

    @property
    def bounds(self) -> Bounds | None:
        """The bounds that the HPA should have, help and hold included; None without an HPA."""
        if not self.maximum:
            return None
        least = self.floor(min(max(self.minimum or 1, 1), self.maximum), self.maximum)
        return Bounds(minimum=least, maximum=self.maximum)

    def at(self, now: float) -> ClusterState:
        """Returns the state as it counts at `now`: times from a leader whose clock was ahead count as now."""
        late = {name: now for name in _TIMES if (since := getattr(self, name)) is not None and since > now}
        cap = self.cap
        if cap is not None:
            until = None if cap.until is None else min(cap.until, now + cap.minutes * 60)
            if cap.since > now or until != cap.until:
                cap = replace(cap, since=min(cap.since, now), until=until)
        return self if cap is self.cap and not late else replace(self, cap=cap, **late)


_TIMES: Final = (
    "given_since",
    "ready_since",
    "ineffective_since",
    "held_since",
    "zero_since",
    "at_min_since",
    "over_since",
    "idle_since",
)
States = Mapping[str, ClusterState]
NO_STATE: Final = ClusterState()
