"""The changes of a FederatedHPA's status that are worth a write.

Changes that a person would act on are written at once. Other changes are written at most once a minute. If
only times change, one write in ten minutes is enough (docs/reference/federatedhpa.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

QUIET_SECONDS: Final = 60.0
# For a status in which only times differ: shows that the controller still works.
STILL_SECONDS: Final = 600.0

# The fields that a person acts on, by level. Usage and times beside them change at every reconcile.
TOP_FIELDS: Final = (
    "currentReplicas",
    "desiredReplicas",
    "observedGeneration",
    "lastScaleTime",
)
CONDITION_FIELDS: Final = ("type", "status", "reason")
CLUSTER_FIELDS: Final = (
    "name",
    "state",
    "currentReplicas",
    "desiredReplicas",
    "minReplicas",
    "maxReplicas",
)


def worth_writing(
    stored: Mapping[str, Any] | None, wanted: Mapping[str, Any], written_at: float, now: float
) -> bool:
    """True if `wanted` should replace the `stored` status; `written_at` is our last write, POSIX seconds."""
    if stored is None or _essence(stored) != _essence(wanted):
        return True
    # The clock of a former leader may have been ahead of ours.
    waited = abs(now - written_at)
    if waited < QUIET_SECONDS or stored == wanted:
        return False
    return waited >= STILL_SECONDS or _without_times(stored) != _without_times(wanted)


def _essence(status: Mapping[str, Any]) -> tuple[Any, ...]:
    """The parts of a status that a person acts on."""
    return (
        tuple(status.get(name) for name in TOP_FIELDS),
        _rows(status.get("conditions"), CONDITION_FIELDS),
        _rows(status.get("clusters"), CLUSTER_FIELDS),
        _reason(status.get("summary")),
    )


def _without_times(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status without the times of answers, which change although nothing happens."""
    clusters = [{**entry, "lastSeen": None} for entry in status.get("clusters") or ()]
    return {**status, "lastSeen": None, "clusters": clusters}


def _reason(summary: Any) -> tuple[str, ...]:
    """The reason up to a colon: details of an absence may vary.

    Words with digits are left out: names of pods, numbers and times vary without a new cause.
    """
    reason = summary.get("reason") if isinstance(summary, Mapping) else None
    words = str(reason or "").partition(":")[0].split()
    return tuple(word for word in words if not any(letter.isdigit() for letter in word))


def _rows(entries: Sequence[Mapping[str, Any]] | None, fields: Sequence[str]) -> tuple[Any, ...]:
    return tuple(tuple(entry.get(name) for name in fields) for entry in entries or ())
