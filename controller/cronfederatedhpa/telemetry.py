"""Prometheus series about CronFederatedHPAs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fedhpa.decision import READY
from fedhpa.kube import Key

APPLIED: Final = "applied"
FAILED: Final = "failed"
MISSED: Final = "missed"
NAMES: Final = ("namespace", "name")
# From a tenth of a second, which is on time, to a day.
LATENESS_BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 60.0, 300.0, 3600.0, 86400.0)


class CronMetrics:
    """The series of the cron controller in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._executions = Counter(
            "fedhpa_cron_executions",
            "Executions of rules by outcome: applied, failed (each once, however often it is tried), missed.",
            ("outcome",),
            registry=registry,
        )
        for outcome in (APPLIED, FAILED, MISSED):
            self._executions.labels(outcome)
        self._lateness = Histogram(
            "fedhpa_cron_lateness_seconds",
            "Seconds between the time at which an execution was due and its effect.",
            buckets=LATENESS_BUCKETS,
            registry=registry,
        )
        self._next_execution = Gauge(
            "fedhpa_cron_next_execution_timestamp_seconds",
            "When the next rule of an object fires, as POSIX seconds; absent if all rules are suspended.",
            NAMES,
            registry=registry,
        )
        self._held_since = Gauge(
            "fedhpa_cron_held_since_timestamp_seconds",
            "When the oldest execution or end of a window was due that waits for the end of a hold, as POSIX "
            "seconds; absent if none waits.",
            NAMES,
            registry=registry,
        )
        self._not_ready = Gauge(
            "fedhpa_cron_not_ready",
            "1 for a CronFederatedHPA whose condition Ready is not True, with its reason; absent if it is.",
            (*NAMES, "reason"),
            registry=registry,
        )
        self._objects = Gauge(
            "fedhpa_cron_objects", "CronFederatedHPAs in this process' shards.", registry=registry
        )

    def count(self, outcome: str, executions: int = 1) -> None:
        """Counts executions with an outcome."""
        self._executions.labels(outcome).inc(executions)

    def observe_lateness(self, seconds: float) -> None:
        """Counts how late the effect of an execution was."""
        self._lateness.observe(max(seconds, 0.0))

    def set_next_execution(self, key: Key, at: float | None) -> None:
        """Shows when the next rule of an object fires."""
        _show(self._next_execution, key, at)

    def set_held(self, key: Key, due: float | None) -> None:
        """Shows since when an event of an object waits for the end of a hold."""
        _show(self._held_since, key, due)

    def set_ready(self, key: Key, conditions: Iterable[Mapping[str, Any]]) -> None:
        """Shows why an object is not ready, by its conditions."""
        _show(self._not_ready, key, None)
        for one in conditions:
            if one["type"] == READY and one["status"] != "True":
                self._not_ready.labels(*key, one["reason"]).set(1)

    def set_objects(self, count: int) -> None:
        """Shows the number of objects."""
        self._objects.set(count)

    def forget(self, key: Key) -> None:
        """Drops the series of a deleted object."""
        for gauge in (self._next_execution, self._held_since, self._not_ready):
            _show(gauge, key, None)


def _show(gauge: Gauge, key: Key, value: float | None) -> None:
    """Sets the series of an object, or removes it without a value."""
    if value is None:
        gauge.remove_by_labels(dict(zip(NAMES, key, strict=True)))
    else:
        gauge.labels(*key).set(value)
