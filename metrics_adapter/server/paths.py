"""Parses the request paths of custom.metrics.k8s.io and external.metrics.k8s.io.

The access review reads a path with the same rules, so it reviews exactly what is served.
"""

from __future__ import annotations

from urllib.parse import unquote

from aiohttp import web
from aiohttp.typedefs import Handler

from fedhpa.api.errors import InvalidObject
from fedhpa.api.names import dns_subdomain
from fedhpa.api.times import parse_duration
from fedhpa.kube import segment
from fedhpa.members.metrics import EXTERNAL
from fedhpa.serving.authorization import Attributes
from fedhpa.serving.error_responses import status_response
from metrics_adapter.members.queries import CustomMetricQuery

# Slash-separated parts before the resource: "", apis, GROUP, VERSION.
PREFIX_PARTS = 4
# Parts of the three forms of a custom metrics path:
# RESOURCE/NAME/METRIC
CLUSTER_SCOPED_PARTS = 3
# namespaces/NAMESPACE/metrics/METRIC
NAMESPACE_METRIC_PARTS = 4
NAMESPACE_METRICS = "metrics"
# namespaces/NAMESPACE/RESOURCE/NAME/METRIC
NAMESPACED_PARTS = 5
# The form of an external metrics path: namespaces/NAMESPACE/METRIC.
EXTERNAL_PARTS = 3

# Bytes, by Kubernetes' rules. Each part of a path is kept in caches and sent to all members.
MAX_NAMESPACE = 63
MAX_NAME = 253
# RESOURCE.GROUP. The names of both are bounded like other names.
MAX_RESOURCE = MAX_NAMESPACE + 1 + MAX_NAME
# As long as the names in discovery and in the rules of a metrics store.
MAX_METRIC = 512


@web.middleware
async def bounded_names(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Middleware that refuses a slash in a name, names that no object can have, and a timeout that is none.

    It comes before everything that keeps a path or its parts, such as the cache of access reviews.
    """
    parts = [unquote(part) for part in request.rel_url.raw_path.split("/")]
    timeout = request.query.get("timeout")
    if timeout:  # Kubernetes' clients send one always.
        try:
            parse_duration(timeout[:MAX_NAMESPACE])
        except InvalidObject as error:
            return status_response(400, f"invalid timeout specified in the request URL - {error}")
    if any("/" in part for part in parts):
        return status_response(400, "invalid request path: a name contains an encoded slash")
    attributes = Attributes.of(request)
    bounds = [*((part, MAX_METRIC) for part in parts), (attributes.namespace, MAX_NAMESPACE)]
    # The path of an external metric, and of a metric of a namespace, has the metric in another place.
    if attributes.group != EXTERNAL:
        bounds.append((attributes.resource, MAX_RESOURCE))
        if attributes.resource != NAMESPACE_METRICS:
            bounds.append((attributes.name, MAX_NAME))
    if any(len(text.encode(errors="replace")) > bound for text, bound in bounds):
        return status_response(404, "the server could not find the requested resource: a name is too long")
    return await handler(request)


def custom_query(raw_path: str) -> CustomMetricQuery | None:
    """Returns the query of a custom metrics path, or None if the path has none of the three forms.

    Resources are compared exactly: a member may take "Namespaces" and "namespaces." for "namespaces".
    """
    parts = path_parts(raw_path)
    if parts is None:
        return None
    if parts[:1] == ["namespaces"]:
        if len(parts) == NAMESPACE_METRIC_PARTS and parts[2] == NAMESPACE_METRICS:
            return CustomMetricQuery("", "namespaces", parts[1], parts[3])
        if len(parts) == NAMESPACED_PARTS and not dns_subdomain(parts[2]):
            return CustomMetricQuery(*parts[1:])
    elif len(parts) == CLUSTER_SCOPED_PARTS and not dns_subdomain(parts[0]):
        return CustomMetricQuery("", *parts)
    return None


def external_query(raw_path: str) -> tuple[str, str] | None:
    """Returns namespace and metric of an external metrics path, or None if it has another form."""
    parts = path_parts(raw_path)
    if parts is None or len(parts) != EXTERNAL_PARTS:
        return None
    return parts[1], parts[2]


def path_parts(raw_path: str) -> list[str] | None:
    """Returns the decoded parts below /apis/GROUP/VERSION, or None if one is empty, "." or "..".

    `raw_path` is still percent-encoded, so an encoded slash stays inside its part.
    """
    parts = [unquote(part) for part in raw_path.removesuffix("/").split("/")[PREFIX_PARTS:]]
    try:
        for part in parts:
            segment(part)
    except ValueError:
        return None
    return parts
