"""Tables, the format of lists that `kubectl get` prints."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from aiohttp import web

from fedhpa.api.selectors import selector_of
from testbed.embedded.api.types import Object
from testbed.embedded.objects.definitions import META, definitions
from testbed.embedded.objects.kinds import Kind

Finder = Callable[[Object], Any]
_Column = tuple[Object, Finder]
_LIST_METADATA: Final = ("resourceVersion", "continue", "remainingItemCount")


def wants_table(request: web.Request) -> bool:
    """True if the client prefers a table."""
    return "as=Table" in request.headers.get("Accept", "").partition(",")[0]


def table(kind: Kind, body: Object, now: datetime, query: Mapping[str, str]) -> Object:
    """Returns the table of a list or of one object."""
    columns = _columns(kind)
    # The name is the first column, but the last one of events, where it shows with -o wide only.
    is_last = kind.plural == "events" and not kind.custom
    place = len(columns) if is_last else 0
    rows = [
        {
            "cells": _inserted(
                obj["metadata"]["name"], place, [_cell(each, find(obj), now) for each, find in columns]
            ),
            "object": _row_object(kind, obj, query.get("includeObject", "Metadata")),
        }
        for obj in body.get("items", [body])
    ]
    description = definitions()[META]["properties"]["name"]["description"]
    name = {"name": "Name", "type": "string", "format": "name", "description": description}
    others = [{"format": "", "description": "", "priority": 0, **each} for each, _ in columns]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {
            key: value for key, value in body["metadata"].items() if key in _LIST_METADATA and value
        },
        "columnDefinitions": _inserted({**name, "priority": int(is_last)}, place, others),
        "rows": rows,
    }


def _inserted(value: Any, place: int, values: list[Any]) -> list[Any]:
    return [*values[:place], value, *values[place:]]


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
        return _BUILTIN.get(kind.plural, [_AGE])
    age = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    return [(_definition(column), at(column["jsonPath"])) for column in kind.columns or (age,)]


def _definition(column: Object) -> Object:
    description = f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"
    given = {key: value for key, value in column.items() if key != "jsonPath"}
    return {"description": description, **given}


def _cell(column: Object, value: Any, now: datetime) -> Any:
    return _age(value, now) if column["type"] == "date" or column["name"] in ("Age", "Last Seen") else value


def _age(value: Any, now: datetime) -> str:
    """Formats an age as kubectl does: 5s, 3m20s, 15m, 2h, 3d."""
    try:
        seconds = max(0, int((now - datetime.fromisoformat(value)).total_seconds()))
    except (TypeError, ValueError):
        return "<unknown>"
    minutes, hours = seconds // 60, seconds // 3600
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10 and seconds % 60:
        return f"{minutes}m{seconds % 60}s"
    if hours < 3:
        return f"{minutes}m"
    return f"{hours}h" if hours < 48 else f"{hours // 24}d"


def _row_object(kind: Kind, obj: Object, include: str) -> Object | None:
    if include == "None":
        return None
    if include == "Object":
        return {"kind": kind.kind, "apiVersion": kind.api_version, **obj}
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


# -- the columns of built-in kinds ----------------------------------------------------------------------


def _column(name: str, find: str | Finder, priority: int = 0, missing: Any = "") -> _Column:
    found = at(find) if isinstance(find, str) else find

    def value(obj: Object) -> Any:
        cell = found(obj)
        return missing if cell is None else cell

    return {"name": name, "type": "string", "priority": priority}, value


def _joined(field: str) -> Finder:
    containers = at(".spec.template.spec.containers")
    return lambda obj: ",".join(container.get(field, "") for container in containers(obj) or ())


def _ready_replicas(obj: Object) -> str:
    return f"{at('.status.readyReplicas')(obj) or 0}/{at('.spec.replicas')(obj) or 0}"


def _ready_containers(obj: Object) -> str:
    ready = sum(bool(each.get("ready")) for each in at(".status.containerStatuses")(obj) or ())
    return f"{ready}/{len(at('.spec.containers')(obj) or ())}"


def _involved(obj: Object) -> str:
    involved = obj.get("involvedObject") or {}
    return f"{involved.get('kind', '').lower()}/{involved.get('name', '')}"


def _node_status(obj: Object) -> str:
    ready = at('.status.conditions[?(@.type=="Ready")].status')(obj) == "True"
    cordoned = ",SchedulingDisabled" if at(".spec.unschedulable")(obj) else ""
    return ("Ready" if ready else "NotReady") + cordoned


_AGE: Final = _column("Age", ".metadata.creationTimestamp")
_WORKLOAD: Final = [
    _AGE,
    _column("Containers", _joined("name"), 1),
    _column("Images", _joined("image"), 1),
    _column("Selector", lambda obj: str(selector_of(at(".spec.selector")(obj))), 1),
]
_BUILTIN: Final[Mapping[str, Sequence[_Column]]] = {
    "namespaces": [_column("Status", ".status.phase"), _AGE],
    "nodes": [_column("Status", _node_status), _AGE],
    "pods": [
        _column("Ready", _ready_containers),
        _column("Status", ".status.phase"),
        _column("Restarts", lambda _: "0"),  # simulated containers never restart
        _AGE,
        _column("Node", ".spec.nodeName", 1, "<none>"),
    ],
    "deployments": [
        _column("Ready", _ready_replicas),
        _column("Up-to-date", ".status.updatedReplicas", missing=0),
        _column("Available", ".status.availableReplicas", missing=0),
        *_WORKLOAD,
    ],
    "statefulsets": [_column("Ready", _ready_replicas), *_WORKLOAD[:3]],
    "events": [
        _column("Last Seen", ".lastTimestamp"),
        _column("Type", ".type"),
        _column("Reason", ".reason"),
        _column("Object", _involved),
        _column("Message", ".message"),
    ],
    "apiservices": [
        _column("Service", ".spec.service.name", missing="Local"),
        _column("Available", '.status.conditions[?(@.type=="Available")].status'),
        _AGE,
    ],
}
