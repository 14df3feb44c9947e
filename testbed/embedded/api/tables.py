"""Tables, the format of lists that `kubectl get` prints."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from aiohttp import web

from testbed.embedded.api.types import Object
from testbed.embedded.api.watches import with_type
from testbed.embedded.objects.kinds import Kind

Finder = Callable[[Object], Any]
_Column = tuple[Object, Finder]
_PARTIAL: Final = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
_LIST_METADATA: Final = ("resourceVersion", "continue")


def wants_table(request: web.Request) -> bool:
    """True if the client prefers a table."""
    return "as=Table" in request.headers.get("Accept", "").partition(",")[0]


def table(kind: Kind, body: Object, now: datetime, *, whole: bool = False) -> Object:
    """Returns the table of a list or of one object, with whole objects or with their metadata."""
    columns = _columns(kind)
    rows = [
        {
            "cells": [_cell(each, find(obj), now) for each, find in columns],
            "object": with_type(kind, obj) if whole else {**_PARTIAL, "metadata": obj["metadata"]},
        }
        for obj in body.get("items", [body])
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {
            key: value for key, value in body["metadata"].items() if key in _LIST_METADATA and value
        },
        "columnDefinitions": [
            {"format": "", "description": "", "priority": 0, **each} for each, _ in columns
        ],
        "rows": rows,
    }


def at(path: str) -> Finder:
    """Returns a function that reads a path like `.spec.a` or `.conditions[?(@.type=="Ready")].status`."""
    steps = _steps(path)

    def find(obj: Object) -> Any:
        value: Any = obj
        for name, key, wanted in steps:
            value = value.get(name) if isinstance(value, dict) else None
            if key and isinstance(value, list):
                items = (item for item in value if isinstance(item, dict))
                value = next((item for item in items if item.get(key) == wanted), None)
        return value

    return find


def _steps(path: str) -> list[tuple[str, str, str]]:
    """Splits a path into (field, key, value); key and value select an item of a list."""
    found = []
    rest = path.lstrip(".")
    while rest:
        end = min((rest.index(mark) for mark in ".[" if mark in rest), default=len(rest))
        name, rest = rest[:end], rest[end:]
        key = wanted = ""
        if rest.startswith("[?("):
            inside, _, rest = rest[3:].partition(")]")
            key, _, wanted = inside.strip().removeprefix("@.").partition("==")
        found.append((name, key.strip(), wanted.strip().strip("\"'")))
        rest = rest.removeprefix(".").removeprefix("]")
    return found


def _columns(kind: Kind) -> Sequence[_Column]:
    if not kind.custom:
        return _BUILTIN.get(kind.plural, [_NAME, _AGE])
    columns = [({**column, "jsonPath": ""}, at(column["jsonPath"])) for column in kind.columns]
    return [_NAME, *(columns or [_AGE])]


def _cell(column: Object, value: Any, now: datetime) -> Any:
    return _age(value, now) if column["type"] == "date" or column["name"] in ("Age", "Last Seen") else value


def _age(value: Any, now: datetime) -> str:
    """Formats an age like kubectl: 5s, 15m, 4h, 3d."""
    try:
        seconds = max(0, int((now - datetime.fromisoformat(value)).total_seconds()))
    except (TypeError, ValueError):
        return "<unknown>"
    for unit, length, most in (("s", 1, 120), ("m", 60, 180), ("h", 3600, 48)):
        if seconds // length < most:
            return f"{seconds // length}{unit}"
    return f"{seconds // 86400}d"


# -- the columns of built-in kinds ----------------------------------------------------------------------


def _column(name: str, find: str | Finder, priority: int = 0, missing: Any = "") -> _Column:
    found = at(find) if isinstance(find, str) else find

    def value(obj: Object) -> Any:
        cell = found(obj)
        return missing if cell is None else cell

    return {"name": name, "type": "string", "priority": priority}, value


def _ready_replicas(obj: Object) -> str:
    return f"{at('.status.readyReplicas')(obj) or 0}/{at('.spec.replicas')(obj) or 0}"


def _ready_containers(obj: Object) -> str:
    ready = sum(bool(each.get("ready")) for each in at(".status.containerStatuses")(obj) or ())
    return f"{ready}/{len(at('.spec.containers')(obj) or ())}"


def _involved(obj: Object) -> str:
    involved = obj.get("involvedObject") or {}
    return f"{involved.get('kind', '').lower()}/{involved.get('name', '')}"


_NAME: Final[_Column] = ({"name": "Name", "type": "string", "format": "name"}, at(".metadata.name"))
_AGE: Final[_Column] = ({"name": "Age", "type": "date"}, at(".metadata.creationTimestamp"))
_BUILTIN: Final[Mapping[str, Sequence[_Column]]] = {
    "namespaces": [_NAME, _column("Status", ".status.phase"), _AGE],
    "pods": [
        _NAME,
        _column("Ready", _ready_containers),
        _column("Status", ".status.phase"),
        _column("Restarts", lambda _: "0"),  # simulated containers never restart
        _AGE,
        _column("Node", ".spec.nodeName", 1, "<none>"),
    ],
    "deployments": [
        _NAME,
        _column("Ready", _ready_replicas),
        _column("Up-to-date", ".status.updatedReplicas", missing=0),
        _column("Available", ".status.availableReplicas", missing=0),
        _AGE,
    ],
    "events": [
        _column("Last Seen", ".lastTimestamp"),
        _column("Type", ".type"),
        _column("Reason", ".reason"),
        _column("Object", _involved),
        _column("Message", ".message"),
    ],
}
