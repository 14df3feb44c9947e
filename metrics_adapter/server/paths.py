"""Parses the request paths of custom.metrics.k8s.io and external.metrics.k8s.io.

The access review reads a path with the same rules, so it reviews exactly what is served.
"""

from __future__ import annotations

from urllib.parse import unquote

from fedhpa.kube.paths import segment
from metrics_adapter.members.queries import CustomMetricQuery

# Slash-separated parts before the resource: "", apis, GROUP, VERSION.
PREFIX_PARTS = 4
# Parts of the three forms of a custom metrics path:
# RESOURCE/NAME/METRIC
CLUSTER_SCOPED_PARTS = 3
# namespaces/NAMESPACE/metrics/METRIC
NAMESPACE_METRIC_PARTS = 4
# namespaces/NAMESPACE/RESOURCE/NAME/METRIC
NAMESPACED_PARTS = 5
# The form of an external metrics path: namespaces/NAMESPACE/METRIC.
EXTERNAL_PARTS = 3


def custom_query(raw_path: str) -> CustomMetricQuery | None:
    """Returns the query of a custom metrics path, or None if the path has none of the three forms."""
    parts = path_parts(raw_path)
    if parts is None:
        return None
    if parts[:1] == ["namespaces"]:
        if len(parts) == NAMESPACE_METRIC_PARTS and parts[2] == "metrics":
            return CustomMetricQuery("", "namespaces", parts[1], parts[3])
        if len(parts) == NAMESPACED_PARTS:
            return CustomMetricQuery(*parts[1:])
    elif len(parts) == CLUSTER_SCOPED_PARTS:
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
    parts = [unquote(part) for part in raw_path.split("/")[PREFIX_PARTS:]]
    try:
        for part in parts:
            segment(part)
    except ValueError:
        return None
    return parts
