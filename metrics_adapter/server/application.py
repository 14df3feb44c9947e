"""The adapter's HTTP application: authentication and authorization, metrics, discovery and health."""

from __future__ import annotations

from aiohttp import web

from fedhpa.serving import Health, access_log, metrics_route
from fedhpa.serving.authorization import Guard, audit_log
from fedhpa.serving.error_responses import status_errors
from metrics_adapter.adapter_series import Telemetry
from metrics_adapter.members.discovery_cache import MetricDiscoveryCache
from metrics_adapter.members.source import MembersSource
from metrics_adapter.server.caller_limits import CallerLimits
from metrics_adapter.server.discovery import discovery_routes
from metrics_adapter.server.paths import bounded_names
from metrics_adapter.server.resource_metrics import ResourceMetricsApi
from metrics_adapter.server.value_metrics import MetricValuesApi


def build_application(
    source: MembersSource,
    guard: Guard,
    health: Health,
    telemetry: Telemetry,
    *,
    discovery_cache: MetricDiscoveryCache,
    limits: CallerLimits | None = None,
    audit: bool = False,
) -> web.Application:
    """Returns the application of the secure port. `guard` checks each request before it is handled.

    Discovery lists the metrics of `discovery_cache`, which its owner refreshes.
    `limits` charges users for requests that query members. `audit` logs each request with its user.
    """
    # Every route is a GET, so request bodies are never read.
    application = web.Application(
        middlewares=[
            telemetry.middleware,
            *((audit_log,) if audit else ()),
            access_log,
            status_errors,
            bounded_names,
            guard.middleware,
            *((limits.charge,) if limits is not None else ()),
        ],
        client_max_size=64 * 1024,
    )
    application.add_routes(health.routes())
    application.add_routes([metrics_route(telemetry.registry)])
    application.add_routes(discovery_routes(discovery_cache))
    application.add_routes(ResourceMetricsApi(source).routes())
    application.add_routes(MetricValuesApi(source).routes())
    return application
