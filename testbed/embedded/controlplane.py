"""One embedded control plane: an API server, with everything that has a say in it, on a port of its own."""

import contextlib
import datetime as dt
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from aiohttp import web

from fedhpa.serving.authentication import utc_now
from testbed.embedded.api.server import ApiServer
from testbed.embedded.api.types import Attributes, Object, Router, User
from testbed.embedded.auth import authorization
from testbed.embedded.auth.authentication import Authenticator
from testbed.embedded.auth.authorization import Authorizer
from testbed.embedded.auth.reviews import Reviews, trust_config_map
from testbed.embedded.extensions.admission import Admission
from testbed.embedded.extensions.aggregation import Aggregator
from testbed.embedded.extensions.availability import Availability
from testbed.embedded.extensions.outgoing import Outgoing
from testbed.embedded.network.faults import Faults
from testbed.embedded.network.listener import Listener
from testbed.embedded.network.pki import Pki
from testbed.stage.api import PlaneApi

ADMIN: Final = ("system:admin", "system:masters")
CONFIG_MAPS: Final = ("", "configmaps")
AUTHENTICATION, AUTHORIZATION = "authentication.k8s.io/v1", "authorization.k8s.io/v1"
Answer = Callable[[web.Request, User], Awaitable[web.StreamResponse]]
Review = Callable[[Object, User, str, str], Object]


class ControlPlane:
    """A hub or a member. `start` opens its port, `end` closes it and all connections; objects stay."""

    def __init__(self, folder: Path, name: str, *, now: Callable[[], dt.datetime] = utc_now) -> None:
        self.name = name
        self.folder = folder
        self.now = now
        self.pki = Pki(folder / "pki", name)
        self.apiserver = ApiServer(name, now=now)
        self.store = self.apiserver.store
        self.authenticator = Authenticator(self.store, self.pki.ca.bundle_pem, now)
        self._outgoing = Outgoing(self.store, self.pki)
        self._availability = Availability(self.store, self._outgoing, now=now)
        self._join_parts()
        self._store_first_objects()
        self.listener = Listener(self.apiserver.app, self.pki.serving())
        self.faults = Faults(self.apiserver.app, self.listener, self.pki)
        self.server = self.listener.server
        self.kubeconfig = self.pki.kubeconfig(folder / "admin.kubeconfig", self.server, *ADMIN)
        self._open = contextlib.AsyncExitStack()
        self._open.push_async_exit(self.listener)  # it holds its port from now on

    async def start(self) -> None:
        """Serve."""
        self._open.push_async_callback(self._outgoing.close)
        await self.listener.__aenter__()
        await self._open.enter_async_context(self._availability)

    async def end(self) -> None:
        """Close the port and all connections."""
        await self._open.aclose()

    def api(self, *, token: str | None = None) -> PlaneApi:
        """A client: the plane's administrator, or the bearer of `token`."""
        return PlaneApi(self.server, self.pki.client(*(ADMIN if token is None else ())), token=token)

    def user_kubeconfig(self, user: str) -> Path:
        """A kubeconfig for somebody with a certificate of that name."""
        return self.pki.kubeconfig(self.folder / f"{user}.kubeconfig", self.server, user)

    def routers(self) -> Sequence[Router]:
        """Who may take requests away, the first first."""
        return [Aggregator(self.store, self._outgoing)]

    def _join_parts(self) -> None:
        server, authorizer = self.apiserver, Authorizer(self.store)
        server.authenticator, server.authorizer = self.authenticator, authorizer
        server.admitter = Admission(self.store, self._outgoing)
        server.router = FirstOf(self.routers())
        server.remote(self._availability.resources)
        reviews = Reviews(self.authenticator, authorizer, self.now)
        server.virtual(AUTHENTICATION, "tokenreviews", "TokenReview", _asked(reviews.token))
        server.virtual(AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview", _asked(reviews.oneself))
        server.virtual(AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview", _asked(reviews.access))
        server.virtual(
            AUTHORIZATION,
            "selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
            _asked(reviews.own_access),
        )
        server.virtual(
            "v1",
            "serviceaccounts",
            "TokenRequest",
            _asked(reviews.new_token),
            subresource="token",
            namespaced=True,
        )

    def _store_first_objects(self) -> None:
        for manifest in authorization.bootstrap():
            kind = self.apiserver.kinds.of(manifest["apiVersion"], manifest["kind"])
            assert kind is not None, manifest["kind"]
            self.store.create(kind.collection, manifest)
        self.store.create(CONFIG_MAPS, trust_config_map(self.pki))


class FirstOf:
    """Several routers as one."""

    def __init__(self, routers: Sequence[Router]) -> None:
        self._routers = routers

    def handler(self, path: str) -> Answer | None:
        """The first that is somebody's."""
        return next((found for router in self._routers if (found := router.handler(path))), None)


def _asked(review: Review) -> Callable[[Attributes, Object], Awaitable[Object]]:
    async def answer(at: Attributes, body: Object) -> Object:
        return review(body, at.user, at.namespace, at.name)

    return answer
