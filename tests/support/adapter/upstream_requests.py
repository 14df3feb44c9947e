"""The requests to the metrics adapter and to the servers of upstream, and the metrics that both have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from yarl import URL

from tests.support.adapter.application import NOON
from tests.support.fakeapi import Object

USAGE: Final = "/apis/metrics.k8s.io/v1beta1"
CUSTOM: Final = "/apis/custom.metrics.k8s.io/v1beta2"
EXTERNAL: Final = "/apis/external.metrics.k8s.io/v1beta1"
BORN: Final = "2026-01-01T00:00:00Z"
# Many pods, so that the list of the namespace is long enough to be compressed.
MANY: Final = 900


def pod(name: str, namespace: str = "shop", **labels: str) -> Object:
    """Metrics of a pod."""
    usages = [("app", "100m", "1Mi"), ("side", "12345678n", "20Ki")]
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "creationTimestamp": BORN},
        "timestamp": NOON,
        "window": "30s",
        "containers": [{"name": name, "usage": {"cpu": cpu, "memory": ram}} for name, cpu, ram in usages],
    }


def node(name: str, zone: str) -> Object:
    """Metrics of a node."""
    metadata = {"name": name, "labels": {"zone": zone}, "creationTimestamp": BORN}
    return {
        "metadata": metadata,
        "timestamp": NOON,
        "window": "20s",
        "usage": {"cpu": "1500m", "memory": "2Gi"},
    }


def value(resource: str, kind: str, name: str, metric: str, amount: str, **labels: str) -> Object:
    """A value of an object. Those of nodes and namespaces have no namespace."""
    namespace = "" if kind in ("Node", "Namespace") else "shop"
    described = {"kind": kind, "namespace": namespace, "name": name, "apiVersion": "v1"}
    series = {"metric": {"name": metric}, "timestamp": NOON, "windowSeconds": 60, "value": amount}
    return {"resource": resource, "labels": labels, "value": {"describedObject": described, **series}}


WORLD: Final[Object] = {
    "pods": [
        pod("a", app="web"),
        pod("b", app="db"),
        pod("c", "other", app="web"),
        *(pod(f"p{number}", "many") for number in range(MANY)),
    ],
    "nodes": [node("n1", "x"), node("n2", "y")],
    "custom": [
        value("pods", "Pod", "a", "hits", "1500m", app="web"),
        value("pods", "Pod", "b", "hits", "7", app="db"),
        value("services", "Service", "web", "rate", "12", app="web"),
        value("deployments.apps", "Deployment", "web", "depth", "3"),
        value("namespaces", "Namespace", "shop", "total", "9"),
        value("nodes", "Node", "n1", "heat", "55", zone="x"),
    ],
    "external": [
        {"metricName": "queue", "metricLabels": {"topic": "a"}, "timestamp": NOON, "value": "42"},
        {
            "metricName": "queue",
            "metricLabels": {"topic": "b"},
            "timestamp": NOON,
            "window": 30,
            "value": "15m",
        },
    ],
}

LISTS: Final = [
    f"{USAGE}/{path}" for path in ("pods", "namespaces/shop/pods", "namespaces/none/pods", "nodes")
]
OBJECTS: Final = [
    f"{USAGE}/{path}"
    for path in ("namespaces/shop/pods/a", "namespaces/shop/pods/gone", "nodes/n1", "nodes/gone")
]
OF_VALUES: Final = [
    *("namespaces/shop/pods/*/hits", "namespaces/shop/pods/a/hits", "namespaces/shop/pods/gone/hits"),
    *("namespaces/shop/pods/*/none", "namespaces/none/pods/*/hits", "namespaces/shop/services/web/rate"),
    *("namespaces/shop/services/*/rate", "namespaces/shop/deployments.apps/web/depth"),
    *("namespaces/shop/metrics/total", "namespaces/gone/metrics/total", "nodes/n1/heat", "nodes/*/heat"),
    "nodes/gone/heat",
]
VALUES: Final = [f"{version}/{path}" for version in (CUSTOM, CUSTOM[:-1] + "1") for path in OF_VALUES]
EXTERNALS: Final = [f"{EXTERNAL}/namespaces/{path}" for path in ("shop/queue", "shop/none")]
DOCUMENTS: Final = [
    *("/apis", "/api", "/version", USAGE, CUSTOM, CUSTOM[:-1] + "1", EXTERNAL, "/openapi/v2", "/openapi/v3"),
    *(USAGE.rsplit("/", 1)[0], CUSTOM.rsplit("/", 1)[0], EXTERNAL.rsplit("/", 1)[0], "/healthz", "/livez"),
    *(f"/openapi/v3{api}" for api in (USAGE, CUSTOM, EXTERNAL)),
]
WRONG: Final = [
    *(f"{USAGE}/{path}" for path in ("namespaces", "namespaces/shop", "namespaces/shop/nodes", "none")),
    *(f"{USAGE}/{path}" for path in ("namespaces/shop/pods/a/log", "nodes/n1/status", "namespaces//pods")),
    *(f"{CUSTOM}/{path}" for path in ("namespaces/shop", "namespaces/shop/pods", "namespaces/shop/pods/*")),
    *(
        f"{CUSTOM}/{path}"
        for path in ("namespaces/shop/pods/a/hits/x", "nodes", "nodes/n1", "nodes/n1/heat/x/y")
    ),
    *(f"{EXTERNAL}/{path}" for path in ("namespaces", "namespaces/shop", "namespaces/shop/queue/x", "queue")),
    *("/apis/none/v1/pods", "/apis/metrics.k8s.io/v1/pods", f"{USAGE}/namespaces/shop%2Fx/pods"),
]
SELECTORS: Final = [
    *(
        "app=web",
        "app=none",
        "app in (web,db)",
        "app notin ()",
        "!app",
        "app",
        "zone=x",
        "topic=a",
        "app>1",
        "",
    ),
    *(
        "==",
        "app===web",
        "a b",
        "app=web,",
        "app=web,app=db",
        "app!=web",
        "app in (",
        "-a=b",
        "a=" + "b" * 64,
    ),
]
FIELDS: Final = [
    *("metadata.name=a", "metadata.name!=a", "metadata.namespace=shop", "spec.x=1", "metadata.name", "=", ""),
    *("metadata.name=n1", "metadata.name==b", "metadata.name=a,metadata.namespace=other"),
]
PARAMETERS: Final = [
    *(f"watch={word}" for word in ("true", "1", "yes", "", "false", "0", "False", "f")),
    *(f"limit={word}" for word in ("1", "0", "x", "-1", "", "1.5", "+1", "99999999999999999999")),
    *(f"timeoutSeconds={word}" for word in ("5", "x", "-1", "")),
    *(f"timeout={word}" for word in ("30s", "0s", "", "1x", "-1s")),
    *("resourceVersion=0", "resourceVersion=5", "resourceVersion=x", "continue=abc", "unknown=1", "pretty=1"),
    *(
        f"resourceVersionMatch={word}"
        for word in ("Exact", "NotOlderThan", "Odd", "Exact&resourceVersion=1", "")
    ),
    *(f"resourceVersionMatch={word}&resourceVersion=0" for word in ("Exact", "NotOlderThan", "Odd")),
    "resourceVersionMatch=Exact&resourceVersion=1&continue=x",
    *("sendInitialEvents=true", "allowWatchBookmarks=true", "dryRun=All", "includeObject=Odd"),
    *(f"labelSelector={URL.build(path=text).raw_path}" for text in SELECTORS),
    *(f"fieldSelector={URL.build(path=text).raw_path}" for text in FIELDS),
    *(
        "metricLabelSelector=x%3D1",
        "metricLabelSelector=%3D%3D",
        "labelSelector=app%3Dweb&labelSelector=app%3Ddb",
    ),
]
META: Final = "application/json;as={};v={};g=meta.k8s.io"
TABLE: Final = META.format("Table", "v1")
ACCEPTED: Final = [
    *("", "application/json", "*/*", "application/*", "text/html", "application/yaml", "application/cbor"),
    *("application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json", TABLE),
    *(META.format("Table", version) for version in ("v1beta1", "v2")),
    *(META.format("PartialObjectMetadataList", version) for version in ("v1", "v1beta1")),
    *(META.format(kind, "v1") for kind in ("PartialObjectMetadata", "Odd")),
    *(
        f"{TABLE},application/json",
        "application/json; charset=utf-8",
        "application/json;as=Table;v=v1",
        "garbage",
    ),
    "application/json;q=0.5,application/yaml;q=0.1",
]
METHODS: Final = ("HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")


class Request(NamedTuple):
    """A request to both."""

    method: str
    path: str
    headers: Mapping[str, str] = {}

    @property
    def accept(self) -> str:
        return self.headers.get("Accept", "")


def requests() -> Iterator[Request]:
    """Yields each path with each method and Accept header, and some paths with each parameter."""
    served = [*LISTS, *OBJECTS, *VALUES, *EXTERNALS]
    for path in [*served, *DOCUMENTS, *WRONG]:
        yield from (Request("GET", path), Request("GET", path, {"Accept-Encoding": "gzip"}))
        yield from (Request("GET", path, {"Accept": accept}) for accept in ACCEPTED)
    for path in [*served, *WRONG]:
        yield Request("GET", f"{path}/")
        yield from (Request(method, path) for method in METHODS)
    for path in [LISTS[1], LISTS[3], OBJECTS[0], OBJECTS[2], *VALUES[:4], VALUES[8], VALUES[11], *EXTERNALS]:
        yield from (Request("GET", f"{path}?{query}") for query in PARAMETERS)
    for path in (LISTS[1], LISTS[3], OBJECTS[0], OBJECTS[2]):
        yield from (Request("GET", f"{path}?{query}", {"Accept": TABLE}) for query in PARAMETERS)
        for include in ("None", "Metadata", "Object", ""):
            yield Request("GET", f"{path}?includeObject={include}", {"Accept": TABLE})
    for accept in ("*/*", TABLE, META.format("PartialObjectMetadataList", "v1")):
        headers = {"Accept": accept, "Accept-Encoding": "gzip"}
        yield Request("GET", f"{USAGE}/namespaces/many/pods", headers)
