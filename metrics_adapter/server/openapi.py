"""OpenAPI v2 and v3, which the hub merges for `kubectl explain` and for validation in clients.

Names of resources and metrics are parameters of the paths, so the documents do not depend on what is served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedhpa.members.metrics import CUSTOM, EXTERNAL
from metrics_adapter.apis import GROUP, KINDS, VERSION, MetricsKind

Json = dict[str, Any]

INFO = {"title": "fedhpa-metrics-adapter", "version": VERSION}
PACKAGES = "io.k8s.metrics.pkg.apis"
CONTAINER = f"{PACKAGES}.metrics.v1beta1.ContainerMetrics"


def _text(description: str, **more: str) -> Json:
    return {"type": "string", "description": description, **more}


def _object(
    description: str, properties: Json | None = None, required: Iterable[str] = (), **more: Any
) -> Json:
    schema = {"type": "object", "description": description, "required": list(required), **more}
    schema |= {"properties": properties} if properties else {}
    return {key: value for key, value in schema.items() if value}


INT64 = {"type": "integer", "format": "int64"}
STRING = {"type": "string"}
QUANTITY = _text("A Kubernetes quantity.")
USAGE = _object("The resources used, over the window.", additionalProperties=QUANTITY)
SELECTOR = _object("A label selector of the metric.")
TYPE_META = {
    "apiVersion": _text("The group and version of this object."),
    "kind": _text("The kind of this object."),
}
TIMESTAMP = _text("The end of the window.", format="date-time")
DESCRIBED = _object(
    "The object that the metric describes.",
    dict.fromkeys(("kind", "namespace", "name", "apiVersion"), STRING),
)
IDENTIFIER = _object("The metric.", {"name": STRING, "selector": SELECTOR}, ["name"])
VALUE = {"timestamp": TIMESTAMP, "value": QUANTITY}


class Operation(NamedTuple):
    """A GET below the path of its API, of a list or of one item. `id` is unique."""

    path: str
    id: str
    is_list: bool = True
    verb: str = "list"
    queries: tuple[str, ...] = ("labelSelector", "fieldSelector", "cluster")


@dataclass(frozen=True)
class Kind:
    """A kind of an API with the properties of its items, and the operations that return it."""

    name: str
    properties: Json
    required: tuple[str, ...]
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class Api:
    """One version of an API group."""

    group: str
    version: str
    kinds: tuple[Kind, ...]

    @property
    def path(self) -> str:
        """The path below the root, and below /openapi/v3."""
        return f"apis/{self.group}/{self.version}"

    def schema(self, kind: str) -> str:
        """Returns the name of a kind's schema, as Kubernetes names it."""
        package = self.group.removesuffix(".k8s.io").replace(".", "_")
        return f"{PACKAGES}.{package}.{self.version}.{kind}"

    def schemas(self, prefix: str) -> Json:
        """Returns the schemas by name. `prefix` is where the document keeps its schemas."""
        found: Json = {}
        for kind in self.kinds:
            item, listed = self.schema(kind.name), f"{kind.name}List"
            properties = {
                name: {**field, "items": {"$ref": prefix + CONTAINER}} if name == "containers" else field
                for name, field in kind.properties.items()
            }
            items = {"type": "array", "items": {"$ref": prefix + item}}
            if "containers" in properties:
                found[CONTAINER] = _object(
                    "The resources used by one container.",
                    {"name": _text("The name of the container."), "usage": USAGE},
                    ["name", "usage"],
                )
            found[item] = _object(f"{kind.name} of the member clusters.", properties, kind.required)
            found[f"{item}List"] = _object(
                f"{kind.name} of all member clusters, in the order of their names.",
                {**TYPE_META, "metadata": _object("Standard list metadata."), "items": items},
                ["items"],
            )
            for name, schema in ((kind.name, item), (listed, f"{item}List")):
                # An item has a kind of its own only where it can be read alone.
                if any(name == kind.name + "List" * operation.is_list for operation in kind.operations):
                    found[schema]["x-kubernetes-group-version-kind"] = [self._kind(name)]
        return found

    def paths(
        self, parameter: Callable[[str, str], Json], response: Callable[[Json], Json], prefix: str
    ) -> Json:
        """Returns the paths, each with its GET operation."""
        found: Json = {}
        for kind in self.kinds:
            for path, identity, is_list, verb, queries in kind.operations:
                name = kind.name + "List" * is_list
                found[f"/{self.path}/{path}"] = {
                    "get": {
                        "description": f"read {kind.name} of the member clusters",
                        "operationId": identity,
                        "tags": [f"{self.group.partition('.')[0]}_{self.version}"],
                        "parameters": [
                            *(parameter(part[1:-1], "path") for part in path.split("/") if part[0] == "{"),
                            *(parameter(query, "query") for query in queries),
                        ],
                        "responses": {"200": response({"$ref": prefix + self.schema(name)})},
                        "x-kubernetes-action": verb,
                        "x-kubernetes-group-version-kind": self._kind(kind.name if verb == "list" else name),
                    }
                }
        return found

    def _kind(self, name: str) -> dict[str, str]:
        return {"group": self.group, "version": self.version, "kind": name}


