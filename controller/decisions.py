"""The last decisions, kept in memory and served at /decisions.

The log is bounded in number and bytes and drops the oldest first. The caller authenticates with a token of
the hub, and the hub authorizes: get or list FederatedHPAs of the namespace, or the path itself without
`?namespace=`. If the hub cannot review the access, nothing is shown.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog
from aiohttp import web

from controller.publish import FEDERATED_HPAS
from fedhpa.api.errors import FedHPAError
from fedhpa.decision import Decision, compact_decision, explained_json
from fedhpa.kube import ApiClient, Clock
from fedhpa.serving.authentication import Authenticator, PeerAuthenticator, TokenReviewer, Trust
from fedhpa.serving.authorization import Attributes, Authorizer
from fedhpa.serving.error_responses import status_response

log = structlog.get_logger(__name__)

PATH: Final = "/decisions"
MAX_COUNT: Final = 1000
MAX_BYTES: Final = 8 * 1024 * 1024
# A larger decision, over very many clusters or metrics, is kept in the compact form of the status.
MAX_DECISION_BYTES: Final = 64 * 1024
DEFAULT_LIMIT: Final = 100


@dataclass(frozen=True)
class _Entry:
    namespace: str
    name: str
    body: bytes


class DecisionLog:
    """The newest decisions of all objects."""

    def __init__(self, *, max_count: int = MAX_COUNT, max_bytes: int = MAX_BYTES) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._entries: deque[_Entry] = deque()
        self.size = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, namespace: str, name: str, decision: Decision, *, written: bool) -> None:
        """Keep a decision; `written` is true if a scale was written because of it."""
        head = {"namespace": namespace, "name": name, "written": written}
        body = msgspec.json.encode({**head, "decision": explained_json(decision)})
        if len(body) > MAX_DECISION_BYTES:
            body = msgspec.json.encode({**head, "decision": compact_decision(decision)})
        self._entries.append(_Entry(namespace, name, body))
        self.size += len(body)
        while len(self._entries) > self._max_count or self.size > self._max_bytes:
            self.size -= len(self._entries.popleft().body)

    def newest(self, namespace: str = "", name: str = "", limit: int = DEFAULT_LIMIT) -> list[bytes]:
        """Up to `limit` decisions as JSON, newest first; "" matches all namespaces or names."""
        found: list[bytes] = []
        for entry in reversed(self._entries):
            if len(found) >= limit:
                break
            if namespace in ("", entry.namespace) and name in ("", entry.name):
                found.append(entry.body)
        return found


def decisions_route(decisions: DecisionLog, hub: ApiClient, clock: Clock) -> web.RouteDef:
    """GET /decisions?namespace=&name=&limit= for callers that the hub authorizes."""
    # This listener requests no client certificate, so a token is the only credential.
    peers = PeerAuthenticator(Trust(), clock.wall)
    authenticator = Authenticator(lambda: peers, TokenReviewer(hub, clock=clock.monotonic))
    authorizer = Authorizer(hub, clock=clock.monotonic)

    async def show(request: web.Request) -> web.Response:
        try:
            user = await authenticator.user(request)
        except FedHPAError as error:
            # As in Kubernetes, a token that cannot be reviewed does not authenticate.
            log.warning("token could not be reviewed", error=str(error))
            user = None
        if user is None:
            return status_response(401, "Unauthorized")
        namespace, name = request.query.get("namespace", ""), request.query.get("name", "")
        access = required_access(namespace, name)
        try:
            verdict = await authorizer.verdict(user, access)
        except FedHPAError as error:
            log.warning("access could not be reviewed", error=str(error))
            return status_response(503, f"access could not be reviewed: {error}")
        if not verdict.allowed:
            return access.forbidden(user, verdict.reason)
        text = request.query.get("limit", str(DEFAULT_LIMIT))
        if not text.isdecimal() or not 1 <= int(text) <= MAX_COUNT:
            return status_response(400, f"limit={text[:20]}: expected a number from 1 to {MAX_COUNT}")
        body = b'{"items":[' + b",".join(decisions.newest(namespace, name, int(text))) + b"]}"
        return web.Response(body=body, content_type="application/json")

    return web.get(PATH, show)


def required_access(namespace: str, name: str) -> Attributes:
    """The access to review: get or list of the objects, or the path itself for all namespaces."""
    if not namespace:
        return Attributes("get", PATH)
    group, _, version = FEDERATED_HPAS.api_version.partition("/")
    verb = "get" if name else "list"
    return Attributes(verb, PATH, group, version, FEDERATED_HPAS.plural, namespace=namespace, name=name)
