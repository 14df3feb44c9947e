"""The series about the metrics store and its rules; docs/how-to/metrics-store.md lists them for people."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class StoreTelemetry:
    """Counts; without a registry nobody sees it."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._up = Gauge(
            "fedhpa_adapter_store_up",
            "Whether the metrics store answered when last asked.",
            registry=registry,
        )
        self._up.set(1)
        self._queries = Counter(
            "fedhpa_adapter_store_queries",
            "Queries to the metrics store: answered; partial, by its own words; refused, for what was asked;"
            " silent, in time or at all.",
            ["outcome"],
            registry=registry,
        )
        self._seconds = Histogram(
            "fedhpa_adapter_store_query_duration_seconds",
            "How long queries to the metrics store took, with their waiting.",
            registry=registry,
        )
        self._dropped = Counter(
            "fedhpa_adapter_store_dropped_series",
            "Series of the metrics store that were left out: of no cluster, of one that is not registered,"
            " of an object that was not asked for, or with a value that is no number.",
            ["reason"],
            registry=registry,
        )
        self._rules = Gauge("fedhpa_adapter_rules", "Rules in use, by kind.", ["kind"], registry=registry)
        self._rules_current = Gauge(
            "fedhpa_adapter_rules_current",
            "Whether the rules in use are those of the file; 0 while the file cannot be used.",
            registry=registry,
        )
        for outcome in ("answered", "partial", "refused", "silent"):
            self._queries.labels(outcome)

    def up(self, answers: bool) -> None:
        """Whether the store answered."""
        self._up.set(float(answers))

    def answered(self, outcome: str, seconds: float) -> None:
        """How a query ended and how long that took."""
        self._queries.labels(outcome).inc()
        self._seconds.observe(seconds)

    def dropped(self, reason: str, count: int) -> None:
        """So many series of an answer were left out."""
        self._dropped.labels(reason).inc(count)

    def rules(self, external: int, custom: int) -> None:
        """Rules were loaded, and are those of the file."""
        self._rules.labels("external").set(external)
        self._rules.labels("custom").set(custom)
        self._rules_current.set(1)

    def rules_not_loaded(self) -> None:
        """The file has changed and cannot be used."""
        self._rules_current.set(0)
