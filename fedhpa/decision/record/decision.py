"""The decision as JSON: whole, and compact, as `fedhpa explain` shows it and the ScalingRecord keeps it.

Format and order of keys: docs/reference/decision-record.md. The compact form has a bounded size, whatever was
decided.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import InvalidJson, convert_json
from fedhpa.api.scaling_record import check_version
from fedhpa.api.times import Seconds, format_time, parse_time
from fedhpa.assignment import Bounds
from fedhpa.decision.memory import ANSWERED_STATES, LOST_STATES, VERSION, ClusterMemory, MemoryState
from fedhpa.decision.model import (
    ClusterMembership,
    Coverage,
    Decision,
    MemberBounds,
    MetricResult,
    StatusCondition,
    Step,
    member_bounds,
    shortened,
)
from fedhpa.decision.record.memory import encode_history, encode_memory
from fedhpa.decision.settings import ControllerSettings, encode_settings, stored_settings

JSON = object


def to_json(decision: Decision, name: str = "", now_text: str = "") -> Mapping[str, JSON]:
    """Returns the decision as a JSON object; `now_text` is the time as the scenario has it."""
    published = decision.placement and [
        {"cluster": one.cluster, "reason": one.reason, "profile": one.profile and str(one.profile)}
        for one in decision.placement.clusters
    ]
    found = {
        "name": name,
        **_reasons(decision, now_text),
        "status": decision.status,
        "history": encode_history(decision.history),
        "record": encode_memory(decision.memory),
        **({} if published is None else {"published": published}),
        **_assignment(decision),
    }
    return msgspec.to_builtins(found)  # type: ignore[no-any-return]


def explained_json(decision: Decision) -> Mapping[str, JSON]:
    """Returns the decision as `to_json` does, to be encoded, without name, status and memory."""
    return {**_reasons(decision, ""), **_assignment(decision)}


def _reasons(decision: Decision, now_text: str) -> Mapping[str, JSON]:
    return {
        "now": now_text or format_time(decision.now),
        "currentReplicas": decision.current_replicas,
        "desiredReplicas": decision.desired_replicas,
        "rescale": decision.rescale,
        "reason": decision.reason,
        "error": decision.error,
        "coverage": decision.coverage,
        "metrics": [_metric(metric) for metric in decision.metrics],
        "steps": decision.steps,
        "conditions": [
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
            }
            for condition in decision.conditions
        ],
        "events": decision.events,
        **({"memberships": decision.memberships} if decision.memberships else {}),
    }


def _assignment(decision: Decision) -> Mapping[str, JSON]:
    if decision.distributed:
        return _bounds(decision)
    no_hpa = {"minReplicas": None, "maxReplicas": None}
    shares = decision.assignment.items()
    return {"assignment": [{"cluster": name, "replicas": share, **no_hpa} for name, share in shares]}


def _bounds(decision: Decision) -> Mapping[str, JSON]:
    return {
        "assignment": [
            {
                "cluster": share.cluster,
                "minReplicas": share.min_replicas,
                "maxReplicas": share.max_replicas,
                **({} if share.replicas is None else {"replicas": share.replicas}),
            }
            for share in decision.bounds
        ],
        "writes": [
            {"cluster": write.cluster, "before": _pair(write.before), "after": _pair(write.after)}
            for write in decision.hpa_writes
        ],
        **({"changes": list(decision.changes)} if decision.changes else {}),
    }


def _pair(bounds: Bounds | None) -> Mapping[str, JSON] | None:
    if bounds is None:
        return None
    return {"minReplicas": bounds.minimum, "maxReplicas": bounds.maximum}


def to_line(decision: Decision, name: str = "", now_text: str = "") -> bytes:
    """Returns the decision as one line of compact JSON, without a newline."""
    return msgspec.json.encode(to_json(decision, name, now_text))


def _metric(metric: MetricResult) -> dict[str, JSON]:
    fields: dict[str, JSON] = msgspec.to_builtins(metric)
    del fields["status"]
    if not metric.missing:
        del fields["missing"]
    if metric.usage_ratio is not None and not math.isfinite(metric.usage_ratio):
        fields["usageRatio"] = None
    return fields


_MAX_TEXT: Final = 256
_MAX_CLUSTERS: Final = 32
_MAX_METRICS: Final = 64
# Only so many metrics are shown by cluster and pod: 64 would make the record too large.
_MAX_DETAILED: Final = 8


class CompactCoverage(msgspec.Struct):
    """coverage: the missing, lost and bridged clusters by name. The memory names the others."""

    missing: dict[str, str] = {}
    lost: dict[str, str] = {}
    bridged: dict[str, float] = {}
    policy: str = ""
    applied: bool = False


_KEYS: Final = {
    "now": "time",
    "current_replicas": "currentReplicas",
    "desired_replicas": "desiredReplicas",
    "moves": "moved",
}


class CompactDecision(msgspec.Struct, rename=_KEYS):
    """A decision as far as `fedhpa explain` shows it; the fields are those of Decision."""

    now: str
    current_replicas: int
    desired_replicas: int
    rescale: bool
    reason: str
    coverage: CompactCoverage
    moves: bool = False
    error: str | None = None
    metrics: tuple[MetricResult, ...] = ()
    steps: tuple[Step, ...] = ()
    tolerance: tuple[float, float] | None = None
    distributed: bool = False
    memberships: dict[str, ClusterMembership] = {}
    changes: tuple[str, ...] = ()


def compact_decision(decision: Decision) -> Mapping[str, JSON]:
    """Returns the decision in its compact form: the whole one, cut and without what stands elsewhere."""
    coverage = decision.coverage
    fields = msgspec.to_builtins(_reasons(decision, ""))
    for key in ("now", "conditions", "events"):
        del fields[key]
    more = len(coverage.missing) - _MAX_CLUSTERS
    fields["coverage"] = {
        **msgspec.to_builtins(coverage),
        "expected": len(coverage.expected),
        "answered": len(coverage.answered),
        **({"moreMissing": more} if more > 0 else {}),
    }
    details = ("pods", "clusters", "missing")
    fields["metrics"] = [
        {
            key: value
            for key, value in _metric(one).items()
            if key not in details or (value and one.index < _MAX_DETAILED)
        }
        for one in decision.metrics[:_MAX_METRICS]
    ]
    optional = {
        "moved": decision.moves,
        "distributed": decision.distributed,
        "changes": decision.changes[:_MAX_CLUSTERS],
        "propagation": decision.propagation,
        "controller": encode_settings(decision.settings, changed_only=True),
        "tolerance": decision.tolerance if decision.metrics else None,
    }
    found = {key: value for key, value in optional.items() if value}
    return {
        "time": format_time(decision.now),
        **{key: _cut(value) for key, value in (fields | found).items()},
    }


def _cut(value: JSON) -> JSON:
    """Returns JSON with texts and tables of bounded length."""
    if isinstance(value, str):
        return shortened(value, _MAX_TEXT)
    if isinstance(value, Mapping):
        return {key: _cut(one) for key, one in list(value.items())[:_MAX_CLUSTERS]}
    return [_cut(one) for one in value] if isinstance(value, list | tuple) else value


def decode_compact(
    fields: JSON, state: MemoryState, conditions: tuple[StatusCondition, ...] = ()
) -> Decision:
    """Returns the decision that left `state`, without its status, events and shares.

    Raises InvalidObject if it cannot be read.
    """
    try:
        compact = convert_json(fields, CompactDecision)
    except InvalidJson as error:
        raise InvalidObject(f"the decision cannot be read: {error}") from error
    found = msgspec.structs.asdict(compact)
    found["now"] = parse_time(compact.now) or 0.0
    found["coverage"] = _stored_coverage(compact.coverage, state)
    if compact.distributed:
        found["bounds"] = tuple(_stored_bounds(name, one) for name, one in sorted(state.clusters.items()))
    return Decision(
        **found,
        conditions=conditions,
        events=(),
        status={},
        history=state.history,
        memory=state,
    )


def _stored_bounds(name: str, known: ClusterMemory) -> MemberBounds:
    state = known.assignment
    bounds = member_bounds(name, None if state.lost else state.bounds, state)
    return msgspec.structs.replace(
        bounds, current=known.replicas, is_missing=known.state not in ANSWERED_STATES
    )


def _stored_coverage(compact: CompactCoverage, state: MemoryState) -> Coverage:
    states = state.states.items()
    return Coverage(
        expected=tuple(name for name, one in states if one not in LOST_STATES),
        answered=tuple(name for name, one in states if one in ANSWERED_STATES and one not in LOST_STATES),
        missing=compact.missing,
        policy=compact.policy,
        applied=compact.applied,
        lost={name: compact.lost.get(name, "") for name, one in states if one in LOST_STATES},
        bridged=compact.bridged,
    )


# The decision is left out of a larger content; the memory never is.
MAX_BYTES: Final = 64 * 1024


class StoredRecord(msgspec.Struct, frozen=True):
    """The memory, and the compact form of the decision that left it; it is empty if it was too large.

    `time` is that of the decision, in POSIX seconds. `hubAhead` is by how many seconds the hub's clock was
    ahead of the clock that all times in the record are of.
    """

    version: int = 0
    time: Seconds = 0.0
    state: MemoryState = MemoryState()
    decision: dict[str, Any] = {}
    hubAhead: float = 0.0

    @property
    def propagation(self) -> str:
        """The controller's --propagation, "" if unknown."""
        return str(self.decision.get("propagation") or "")

    @property
    def settings(self) -> ControllerSettings:
        """The controller's settings. One that is absent or unreadable has its default."""
        return stored_settings(self.decision.get("controller"))

    def last_decision(self, conditions: tuple[StatusCondition, ...] = ()) -> Decision | None:
        """Returns the decision without status, events and shares; None without one.

        `conditions` are those of the object's status. Raises InvalidObject if it cannot be read.
        """
        return decode_compact(self.decision, self.state, conditions) if self.decision else None


def encode_stored(memory: MemoryState, decision: Decision) -> dict[str, JSON]:
    """Returns the content with this memory and, unless it would be too large, the decision."""
    state = msgspec.to_builtins(memory)
    content: dict[str, JSON] = {"version": VERSION, "time": decision.now, "state": state}
    whole = {**content, "decision": compact_decision(decision)}
    return whole if len(msgspec.json.encode(whole)) <= MAX_BYTES else content


def decode_stored(content: Mapping[str, JSON]) -> StoredRecord:
    """Returns the content of a record. Raises UnknownVersion, or InvalidObject if it cannot be read."""
    check_version(content, VERSION)
    try:
        return convert_json(content, StoredRecord)
    except InvalidJson as error:
        raise InvalidObject(f"it cannot be read: {error}") from error
