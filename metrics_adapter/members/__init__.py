"""Metrics read from the member clusters and merged."""

from metrics_adapter.members.queries import ALL, CustomMetricQuery, MetricSelectors
