"""metrics.k8s.io/v1beta1: LIST and GET of pods and nodes over all members."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from aiohttp import web
from aiohttp.typedefs import Handler

from fedhpa.api.selectors import FieldSelector, parse_field_selector, parse_selector
from metrics_adapter.apis import API_VERSION, GROUP, KINDS, MetricsKind
from metrics_adapter.members.resource_metrics import MemberItems, merge
from metrics_adapter.members.source import MembersSource
from metrics_adapter.server import responses
from metrics_adapter.server.bodies import Body, BodyCache, BodyPayload, ListBody, TableBody
from metrics_adapter.server.caller_limits import HOLD_KEY
from metrics_adapter.server.negotiation import TRUE_WORDS, Form, choose_form


class ResourceMetricsApi:
    """The handlers of metrics.k8s.io."""

    def __init__(self, source: MembersSource) -> None:
        self._source = source
        self._bodies = BodyCache()
        self._turn = asyncio.Lock()

    def routes(self) -> list[web.RouteDef]:
        """Returns the routes of the API."""
        routes = []
        for kind in KINDS:
            root = f"/apis/{API_VERSION}"
            scoped = f"{root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else None
            routes.append(web.get(f"{root}/{kind.plural}", self._list_handler(kind)))
            if scoped is not None:
                routes.append(web.get(scoped, self._list_handler(kind)))
            routes.append(web.get(f"{scoped or f'{root}/{kind.plural}'}/{{name}}", self._get_handler(kind)))
        return routes

    def _list_handler(self, kind: MetricsKind) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._list(request, kind)

        return handle

    def _get_handler(self, kind: MetricsKind) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._get(request, kind)

        return handle

    async def _list(self, request: web.Request, kind: MetricsKind) -> web.Response:
        query = request.query
        form = choose_form(request.headers.get("Accept", ""))
        if form is None:
            return responses.not_acceptable()
        if query.get("watch", "").lower() in TRUE_WORDS:
            return responses.no_watch(GROUP, kind.plural)
        selector = parse_selector(query.get("labelSelector", ""))
        field_text = query.get("fieldSelector", "")
        fields = parse_field_selector(field_text)
        cluster, refusal = responses.cluster_of(request, self._source)
        if refusal is not None:
            return refusal
        namespace = request.match_info.get("namespace", "")

        gathered = await self._source.list(kind, namespace, selector, cluster)
        if gathered.none_answered:
            return responses.unavailable(gathered)
        make: Callable[[Sequence[MemberItems]], Body] = partial(ListBody, kind)
        key = f"{kind.plural} {namespace} {cluster or ''}"
        if form is Form.TABLE:
            include = query.get("includeObject", "")
            make, key = partial(TableBody, kind, include=include), f"{key} {include}"
        if selector.requirements or field_text:
            body = make(await _selected(gathered.answers, fields))
        else:
            body = self._bodies.get(key, gathered.answers, make)
        hold = request.get(HOLD_KEY)
        done = hold(body, body.weight) if hold is not None and request.method != "HEAD" else None
        return await responses.list_response(BodyPayload(body, self._turn, done), body, form, gathered)

    async def _get(self, request: web.Request, kind: MetricsKind) -> web.Response:
        form = choose_form(request.headers.get("Accept", ""))
        if form is None:
            return responses.not_acceptable()
        cluster, refusal = responses.cluster_of(request, self._source)
        if refusal is not None:
            return refusal
        namespace, name = request.match_info.get("namespace", ""), request.match_info["name"]

        gathered = await self._source.get(kind, namespace, name, cluster)
        if gathered.none_answered:
            return responses.unavailable(gathered)
        items = merge(gathered.answers)
        if not items:
            return responses.not_found(kind, namespace, name, gathered)
        if len(items) > 1:
            return responses.ambiguous(kind, name, items)
        if form is Form.TABLE:
            body = responses.item_table(kind, items[0], request.query)
        else:
            body = responses.encode_item(kind, items[0])
        return await responses.metrics_response(body, form, gathered)


async def _selected(answers: Sequence[MemberItems], fields: FieldSelector) -> Sequence[MemberItems]:
    return answers if fields.is_empty else [await answer.filter(fields) for answer in answers]
