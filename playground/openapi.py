"""OpenAPI v3 as kubectl reads it: schemas for `explain`, merge keys and field validation for `apply`."""

from typing import Final

from playground.definitions import PREFIX, closure, definitions, name_of
from playground.kinds import Kind, Kinds
from playground.pipeline import Object

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_PARAMETERS: Final = [
    {"name": name, "in": "query", "schema": {"type": "string"}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]


def index(kinds: Kinds) -> Object:
    """The documents there are."""
    prefixes = {kind.api_version: "apis" if kind.group else "api" for kind in kinds}
    paths = {f"{prefix}/{version}": f"/openapi/v3/{prefix}/{version}" for version, prefix in prefixes.items()}
    return {"paths": {path: {"serverRelativeURL": url} for path, url in paths.items()}}


def document(kinds: Kinds, api_version: str) -> Object | None:
    """The document of a group version."""
    found = [kind for kind in kinds if kind.api_version == api_version]
    if not found:
        return None
    schemas = closure({name_of(kind) for kind in found if not kind.custom} | {_META}, definitions())
    schemas |= {_custom_name(kind): _custom_schema(kind) for kind in found if kind.custom}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": {path: operations for kind in found for path, operations in _paths(kind).items()},
        "components": {"schemas": schemas},
    }


def _custom_name(kind: Kind) -> str:
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def _custom_schema(kind: Kind) -> Object:
    schema = dict(kind.schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    metadata = {"allOf": [{"$ref": PREFIX + _META}], "description": "Standard object's metadata."}
    if "properties" in schema:
        schema["properties"] = {**schema["properties"], "metadata": metadata}
    return {**schema, "x-kubernetes-group-version-kind": [_gvk(kind)]}


def _gvk(kind: Kind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _paths(kind: Kind) -> Object:
    prefix = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.api_version}"
    collection = (
        f"{prefix}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{prefix}/{kind.plural}"
    )
    reference = {"$ref": PREFIX + (_custom_name(kind) if kind.custom else name_of(kind))}
    answer = {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}}

    def operation(action: str, parameters: list[Object]) -> Object:
        return {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _gvk(kind),
            "parameters": parameters,
            "responses": answer,
        }

    return {
        collection: {"get": operation("list", []), "post": operation("post", _PARAMETERS)},
        f"{collection}/{{name}}": {
            "get": operation("get", []),
            "put": operation("put", _PARAMETERS),
            "patch": operation("patch", _PARAMETERS),
        },
    }
