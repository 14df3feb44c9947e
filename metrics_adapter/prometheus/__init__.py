"""Metrics read from a metrics store (Prometheus, Thanos, Mimir) by rules: --metrics-source=prometheus."""

from metrics_adapter.prometheus.queries import custom_query, external_query, usage_query
from metrics_adapter.prometheus.rules.file import read, read_rules
from metrics_adapter.prometheus.store_series import StoreTelemetry

__all__ = [
    "StoreTelemetry",
    "custom_query",
    "external_query",
    "read",
    "read_rules",
    "usage_query",
]
