"""The clock of partialMetrics: since when a cluster has been without usable data.

It starts at the first loss. A cluster that answers for a moment does not stop it: the clock is forgotten only
after a stretch of answers without a break, half as long as `lostAfterSeconds`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.times import format_time, parse_time

JSON = object

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


def encode_absences(absences: Mapping[str, Absence]) -> Mapping[str, JSON]:
    """The clocks as JSON, by cluster."""
    return {
        cluster: {"since": format_time(absence.since)}
        | ({} if absence.back is None else {"back": format_time(absence.back)})
        for cluster, absence in absences.items()
    }


def decode_absences(raw: JSON) -> dict[str, Absence]:
    """The clocks of a stored decision; what cannot be read is left out."""
    found: dict[str, Absence] = {}
    for cluster, entry in raw.items() if isinstance(raw, Mapping) else ():
        fields = entry if isinstance(entry, Mapping) else {}
        since = _time(fields.get("since"))
        if since is not None:
            found[str(cluster)] = Absence(since, _time(fields.get("back")))
    return found


def _time(value: JSON) -> float | None:
    try:
        return parse_time(value) if isinstance(value, str) else None
    except InvalidObject:
        return None
