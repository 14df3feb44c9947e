"""The memory of one decision as JSON: the state of a ScalingRecord, and `record` of scenarios and decisions.

The controller stores it by itself, and a field that a newer release added is skipped. In a scenario no field
may be unknown: a person may have written it, and a slip there would silently be a fresh start.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import InvalidJson, convert_json, decode_json
from fedhpa.decision.memory import Absence, ClusterMemory, MemoryState
from fedhpa.decision.record.fields import path_first

T = TypeVar("T")


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
                _convert(f"{path}.{table}.{name}", entry, kind)
        memory = _convert(path, record, MemoryState)
    _check_names(path, record, memory)
    return memory


def _convert(path: str, value: Any, kind: type[T]) -> T:
    try:
        return convert_json(value, kind)
    except InvalidJson as error:
        found = path_first(str(error), whole="")
        raise InvalidObject(f"{path}{'' if found.startswith(':') else '.'}{found}") from error


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
