"""The record of a FederatedHPA on a hub whose CRD drops status.decision: what a restart and `explain` need.

The record holds status.decision, status.clusters and status.assignedFor. If they are too large, first the
details that only people read are left out, then the shares of clusters that answer, then the oldest history.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fedhpa.api.errors import InvalidObject
from fedhpa.api.record_annotation import decode_record, encode_record, fits
from fedhpa.decision.model import ANSWERED_STATES
from fedhpa.decision.record.memory import CLUSTER_FIELDS, STATUS_FIELDS
from fedhpa.decision.record.status import ASSIGNMENT_FIELDS, read_status

Json = Mapping[str, Any]

# The fields of status.decision that a decision after a restart needs.
_RESTART_FIELDS: Final = (
    "version",
    "time",
    "currentReplicas",
    "desiredReplicas",
    "rescale",
    "moved",
    "distributed",
    "reason",
    "error",
    "coverage",
    "propagation",
    "controller",
    "absences",
    "rebalance",
    "history",
)
_CLUSTER_FIELDS: Final = ("name", *CLUSTER_FIELDS)
# The bounds of a cluster without more are those of its HPA, so its entry may be left out.
_BOUNDS: Final = frozenset(("minReplicas", "maxReplicas"))
_STATE_FIELDS: Final = frozenset(ASSIGNMENT_FIELDS) - _BOUNDS
_READ_AGAIN: Final = frozenset(("currentReplicas", "desiredReplicas", "lastScaleTime", "lastSeen"))
_FEWER_CLUSTERS: Final = (256, 128, 64, 32, 16)
_FEWER_ENTRIES: Final = (60, 30, 15, 8)


def record_text(uid: str, status: Json) -> str:
    """Returns the record of a status as text, at most 16 KiB; "" if even the least of it is larger."""
    assigned = {name: status[name] for name in ("assignedFor",) if name in status}
    for decision, clusters in _forms(status.get("decision") or {}, status.get("clusters") or ()):
        text = encode_record(uid, {"decision": decision, "clusters": clusters, **assigned})
        if fits(text):
            return text
    return ""


def with_record(raw: Json) -> Json:
    """Returns the object with the status that its record completes; the object itself if there is no need.

    Fields of the status take precedence over the record. A record that cannot be decoded is ignored.
    """
    status = raw.get("status")
    status = status if isinstance(status, Mapping) else {}
    if "decision" in status:
        return raw
    fields = decode_record(raw["metadata"])
    recorded = {name: fields[name] for name in STATUS_FIELDS if name in fields}
    if not isinstance(recorded.get("decision"), dict):
        return raw
    try:
        stored = read_status(recorded)
        stored.last_decision()
        stored.absence_clocks()
    except InvalidObject:
        return raw
    return {**raw, "status": {**recorded, **status}}


def is_shortened(decision: object) -> bool:
    """True if a decision of a record lacks the details that explain it."""
    return isinstance(decision, Mapping) and decision.get("shortened") is True


def _forms(decision: Json, clusters: Sequence[Json]) -> Iterator[tuple[Json, Sequence[Json]]]:
    """Yields the decision and the clusters, each time with less."""
    yield decision, clusters
    least = {name: decision[name] for name in _RESTART_FIELDS if name in decision} | {"shortened": True}
    least["coverage"] = {**(decision.get("coverage") or {}), "missing": {}}
    lean = [{name: entry[name] for name in _CLUSTER_FIELDS if name in entry} for entry in clusters]
    # The shares of clusters that answer are read again at the start. Help, holds and the like are not.
    lean.sort(key=lambda entry: _is_read_again(entry) and _STATE_FIELDS.isdisjoint(entry))
    yield least, lean
    lean = [_without_shares(entry) if _is_read_again(entry) else entry for entry in lean]
    yield least, lean
    for count in _FEWER_CLUSTERS:
        yield least, lean[:count]
    fewest, absences = lean[: _FEWER_CLUSTERS[-1]], list((decision.get("absences") or {}).items())
    for count in _FEWER_ENTRIES:
        history = {
            name: entries[-count:] if isinstance(entries, list) else entries
            for name, entries in (decision.get("history") or {}).items()
        }
        kept = {"history": history} | ({"absences": dict(absences[: 4 * count])} if absences else {})
        yield least | kept, fewest


def _is_read_again(entry: Json) -> bool:
    return entry.get("state") in ANSWERED_STATES


def _without_shares(entry: Json) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in _READ_AGAIN}
