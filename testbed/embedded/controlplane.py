"""One embedded control plane: an API server with users, webhooks and aggregation, on its own port."""

import contextlib
import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Final

from testbed.embedded.api.server import ApiServer
from testbed.embedded.api.types import Handler
from testbed.embedded.auth import authorization
from testbed.embedded.auth.authentication import Authenticator
from testbed.embedded.auth.authorization import Authorizer
from testbed.embedded.auth.reviews import Reviews, trust_config_map
from testbed.embedded.clock import utc_now
from testbed.embedded.extensions.admission import Admission
from testbed.embedded.extensions.aggregation import Aggregator, Availability
from testbed.embedded.extensions.outgoing import Outgoing
from testbed.embedded.network.listener import Listener
from testbed.embedded.network.pki import Pki
from testbed.stage import PlaneApi

ADMIN: Final = ("system:admin", "system:masters")
CONFIG_MAPS: Final = ("", "configmaps")


class ControlPlane:
    """A hub or a member. `start` opens the port; `end` closes it and keeps the objects."""

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
        self._aggregator = Aggregator(self.store, self._outgoing)
        self._connect()
        self._store_first_objects()
        self.listener = Listener(self.apiserver.app, self.pki.serving())
        self.server = self.listener.server
        self.kubeconfig = self.pki.kubeconfig(folder / "admin.kubeconfig", self.server, *ADMIN)
        self._open = contextlib.AsyncExitStack()
        self._open.push_async_exit(self.listener)  # the listener reserves its port in its constructor

    async def start(self) -> None:
        """Serve."""
        self._open.push_async_callback(self._outgoing.close)
        await self.listener.__aenter__()
        await self._open.enter_async_context(self._availability)

    async def end(self) -> None:
        """Close the port and all connections."""
        await self._open.aclose()

    def api(self, *, token: str | None = None) -> PlaneApi:
        """Returns a client of the administrator, or of the token's user."""
        return PlaneApi(self.server, self.pki.client(*(ADMIN if token is None else ())), token=token)

    def user_kubeconfig(self, user: str) -> Path:
        """Write a kubeconfig with a client certificate of the user."""
        return self.pki.kubeconfig(self.folder / f"{user}.kubeconfig", self.server, user)

    def route(self, path: str) -> Handler | None:
        """Returns the handler of a path that the API server does not serve itself."""
        return self._aggregator.handler(path)

    def _connect(self) -> None:
        server, authorizer = self.apiserver, Authorizer(self.store)
        server.authenticate, server.allowed = self.authenticator.authenticate, authorizer.allowed
        server.resources.admit = Admission(self.store, self._outgoing).admit
        server.route = self.route
        for review, handler in Reviews(self.authenticator, authorizer, self.now).handlers():
            server.add_review(review, handler)

    def _store_first_objects(self) -> None:
        for manifest in authorization.bootstrap():
            kind = self.apiserver.kinds.of(manifest["apiVersion"], manifest["kind"])
            assert kind is not None, manifest["kind"]
            self.store.create(kind.collection, manifest)
        self.store.create(CONFIG_MAPS, trust_config_map(self.pki))
