"""Discovery documents, by which the hub and kubectl find out what the adapter serves, and their routes.

Groups and versions are constant, and names of metrics come from a cache, so no request waits for a member.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import sha256
from importlib import metadata
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from fedhpa.members.metrics import CUSTOM, EXTERNAL
from metrics_adapter.apis import GROUP, KINDS, SERVED_VERSIONS
from metrics_adapter.members.discovery_cache import DiscoveredMetric, MetricDiscoveryCache
from metrics_adapter.server import openapi
from metrics_adapter.server.negotiation import (
    DISCOVERY_VERSIONS,
    JSON,
    Form,
    choose_form,
    discovery_content_type,
    discovery_version,
)
from metrics_adapter.server.responses import yaml_response

# The longest time for which HTTP caches keep a document.
YEAR_SECONDS = 365 * 24 * 3600
# The bytes of a document that are sent at once.
PIECE_BYTES = 64 * 1024
USAGE_VERBS = ["get", "list"]
USAGE_KINDS = sorted(KINDS, key=lambda kind: kind.plural)
VALUE_VERBS = ["get"]
VALUE_KINDS = {CUSTOM: "MetricValueList", EXTERNAL: "ExternalMetricValueList"}


def discovery_routes(cache: MetricDiscoveryCache) -> list[web.RouteDef]:
    """Returns the routes of discovery, OpenAPI and /version."""
    documents = {path: msgspec.json.encode(openapi.openapi_v3(path)) for path in openapi.APIS}
    hashes = {path: _hash(body) for path, body in documents.items()}
    schemas = {f"/openapi/v3/{path}": body for path, body in documents.items()} | {
        "/openapi/v2": msgspec.json.encode(openapi.openapi_v2()),
        "/openapi/v3": msgspec.json.encode(openapi.openapi_v3_index(hashes)),
    }
    constant = {f"/apis/{group}": api_group(group) for group in SERVED_VERSIONS} | {
        "/version": version_info()
    }
    lists = {
        f"/apis/{group}/{version}": (group, version)
        for group, versions in SERVED_VERSIONS.items()
        for version in versions
    }
    paths = sorted([*constant, *schemas, *lists, "/apis", "/healthz", "/livez", "/metrics", "/readyz"])
    constant["/"] = {"paths": paths}
    handlers = {
        "/apis": _groups_handler(cache),
        **{path: _resources_handler(*of, cache) for path, of in lists.items()},
        **{path: _schema_handler(body) for path, body in schemas.items()},
        **{path: _constant_handler(body) for path, body in constant.items()},
    }
    slashed = {f"{path}/": handler for path, handler in handlers.items() if path.startswith("/apis")}
    return [web.get(path, handler) for path, handler in (handlers | slashed).items()]


def api_group(group: str) -> dict[str, Any]:
    """Returns the APIGroup at /apis/GROUP."""
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version} for version in SERVED_VERSIONS[group]
    ]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": group,
        "versions": versions,
        "preferredVersion": versions[0],
    }


def api_group_list() -> dict[str, Any]:
    """Returns the APIGroupList at /apis, for clients that do not request aggregated discovery."""
    groups = [
        {key: value for key, value in api_group(group).items() if key not in ("kind", "apiVersion")}
        for group in SERVED_VERSIONS
    ]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_resource_list(group: str, version: str, cache: MetricDiscoveryCache) -> dict[str, Any]:
    """Returns the APIResourceList at /apis/GROUP/VERSION, by which the hub tests availability."""
    resources = [
        {"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": verbs}
        for name, namespaced, kind, verbs in _served(group, cache)
    ]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}",
        "resources": resources,
    }


def aggregated_discovery(version: str, cache: MetricDiscoveryCache) -> dict[str, Any]:
    """Returns the APIGroupDiscoveryList at /apis, for clients that request apidiscovery.k8s.io/VERSION."""
    items = []
    for group, served in SERVED_VERSIONS.items():
        resources = _discovered_resources(_served(group, cache))
        versions = [{"version": name, "resources": resources, "freshness": "Current"} for name in served]
        items.append({"metadata": {"name": group}, "versions": versions})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def version_info() -> dict[str, str]:
    """Returns the document at /version: the adapter's own release, in the form of Kubernetes' servers."""
    release = metadata.version("fedhpa")
    major, minor, *_ = release.split(".")
    return {"major": major, "minor": minor, "gitVersion": f"v{release}", "platform": "python"}


def _served(group: str, cache: MetricDiscoveryCache) -> list[tuple[str, bool, str, list[str]]]:
    """Returns name, scope (True: namespaced), kind and verbs of each resource of a group."""
    if group == GROUP:
        return [(kind.plural, kind.namespaced, kind.kind, USAGE_VERBS) for kind in USAGE_KINDS]
    kind = VALUE_KINDS[group]
    return [(metric.name, metric.namespaced, kind, VALUE_VERBS) for metric in cache.metrics(group)]


def _discovered_resources(served: list[tuple[str, bool, str, list[str]]]) -> list[dict[str, Any]]:
    """Lists a custom metric as a subresource, below a parent resource without verbs."""
    found: dict[str, dict[str, Any]] = {}
    for name, namespaced, kind, verbs in served:
        resource, _, metric = name.partition("/")
        if not metric:
            found[resource] = _discovered(resource, kind, namespaced, verbs)
            continue
        parent = found.setdefault(resource, _discovered(resource, "", namespaced, []))
        of_metric = {"group": "", "version": "", "kind": kind}
        parent.setdefault("subresources", []).append(
            {"subresource": metric, "responseKind": of_metric, "verbs": verbs}
        )
    return list(found.values())


def _discovered(resource: str, kind: str, namespaced: bool, verbs: list[str]) -> dict[str, Any]:
    return {
        "resource": resource,
        # The hub fills in an empty group and version. metrics-server leaves them empty too.
        "responseKind": {"group": "", "version": "", "kind": kind},
        "scope": "Namespaced" if namespaced else "Cluster",
        "singularResource": "",
        "verbs": verbs,
    }


def _kept(cache: MetricDiscoveryCache, make: Callable[[], dict[str, Any]]) -> Callable[[], bytes]:
    """Returns what `make` makes as JSON, made once as long as the metrics stay the same.

    Members list any number of metrics, and a hundred clients may request megabytes of them at once.
    """
    known: list[Sequence[DiscoveredMetric]] = []
    body = b""

    def document() -> bytes:
        nonlocal known, body
        now = [cache.metrics(group) for group in VALUE_KINDS]
        if not body or now != known:
            known, body = now, msgspec.json.encode(make())
        return body

    return document


def _groups_handler(cache: MetricDiscoveryCache) -> Handler:
    groups = msgspec.json.encode(api_group_list())
    documents = {
        version: _kept(cache, partial(aggregated_discovery, version, cache)) for version in DISCOVERY_VERSIONS
    }
    digest = lru_cache(maxsize=len(documents))(_hash)

    async def handle(request: web.Request) -> web.Response:
        version = discovery_version(request.headers.get("Accept", ""))
        if version is None:
            return await _document(request, groups)
        body = documents[version]()
        headers = {"ETag": f'"{digest(body)}"', "Vary": "Accept", "Cache-Control": "public"}
        if _is_known(request, headers):
            return web.Response(status=304, headers=headers)
        headers["Content-Type"] = discovery_content_type(version)
        return _sent(body, headers)

    return handle


def _resources_handler(group: str, version: str, cache: MetricDiscoveryCache) -> Handler:
    document = _kept(cache, partial(api_resource_list, group, version, cache))

    async def handle(request: web.Request) -> web.Response:
        return await _document(request, document())

    return handle


def _schema_handler(body: bytes) -> Handler:
    """Returns the handler of an OpenAPI document, which clients with its hash need not request again."""
    digest = _hash(body)

    async def handle(request: web.Request) -> web.Response:
        headers = {"ETag": f'"{digest}"', "Vary": "Accept"}
        if request.query.get("hash") == digest:
            headers["Cache-Control"] = f"public, immutable, max-age={YEAR_SECONDS}"
        if _is_known(request, headers):
            return web.Response(status=304, headers=headers)
        response = await _document(request, body)
        response.headers.update(headers)
        return response

    return handle


def _hash(body: bytes) -> str:
    return sha256(body).hexdigest().upper()


def _is_known(request: web.Request, headers: Mapping[str, str]) -> bool:
    """True if the client has this very document."""
    return request.headers.get("If-None-Match") == headers["ETag"]


def _constant_handler(document: dict[str, Any]) -> Handler:
    body = msgspec.json.encode(document)

    async def handle(request: web.Request) -> web.Response:
        return await _document(request, body)

    return handle


async def _document(request: web.Request, body: bytes) -> web.Response:
    """Returns YAML if it is requested, else JSON. The hub also lists protobuf, and accepts JSON instead."""
    accepted = choose_form(request.headers.get("Accept", ""))
    if accepted is not None and accepted.form is Form.YAML:
        return await yaml_response(body)
    return _sent(body, {"Content-Type": JSON})


def _sent(body: bytes, headers: dict[str, str]) -> web.Response:
    """Returns 200. A long body is sent in pieces, so that a slow client keeps no copy of it."""
    if len(body) <= PIECE_BYTES:
        return web.Response(body=body, headers=headers)

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), PIECE_BYTES):
            yield body[start : start + PIECE_BYTES]

    return web.Response(body=pieces(), headers={**headers, "Content-Length": str(len(body))})