def _usage_kind(kind: MetricsKind) -> Kind:
    usage = (
        {"containers": {"type": "array", "description": "The resources used by each container."}}
        if kind.namespaced
        else {"usage": USAGE}
    )
    fields = {
        **TYPE_META,
        "metadata": _object("Standard object metadata, with the cluster as an annotation."),
        "timestamp": TIMESTAMP,
        "window": _text("The length of the window, a Go duration."),
    }
    scoped, middle = kind.plural, ""
    operations = []
    if kind.namespaced:
        operations.append(Operation(kind.plural, f"listMetricsV1beta1{kind.kind}ForAllNamespaces"))
        scoped, middle = f"namespaces/{{namespace}}/{kind.plural}", "Namespaced"
    operations += [
        Operation(scoped, f"listMetricsV1beta1{middle}{kind.kind}"),
        Operation(f"{scoped}/{{name}}", f"readMetricsV1beta1{middle}{kind.kind}", False, "get", ("cluster",)),
    ]
    return Kind(kind.kind, {**fields, **usage}, ("timestamp", "window", *usage), tuple(operations))


def _value_api(group: str, version: str, kind: str, fields: Json, paths: Iterable[str], *queries: str) -> Api:
    operations = tuple(
        Operation(
            path, f"read{version.capitalize()}{kind}{number or ''}", verb="get", queries=(*queries, "cluster")
        )
        for number, path in enumerate(paths)
    )
    return Api(group, version, (Kind(kind, {**fields, **VALUE}, tuple(VALUE), operations),))


_CUSTOM_PATHS = (
    "{resource}/{name}/{metric}",
    "namespaces/{namespace}/{resource}/{name}/{metric}",
    "namespaces/{namespace}/metrics/{metric}",
)
_CUSTOM_QUERIES = ("labelSelector", "metricLabelSelector", "aggregation")
_V1BETA1 = {"describedObject": DESCRIBED, "metricName": STRING, "window": INT64, "selector": SELECTOR}
_V1BETA2 = {"describedObject": DESCRIBED, "metric": IDENTIFIER, "windowSeconds": INT64}
_EXTERNAL = {
    "metricName": STRING,
    "metricLabels": {"type": "object", "additionalProperties": STRING},
    "window": INT64,
}
APIS: Mapping[str, Api] = {
    api.path: api
    for api in (
        _value_api(CUSTOM, "v1beta1", "MetricValue", _V1BETA1, _CUSTOM_PATHS, *_CUSTOM_QUERIES),
        _value_api(CUSTOM, "v1beta2", "MetricValue", _V1BETA2, _CUSTOM_PATHS, *_CUSTOM_QUERIES),
        _value_api(
            EXTERNAL,
            "v1beta1",
            "ExternalMetricValue",
            _EXTERNAL,
            ("namespaces/{namespace}/{metric}",),
            "labelSelector",
        ),
        Api(GROUP, VERSION, tuple(map(_usage_kind, KINDS))),
    )
}


def openapi_v2() -> Json:
    """Returns the OpenAPI v2 document of all APIs."""
    prefix = "#/definitions/"
    paths: Json = {}
    definitions: Json = {}
    for api in APIS.values():
        paths |= api.paths(_parameter_v2, lambda schema: {"description": "OK", "schema": schema}, prefix)
        definitions |= api.schemas(prefix)
    return {"swagger": "2.0", "info": INFO, "paths": paths, "definitions": definitions}


def openapi_v3_index(hashes: Mapping[str, str]) -> Json:
    """Returns the document that lists the v3 documents with their hashes. Clients cache them by the hash."""
    return {
        "paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={hashes[path]}"} for path in APIS}
    }


def openapi_v3(path: str) -> Json:
    """Returns the v3 document of one of APIS."""
    prefix = "#/components/schemas/"
    paths = APIS[path].paths(_parameter_v3, _response_v3, prefix)
    return {
        "openapi": "3.0.0",
        "info": INFO,
        "paths": paths,
        "components": {"schemas": APIS[path].schemas(prefix)},
    }


def _parameter_v2(name: str, place: str) -> Json:
    return {"name": name, "in": place, "type": "string", "required": place == "path", "uniqueItems": True}


def _parameter_v3(name: str, place: str) -> Json:
    return {"name": name, "in": place, "schema": STRING, "required": place == "path"}


def _response_v3(schema: Json) -> Json:
    return {"description": "OK", "content": {"application/json": {"schema": schema}}}
