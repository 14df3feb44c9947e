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
from fedhpa.api.json import InvalidJson, convert_json, decode_json
from fedhpa.api.times import format_time
from fedhpa.decision.memory import Absence, ClusterMemory, History, MemoryState
from fedhpa.decision.record.fields import convert_at, required_time
from fedhpa.scaling import Recommendation, ScaleEvent


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


def _check_names(path: str, raw: Any, read: object) -> None:
    """Raises InvalidObject for a field of `raw` that the struct `read` from it does not have."""
    if isinstance(read, msgspec.Struct):
        names = dict(zip(read.__struct_encode_fields__, read.__struct_fields__, strict=True))
        for name, value in raw.items():
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
