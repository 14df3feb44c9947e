"""The limit of nesting: how many levels of objects and lists within each other an admitted object may have.

Every process that reads stored objects must be able to decode them, and decoders fail at some depth. The
limits here are well below the limit of those decoders. A request is answered with its uid at any depth.
"""

from __future__ import annotations

from typing import Any, Final

from fedhpa.api.json import nested_deeper
from webhook.admission_review import Refused, one_line

# Objects of both kinds have at most ten levels, apart from managedFields.
MAX_LEVELS: Final = 64
# The API server writes the paths of an object's fields there, with one level for each list more.
MAX_MANAGED_FIELDS_LEVELS: Final = 150

# A message shows the first keys of a path, and only the start of a long key.
_SHOWN_KEYS: Final = 4
_MAX_KEY: Final = 60

# The path of a value: its parent's path and its own key or index.
_Path = tuple[Any, str] | None


def check_nesting(raw: dict[str, Any]) -> None:
    """Raises Refused if an object is nested too deeply. The message names the field and the remedy."""
    if not nested_deeper(raw, MAX_LEVELS):
        return
    metadata = raw.get("metadata")
    managed_fields = metadata.get("managedFields") if isinstance(metadata, dict) else None
    for field, limit in (
        (_deep_field(raw, MAX_LEVELS, skipped=managed_fields), MAX_LEVELS),
        (_deep_field(raw, MAX_MANAGED_FIELDS_LEVELS), MAX_MANAGED_FIELDS_LEVELS),
    ):
        if field:
            raise Refused(
                f"{field}: nested more than {limit} levels deep; remove levels until at most {limit} remain"
            )


def _deep_field(raw: dict[str, Any], levels: int, skipped: Any = None) -> str:
    """Returns the path of a value below more than `levels` levels, or "" if there is none."""
    level: list[tuple[Any, _Path]] = [(raw, None)]
    for _ in range(levels):
        level = [
            (child, (path, key))
            for parent, path in level
            for key, child in _children(parent)
            if isinstance(child, dict | list) and child is not skipped
        ]
        if not level:
            return ""
    return _shown(level[0][1])


def _children(parent: dict[str, Any] | list[Any]) -> list[tuple[str, Any]]:
    if isinstance(parent, dict):
        return [(f".{key}", child) for key, child in parent.items()]
    return [(f"[{index}]", child) for index, child in enumerate(parent)]


def _shown(path: _Path) -> str:
    keys: list[str] = []
    while path is not None:
        path, key = path
        keys.append(one_line(key, _MAX_KEY))
    return "".join(reversed(keys[-_SHOWN_KEYS:])).removeprefix(".") + "..."
