"""The last decisions, served at /decisions.

The caller authenticates with a token of the hub, and the hub authorizes: get or list FederatedHPAs of the
namespace, or the path itself without `?namespace=`. If the hub cannot review the access, nothing is shown.
"""

from __future__ import annotations

from typing import Final

import structlog
from aiohttp import web

from controller.decision_series import DEFAULT_LIMIT, MAX_COUNT, DecisionLog
from controller.publish import FEDERATED_HPAS
from fedhpa.api.errors import FedHPAError
from fedhpa.kube import ApiClient, Clock
from fedhpa.serving.authentication import Authenticator, PeerAuthenticator, TokenReviewer, Trust
from fedhpa.serving.authorization import Attributes, Authorizer
from fedhpa.serving.error_responses import status_response

log = structlog.get_logger(__name__)

PATH: Final = "/decisions"


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
