"""The Prometheus series of the controller, and the log of its last decisions.

Some are those of kube-controller-manager (HPA 1.36, section 11). Their names differ, because one Prometheus
often scrapes both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controller.background import KnownObjects
from controller.certificates import CertificateMetrics
from controller.member_series import MemberSeries
from controller.member_tokens import TokenMetrics
from controller.object_series import ObjectFigures, ObjectSeries
from controller.replica_series import ReplicaSeries
from fedhpa.decision import (
    ABLE_TO_SCALE,
    READY,
    SCALING_LIMITED,
    Decision,
    MetricResult,
    Resets,
    compact_decision,
    explained_json,
    held_since,
)
from fedhpa.kube import KUBE_TASKS, Key
from fedhpa.members import MEMBER_TASKS

BUCKETS = tuple(0.001 * 2**power for power in range(15))
# Lateness: from one tenth of a second to several sync periods.
LATENESS_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 30.0, 60.0, 300.0)
# Alerts compare counters with what they were before: each series exists before its first event.
REASONS = ("ReconcileFailed", "ReconcileTimedOut", "InvalidObject")
TASKS = (
    *KUBE_TASKS,
    *MEMBER_TASKS,
    "certificate-events",
    "certificate-reminders",
    "certificate-write",
    "certificates",
    "certificates-config",
    "certificates-lead",
    "cluster-finalizers",
    "cluster-status",
    "clusters-lead",
    "cron-events",
    "cron-owners",
    "cron-reminders",
    "cron-shards",
    "failure-reminders",
    "find-workload",
    "flush-record",
    "hub-check",
    "find-writer",
    "list-autoscalers",
    "member-hpas",
    "members",
    "namespaces",
    "nodes",
    "objects-changes",
    "objects-watch",
    "placement-watch",
    "placements",
    "placements-collect",
    "pods",
    "publish",
    "read-cluster",
    "read-metric",
    "read-scale",
    "read-scale-for-release",
    "read-usage",
    "readiness",
    "reconcile",
    "reconcile-queue",
    "renew-token",
    "report-failure",
    "scales",
    "servers",
    "shard",
    "shard-balance",
    "shards",
    "token-reminders",
    "tokens",
    "write-member-hpa",
    "write-scale",
)


# The log of decisions.
MAX_COUNT: Final = 1000
MAX_BYTES: Final = 8 * 1024 * 1024
# A larger decision, over very many clusters or metrics, is kept in the compact form of the status.
MAX_DECISION_BYTES: Final = 64 * 1024
DEFAULT_LIMIT: Final = 100


@dataclass(frozen=True)
class _Entry:
    namespace: str
    name: str
    body: bytes


class DecisionLog:
    """The newest decisions of all objects, bounded in number and bytes."""

    def __init__(self, *, max_count: int = MAX_COUNT, max_bytes: int = MAX_BYTES) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._entries: deque[_Entry] = deque()
        self.size = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, namespace: str, name: str, decision: Decision, *, written: bool) -> None:
        """Keep a decision; `written` is true if a scale was written because of it."""
        head = {"namespace": namespace, "name": name, "written": written}
        body = msgspec.json.encode({**head, "decision": explained_json(decision)})
        if len(body) > MAX_DECISION_BYTES:
            body = msgspec.json.encode({**head, "decision": compact_decision(decision)})
        self._entries.append(_Entry(namespace, name, body))
        self.size += len(body)
        while len(self._entries) > self._max_count or self.size > self._max_bytes:
            self.size -= len(self._entries.popleft().body)

    def newest(self, namespace: str = "", name: str = "", limit: int = DEFAULT_LIMIT) -> list[bytes]:
        """Up to `limit` decisions as JSON, newest first; "" matches all namespaces or names."""
        found: list[bytes] = []
        for entry in reversed(self._entries):
            if len(found) >= limit:
                break
            if namespace in ("", entry.namespace) and name in ("", entry.name):
                found.append(entry.body)
        return found


class ControllerMetrics:
    """The controller's series in one registry, and the log of its decisions."""

    def __init__(self, registry: CollectorRegistry, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.certificates = CertificateMetrics(registry)
        labels = ("action", "error")
        self._decisions = Counter(
            "fedhpa_controller_decisions",
            "Decisions by what was written (scale_up, scale_down, none) and why: the reason of Ready unless "
            "that is Reconciled, then of ScalingLimited if it is True, else of AbleToScale.",
            ("action", "reason"),
            registry=registry,
        )
        self._seconds = Histogram(
            "fedhpa_controller_reconciliation_duration_seconds",
            "Duration of reconciliations in seconds.",
            labels,
            buckets=BUCKETS,
            registry=registry,
        )
        self._metrics = Counter(
            "fedhpa_controller_metric_computation",
            "Computations of single metrics.",
            (*labels, "metric_type"),
            registry=registry,
        )
        self.objects = Gauge(
            "fedhpa_controller_objects", "FederatedHPAs in this process' shards.", registry=registry
        )
        self._shown: dict[Key, ObjectFigures] = {}
        registry.register(ObjectSeries(self._shown))
        self._lateness = Histogram(
            "fedhpa_controller_reconcile_lateness_seconds",
            "Seconds between the time at which a reconcile was due and its start.",
            buckets=LATENESS_BUCKETS,
            registry=registry,
        )
        self._failures = Counter(
            "fedhpa_controller_reconcile_failures",
            "Reconciles that ended without a decision: ReconcileFailed (an exception), ReconcileTimedOut, "
            "InvalidObject.",
            ("reason",),
            registry=registry,
        )
        for reason in REASONS:
            self._failures.labels(reason)
        self.status_failures = Counter(
            "fedhpa_controller_status_write_failures",
            "Writes of a status that the hub did not store.",
            registry=registry,
        )
        self.events_dropped = Counter(
            "fedhpa_controller_events_dropped",
            "Events that were not recorded: too many of them, or the hub refused them.",
            registry=registry,
        )
        what = "1 while this process leads the shard. Also for its other Leases: clusters, certificates."
        self._leader = Gauge("fedhpa_controller_leader", what, ("shard",), registry=registry)
        self.members = MemberSeries()
        registry.register(self.members)
        self._statuses: dict[Key, Mapping[str, Any]] = {}
        self._failing: dict[Key, str] = {}
        registry.register(ReplicaSeries(self._statuses, self._failing))
        self.decisions = DecisionLog()
        self.tokens = TokenMetrics(registry)
        self._known = KnownObjects(self._forget)
        self.paused = Gauge(
            "fedhpa_controller_paused", "1 while --pause stops all writes.", registry=registry
        )
        self._task_failures = Counter(
            "fedhpa_task_failures",
            "Unexpected failures of background tasks, which were started again.",
            ("task",),
            registry=registry,
        )
        for task in TASKS:
            self._task_failures.labels(task)
        self._findings: set[tuple[str, str]] = set()
        self._hub = Gauge(
            "fedhpa_controller_hub_finding",
            "1 while a check of the hub fails: FieldsPruned, ForeignWebhook, AnotherController, "
            "NamespacesUnreadable.",
            ("reason",),
            registry=registry,
        )

    def task_failed(self, task: str) -> None:
        """Count an unexpected failure of a background task."""
        self._task_failures.labels(task).inc()

    def watch_success(self, namespace: str, name: str) -> None:
        """Show from now on for how long an object has not been reconciled successfully."""
        shown = self._figures(namespace, name)
        if shown.succeeded_at is None:
            shown.succeeded_at = self._clock()

    def unwatch_success(self, namespace: str, name: str) -> None:
        """Show nothing of the kind for an object that must not be scaled."""
        if (shown := self._shown.get((namespace, name))) is not None:
            shown.succeeded_at = None

    def record_success(self, namespace: str, name: str) -> None:
        """Note a reconcile with a decision and without a failed write."""
        self._figures(namespace, name).succeeded_at = self._clock()

    def set_bounds(self, namespace: str, name: str, minimum: int, maximum: int, *, late: float) -> None:
        """Show an object's bounds, and count how `late` in seconds its reconcile began."""
        shown = self._figures(namespace, name)
        shown.minimum, shown.maximum = minimum, maximum
        self._lateness.observe(late)

    def count_failure(self, namespace: str, name: str, reason: str) -> None:
        """Count a reconcile without a decision."""
        self._failures.labels(reason).inc()
        self._failing[namespace, name] = reason

    def set_leader(self, shard: str, leads: bool) -> None:
        """Show whether this process leads a shard."""
        self._leader.labels(shard).set(leads)

    def set_hub_finding(self, reason: str, found: bool, *, source: str = "") -> None:
        """Show a result of the hub's checks. A finding lasts while any source has it."""
        (self._findings.add if found else self._findings.discard)((reason, source))
        self._hub.labels(reason).set(any(each == reason for each, _ in self._findings))

    def record_decision(
        self, namespace: str, name: str, decision: Decision, *, written: bool, seconds: float
    ) -> None:
        """Count one reconciliation of `seconds`; `written` is true if a scale was written."""
        action = _direction(decision.current_replicas, decision.desired_replicas) if written else "none"
        failed = decision.error is not None or any(metric.error is not None for metric in decision.metrics)
        error = "internal" if failed else "none"
        self._decisions.labels(action, _reason(decision)).inc()
        self._seconds.labels(action, error).observe(seconds)
        for metric in decision.metrics:
            self._metrics.labels(*_outcome(metric, decision.current_replicas), metric.type).inc()
        self.decisions.add(namespace, name, decision, written=written)
        self._statuses[namespace, name] = decision.status
        self._failing.pop((namespace, name), None)
        shown = self._figures(namespace, name)
        if decision.error is None:
            shown.desired, shown.current = decision.desired_replicas, decision.current_replicas
        shown.held_since = held_since(decision)
        # A metric without a value is not shown, because an old number would hide the failure.
        valued = (metric for metric in decision.metrics if metric.proposal is not None)
        shown.metrics = {f"{metric.index}:{metric.name}": metric for metric in valued}

    def set_conflicts(
        self, namespace: str, name: str, *, dry_run: bool, competitors: int, resets: Resets | None = None
    ) -> None:
        """Show what stops an object's writes, and how many other autoscalers may undo them."""
        writers = resets is not None and resets.is_conflict
        shown = self._figures(namespace, name)
        shown.dry_run, shown.competitors = dry_run, competitors or int(writers)

    def follow(self, key: Key, known: object) -> None:
        """Drop the series of an object together with what is `known` of it."""
        self._known.follow(key, known)

    def record_failure(self, seconds: float) -> None:
        """Count a reconciliation that ended before a decision."""
        self._seconds.labels("none", "internal").observe(seconds)

    def _figures(self, namespace: str, name: str) -> ObjectFigures:
        """Returns what is shown of an object, to be changed."""
        found = self._shown.get((namespace, name))
        if found is None:
            found = self._shown[namespace, name] = ObjectFigures(self._clock)
        return found

    def _forget(self, key: Key) -> None:
        for table in (self._shown, self._statuses, self._failing):
            table.pop(key, None)


def _outcome(metric: MetricResult, current: int) -> tuple[str, str]:
    if metric.error is not None or metric.proposal is None:
        return "none", "internal"
    return _direction(current, metric.proposal), "none"


def _reason(decision: Decision) -> str:
    """Returns the reason that says most about a size. There are a few dozen, and none has a name in it."""
    conditions: Any = decision.status.get("conditions") or ()
    found = {one["type"]: one for one in conditions}
    if (ready := found.get(READY)) and ready["reason"] != "Reconciled":
        return str(ready["reason"])
    limited = found.get(SCALING_LIMITED)
    said = limited if limited and limited["status"] == "True" else found.get(ABLE_TO_SCALE)
    return str(said["reason"]) if said else ""


def _direction(before: int, after: int) -> str:
    if after == before:
        return "none"
    return "scale_up" if after > before else "scale_down"
