"""The adapter's HTTP application: who calls and may, then metrics, discovery and health."""

from __future__ import annotations

from aiohttp import web

from fedhpa.serving.authorization import Guard, audit_log
from fedhpa.serving.health import Health
from fedhpa.serving.server import access_log, metrics_route
from fedhpa.serving.status import status_errors
from metrics_adapter.members.catalogue import Catalogue
from metrics_adapter.members.gather import MembersSource
from metrics_adapter.server.callers import Callers
from metrics_adapter.server.custom import CustomApi
from metrics_adapter.server.external import ExternalApi
from metrics_adapter.server.handlers import MetricsApi, discovery_routes
from metrics_adapter.telemetry import Telemetry


def build_application(
    source: MembersSource,
    guard: Guard,
    health: Health,
    telemetry: Telemetry,
    *,
    catalogue: Catalogue | None = None,
    callers: Callers | None = None,
    audit: bool = False,
) -> web.Application:
    """The application of the secure port. Nothing is served before `guard` let the request pass.

    Discovery lists the metrics of `catalogue`, which its owner keeps fresh; without it, none.
    `callers` are charged for what members are asked. With `audit` each request is logged with its user.
    """
    # Bodies are never read: all that is served are GETs.
    application = web.Application(
        middlewares=[
            *((audit_log,) if audit else ()),
            access_log,
            status_errors,
            guard.middleware,
            *((callers.charge,) if callers is not None else ()),
            telemetry.middleware,
        ],
        client_max_size=64 * 1024,
    )
    application.add_routes(health.routes())
    application.add_routes([metrics_route(telemetry.registry)])
    application.add_routes(discovery_routes(catalogue or Catalogue(source)))
    application.add_routes(MetricsApi(source).routes())
    application.add_routes(CustomApi(source).routes())
    application.add_routes(ExternalApi(source).routes())
    return application
