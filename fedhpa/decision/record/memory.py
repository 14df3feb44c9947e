"""The memory of one decision as JSON: the state of a ScalingRecord, and `record` of scenarios and decisions.

`history` of scenarios and decisions holds a part of it again, with times as RFC 3339.

The controller stores it by itself, and a field that a newer release added is skipped. In a scenario no field
may be unknown: a person may have written it, and a slip there would silently be a fresh start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.free_json import time_at
from fedhpa.api.json import InvalidJson, convert_json, decode_json
from fedhpa.api.times import format_time
from fedhpa.assignment import NO_STATE, ClusterState
from fedhpa.decision.memory import ANSWERED_STATES, Absence, ClusterMemory, History, MemoryState, Rebalance
from fedhpa.decision.record.fields import convert_at, required_time
from fedhpa.decision.snapshot import StoredStatus
from fedhpa.scaling import Recommendation, ScaleEvent

JSON = object


def encode_memory(memory: MemoryState) -> dict[str, Any]:
    """Returns the memory as JSON."""
    encoded: dict[str, Any] = decode_json(msgspec.json.encode(memory), dict[str, Any])
    return encoded


def decode_memory(record: Any, path: str = "record") -> MemoryState:
    """Returns the memory in a scenario. Raises InvalidObject whose text begins with the path."""
    try:
        memory = convert_json(record, MemoryState)
    except InvalidJson:
        # The library does not name the key of a table.
        for table, kind in (("absences", Absence), ("clusters", ClusterMemory)):
            entries = record.get(table) if isinstance(record, dict) else None
            for name, entry in entries.items() if isinstance(entries, dict) else ():
                convert_at(f"{path}.{table}.{name}", entry, kind)
        memory = convert_at(path, record, MemoryState)
    _check_names(path, record, memory)
    return memory


# Fields that earlier releases recorded. Nothing reads them, and their scenarios replay.
_EARLIER: Final = frozenset(("waits", "excessSince", "stepped"))


def _check_names(path: str, raw: Any, read: object) -> None:
    """Raises InvalidObject for a field of `raw` that the struct `read` from it does not have."""
    if isinstance(read, msgspec.Struct):
        names = dict(zip(read.__struct_encode_fields__, read.__struct_fields__, strict=True))
        for name, value in raw.items():
            if name in _EARLIER:
                continue
            if name not in names:
                raise InvalidObject(f"{path}.{name}: unknown field")
            _check_names(f"{path}.{name}", value, getattr(read, names[name]))
    elif isinstance(read, dict):
        for name, value in raw.items():
            _check_names(f"{path}.{name}", value, read[name])
    elif isinstance(read, tuple):
        for index, (value, one) in enumerate(zip(raw, read, strict=True)):
            _check_names(f"{path}[{index}]", value, one)


def encode_history(history: History) -> Mapping[str, object]:
    """Returns the history as JSON. A fresh start has no `recommendations`."""
    known, ups, downs = history.recommendations, history.scale_ups, history.scale_downs
    return {
        **({} if known is None else {"recommendations": [_with_text(one) for one in known]}),
        "scaleUps": [_with_text(one) for one in ups],
        "scaleDowns": [_with_text(one) for one in downs],
    }


def decode_history(raw: Mapping[str, Any]) -> History:
    """Returns the history of a scenario. Absent recommendations are a fresh start, an empty list is not.

    Raises InvalidObject naming the field.
    """
    found = {
        name: [_with_seconds(f"history.{name}[{index}]", one) for index, one in enumerate(entries)]
        if isinstance(entries, list)
        else entries
        for name, entries in raw.items()
    }
    history = convert_at("history", found, History)
    _check_names("history", found, history)
    return history


_FIELDS: Final = frozenset((*Recommendation.__struct_fields__, *ScaleEvent.__struct_fields__))


def _with_seconds(path: str, entry: Any) -> Any:
    if not isinstance(entry, dict) or "time" not in entry:
        return entry
    for name in sorted(entry.keys() - _FIELDS):
        raise InvalidObject(f"{path}.{name}: unknown field")
    return {**entry, "time": required_time(f"{path}.time", convert_at(f"{path}.time", entry["time"], str))}


def _with_text(entry: Recommendation | ScaleEvent) -> Mapping[str, object]:
    return {**msgspec.structs.asdict(entry), "time": format_time(entry.time)}


def memory_of_status(status: StoredStatus) -> MemoryState:
    """Returns the memory that old scenarios hold in their status, without history; for `fedhpa replay` alone.

    A part that cannot be read is absent: another program may have written the status.
    """
    decision = status.decision if isinstance(status.decision, Mapping) else {}
    wrote = decision.get("rescale") is True or decision.get("moved") is True
    decided = _number(decision.get("desiredReplicas" if wrote else "currentReplicas"))
    size = (status.desired_replicas if wrote else status.current_replicas) if decided is None else decided
    entries = status.entries
    return MemoryState(
        size=size,
        absences=_absences(decision.get("absences"), entries),
        rebalance=_rebalance(decision.get("rebalance")),
        clusters={name: _cluster(entry, wrote=wrote) for name, entry in entries.items()},
        assigned_for=status.assigned_for if isinstance(status.assigned_for, str) else "",
    )


def _cluster(entry: Mapping[str, JSON], *, wrote: bool) -> ClusterMemory:
    # After a write, currentReplicas is the share before it and desiredReplicas the share after it.
    written = _number(entry.get("desiredReplicas")) if wrote else None
    state = entry.get("state")
    return ClusterMemory(
        replicas=_number(entry.get("currentReplicas")) if written is None else written,
        state=state if isinstance(state, str) else "",
        seen=time_at(entry.get("lastSeen")),
        scaled=time_at(entry.get("lastScaleTime")),
        assignment=_assignment(entry),
    )


def _assignment(entry: Mapping[str, JSON]) -> ClusterState:
    zero = entry.get("zero")
    return _readable(
        {
            "minimum": entry.get("minReplicas"),
            "maximum": entry.get("maxReplicas"),
            "lost": entry.get("lost"),
            "zeroSince": time_at(zero.get("since")) if isinstance(zero, Mapping) else None,
            "idleSince": time_at(entry.get("idleSince")),
        }
    )


def _readable(found: Mapping[str, JSON]) -> ClusterState:
    """Returns the state of the fields that can be read."""
    kept = {name: value for name, value in found.items() if value is not None}
    for name in list(kept):
        try:
            convert_json({name: kept[name]}, ClusterState)
        except InvalidJson:
            del kept[name]
    state: ClusterState = convert_json(kept, ClusterState)
    return NO_STATE if state == NO_STATE else state  # only the default itself is left out of JSON


def _absences(raw: JSON, entries: Mapping[str, Mapping[str, JSON]]) -> dict[str, Absence]:
    """Returns the clocks of lost clusters. One that the decision has no clock for is lost since lastSeen."""
    found: dict[str, Absence] = {}
    for cluster, entry in raw.items() if isinstance(raw, Mapping) else ():
        fields = entry if isinstance(entry, Mapping) else {}
        since, answered = time_at(fields.get("since")), fields.get("answeredSeconds")
        if since is not None:
            seconds = float(answered) if isinstance(answered, int | float) and answered >= 0 else 0.0
            clock = Absence(since, time_at(fields.get("back")))
            # A number that equals the default is left out of JSON only if it is not set.
            found[str(cluster)] = msgspec.structs.replace(clock, answered=seconds) if seconds else clock
    for cluster, entry in entries.items():
        seen = time_at(entry.get("lastSeen"))
        state = entry.get("state")
        answered_last = isinstance(state, str) and state in ANSWERED_STATES
        if seen is not None and not answered_last:
            found.setdefault(cluster, Absence(seen))
    return found


def _rebalance(raw: JSON) -> Rebalance | None:
    if not isinstance(raw, Mapping):
        return None
    try:
        return convert_json({**raw, "since": time_at(raw.get("since"))}, Rebalance)
    except InvalidJson:
        return None


def _number(value: JSON) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
