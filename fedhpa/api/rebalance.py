"""The annotation that asks for one rebalance of the replicas over the clusters."""

from __future__ import annotations

from typing import Final

from fedhpa.api.errors import InvalidObject
from fedhpa.api.times import parse_time

REBALANCE_ANNOTATION: Final = "autoscaling.karmada.io/rebalance"
# The value is stored in the status, and no RFC 3339 time is longer.
_MAX_LENGTH: Final = 64


def rebalance_time(value: str) -> float:
    """Returns the time of the annotation's value in POSIX seconds. Raises InvalidObject with the remedy."""
    try:
        found = parse_time(value) if len(value) <= _MAX_LENGTH else None
    except InvalidObject:
        found = None
    if found is None:
        shown = value if len(value) <= _MAX_LENGTH else f"{value[:_MAX_LENGTH]}..."
        raise InvalidObject(
            f"annotation {REBALANCE_ANNOTATION}: {shown!r} is no RFC 3339 time; "
            "write the present time, such as 2026-03-11T13:23:17Z"
        )
    return found
