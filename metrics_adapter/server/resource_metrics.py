"""metrics.k8s.io/v1beta1: LIST and GET of pods and nodes over all members."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from aiohttp import web

from fedhpa.api.selectors import FieldSelector, parse_field_selector, parse_selector
from fedhpa.serving.fairness import LARGE_BYTES
from metrics_adapter.apis import API_VERSION, GROUP, KINDS, MetricsKind
from metrics_adapter.members.resource_metrics import MemberItems, all_items
from metrics_adapter.members.source import MembersSource
from metrics_adapter.pace import turn
from metrics_adapter.server import responses
from metrics_adapter.server.bodies import Body, BodyCache, BodyPayload, ListBody, MetadataBody, TableBody
from metrics_adapter.server.caller_limits import HOLD_KEY
from metrics_adapter.server.negotiation import (
    META_GROUP,
    METADATA_ITEM,
    METADATA_LIST,
    Form,
    Representation,
    accepts_gzip,
)
from metrics_adapter.server.tables import item_metadata, table

# The values of includeObject beside Metadata, which is the default.
INCLUDES = ("None", "Object")
# The size from which an answer is compressed for clients that accept it, as in Kubernetes' servers.
GZIP_BYTES = 128 * 1024


class ResourceMetricsApi:
    """The handlers of metrics.k8s.io."""

    def __init__(self, source: MembersSource) -> None:
        self._source = source
        self._bodies = BodyCache()

    def routes(self) -> list[web.RouteDef]:
        """Returns the routes of the API."""
        root, routes = f"/apis/{API_VERSION}", []
        for kind in KINDS:
            lists = [f"{root}/{kind.plural}"]
            if kind.namespaced:
                lists.append(f"{root}/namespaces/{{namespace}}/{kind.plural}")
            handlers = [(path, partial(self._list, kind)) for path in lists]
            handlers.append((f"{lists[-1]}/{{name}}", partial(self._get, kind)))
            routes += [web.get(path + slash, handler) for path, handler in handlers for slash in ("", "/")]
        return routes

    async def _list(self, kind: MetricsKind, request: web.Request) -> web.Response:
        query = request.query
        accepted = responses.accepted_form(request, METADATA_LIST)
        responses.check_watch(request, GROUP, kind.plural)
        responses.check_list_options(query)
        selector = parse_selector(query.get("labelSelector", ""))
        field_text = query.get("fieldSelector", "")
        fields = parse_field_selector(field_text)
        cluster = responses.cluster_of(request, self._source)
        namespace = request.match_info.get("namespace", "")

        gathered = await self._source.list(kind, namespace, selector, cluster)
        responses.check_answered(gathered)
        include = query.get("includeObject", "")
        include = include if include in INCLUDES else ""
        make = _maker(kind, accepted, include)
        if selector.requirements or field_text:
            body = make(await _selected(gathered.answers, fields))
        else:
            key = f"{kind.plural} {namespace} {cluster or ''} {accepted.form} {accepted.version} {include}"
            body = self._bodies.get(key, gathered.answers, make)
        hold = request.get(HOLD_KEY)
        done = None
        if hold is not None and body.weight >= LARGE_BYTES and request.method != "HEAD":
            done = hold(body, body.weight)
        compressed = body.weight >= GZIP_BYTES and accepts_gzip(request.headers.get("Accept-Encoding", ""))
        payload = BodyPayload(body, turn(), done, compressed=compressed)
        return await responses.list_response(payload, body, accepted.form, gathered)

    async def _get(self, kind: MetricsKind, request: web.Request) -> web.Response:
        accepted = responses.accepted_form(request, METADATA_ITEM)
        cluster = responses.cluster_of(request, self._source)
        namespace, name = request.match_info.get("namespace", ""), request.match_info["name"]

        gathered = await self._source.get(kind, namespace, name, cluster)
        responses.check_answered(gathered)
        items = [item for part in all_items(gathered.answers) for item in part]
        if not items:
            return responses.not_found(kind, namespace, name, gathered)
        if len(items) > 1:
            return responses.ambiguous(kind, name, items)
        if accepted.form is Form.TABLE:
            include = request.query.get("includeObject", "")
            body = table(items, kind.kind, API_VERSION, include, single=True, meta=_meta(accepted))
        elif accepted.form is Form.METADATA:
            body = item_metadata(items[0], _meta(accepted))
        else:
            body = responses.encode_item(kind, items[0])
        return await responses.metrics_response(body, accepted.form, gathered)


def _maker(
    kind: MetricsKind, accepted: Representation, include: str
) -> Callable[[Sequence[MemberItems]], Body]:
    """Returns the function that makes the body of a list from the members' answers."""
    if accepted.form is Form.TABLE:
        return partial(TableBody, kind, include=include, meta=_meta(accepted))
    if accepted.form is Form.METADATA:
        return partial(MetadataBody, kind, meta=_meta(accepted))
    return partial(ListBody, kind)


def _meta(accepted: Representation) -> str:
    return f"{META_GROUP}/{accepted.version}"


async def _selected(answers: Sequence[MemberItems], fields: FieldSelector) -> Sequence[MemberItems]:
    return answers if fields.is_empty else [await answer.filter(fields) for answer in answers]
