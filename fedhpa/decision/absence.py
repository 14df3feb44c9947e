"""The state of a cluster, and the clock of partialMetrics: how long it has been without usable data.

The clock starts at the first loss and runs only while the cluster is missing. Answers for less than half of
`lostAfterSeconds` stop it and do not reset it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fedhpa.assignment import Seconds

# status.clusters[].state. Clusters in the first three states answered.
ANSWERED: Final = "Answered"
METRICS_MISSING: Final = "MetricsMissing"
METRICS_LOST: Final = "MetricsLost"
MISSING: Final = "Missing"
LOST: Final = "Lost"
ANSWERED_STATES: Final = frozenset((ANSWERED, METRICS_MISSING, METRICS_LOST))
LOST_STATES: Final = frozenset((METRICS_LOST, LOST))

# With a smaller part, a cluster that is missing most of the time would be expected for ever. With the whole
# time, one failure an hour would give up a healthy cluster.
STEADY_SHARE: Final = 0.5


class Absence(msgspec.Struct, frozen=True, omit_defaults=True):
    """The clock of one cluster.

    `since` is the first loss and `back` the time when data came again, None while the cluster is missing;
    both are POSIX seconds. `answered` is how many seconds the cluster answered between them.
    """

    since: Seconds
    back: Seconds | None = None
    answered: Seconds = 0.0

    def elapsed(self, now: float) -> float:
        """Returns for how many seconds the cluster has been missing. A time in the future counts as now."""
        until = now if self.back is None else min(self.back, now)
        return max(until - self.since - self.answered, 0.0)


def follow(known: Absence | None, usable: bool, now: float, lost_after: float) -> Absence | None:
    """Returns the clock after a reconcile that found the data `usable` or not; None if no clock runs."""
    if known is None:
        return None if usable else Absence(now)
    # The clock of a former leader may have been ahead of ours.
    since, back = min(known.since, now), known.back if known.back is None else min(known.back, now)
    if usable:
        back = now if back is None else back
        return None if now - back >= lost_after * STEADY_SHARE else Absence(since, back, known.answered)
    return Absence(since, None, known.answered if back is None else known.answered + now - back)
