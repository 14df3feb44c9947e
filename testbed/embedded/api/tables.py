"""Lists as tables, which is how `kubectl get` asks for them."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from aiohttp import web

from fedhpa.api.selectors import selector_of
from testbed.embedded.api.types import Object
from testbed.embedded.objects.definitions import META, definitions
from testbed.embedded.objects.kinds import Kind

Finder = Callable[[Object], Any]
_CREATED: Final = ".metadata.creationTimestamp"


def asked(request: web.Request) -> bool:
    """Whether the client prefers a table."""
    return "as=Table" in request.headers.get("Accept", "").partition(",")[0]


def table(kind: Kind, body: Object, now: datetime, query: Mapping[str, str]) -> Object:
    """The table of a list or of one object."""
    columns = _columns(kind)
    name = definitions()[META]["properties"]["name"]["description"]
    first = {"name": "Name", "type": "string", "format": "name", "description": name, "priority": 0}
    rows = [
        {
            "cells": [obj["metadata"]["name"], *(_cell(each, find(obj), now) for each, find in columns)],
            "object": _object(kind, obj, query.get("includeObject", "Metadata")),
        }
        for obj in body.get("items", [body])
    ]
    metadata = {key: value for key, value in body["metadata"].items() if key in _LIST_METADATA and value}
    definitions_ = [first, *({**_COLUMN, **each} for each, _ in columns)]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions_,
        "rows": rows,
    }


def at(path: str) -> Finder:
    """What is at `.spec.a`, `.conditions[?(@.type=="Ready")].status` or the like; None if nothing is."""
    steps = _steps(path)

    def find(obj: Object) -> Any:
        value: Any = obj
        for name, key, wanted in steps:
            value = value.get(name) if isinstance(value, dict) else None
            if key and isinstance(value, list):
                value = next(
                    (each for each in value if isinstance(each, dict) and each.get(key) == wanted), None
                )
        return value

    return find


_LIST_METADATA: Final = ("resourceVersion", "continue", "remainingItemCount")
_COLUMN: Final = {"format": "", "description": "", "priority": 0}


def _steps(path: str) -> list[tuple[str, str, str]]:
    """Of each step the field's name and, if one item of a list is meant, which field of it has what value."""
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
        rest = rest.removeprefix(".")
    return found


def _columns(kind: Kind) -> Sequence[tuple[Object, Finder]]:
    age = ({"name": "Age", "type": "string"}, at(_CREATED))
    if not kind.custom:
        return _BUILTIN.get(kind.plural, [age])
    custom = kind.columns or ({"name": "Age", "type": "date", "jsonPath": _CREATED},)
    return [(_described(column), at(column["jsonPath"])) for column in custom]


def _described(column: Object) -> Object:
    path = column["jsonPath"]
    said = {"description": f"Custom resource definition column (in JSONPath format): {path}"}
    return {**said, **{key: value for key, value in column.items() if key != "jsonPath"}}


def _cell(column: Object, value: Any, now: datetime) -> Any:
    return _age(value, now) if column["type"] == "date" or column["name"] in ("Age", "Last Seen") else value


def _age(value: Any, now: datetime) -> str:
    """As kubectl shows ages: 5s, 3m20s, 15m, 2h, 3d."""
    try:
        seconds = max(0, int((now - datetime.fromisoformat(value)).total_seconds()))
    except (TypeError, ValueError):
        return "<unknown>"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
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


def _column(name: str, find: str | Finder, priority: int = 0, missing: Any = "") -> tuple[Object, Finder]:
    found = at(find) if isinstance(find, str) else find

    def value(obj: Object) -> Any:
        there = found(obj)
        return missing if there is None else there

    return {"name": name, "type": "string", "priority": priority}, value


def _ratio(has: str, wanted: str) -> Finder:
    first, second = at(has), at(wanted)
    return lambda obj: f"{first(obj) or 0}/{second(obj) or 0}"


def _joined(path: str, field: str) -> Finder:
    items = at(path)
    return lambda obj: ",".join(item.get(field, "") for item in items(obj) or ())


def _pod_status(obj: Object) -> str:
    return (
        "Terminating"
        if "deletionTimestamp" in obj["metadata"]
        else str(at(".status.phase")(obj) or "Unknown")
    )


def _statuses(obj: Object) -> list[Object]:
    return at(".status.containerStatuses")(obj) or []


def _pod_ready(obj: Object) -> str:
    ready = sum(bool(each.get("ready")) for each in _statuses(obj))
    return f"{ready}/{len(at('.spec.containers')(obj) or ())}"


def _about(obj: Object) -> str:
    about = obj.get("involvedObject") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _node_status(obj: Object) -> str:
    ready = at('.status.conditions[?(@.type=="Ready")].status')(obj) == "True"
    closed = ",SchedulingDisabled" if at(".spec.unschedulable")(obj) else ""
    return ("Ready" if ready else "NotReady") + closed


_AGE: Final = _column("Age", _CREATED)
_PODS: Final = ".spec.template.spec.containers"
_WORKLOAD: Final = [
    _AGE,
    _column("Containers", _joined(_PODS, "name"), 1),
    _column("Images", _joined(_PODS, "image"), 1),
    _column("Selector", lambda obj: str(selector_of(at(".spec.selector")(obj))), 1),
]
_BUILTIN: Final[Mapping[str, Sequence[tuple[Object, Finder]]]] = {
    "namespaces": [_column("Status", ".status.phase"), _AGE],
    "nodes": [_column("Status", _node_status), _AGE],
    "configmaps": [_column("Data", lambda obj: len(obj.get("data") or ())), _AGE],
    "pods": [
        _column("Ready", _pod_ready),
        _column("Status", _pod_status),
        _column("Restarts", lambda obj: str(sum(each.get("restartCount", 0) for each in _statuses(obj)))),
        _AGE,
        _column("IP", ".status.podIP", 1, "<none>"),
        _column("Node", ".spec.nodeName", 1, "<none>"),
        _column("Nominated Node", ".status.nominatedNodeName", 1, "<none>"),
        _column("Readiness Gates", lambda _obj: "<none>", 1),
    ],
    "deployments": [
        _column("Ready", _ratio(".status.readyReplicas", ".spec.replicas")),
        _column("Up-to-date", ".status.updatedReplicas", missing=0),
        _column("Available", ".status.availableReplicas", missing=0),
        *_WORKLOAD,
    ],
    "statefulsets": [_column("Ready", _ratio(".status.readyReplicas", ".spec.replicas")), *_WORKLOAD[:3]],
    "events": [
        _column("Last Seen", ".lastTimestamp"),
        _column("Type", ".type"),
        _column("Reason", ".reason"),
        _column("Object", _about),
        _column("Message", ".message"),
    ],
    "leases": [_column("Holder", ".spec.holderIdentity"), _AGE],
    "customresourcedefinitions": [_column("Created At", _CREATED)],
    "apiservices": [
        _column("Service", lambda obj: "/".join(_service(obj)) or "Local"),
        _column("Available", '.status.conditions[?(@.type=="Available")].status'),
        _AGE,
    ],
}


def _service(obj: Object) -> list[str]:
    service = at(".spec.service")(obj) or {}
    return [service[key] for key in ("namespace", "name") if key in service]
