"""The annotation that asks for one rebalance of the replicas over the clusters."""

from __future__ import annotations

from typing import Final

from fedhpa.api.errors import InvalidObject
from fedhpa.api.times import MAX_TIME, known_time

REBALANCE_ANNOTATION: Final = "autoscaling.karmada.io/rebalance"


def rebalance_time(value: str) -> float:
    """Returns the time of the annotation's value in POSIX seconds. Raises InvalidObject with the remedy."""
    found = known_time(value)
    if found is None:
        shown = value if len(value) <= MAX_TIME else f"{value[:MAX_TIME]}..."
        raise InvalidObject(
            f"annotation {REBALANCE_ANNOTATION}: {shown!r} is no RFC 3339 time; "
            "write the present time, such as 2026-03-11T13:23:17Z"
        )
    return found
