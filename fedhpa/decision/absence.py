"""The clock of partialMetrics: since when a cluster has been without usable data.

It starts at the first loss. A cluster that answers for a moment does not stop it: the clock is forgotten only
after a stretch of answers without a break, half as long as `lostAfterSeconds`.
"""

from __future__ import annotations

from typing import Final

import msgspec

# Shorter, and a cluster that is away most of the time is expected for ever; as long as the time after which
# it is given up, and one bad second an hour would give up a cluster that is well.
STEADY_SHARE: Final = 0.5


class Absence(msgspec.Struct, frozen=True):
    """A loss that is not forgotten, in POSIX seconds: when it began, and since when data comes again."""

    since: float
    back: float | None = None


def follow(known: Absence | None, usable: bool, now: float, lost_after: float) -> Absence | None:
    """The clock after a look that found the data `usable` or not; None if there is nothing to count."""
    if not usable:
        return Absence(now if known is None else known.since)
    if known is None:
        return None
    back = now if known.back is None else known.back
    return None if now - back >= lost_after * STEADY_SHARE else Absence(known.since, back)
