"""The Prometheus series about the metrics store and its rules, which docs/reference/metrics.md lists."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fedhpa.serving import counter


class StoreTelemetry:
    """The series. Without a registry they are counted and not exposed."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.up = Gauge(
            "fedhpa_adapter_store_up",
            "1 if the metrics store answered the last query, else 0.",
            registry=registry,
        )
        self.up.set(1)
        self.queries = counter(
            "fedhpa_adapter_store_queries",
            "Queries to the metrics store by outcome: answered; partial (answered with warnings); refused (an"
            " unusable answer, or an error about the query itself); silent (no answer in time, or a store"
            " failure).",
            registry,
            outcome=("answered", "partial", "refused", "silent"),
        )
        self.seconds = Histogram(
            "fedhpa_adapter_store_query_duration_seconds",
            "Duration of queries to the metrics store, with the time in the queue.",
            registry=registry,
        )
        self.dropped = Counter(
            "fedhpa_adapter_store_dropped_series",
            "Series of the metrics store that were left out, by reason: no_cluster (no cluster label),"
            " unregistered (an unregistered cluster), not_asked (an object that was not requested),"
            " no_number (an unusable value).",
            ["reason"],
            registry=registry,
        )
        self.rules = Gauge("fedhpa_adapter_rules", "Rules in use by kind.", ["kind"], registry=registry)
        self.rules_current = Gauge(
            "fedhpa_adapter_rules_current",
            "1 if the rules in use are those of the rules file, 0 while the file is invalid.",
            registry=registry,
        )
