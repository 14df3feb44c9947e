"""The stored status of a FederatedHPA, as far as a decision reads it: what people see of the last one.

Another program may have written it, so what no decision depends on may be of any type.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.times import parse_time
from fedhpa.decision.model import StatusCondition

JSON = object


class RawCondition(msgspec.Struct):
    """One entry of status.conditions."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    lastTransitionTime: str | None = None
    observedGeneration: JSON = None


class RawStatus(msgspec.Struct):
    """status as stored. The fields of type JSON may hold anything: they do not stop a decision.

    `assignedFor` and `decision` are those of old scenarios, which hold the memory in the status.
    """

    currentReplicas: int | None = None
    desiredReplicas: int | None = None
    lastScaleTime: str | None = None
    currentMetrics: list[dict[str, JSON]] | None = None
    conditions: list[RawCondition] | None = None
    observedGeneration: JSON = None
    lastSeen: JSON = None
    clusters: JSON = None
    assignedFor: JSON = None
    decision: JSON = None


class StoredStatus(msgspec.Struct, frozen=True):
    """The status that a FederatedHPA came with; `clusters` is as stored."""

    current_replicas: int | None = None
    desired_replicas: int | None = None
    last_scale_time: str | None = None
    current_metrics: tuple[Mapping[str, JSON], ...] | None = None
    conditions: tuple[StatusCondition, ...] = ()
    observed_generation: int | None = None
    clusters: JSON = None

    @property
    def shares(self) -> dict[str, int]:
        """The clusters' replicas, as far as known."""
        shown = {name: one.get("currentReplicas") for name, one in cluster_entries(self.clusters).items()}
        return {name: replicas for name, replicas in shown.items() if type(replicas) is int}


def stored_status(raw: RawStatus) -> StoredStatus:
    """Returns the status of its decoded JSON."""
    return StoredStatus(
        current_replicas=raw.currentReplicas,
        desired_replicas=raw.desiredReplicas,
        last_scale_time=raw.lastScaleTime,
        current_metrics=None if raw.currentMetrics is None else tuple(raw.currentMetrics),
        conditions=tuple([_condition(condition) for condition in raw.conditions or ()]),
        observed_generation=number(raw.observedGeneration),
        clusters=raw.clusters,
    )


def cluster_entries(clusters: JSON) -> dict[str, Mapping[str, JSON]]:
    """Returns the readable entries of status.clusters by name."""
    entries = clusters if isinstance(clusters, list) else []
    # Decoded JSON has no other mapping. Its exact type is compared quickly.
    return {
        name: entry for entry in entries if type(entry) is dict and type(name := entry.get("name")) is str
    }


def last_answer(raw: RawStatus) -> float | None:
    """Returns when clusters answered last, in POSIX seconds; None if that is not known."""
    with contextlib.suppress(InvalidObject):
        return parse_time(raw.lastSeen) if isinstance(raw.lastSeen, str) else None
    return None


def number(value: JSON) -> int | None:
    """Returns a whole number; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _condition(raw: RawCondition) -> StatusCondition:
    return StatusCondition(
        raw.type,
        raw.status,
        raw.reason or "",
        raw.message or "",
        raw.lastTransitionTime or "",
        number(raw.observedGeneration),
    )
