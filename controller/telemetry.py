"""Prometheus series of the controller.

`horizontal_pod_autoscaler_controller_*` are Kubernetes' (HPA 1.36, section 11); Karmada defines them and
never registers them. `fedhpa_controller_*` add what only a federation has.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controller.decisions import DecisionLog
from fedhpa.decision import Decision, MetricResult

BUCKETS = tuple(0.001 * 2**power for power in range(15))
NAMES = ("namespace", "hpa_name")
PREFIX = "horizontal_pod_autoscaler_controller_"


class ControllerMetrics:
    """The controller's series in one registry, and the log of its decisions."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("action", "error")
        self._reconciliations = Counter(
            f"{PREFIX}reconciliations", "Reconciliations of FederatedHPAs.", labels, registry=registry
        )
        self._seconds = Histogram(
            f"{PREFIX}reconciliation_duration_seconds",
            "Duration of reconciliations in seconds.",
            labels,
            buckets=BUCKETS,
            registry=registry,
        )
        self._metrics = Counter(
            f"{PREFIX}metric_computation",
            "Computations of single metrics.",
            (*labels, "metric_type"),
            registry=registry,
        )
        self._objects = Gauge(
            f"{PREFIX}num_horizontal_pod_autoscalers",
            "FederatedHPAs in this process' shards.",
            registry=registry,
        )
        self._desired = Gauge(
            f"{PREFIX}desired_replicas",
            "Desired replicas of the last decision.",
            ("namespace", "hpa_name"),
            registry=registry,
        )
        self._missing = Gauge(
            "fedhpa_controller_missing_clusters",
            "Expected clusters without usable data in the last decision.",
            ("namespace", "hpa_name"),
            registry=registry,
        )
        self._current = Gauge(
            "fedhpa_controller_current_replicas", "Replicas at the last decision.", NAMES, registry=registry
        )
        self._lost = Gauge(
            "fedhpa_controller_lost_clusters",
            "Clusters that count as lost in the last decision.",
            NAMES,
            registry=registry,
        )
        self._competitors = Gauge(
            "fedhpa_controller_contested",
            "Other autoscalers found for the same workload.",
            NAMES,
            registry=registry,
        )
        self._dry_run = Gauge(
            "fedhpa_controller_dry_run", "1 while spec.dryRun stops the writes.", NAMES, registry=registry
        )
        of_metric = (*NAMES, "metric")
        self._ratio = Gauge(
            "fedhpa_controller_metric_usage_ratio",
            "Ratio of usage to target; the label metric is index:name of spec.metrics.",
            of_metric,
            registry=registry,
        )
        self._proposal = Gauge(
            "fedhpa_controller_metric_proposal",
            "Replicas that a metric proposes, before any limit.",
            of_metric,
            registry=registry,
        )
        self.decisions = DecisionLog()
        self._metrics_of: dict[tuple[str, str], frozenset[str]] = {}
        self._paused = Gauge(
            "fedhpa_controller_paused", "1 while --pause stops all writes.", registry=registry
        )

        self._task_failures = Counter(
            "fedhpa_task_failures",
            "Unexpected failures of background tasks, which were started again.",
            ("task",),
            registry=registry,
        )
        self._hub = Gauge(
            "fedhpa_controller_hub_finding",
            "1 while a check of the hub fails: FieldsPruned, ForeignWebhook, AnotherController.",
            ("reason",),
            registry=registry,
        )

    def task_failed(self, task: str) -> None:
        """Count an unexpected failure of a background task."""
        self._task_failures.labels(task).inc()

    def set_hub_finding(self, reason: str, found: bool) -> None:
        """Show a result of the hub's checks."""
        self._hub.labels(reason).set(found)

    def set_paused(self, paused: bool) -> None:
        """Show the value of --pause."""
        self._paused.set(paused)

    def set_objects(self, count: int) -> None:
        """Show the number of FederatedHPAs."""
        self._objects.set(count)

    def record_decision(
        self, namespace: str, name: str, decision: Decision, *, written: bool, seconds: float
    ) -> None:
        """Count one reconciliation of `seconds`; `written` is true if a scale was written."""
        action = _direction(decision.current_replicas, decision.desired_replicas) if written else "none"
        failed = decision.error is not None or any(metric.error is not None for metric in decision.metrics)
        error = "internal" if failed else "none"
        self._reconciliations.labels(action, error).inc()
        self._seconds.labels(action, error).observe(seconds)
        for metric in decision.metrics:
            self._metrics.labels(*_outcome(metric, decision.current_replicas), metric.type).inc()
        self.decisions.add(namespace, name, decision, written=written)
        if decision.error is None:
            self._desired.labels(namespace, name).set(decision.desired_replicas)
            self._current.labels(namespace, name).set(decision.current_replicas)
        self._missing.labels(namespace, name).set(len(decision.coverage.missing))
        self._lost.labels(namespace, name).set(len(decision.coverage.lost))
        self._show_metrics(namespace, name, decision)

    def set_conflicts(self, namespace: str, name: str, *, dry_run: bool, competitors: int) -> None:
        """Show what stops an object's writes, and how many other autoscalers may undo them."""
        self._dry_run.labels(namespace, name).set(dry_run)
        self._competitors.labels(namespace, name).set(competitors)

    def _show_metrics(self, namespace: str, name: str, decision: Decision) -> None:
        """Remove the series of a metric without a value, because an old number would hide the failure."""
        shown = set()
        for metric in decision.metrics:
            if metric.proposal is None:
                continue
            label = f"{metric.index}:{metric.name}"
            shown.add(label)
            self._proposal.labels(namespace, name, label).set(metric.proposal)
            self._ratio.labels(namespace, name, label).set(metric.usage_ratio or 0.0)
        self._drop_metrics(namespace, name, self._metrics_of.get((namespace, name), frozenset()) - shown)
        self._metrics_of[namespace, name] = frozenset(shown)

    def _drop_metrics(self, namespace: str, name: str, labels: Iterable[str]) -> None:
        for label in labels:
            for gauge in (self._proposal, self._ratio):
                gauge.remove(namespace, name, label)

    def record_failure(self, seconds: float) -> None:
        """Count a reconciliation that ended before a decision."""
        self._reconciliations.labels("none", "internal").inc()
        self._seconds.labels("none", "internal").observe(seconds)

    def forget(self, namespace: str, name: str) -> None:
        """Drop the series of a deleted object."""
        self._drop_metrics(namespace, name, self._metrics_of.pop((namespace, name), ()))
        for gauge in (
            self._desired,
            self._missing,
            self._current,
            self._lost,
            self._competitors,
            self._dry_run,
        ):
            gauge.remove_by_labels({"namespace": namespace, "hpa_name": name})


def _outcome(metric: MetricResult, current: int) -> tuple[str, str]:
    if metric.error is not None or metric.proposal is None:
        return "none", "internal"
    return _direction(current, metric.proposal), "none"


def _direction(before: int, after: int) -> str:
    if after == before:
        return "none"
    return "scale_up" if after > before else "scale_down"
