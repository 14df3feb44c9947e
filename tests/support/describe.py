"""The lines of `kubectl describe` for an object of a custom kind, without events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

# kubectl shows these in lines of their own, or not at all.
HIDDEN: Final = frozenset(("name", "namespace", "labels", "annotations", "managedFields"))


def described(obj: Mapping[str, Any]) -> list[str]:
    """Returns the lines of an object as an API server stores it. kubectl pads the values; this does not."""
    metadata = obj["metadata"]
    head = {"name": metadata["name"], "namespace": metadata["namespace"]}
    lines = [f"{_label(name)}: {value}" for name, value in head.items()]
    for name in ("labels", "annotations"):
        pairs = [f"{key}={value}" for key, value in (metadata.get(name) or {}).items()] or ["<none>"]
        lines += [f"{_label(name)}: {pairs[0]}", *pairs[1:]]
    shown = {key: value for key, value in metadata.items() if key not in HIDDEN}
    return [*lines, *_fields({**obj, "metadata": shown})]


def _fields(value: Mapping[str, Any]) -> Iterator[str]:
    for name, field in sorted(value.items()):
        if isinstance(field, Mapping):
            yield f"{_label(name)}:"
            yield from _fields(field)
        elif isinstance(field, list):
            yield f"{_label(name)}:"
            for item in field:
                yield from _fields(item) if isinstance(item, Mapping) else [str(item)]
        else:
            yield f"{_label(name)}: {field}"


def _label(name: str) -> str:
    """Returns a field's name as kubectl prints it: "lastScaleTime" is "Last Scale Time"."""
    spaced = "".join(f" {letter}" if letter.isupper() else letter for letter in name)
    return spaced[:1].upper() + spaced[1:]
