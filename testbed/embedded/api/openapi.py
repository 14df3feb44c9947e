"""OpenAPI v3 as kubectl reads it: schemas for `explain`, merge keys and field validation for `apply`."""

from collections.abc import Iterable
from typing import Final

from testbed.embedded.api.types import Object
from testbed.embedded.objects.definitions import META, PREFIX, closure, definitions, name_of, schema_of
from testbed.embedded.objects.kinds import Kind, Kinds

V3_PATH: Final = "/openapi/v3"
# OpenAPI v2, which kubectl asks for when it validates a List, in the one form it reads (protobuf): a document
# without definitions, so that it leaves the validation to the server.
V2_PATH: Final = "/openapi/v2"
V2_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
V2: Final = b"\n\x032.0"
_PARAMETERS: Final = [
    {"name": name, "in": "query", "schema": {"type": "string"}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]


def index(kinds: Kinds, aggregated: Iterable[str] = ()) -> Object:
    """The documents there are, those of aggregated group versions too."""
    prefixes = dict.fromkeys(aggregated, "apis")
    prefixes |= {kind.api_version: "apis" if kind.group else "api" for kind in kinds}
    paths = {f"{prefix}/{version}": f"/openapi/v3/{prefix}/{version}" for version, prefix in prefixes.items()}
    return {"paths": {path: {"serverRelativeURL": url} for path, url in paths.items()}}


def document(kinds: Kinds, api_version: str) -> Object | None:
    """The document of a group version."""
    found = [kind for kind in kinds if kind.api_version == api_version]
    if not found:
        return None
    schemas = closure({name_of(kind) for kind in found if not kind.custom} | {META}, definitions())
    schemas |= {
        _custom_name(kind): {**schema_of(kind), "x-kubernetes-group-version-kind": [_gvk(kind)]}
        for kind in found
        if kind.custom
    }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": {path: operations for kind in found for path, operations in _paths(kind).items()},
        "components": {"schemas": schemas},
    }


def _custom_name(kind: Kind) -> str:
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


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
