"""The Prometheus series about the metrics store and its rules, which docs/reference/metrics.md lists."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class StoreTelemetry:
    """The series. Without a registry they are counted and not exposed."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._up = Gauge(
            "fedhpa_adapter_store_up",
            "1 if the metrics store answered the last query, else 0.",
            registry=registry,
        )
        self._up.set(1)
        self._queries = Counter(
            "fedhpa_adapter_store_queries",
            "Queries to the metrics store by outcome: answered; partial (answered with warnings); refused (an"
            " unusable answer, or an error about the query itself); silent (no answer in time, or a store"
            " failure).",
            ["outcome"],
            registry=registry,
        )
        self._seconds = Histogram(
            "fedhpa_adapter_store_query_duration_seconds",
            "Duration of queries to the metrics store, with the time in the queue.",
            registry=registry,
        )
        self._dropped = Counter(
            "fedhpa_adapter_store_dropped_series",
            "Series of the metrics store that were left out, by reason: no_cluster (no cluster label),"
            " unregistered (an unregistered cluster), not_asked (an object that was not requested),"
            " no_number (an unusable value).",
            ["reason"],
            registry=registry,
        )
        self._rules = Gauge("fedhpa_adapter_rules", "Rules in use by kind.", ["kind"], registry=registry)
        self._rules_current = Gauge(
            "fedhpa_adapter_rules_current",
            "1 if the rules in use are those of the rules file, 0 while the file is invalid.",
            registry=registry,
        )
        for outcome in ("answered", "partial", "refused", "silent"):
            self._queries.labels(outcome)

    def up(self, answers: bool) -> None:
        """Records whether the store answered."""
        self._up.set(float(answers))

    def answered(self, outcome: str, seconds: float) -> None:
        """Records the outcome and the duration of a query."""
        self._queries.labels(outcome).inc()
        self._seconds.observe(seconds)

    def dropped(self, reason: str, count: int) -> None:
        """Adds to the series that were left out for a reason."""
        self._dropped.labels(reason).inc(count)

    def rules(self, external: int, custom: int) -> None:
        """Records that the rules of the file were loaded."""
        self._rules.labels("external").set(external)
        self._rules.labels("custom").set(custom)
        self._rules_current.set(1)

    def rules_not_loaded(self) -> None:
        """Records that the file has changed and is invalid."""
        self._rules_current.set(0)
