"""The OpenAPI schemas and paths of metrics.k8s.io."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from metrics_adapter.apis import API_VERSION, GROUP, KINDS, VERSION, MetricsKind

Parameter = Callable[[str, str], dict[str, Any]]
Response = Callable[[dict[str, Any]], dict[str, Any]]

PACKAGE = "io.k8s.metrics.pkg.apis.metrics.v1beta1"

QUANTITY = {"type": "string", "description": "A Kubernetes quantity."}
USAGE = {
    "type": "object",
    "description": "The resources used, over the window.",
    "additionalProperties": QUANTITY,
}
METADATA = {"type": "object", "description": "Standard object metadata, with the cluster as an annotation."}
LIST_METADATA = {"type": "object", "description": "Standard list metadata."}
API_VERSION_FIELD = {"type": "string", "description": "The group and version of this object."}
KIND_FIELD = {"type": "string", "description": "The kind of this object."}
COMMON_FIELDS = {
    "apiVersion": API_VERSION_FIELD,
    "kind": KIND_FIELD,
    "metadata": METADATA,
    "timestamp": {"type": "string", "format": "date-time", "description": "The end of the window."},
    "window": {"type": "string", "description": "The length of the window, a Go duration."},
}
LIST_PARAMETERS = ("labelSelector", "fieldSelector", "cluster")


class ResourceApi:
    """metrics.k8s.io/v1beta1 as schemas and paths."""

    api_version = API_VERSION

    def schemas(self, prefix: str) -> dict[str, Any]:
        """Returns the schemas by name. `prefix` is where the document keeps its schemas."""
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
            schemas[f"{PACKAGE}.{kind.kind}"] = _item_schema(kind, prefix)
            schemas[f"{PACKAGE}.{kind.kind}List"] = _list_schema(kind, prefix)
        return schemas

    def paths(self, parameter: Parameter, response: Response, prefix: str) -> dict[str, Any]:
        """Returns the paths, each with its GET operation."""

        def operation(kind: MetricsKind, action: str, scope: str, path: Sequence[Any]) -> dict[str, Any]:
            return {"get": _operation(kind, action, scope, path, parameter, response, prefix)}

        paths: dict[str, Any] = {}
        root = f"/apis/{API_VERSION}"
        for kind in KINDS:
            scoped = (
                f"{root}/namespaces/{{namespace}}/{kind.plural}"
                if kind.namespaced
                else f"{root}/{kind.plural}"
            )
            namespace = [parameter("namespace", "path")] if kind.namespaced else []
            if kind.namespaced:
                paths[f"{root}/{kind.plural}"] = operation(kind, "list", "ForAllNamespaces", [])
            paths[scoped] = operation(kind, "list", "", namespace)
            named = [parameter("name", "path"), *namespace]
            paths[f"{scoped}/{{name}}"] = operation(kind, "get", "", named)
        return paths


def _item_schema(kind: MetricsKind, prefix: str) -> dict[str, Any]:
    containers = {
        "type": "array",
        "description": "The resources used by each container.",
        "items": {"$ref": f"{prefix}{PACKAGE}.ContainerMetrics"},
    }
    usage = {"containers": containers} if kind.namespaced else {"usage": USAGE}
    return {
        "type": "object",
        "description": f"{kind.kind} of one cluster.",
        "required": ["timestamp", "window", *usage],
        "properties": {**COMMON_FIELDS, **usage},
        "x-kubernetes-group-version-kind": [_kind(kind.kind)],
    }


def _list_schema(kind: MetricsKind, prefix: str) -> dict[str, Any]:
    return {
        "type": "object",
        "description": f"{kind.kind} of all clusters, sorted by cluster.",
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


def _operation(
    kind: MetricsKind,
    action: str,
    scope: str,
    path: Sequence[Any],
    parameter: Parameter,
    response: Response,
    prefix: str,
) -> dict[str, Any]:
    listing = action == "list"
    middle = "Namespaced" if kind.namespaced and not scope else ""
    verb = "list" if listing else "read"
    queries = LIST_PARAMETERS if listing else ("cluster",)
    schema = f"{prefix}{PACKAGE}.{kind.kind}{'List' if listing else ''}"
    return {
        "description": f"{verb} {kind.kind} of the member clusters",
        "operationId": f"{verb}MetricsV1beta1{middle}{kind.kind}{scope}",
        "tags": ["metrics_v1beta1"],
        "parameters": [*path, *(parameter(name, "query") for name in queries)],
        "responses": {"200": response({"$ref": schema})},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _kind(kind.kind),
    }


def _kind(name: str) -> dict[str, str]:
    return {"group": GROUP, "version": VERSION, "kind": name}
