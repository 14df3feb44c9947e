"""The paths of metrics.k8s.io/v1beta1 and of discovery."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from aiohttp import web

from fedhpa.api.selectors import FieldSelector, parse_field_selector, parse_selector
from metrics_adapter.kinds import API_VERSION, GROUP, KINDS, MetricsKind
from metrics_adapter.members.catalogue import Catalogue
from metrics_adapter.members.gather import MembersSource
from metrics_adapter.members.items import Item, merge
from metrics_adapter.server import answers, discovery, openapi
from metrics_adapter.server.bodies import Bodies, ListBody, list_json
from metrics_adapter.server.negotiation import (
    JSON,
    TRUE_WORDS,
    Form,
    choose_form,
    discovery_content_type,
    discovery_version,
)

# Rows. A row costs 25 us: a longer table is made in a thread, or nobody else would be answered meanwhile.
SHORT_TABLE = 500

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class MetricsApi:
    """LIST and GET of pods and nodes over all members."""

    def __init__(self, source: MembersSource) -> None:
        self._source = source
        self._bodies = Bodies()

    def routes(self) -> list[web.RouteDef]:
        """All paths of the group."""
        routes = []
        for kind in KINDS:
            root = f"/apis/{API_VERSION}"
            scoped = f"{root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else None
            routes.append(web.get(f"{root}/{kind.plural}", self._lister(kind)))
            if scoped is not None:
                routes.append(web.get(scoped, self._lister(kind)))
            routes.append(web.get(f"{scoped or f'{root}/{kind.plural}'}/{{name}}", self._getter(kind)))
        return routes

    def _lister(self, kind: MetricsKind) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._list(request, kind)

        return handle

    def _getter(self, kind: MetricsKind) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._get(request, kind)

        return handle

    async def _list(self, request: web.Request, kind: MetricsKind) -> web.Response:
        query = request.query
        form = choose_form(request.headers.get("Accept", ""))
        if form is None:
            return answers.not_acceptable()
        if query.get("watch", "").lower() in TRUE_WORDS:
            return answers.no_watch(GROUP, kind.plural)
        selector = parse_selector(query.get("labelSelector", ""))
        field_text = query.get("fieldSelector", "")
        fields = parse_field_selector(field_text)
        cluster, refusal = answers.cluster_of(request, self._source)
        if refusal is not None:
            return refusal
        namespace = request.match_info.get("namespace", "")

        gathered = await self._source.list(kind, namespace, selector, cluster)
        if gathered.nobody_answered:
            return answers.unavailable(gathered)
        whole = not selector.requirements and not field_text
        body: bytes | ListBody
        if whole and form is not Form.TABLE:
            body = self._bodies.list_body(kind, f"{namespace} {cluster or ''}", gathered.answers)
        else:
            items = merge(gathered.answers)
            body = await self._render(kind, items, fields, form, request)
        return answers.respond(body, form, gathered)

    async def _render(
        self,
        kind: MetricsKind,
        items: Sequence[Item],
        fields: FieldSelector,
        form: Form,
        request: web.Request,
    ) -> bytes:
        selected = answers.filtered(items, fields)
        if form is not Form.TABLE:
            return list_json(kind, selected)
        if len(selected) <= SHORT_TABLE:
            return answers.table_body(kind, selected, request.query, single=False)
        return await asyncio.to_thread(answers.table_body, kind, selected, request.query, single=False)

    async def _get(self, request: web.Request, kind: MetricsKind) -> web.Response:
        form = choose_form(request.headers.get("Accept", ""))
        if form is None:
            return answers.not_acceptable()
        cluster, refusal = answers.cluster_of(request, self._source)
        if refusal is not None:
            return refusal
        namespace, name = request.match_info.get("namespace", ""), request.match_info["name"]

        gathered = await self._source.get(kind, namespace, name, cluster)
        if gathered.nobody_answered:
            return answers.unavailable(gathered)
        items = merge(gathered.answers)
        if not items:
            return answers.not_found(kind, namespace, name, gathered)
        if len(items) > 1:
            return answers.ambiguous(kind, name, items)
        if form is Form.TABLE:
            body = answers.table_body(kind, items, request.query, single=True)
        else:
            body = answers.item_json(kind, items[0])
        return answers.respond(body, form, gathered)


def discovery_routes(catalogue: Catalogue) -> list[web.RouteDef]:
    """Discovery, OpenAPI and version."""
    constant = {f"/apis/{group}": discovery.api_group(group) for group in discovery.SERVED} | {
        "/openapi/v2": openapi.openapi_v2(),
        "/openapi/v3": openapi.openapi_v3_index(),
        **{f"/openapi/v3/{path}": openapi.openapi_v3(path) for path in openapi.V3_PATHS},
        "/version": discovery.version_info(),
    }
    lists = {
        f"/apis/{group}/{version}": (group, version)
        for group, versions in discovery.SERVED.items()
        for version in versions
    }
    paths = sorted([*constant, *lists, "/apis", "/healthz", "/livez", "/metrics", "/readyz"])
    constant["/"] = {"paths": paths}
    handlers = {
        "/apis": _groups(catalogue),
        **{path: _resources(*of, catalogue) for path, of in lists.items()},
        **{path: _constant(body) for path, body in constant.items()},
    }
    slashed = {f"{path}/": handler for path, handler in handlers.items() if path.startswith("/apis")}
    return [web.get(path, handler) for path, handler in (handlers | slashed).items()]


def _groups(catalogue: Catalogue) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        version = discovery_version(request.headers.get("Accept", ""))
        if version is None:
            return _document(request, msgspec.json.encode(discovery.api_group_list()))
        body = msgspec.json.encode(discovery.aggregated_discovery(version, catalogue))
        return web.Response(body=body, headers={"Content-Type": discovery_content_type(version)})

    return handle


def _resources(group: str, version: str, catalogue: Catalogue) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        body = msgspec.json.encode(discovery.api_resource_list(group, version, catalogue))
        return _document(request, body)

    return handle


def _constant(document: dict[str, Any]) -> Handler:
    body = msgspec.json.encode(document)

    async def handle(request: web.Request) -> web.Response:
        return _document(request, body)

    return handle


def _document(request: web.Request, body: bytes) -> web.Response:
    """JSON, or YAML for who wants that; the hub asks for forms that only Go has, and takes JSON instead."""
    if choose_form(request.headers.get("Accept", "")) is Form.YAML:
        return answers.as_yaml(body)
    return web.Response(body=body, content_type=JSON)
