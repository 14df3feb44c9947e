"""The JSON documents of the hostile member: true ones, and what it makes of them.

The true documents describe one pod of one Deployment, whose usage is exactly at the target of the test's
object. A spoiled document may be invalid in any way, but it never states a larger size of the Deployment:
no reader can tell such a lie from the truth.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Final

from tests.property.admission_bodies import damaged, mutated

Document = dict[str, Any]

NAMESPACE: Final = "hostile-shared"
NAME: Final = "web"
REPLICAS: Final = 1
# Half of the request, which is the target of the object.
REQUEST, USAGE = "100Mi", "50Mi"
TIME: Final = "2026-03-11T12:00:00Z"
METRICS: Final = "metrics.k8s.io/v1beta1"
CUSTOM: Final = "custom.metrics.k8s.io"
EXTERNAL: Final = "external.metrics.k8s.io"
LABELS: Final = {"app": NAME}
NOT_FOUND: Final[Document] = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "reason": "NotFound",
    "message": "not found",
    "code": 404,
}
_KINDS: Final = {
    "pods": ("Pod", "v1"),
    "nodes": ("Node", "v1"),
    "deployments": ("Deployment", "apps/v1"),
    "statefulsets": ("StatefulSet", "apps/v1"),
    "replicasets": ("ReplicaSet", "apps/v1"),
    "horizontalpodautoscalers": ("HorizontalPodAutoscaler", "autoscaling/v2"),
}


def pod() -> Document:
    """Returns the pod."""
    resources = {"requests": {"cpu": "100m", "memory": REQUEST}}
    return {
        "metadata": {
            "name": f"{NAME}-0",
            "namespace": NAMESPACE,
            "uid": "5f0c",
            "resourceVersion": "7",
            "labels": LABELS,
        },
        "spec": {"nodeName": "n1", "containers": [{"name": NAME, "image": "x", "resources": resources}]},
        "status": {
            "phase": "Running",
            "startTime": TIME,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": TIME}],
        },
    }


def workload() -> Document:
    """Returns the Deployment."""
    return {
        "metadata": {"name": NAME, "namespace": NAMESPACE, "uid": "5f0d", "resourceVersion": "7"},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": LABELS}},
        "status": {"replicas": REPLICAS, "readyReplicas": REPLICAS},
    }


def scale() -> Document:
    """Returns the Deployment's scale."""
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "resourceVersion": "7"},
        "spec": {"replicas": REPLICAS},
        "status": {"replicas": REPLICAS, "selector": f"app={NAME}"},
    }


def usage() -> Document:
    """Returns the pod's usage."""
    return {
        "metadata": {"name": f"{NAME}-0", "namespace": NAMESPACE, "labels": LABELS},
        "timestamp": TIME,
        "window": "10s",
        "containers": [{"name": NAME, "usage": {"cpu": "5m", "memory": USAGE}}],
    }


def true_document(path: str) -> tuple[int, Document]:
    """Returns status and document of a path."""
    group, _, rest = path.removeprefix("/apis/").removeprefix("/api/").partition("/")
    version, _, rest = rest.partition("/")
    if path in ("/readyz", "/livez", "/healthz"):
        return 200, {}
    if path == "/version":
        return 200, {"major": "1", "minor": "36", "gitVersion": "v1.36.0"}
    if group in (CUSTOM, EXTERNAL):
        return _values(group, version, rest)
    inside = not rest.startswith("namespaces/") or rest.startswith(f"namespaces/{NAMESPACE}/")
    parts = rest.split("/")[2:] if rest.startswith("namespaces/") else rest.split("/")
    if path.startswith(f"/apis/{METRICS}"):
        return _usage(parts[0], inside)
    if group == "v1":
        parts = path.removeprefix("/api/v1/").split("/")
        inside = "namespaces" not in parts or NAMESPACE in parts
        parts = parts[2:] if parts[0] == "namespaces" else parts
    if parts[0] not in _KINDS:
        return 404, NOT_FOUND
    kind, api_version = _KINDS[parts[0]]
    if len(parts) > 1:
        found = parts[:2] == ["deployments", NAME] and inside
        own = scale() if parts[-1] == "scale" else {"kind": kind, "apiVersion": api_version, **workload()}
        return (200, own) if found else (404, NOT_FOUND)
    items = {"pods": [pod()], "deployments": [workload()]}.get(parts[0], []) if inside else []
    return 200, listed(f"{kind}List", api_version, items)


def _usage(resource: str, inside: bool) -> tuple[int, Document]:
    if resource == "nodes":
        node = {"metadata": {"name": "hostile-node"}, "timestamp": TIME, "window": "10s"}
        return 200, listed("NodeMetricsList", METRICS, [{**node, "usage": {"cpu": "1", "memory": "1Gi"}}])
    if resource == "pods":
        return 200, listed("PodMetricsList", METRICS, [usage()] if inside else [])
    entry = {"name": "pods", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}
    return 200, {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": METRICS,
        "resources": [entry],
    }


