"""The clock of partialMetrics: how long a cluster has been without usable data.

It starts at the first loss. Answers for less than half of `lostAfterSeconds` do not reset it.
"""

from __future__ import annotations

from typing import Final

import msgspec

# With a smaller part, a cluster that is missing most of the time would be expected for ever. With the whole
# time, one failure an hour would give up a healthy cluster.
STEADY_SHARE: Final = 0.5


class Absence(msgspec.Struct, frozen=True):
    """The clock of one cluster in POSIX seconds: when the loss began, and when data came `back`, if any."""

    since: float
    back: float | None = None


def follow(known: Absence | None, usable: bool, now: float, lost_after: float) -> Absence | None:
    """Returns the clock after a reconcile that found the data `usable` or not; None if no clock runs."""
    if not usable:
        return Absence(now if known is None else known.since)
    if known is None:
        return None
    back = now if known.back is None else known.back
    return None if now - back >= lost_after * STEADY_SHARE else Absence(known.since, back)
