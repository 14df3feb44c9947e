"""The state that a pass of mode Distributed leaves for the next one: one entry a cluster, and one for all.

It is part of the memory that the ScalingRecord of a FederatedHPA keeps, so that a restarted controller goes
on from there. Source: docs/explanation/distributed.md.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from fedhpa.api.times import Seconds
from fedhpa.assignment.clusters import Bounds

# The bounds of a stored number of replicas.
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
# Replicas move, and a surplus goes, by this part of maxReplicas at a time.
_STEP_PER_CENT: Final = 10


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
        least = self.minimum if self.floor is None else self.floor
        return _bounds(least or 1, self.maximum)


@functools.lru_cache(maxsize=1024)
def _bounds(least: int, maximum: int) -> Bounds:
    """Returns the bounds, the same object for the same numbers: each pass asks for those of every cluster."""
    return Bounds(minimum=min(max(least, 1), maximum), maximum=maximum)


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

    @property
    def is_busy(self) -> bool:
        """True while replicas move, or a surplus or a failed write waits."""
        return bool(self.step_at or self.size or self.unconfirmed)


States = Mapping[str, ClusterState]
NO_STATE: Final = ClusterState()
NO_COURSE: Final = Course()
