"""Reads JSON of any shape, such as objects that a hub without our schema stores. Nothing here raises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpa.api.times import known_time

Json = dict[str, Any]


def at(value: Any, *path: str | int) -> Any:
    """Returns the value at a path of free JSON; None if any part of the path is not there."""
    for key in path:
        if isinstance(value, Mapping) and isinstance(key, str):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            return None
    return value


def entries(value: Any, *path: str | int) -> list[Json]:
    """Returns the objects in the list at a path; none if there is no such list."""
    found = at(value, *path)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def text_at(value: Any, *path: str | int) -> str:
    """Returns the text at a path; "" if there is none."""
    found = at(value, *path)
    return found if isinstance(found, str) else ""


def time_at(value: Any, *path: str | int) -> float | None:
    """Returns the time at a path in POSIX seconds; None without a readable one."""
    return known_time(at(value, *path))


def condition(raw: Any, kind: str) -> Json:
    """Returns a condition of an object; an empty one if it has none of this type."""
    return next((one for one in entries(raw, "status", "conditions") if one.get("type") == kind), {})
