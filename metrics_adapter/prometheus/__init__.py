"""Metrics read from a metrics store (Prometheus, Thanos, Mimir) by rules: --metrics-source=prometheus."""

from metrics_adapter.prometheus.promql import equals, fill, quote, selector_matchers
from metrics_adapter.prometheus.queries import custom_query, external_query, usage_query
from metrics_adapter.prometheus.rules.file import read, read_rules
from metrics_adapter.prometheus.rules.model import Rules, UsageRule
from metrics_adapter.prometheus.store_series import StoreTelemetry
