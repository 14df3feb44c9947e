"""The API server: one aiohttp application over one store.

It serves what the product's processes and kubectl's everyday verbs need. It has no server-side apply, no
managed fields, no CEL and no watch lists.
"""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final

import msgspec
import structlog
from aiohttp import web

from testbed.embedded.api import statuses, tables, watches
from testbed.embedded.api.bodies import decode
from testbed.embedded.api.discovery import OPENAPI_V2, OPENAPI_V2_DOCUMENT, OPENAPI_V2_TYPE, Discovery
from testbed.embedded.api.lists import selection
from testbed.embedded.api.requests import (
    ResourceRequest,
    attributes_of,
    check_query,
    has_path,
)
from testbed.embedded.api.resources import Resources
from testbed.embedded.api.types import (
    ANONYMOUS,
    Attributes,
    Object,
    Router,
    StatusError,
    User,
)
from testbed.embedded.objects.kinds import NAMESPACES, CustomKinds, Kinds
from testbed.embedded.storage.store import GarbageCollector, Store

log = structlog.get_logger(__name__)

# kube-apiserver's limit of one request body.
MAX_BODY: Final = 3 * 1024 * 1024
FIRST_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
# The group, resource and subresource of what is only posted to, and not stored: a review or a token request.
Review = tuple[str, str, str]
ReviewHandler = Callable[[Attributes, Object], Object]


class ApiServer:
    """One API server. `app` is the application to serve; `now` is the clock of the objects' times."""

    def __init__(self, name: str, *, now: Callable[[], datetime]) -> None:
        self.name = name
        self.store = Store(now)
        self.kinds = Kinds()
        # The defaults allow every request; None from `authenticate` means wrong credentials.
        self.authenticate: Callable[[web.Request], User | None] = lambda _: ANONYMOUS
        self.allowed: Callable[[Attributes], object] = lambda _: True
        self.route: Router = lambda _: None
        self.watches = watches.Watches(self.store)
        self._now = now
        self.resources = Resources(self.store)
        self._reviews: dict[Review, ReviewHandler] = {}
        self._custom = CustomKinds(self.store, self.kinds, now)
        self._garbage = GarbageCollector(self.store)
        self._discovery = Discovery(self.kinds, self.store)
        for namespace in FIRST_NAMESPACES:
            self.store.create(NAMESPACES, new_namespace(namespace))
        self.app = web.Application(client_max_size=MAX_BODY)
        self.app.router.add_route("*", "/{path:.*}", self._handle)
        self.app.on_shutdown.append(self._end_watches)
        self.app.on_response_prepare.append(self._date)

    def add_review(self, review: Review, handler: ReviewHandler) -> None:
        """Serve POSTs to a review; the handler returns the body of the answer."""
        self._reviews[review] = handler

    async def _end_watches(self, _app: web.Application) -> None:
        self.watches.end()

    async def _date(self, _request: web.Request, response: web.StreamResponse) -> None:
        response.headers["Date"] = format_datetime(self._now().astimezone(UTC), usegmt=True)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except StatusError as error:
            return error_response(error)
        except (ConnectionError, web.HTTPException):
            raise
        except Exception as error:  # a bug is answered with 500, as a real server does
            log.exception("request failed", api=self.name, method=request.method, path=request.path)
            return error_response(statuses.internal(f"{type(error).__name__}: {error}"))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        user = self.authenticate(request)
        if user is None:
            raise StatusError(401, "Unauthorized", "Unauthorized")
        attributes = attributes_of(user, request.method, request.path, request.query)
        if not self.allowed(attributes):
            raise statuses.not_allowed(attributes)
        routed = self.route(request.path)
        if routed is not None:
            return await routed(request, user)
        if not attributes.resource:
            return self._answer_path(attributes)
        review = self._reviews.get((attributes.group, attributes.resource, attributes.subresource))
        if review is not None and attributes.verb == "create":
            body = decode(await request.read(), request.content_type, attributes.resource)
            return json_response(review(attributes, body), 201)
        return await self._answer_resource(request, attributes)

    def _answer_path(self, attributes: Attributes) -> web.Response:
        if attributes.verb not in ("get", "head"):
            raise statuses.method_not_allowed()
        if attributes.path.strip("/").split("/")[0] in ("livez", "readyz", "healthz"):
            return web.Response(text="ok")
        if attributes.path == OPENAPI_V2:
            return web.Response(body=OPENAPI_V2_DOCUMENT, content_type=OPENAPI_V2_TYPE)
        found = self._discovery.answer(attributes.path)
        if found is None:
            raise statuses.no_such_path()
        return json_response(found)

    async def _answer_resource(self, request: web.Request, attributes: Attributes) -> web.StreamResponse:
        kind = self.kinds.find(attributes.group, attributes.version, attributes.resource)
        if kind is None or not has_path(attributes, kind):
            raise statuses.no_such_path()
        check_query(attributes, request.query)
        content_type = request.headers.get("Content-Type", "").partition(";")[0].strip()
        resource_request = ResourceRequest(
            attributes, kind, request.query, await request.read(), content_type
        )
        table = tables.wants_table(request)
        if attributes.verb == "watch":
            return await self._stream(request, resource_request, table)
        try:
            status, body = await self.resources.answer(resource_request)
        except StatusError as error:
            return error_response(error, resource_request.warnings)
        if table and attributes.verb in ("get", "list"):
            whole = request.query.get("includeObject") == "Object"  # for --sort-by
            body = tables.table(kind, body, self._now(), whole=whole)
        return json_response(body, status, resource_request.warnings)

    async def _stream(self, request: web.Request, watch: ResourceRequest, table: bool) -> web.StreamResponse:
        wanted = selection(watch.query)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        async for event in self.watches.events(watch.kind, watch.namespace, wanted, watch.query):
            if table and event["type"] not in ("ERROR", "BOOKMARK"):
                event["object"] = tables.table(watch.kind, event["object"], self._now())
            await response.write(msgspec.json.encode(event) + b"\n")
        return response


def json_response(body: Object, status: int = 200, warnings: Sequence[str] = ()) -> web.Response:
    """Returns a JSON answer with Warning headers."""
    response = web.Response(
        body=msgspec.json.encode(body), status=status, headers={"Content-Type": "application/json"}
    )
    response.headers["Cache-Control"] = "no-cache, private"
    for text in dict.fromkeys(warnings):
        response.headers.add("Warning", f"299 - {json.dumps(text, ensure_ascii=False)}")
    return response


def error_response(error: StatusError, warnings: Sequence[str] = ()) -> web.Response:
    """Returns the Status of an error as an answer."""
    return json_response(statuses.status_of(error), error.code, warnings)


def new_namespace(name: str) -> Object:
    """Returns an active namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
