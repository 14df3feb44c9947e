"""OpenAPI v2 and v3: what the hub merges for `kubectl explain` and validation."""

from __future__ import annotations

from typing import Any

from metrics_adapter.kinds import API_VERSION, GROUP, KINDS, VERSION, MetricsKind
from metrics_adapter.server.openapi_values import VALUE_APIS

PACKAGE = "io.k8s.metrics.pkg.apis.metrics.v1beta1"
USAGE_PATH = f"apis/{API_VERSION}"
V3_PATHS = (*(f"apis/{api.api_version}" for api in VALUE_APIS), USAGE_PATH)

QUANTITY = {"type": "string", "description": "A Kubernetes quantity."}
USAGE = {
    "type": "object",
    "description": "The resources used, over the window.",
    "additionalProperties": QUANTITY,
}
METADATA = {"type": "object", "description": "Standard object metadata, with the cluster as an annotation."}
LIST_METADATA = {"type": "object", "description": "Standard list metadata."}
API_VERSION_FIELD = {"type": "string", "description": "The group and version of this object."}
KIND_FIELD = {"type": "string", "description": "What this object is."}
MEASURED = {
    "apiVersion": API_VERSION_FIELD,
    "kind": KIND_FIELD,
    "metadata": METADATA,
    "timestamp": {"type": "string", "format": "date-time", "description": "The end of the window."},
    "window": {"type": "string", "description": "The length of the window, a Go duration."},
}
INFO = {"title": "fedhpa-metrics-adapter", "version": VERSION}
V2_PREFIX, V3_PREFIX = "#/definitions/", "#/components/schemas/"
LIST_PARAMETERS = ("labelSelector", "fieldSelector", "cluster")


def openapi_v2() -> dict[str, Any]:
    """The Swagger document of all that is served."""
    paths, definitions = _paths(_response_v2, _parameter_v2), _schemas(V2_PREFIX)
    for api in VALUE_APIS:
        paths |= api.paths(_parameter_v2, lambda schema: {"description": "OK", "schema": schema}, V2_PREFIX)
        definitions |= api.schemas(V2_PREFIX)
    return {"swagger": "2.0", "info": INFO, "paths": paths, "definitions": definitions}


def openapi_v3_index() -> dict[str, Any]:
    """Where the v3 documents are."""
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in V3_PATHS}}


def openapi_v3(path: str) -> dict[str, Any]:
    """The v3 document of the version at one of V3_PATHS."""
    if path == USAGE_PATH:
        paths, schemas = _paths(_response_v3, _parameter_v3), _schemas(V3_PREFIX)
    else:
        (api,) = (api for api in VALUE_APIS if path == f"apis/{api.api_version}")
        paths, schemas = api.paths(_parameter_v3, _content_v3, V3_PREFIX), api.schemas(V3_PREFIX)
    return {"openapi": "3.0.0", "info": INFO, "paths": paths, "components": {"schemas": schemas}}


def _schemas(prefix: str) -> dict[str, Any]:
    schemas: dict[str, Any] = {
        f"{PACKAGE}.ContainerMetrics": {
            "type": "object",
            "description": "The resources used by one container.",
            "required": ["name", "usage"],
            "properties": {
                "name": {"type": "string", "description": "The name of the container."},
                "usage": USAGE,
            },
        }
    }
    for kind in KINDS:
        containers = {
            "type": "array",
            "description": "The resources used by each container.",
            "items": {"$ref": f"{prefix}{PACKAGE}.ContainerMetrics"},
        }
        measured = {"containers": containers} if kind.namespaced else {"usage": USAGE}
        schemas[f"{PACKAGE}.{kind.kind}"] = {
            "type": "object",
            "description": f"{kind.kind} of one cluster.",
            "required": ["timestamp", "window", *measured],
            "properties": {**MEASURED, **measured},
            "x-kubernetes-group-version-kind": [_kind(kind.kind)],
        }
        schemas[f"{PACKAGE}.{kind.kind}List"] = {
            "type": "object",
            "description": f"{kind.kind} of all clusters, sorted by namespace, name and cluster.",
            "required": ["items"],
            "properties": {
                "apiVersion": API_VERSION_FIELD,
                "kind": KIND_FIELD,
                "metadata": LIST_METADATA,
                "items": {
                    "type": "array",
                    "description": f"{kind.kind} of all clusters.",
                    "items": {"$ref": f"{prefix}{PACKAGE}.{kind.kind}"},
                },
            },
            "x-kubernetes-group-version-kind": [_kind(f"{kind.kind}List")],
        }
    return schemas


def _paths(response: Any, parameter: Any) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for kind in KINDS:
        root = f"/apis/{API_VERSION}"
        scoped = (
            f"{root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
        )
        namespace = [parameter("namespace", "path")] if kind.namespaced else []
        if kind.namespaced:
            paths[f"{root}/{kind.plural}"] = _operation(
                kind, "list", "ForAllNamespaces", [], response, parameter
            )
        paths[scoped] = _operation(kind, "list", "", namespace, response, parameter)
        named = [parameter("name", "path"), *namespace]
        paths[f"{scoped}/{{name}}"] = _operation(kind, "get", "", named, response, parameter)
    return paths


def _operation(
    kind: MetricsKind, action: str, scope: str, path: list[Any], response: Any, parameter: Any
) -> dict[str, Any]:
    listing = action == "list"
    middle = "Namespaced" if kind.namespaced and not scope else ""
    verb = "list" if listing else "read"
    queries = LIST_PARAMETERS if listing else ("cluster",)
    return {
        "get": {
            "description": f"{verb} {kind.kind} of the member clusters",
            "operationId": f"{verb}MetricsV1beta1{middle}{kind.kind}{scope}",
            "tags": ["metrics_v1beta1"],
            "parameters": [*path, *(parameter(name, "query") for name in queries)],
            "responses": {"200": response(kind.kind + ("List" if listing else ""))},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _kind(kind.kind),
        }
    }


def _kind(name: str) -> dict[str, str]:
    return {"group": GROUP, "version": VERSION, "kind": name}


def _response_v2(name: str) -> dict[str, Any]:
    return {"description": "OK", "schema": {"$ref": f"{V2_PREFIX}{PACKAGE}.{name}"}}


def _response_v3(name: str) -> dict[str, Any]:
    return _content_v3({"$ref": f"{V3_PREFIX}{PACKAGE}.{name}"})


def _content_v3(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": "OK", "content": {"application/json": {"schema": schema}}}


def _parameter_v2(name: str, place: str) -> dict[str, Any]:
    return {"name": name, "in": place, "type": "string", "required": place == "path", "uniqueItems": True}


def _parameter_v3(name: str, place: str) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": {"type": "string"}, "required": place == "path"}