def _values(group: str, version: str, rest: str) -> tuple[int, Document]:
    served = "v1beta2" if group == CUSTOM else "v1beta1"
    if not version:
        return 200, {
            "kind": "APIGroup",
            "apiVersion": "v1",
            "name": group,
            "versions": [{"groupVersion": f"{group}/{served}", "version": served}],
        }
    if not rest:
        name = "services/hits" if group == CUSTOM else "depth"
        entry = {"name": name, "namespaced": True, "kind": "MetricValueList", "verbs": ["get"]}
        head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/{served}"}
        return 200, {**head, "resources": [entry]}
    if group == CUSTOM:
        described = {"kind": "Service", "namespace": NAMESPACE, "name": NAME, "apiVersion": "v1"}
        hits = {"describedObject": described, "metric": {"name": "hits"}, "timestamp": TIME, "value": "7"}
        return 200, listed("MetricValueList", f"{group}/{served}", [hits])
    depth = {"metricName": "depth", "metricLabels": {}, "timestamp": TIME, "value": "7"}
    return 200, listed("ExternalMetricValueList", f"{group}/{served}", [depth])


def listed(kind: str, api_version: str, items: list[Document]) -> Document:
    """Returns a list of a kind."""
    return {"kind": kind, "apiVersion": api_version, "metadata": {"resourceVersion": "7"}, "items": items}


# -- what the member makes of them -----------------------------------------------------------------------
# Written in place of one value. JSON has no literal for some of them, so they are texts.
LITERALS: Final = (
    *("NaN", "Infinity", "-Infinity", "1e400", "-1", "1.5", "true", "null", "{}", "[]", "[null]", '""'),
    *('"NaN"', '"Infinity"', '"-500Gi"', '"1e99999999"', '"\\ud800"', '"9999-12-31T23:59:59Z"'),
    *(
        '"0000-00-00"',
        '"-1"',
        "9" * 5_000,
        '"' + "9" * 5_000 + '"',
        "-" + "9" * 5_000,
        str(2**31),
        str(2**63),
    ),
    *("[" * 1_200 + "]" * 1_200, '{"a":' * 1_200 + "1" + "}" * 1_200, '"' + "x" * 100_000 + '"'),
)
_HOLE: Final = "@@hole@@"
Spoiler = Callable[[Document, random.Random], bytes]


def plain(document: Document) -> bytes:
    """Returns the document as JSON."""
    return json.dumps(document).encode()


def with_literal(document: Document, chance: random.Random) -> bytes:
    """Replaces one value, or one whole part, by a literal."""
    hollow = _hollow(json.loads(json.dumps(document)), chance)
    return json.dumps(hollow).replace(f'"{_HOLE}"', chance.choice(LITERALS), 1).encode()


def _hollow(value: Any, chance: random.Random) -> Any:
    if not isinstance(value, dict | list) or not value or chance.random() < 0.05:
        return _HOLE
    key: Any = chance.choice(list(value)) if isinstance(value, dict) else chance.randrange(len(value))
    value[key] = _hollow(value[key], chance)
    return value


def with_mutation(document: Document, chance: random.Random) -> bytes:
    """Replaces, drops, repeats or renames one part."""
    return json.dumps(mutated(document, chance)).encode()


def with_damage(document: Document, chance: random.Random) -> bytes:
    """Repeats, overwrites or cuts some bytes."""
    return damaged(plain(document), chance)


def of_another_kind(document: Document, chance: random.Random) -> bytes:
    """A valid document that nobody asked for."""
    others: list[Any] = [
        {"status": "ok"},
        [],
        [document],
        {**document, "kind": "ConfigMapList"},
        {**document, "apiVersion": "v7"},
        {"kind": document.get("kind")},
        {"items": document.get("items")},
        {**document, "items": None},
        {**document, "items": {}},
        {**document, "items": [None]},
        {**document, "items": []},
        {**NOT_FOUND, "message": "x" * 1_000_000},
        "ok",
        0,
        None,
    ]
    return json.dumps(chance.choice(others)).encode()


def many_items(document: Document, chance: random.Random) -> bytes:
    """A list of many items: copies, strangers, or with names and labels of any size."""
    items = document.get("items") or [{"metadata": {"name": "x"}}]
    count = chance.choice((1_000, 10_000))
    form = chance.randrange(4)
    if form == 0:
        return plain({**document, "items": items * count})
    if form == 1:
        strangers = [{"metadata": {"name": f"s-{n}", "labels": {"n": str(n)}}} for n in range(count)]
        return plain({**document, "items": items + strangers})
    if form == 2:
        return plain({**document, "items": [*items, {"metadata": {"name": "n" * 1_000_000}}]})
    labels = {"app": "9" * 5_000, "v" * 100_000: "w", **{f"k{n}": "v" for n in range(count)}}
    return plain({**document, "items": [*items, {"metadata": {"name": "l", "labels": labels}}]})


def endless(document: Document, chance: random.Random) -> bytes:
    """A page after which there is always another one; the token is new, repeated or huge."""
    token = chance.choice((str(chance.random()), "again", "t" * 100_000))
    metadata = {"resourceVersion": "7", "continue": token, "remainingItemCount": -1}
    return plain({**document, "metadata": metadata})


SPOILERS: Final[tuple[Spoiler, ...]] = (
    with_literal,
    with_literal,
    with_mutation,
    with_damage,
    of_another_kind,
    many_items,
    endless,
)


def is_lie(body: bytes) -> bool:
    """True if the body may state a larger size of the Deployment."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return _states_size(found, 12)


def _states_size(value: Any, depth: int) -> bool:
    if depth == 0 or not isinstance(value, dict | list):
        return False
    if isinstance(value, list):
        return any(_states_size(one, depth - 1) for one in value[:10])
    count = value.get("replicas")
    if isinstance(count, int | float) and REPLICAS < count < 2**31:
        return True
    return any(_states_size(one, depth - 1) for one in value.values())
