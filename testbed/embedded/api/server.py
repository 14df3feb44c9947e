"""The embedded API server: one aiohttp application over one store.

It serves what the processes of this project and kubectl's get, apply, delete, create, patch, scale, top and
explain need. Not there: server-side apply, managed fields, CEL, watch lists.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final

import msgspec
import structlog
from aiohttp import web

from testbed.embedded.api import (
    one_document,
    openapi,
    queries,
    tables,
)
from testbed.embedded.api import (
    requests as addressing,
)
from testbed.embedded.api import (
    selection as selecting,
)
from testbed.embedded.api import (
    statuses as refusals,
)
from testbed.embedded.api import (
    watches as watch,
)
from testbed.embedded.api.answers import has_method, has_path, json_response, readable, refused
from testbed.embedded.api.bodies import decode
from testbed.embedded.api.calls import Call
from testbed.embedded.api.discovery import Discovery
from testbed.embedded.api.resources import Resources
from testbed.embedded.api.types import (
    ANONYMOUS,
    Admitter,
    Attributes,
    Authenticator,
    Authorizer,
    Object,
    Refusal,
    Router,
    User,
)
from testbed.embedded.objects.crds import CustomKinds
from testbed.embedded.objects.kinds import NAMESPACES, Kinds
from testbed.embedded.storage.lifecycle import Lifecycle
from testbed.embedded.storage.store import Store

log = structlog.get_logger(__name__)

# kube-apiserver's bound for one request.
MAX_BODY: Final = 3 * 1024 * 1024
FIRST_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
Virtual = Callable[[Attributes, Object], Awaitable[Object]]


class AdmitEverybody:
    """Authentication and authorization of a server that asks nobody who he is."""

    async def authenticate(self, request: web.Request) -> User | None:  # noqa: ARG002  # as the Protocol has it
        """Nobody in particular."""
        return ANONYMOUS

    def allowed(self, attributes: Attributes) -> str | None:  # noqa: ARG002
        """Always."""
        return "everybody may do everything here"


class ApiServer:
    """One API server. `app` is to be served; `now` is the clock of the objects' times."""

    def __init__(
        self,
        name: str,
        *,
        now: Callable[[], datetime],
        authenticator: Authenticator | None = None,
        authorizer: Authorizer | None = None,
        admitter: Admitter | None = None,
        router: Router | None = None,
    ) -> None:
        self.name = name
        self.store = Store(now)
        self.kinds = Kinds()
        self.authenticator: Authenticator = authenticator or AdmitEverybody()
        self.authorizer: Authorizer = authorizer or AdmitEverybody()
        self.router = router
        self.watches = watch.Watches(self.store)
        self._now = now
        self._resources = Resources(self.store, admitter)
        self._virtual: dict[tuple[str, str, str, str], tuple[str, Virtual]] = {}
        self._custom = CustomKinds(self.store, self.kinds, now)
        self._lifecycle = Lifecycle(self.store)
        self._discovery = Discovery(self.kinds, self.store)
        for namespace in FIRST_NAMESPACES:
            self.store.create(NAMESPACES, first_namespace(namespace))
        self.app = web.Application(client_max_size=MAX_BODY)
        self.app.router.add_route("*", "/{path:.*}", self._handle)
        self.app.on_shutdown.append(self._end_watches)

    @property
    def admitter(self) -> Admitter:
        """Who has the last word about writes."""
        return self._resources.admitter

    @admitter.setter
    def admitter(self, admitter: Admitter) -> None:
        self._resources.admitter = admitter

    def virtual(
        self,
        api_version: str,
        resource: str,
        kind: str,
        handler: Virtual,
        *,
        subresource: str = "",
        namespaced: bool = False,
    ) -> None:
        """Serve POSTs to what stores nothing: `handler` makes the answer of attributes and body."""
        group, _, version = api_version.rpartition("/")
        self._virtual[group, version, resource, subresource] = (kind, handler)
        self._discovery.add_virtual(
            group, version, resource, kind, subresource=subresource, namespaced=namespaced
        )

    def remote(self, resources: Callable[[str], Sequence[Object] | None]) -> None:
        """Who knows what the servers behind APIServices serve."""
        self._discovery.remote = resources

    async def _end_watches(self, _app: web.Application) -> None:
        self.watches.end()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except Refusal as refusal:
            return refused(refusal)
        except web.HTTPRequestEntityTooLarge:
            return refused(refusals.too_large(MAX_BODY))
        except (ConnectionError, web.HTTPException):
            raise
        # A bug here must look like a bug of a server, not like a broken connection.
        except Exception as error:
            log.exception("request failed", api=self.name, method=request.method, path=request.path)
            text = f"Internal error occurred: {type(error).__name__}: {error}"
            return refused(Refusal(500, "InternalError", text, details={"causes": [{"message": str(error)}]}))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        user = await self.authenticator.authenticate(request)
        if user is None:
            raise Refusal(401, "Unauthorized", "Unauthorized")
        at = addressing.attributes(user, request.method, request.path, request.query)
        if self.authorizer.allowed(at) is None:
            raise refusals.not_allowed(at)
        passed_on = self.router.handler(request.path) if self.router else None
        if passed_on is not None:
            return await passed_on(request, user)
        if not at.resource:
            return self._about_server(request, at)
        virtual = self._virtual.get((at.group, at.version, at.resource, at.subresource))
        if virtual is not None:
            return await self._answer_virtual(request, at, *virtual)
        return await self._answer_resource(request, at)

    def _about_server(self, request: web.Request, at: Attributes) -> web.Response:
        if at.verb not in ("get", "head"):
            raise refusals.method_not_allowed()
        check = at.path.strip("/").split("/")[0]
        if check in ("livez", "readyz", "healthz"):
            verbose = f"[+]ping ok\n{check} check passed\n"
            return web.Response(text=verbose if "verbose" in request.query else "ok")
        if at.path == openapi.V2_PATH:
            return web.Response(body=openapi.V2, content_type=openapi.V2_TYPE)
        version = one_document.asked_for(request.headers.get("Accept", ""))
        if version is not None and at.path in ("/api", "/apis"):
            whole = self._discovery.one_document(at.path, version)
            if whole is not None:
                return json_response(whole, content_type=one_document.content_type(version))
        found = self._discovery.answer(at.path)
        if found is None and at.path.startswith("/api/"):
            raise refusals.no_such_path()
        if found is None:
            raise web.HTTPNotFound(text="404 page not found\n")
        response = json_response(found)
        if at.path == openapi.V3_PATH:
            response.headers["Content-Type"] = "text/plain; charset=utf-8"
        return response

    async def _answer_virtual(
        self, request: web.Request, at: Attributes, kind: str, handler: Virtual
    ) -> web.Response:
        if at.verb != "create":
            raise refusals.method_not_allowed()
        body = decode(await request.read(), request.content_type, kind)
        return json_response(await handler(at, body), 201)

    async def _answer_resource(self, request: web.Request, at: Attributes) -> web.StreamResponse:
        kind = self.kinds.find(at.group, at.version, at.resource)
        if kind is None and not self.kinds.is_builtin(at.group, at.version):
            raise web.HTTPNotFound(text="404 page not found\n")
        if kind is None or not has_path(at, kind):
            raise refusals.no_such_path()
        if not has_method(at, kind, request.method):
            raise refusals.method_not_allowed()
        if not readable(request.headers.get("Accept", "*/*")):
            raise refusals.not_acceptable()
        queries.check(at, request.query)
        content_type = request.headers.get("Content-Type", "").partition(";")[0].strip()
        call = Call(at, kind, request.query, await request.read(), content_type)
        table = tables.asked(request)
        if at.verb == "watch":
            return await self._stream(request, call, table)
        try:
            status, body = await self._resources.answer(call)
        except Refusal as refusal:
            return refused(refusal, call.warnings)
        if table and at.verb in ("get", "list"):
            body = tables.table(kind, body, self._now(), request.query)
        return json_response(body, status, call.warnings)

    async def _stream(self, request: web.Request, call: Call, table: bool) -> web.StreamResponse:
        wanted = selecting.selection(call.kind, call.query)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        headed = False
        async for event in self.watches.events(call.kind, call.namespace, wanted, call.query):
            if table and event["type"] not in ("ERROR", "BOOKMARK"):
                found = tables.table(call.kind, event["object"], self._now(), call.query)
                # What the columns are is said once.
                event["object"] = {**found, "columnDefinitions": [] if headed else found["columnDefinitions"]}
                headed = True
            await response.write(msgspec.json.encode(event) + b"\n")
        return response


def first_namespace(name: str) -> Object:
    """A namespace as it is after its creation."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
