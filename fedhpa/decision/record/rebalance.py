"""The rebalance of a FederatedHPA as status.decision stores it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.rebalance import rebalance_time
from fedhpa.api.times import format_time, parse_time

JSON = object


class Rebalance(msgspec.Struct, frozen=True):
    """The rebalance that an annotation asked for last.

    `requested` is the annotation's value. It began at `since`, in POSIX seconds. `size` are the replicas
    without the surge. `ended` is why it ended, "" while it goes on.
    """

    requested: str
    since: float
    size: int
    ended: str = ""


def encode_rebalance(rebalance: Rebalance) -> Mapping[str, JSON]:
    """Returns the rebalance as JSON."""
    return {
        "requested": rebalance.requested,
        "since": format_time(rebalance.since),
        "size": rebalance.size,
        **({"ended": rebalance.ended} if rebalance.ended else {}),
    }


def decode_rebalance(raw: JSON) -> Rebalance | None:
    """Returns the stored rebalance; None without one, or if another program wrote it and it is unreadable."""
    if not isinstance(raw, Mapping):
        return None
    requested, since, size, ended = (raw.get(name) for name in ("requested", "since", "size", "ended"))
    if not isinstance(requested, str) or not isinstance(since, str):
        return None
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**31:
        return None
    try:
        rebalance_time(requested)
        began = parse_time(since)
    except InvalidObject:
        return None
    reason = ended[:64] if isinstance(ended, str) else ""
    return None if began is None else Rebalance(requested, began, size, reason)
