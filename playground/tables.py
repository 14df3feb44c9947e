"""Lists as tables, which is how `kubectl get` asks for them."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from aiohttp import web

from playground.kinds import Kind
from playground.pipeline import Object

_NAME: Final[Object] = {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}


def asked(request: web.Request) -> bool:
    """Whether the client prefers a table."""
    return "as=Table" in request.headers.get("Accept", "").partition(",")[0]


def table(kind: Kind, body: Object, now: datetime, query: Mapping[str, str]) -> Object:
    """The table of a list or of one object."""
    objects = body.get("items", [body])
    columns = _columns(kind)
    shown = query.get("includeObject", "Metadata")
    metadata = (
        body["metadata"] if "items" in body else {"resourceVersion": body["metadata"].get("resourceVersion")}
    )
    definitions = [_NAME, *({"format": "", "priority": 0, "description": "", **each} for each, _ in columns)]
    rows = [
        {
            "cells": [obj["metadata"]["name"], *(_cell(each, find(obj), now) for each, find in columns)],
            "object": _object(kind, obj, shown),
        }
        for obj in objects
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    }


Finder = Callable[[Object], Any]


def at(path: str) -> Finder:
    """What is at `.spec.a`, `.conditions[?(@.type=="Ready")].status` or the like; None if nothing is."""
    steps = _steps(path)

    def find(obj: Object) -> Any:
        value: Any = obj
        for name, condition in steps:
            value = value.get(name) if isinstance(value, dict) else None
            if condition and isinstance(value, list):
                key, wanted = condition
                value = next(
                    (item for item in value if isinstance(item, dict) and item.get(key) == wanted), None
                )
        return value

    return find


def _steps(path: str) -> list[tuple[str, tuple[str, str] | None]]:
    found: list[tuple[str, tuple[str, str] | None]] = []
    rest = path.lstrip(".")
    while rest:
        end = min((rest.index(mark) for mark in ".[" if mark in rest), default=len(rest))
        name, rest = rest[:end], rest[end:]
        condition = None
        if rest.startswith("[?("):
            inside, _, rest = rest[3:].partition(")]")
            key, _, wanted = inside.strip().removeprefix("@.").partition("==")
            condition = (key.strip(), wanted.strip().strip("\"'"))
        found.append((name, condition))
        rest = rest.removeprefix(".")
    return found


def _columns(kind: Kind) -> Sequence[tuple[Object, Finder]]:
    if not kind.custom:
        own = _BUILTIN.get(kind.plural, ())
        return [*own, (_AGE, at(".metadata.creationTimestamp"))] if kind.plural != "events" else own
    if not kind.columns:
        return [(_AGE, at(".metadata.creationTimestamp"))]
    return [
        ({name: value for name, value in column.items() if name != "jsonPath"}, at(column["jsonPath"]))
        for column in kind.columns
    ]


def _cell(column: Object, value: Any, now: datetime) -> Any:
    if column["type"] == "date" or column.get("format") == "age":
        return _age(value, now)
    if value is None and column["type"] == "string":
        return "<none>" if column.get("format") != "" else ""
    return value


def _age(value: Any, now: datetime) -> str:
    """As kubectl shows ages: 5s, 3m20s, 15m, 2h, 3d."""
    try:
        seconds = int((now - datetime.fromisoformat(value)).total_seconds())
    except (TypeError, ValueError):
        return "<unknown>"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    return f"{hours}h" if hours < 48 else f"{days}d"


def _object(kind: Kind, obj: Object, shown: str) -> Object | None:
    if shown == "None":
        return None
    if shown == "Object":
        return {"kind": kind.kind, "apiVersion": kind.api_version, **obj}
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def _column(name: str, path: str, type_: str = "string") -> tuple[Object, Finder]:
    return {"name": name, "type": type_}, at(path)


def _ratio(name: str, has: str, wanted: str) -> tuple[Object, Finder]:
    first, second = at(has), at(wanted)
    return {"name": name, "type": "string"}, lambda obj: f"{first(obj) or 0}/{second(obj) or 0}"


def _pod_status(obj: Object) -> str:
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return str(at(".status.phase")(obj) or "Unknown")


def _pod_ready(obj: Object) -> str:
    statuses = at(".status.containerStatuses")(obj) or []
    containers = at(".spec.containers")(obj) or []
    return f"{sum(bool(status.get('ready')) for status in statuses)}/{len(containers)}"


def _restarts(obj: Object) -> int:
    return sum(status.get("restartCount", 0) for status in at(".status.containerStatuses")(obj) or [])


_AGE: Final[Object] = {"name": "Age", "type": "string", "format": "age"}
_READY: Final = _ratio("Ready", ".status.readyReplicas", ".spec.replicas")
_BUILTIN: Final[Mapping[str, Sequence[tuple[Object, Finder]]]] = {
    "namespaces": [_column("Status", ".status.phase")],
    "nodes": [({"name": "Status", "type": "string"}, lambda obj: _node_status(obj))],
    "pods": [
        ({"name": "Ready", "type": "string"}, _pod_ready),
        ({"name": "Status", "type": "string"}, _pod_status),
        ({"name": "Restarts", "type": "integer"}, _restarts),
    ],
    "deployments": [
        _READY,
        ({"name": "Up-to-date", "type": "integer"}, lambda obj: at(".status.updatedReplicas")(obj) or 0),
        ({"name": "Available", "type": "integer"}, lambda obj: at(".status.availableReplicas")(obj) or 0),
    ],
    "statefulsets": [_READY],
    "events": [
        ({"name": "Last Seen", "type": "string", "format": "age"}, at(".lastTimestamp")),
        _column("Type", ".type"),
        _column("Reason", ".reason"),
        (
            {"name": "Object", "type": "string"},
            lambda obj: (
                f"{obj['involvedObject'].get('kind', '').lower()}/{obj['involvedObject'].get('name', '')}"
            ),
        ),
        _column("Message", ".message"),
    ],
    "leases": [_column("Holder", ".spec.holderIdentity")],
    "apiservices": [
        (
            {"name": "Available", "type": "string"},
            at('.status.conditions[?(@.type=="Available")].status'),
        )
    ],
}


def _node_status(obj: Object) -> str:
    ready = at('.status.conditions[?(@.type=="Ready")].status')(obj) == "True"
    return ("Ready" if ready else "NotReady") + (
        ",SchedulingDisabled" if at(".spec.unschedulable")(obj) else ""
    )
