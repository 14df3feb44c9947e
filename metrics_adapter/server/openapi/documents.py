"""The OpenAPI documents: v2, the index of v3, and one v3 document for each API version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metrics_adapter.apis import VERSION
from metrics_adapter.server.openapi.resource_metrics import ResourceApi
from metrics_adapter.server.openapi.value_metrics import VALUE_APIS, ValueApi

RESOURCE_API = ResourceApi()
# The APIs by their path below the root and below /openapi/v3.
APIS: Mapping[str, ResourceApi | ValueApi] = {
    f"apis/{api.api_version}": api for api in (*VALUE_APIS, RESOURCE_API)
}
V3_PATHS = tuple(APIS)

INFO = {"title": "fedhpa-metrics-adapter", "version": VERSION}
V2_PREFIX, V3_PREFIX = "#/definitions/", "#/components/schemas/"


def openapi_v2() -> dict[str, Any]:
    """Returns the OpenAPI v2 document of all APIs."""
    paths: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for api in (RESOURCE_API, *VALUE_APIS):
        paths |= api.paths(_parameter_v2, _response_v2, V2_PREFIX)
        definitions |= api.schemas(V2_PREFIX)
    return {"swagger": "2.0", "info": INFO, "paths": paths, "definitions": definitions}


def openapi_v3_index(hashes: Mapping[str, str]) -> dict[str, Any]:
    """Returns the document that lists the v3 documents with their hashes. Clients cache them by the hash."""
    return {
        "paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={hashes[path]}"} for path in V3_PATHS}
    }


def openapi_v3(path: str) -> dict[str, Any]:
    """Returns the v3 document of one of V3_PATHS."""
    api = APIS[path]
    paths, schemas = api.paths(_parameter_v3, _response_v3, V3_PREFIX), api.schemas(V3_PREFIX)
    return {"openapi": "3.0.0", "info": INFO, "paths": paths, "components": {"schemas": schemas}}


def _response_v2(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": "OK", "schema": schema}


def _response_v3(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": "OK", "content": {"application/json": {"schema": schema}}}


def _parameter_v2(name: str, place: str) -> dict[str, Any]:
    return {"name": name, "in": place, "type": "string", "required": place == "path", "uniqueItems": True}


def _parameter_v3(name: str, place: str) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": {"type": "string"}, "required": place == "path"}
