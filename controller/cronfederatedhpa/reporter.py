"""Reports the executions of one pass: events on the objects, series and log lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controller.background import KnownObjects
from controller.cronfederatedhpa.objects import CronObject, ObjectsByTarget, TargetKey
from controller.cronfederatedhpa.rules_status import HELD, SOLE_OWNER
from controller.cronfederatedhpa.units import TARGET_REASONS, RulesMemory
from controller.hub_check import FIELDS_PRUNED
from fedhpa.api.cronfederatedhpa import KIND
from fedhpa.api.federatedhpa import API_VERSION
from fedhpa.api.times import format_time
from fedhpa.cron.execution.model import CronPlan, Note, Rule
from fedhpa.cron.execution.objects import DROPPED, SCALE_FAILED
from fedhpa.cron.execution.outcome import MAX_MESSAGE, Settled
from fedhpa.decision import READY, Finding
from fedhpa.kube import EventRecorder, InvolvedObject, Key

log = structlog.get_logger(__name__)

# Events about fields that the hub dropped from one object.
MAX_REPORTED: Final = 10
# Different reverts that are remembered of one object.
MAX_REVERTS: Final = 16
HINT: Final = ". It did so before, as a GitOps tool does: let the tool ignore the field (ignoreDifferences)"


class Reporter:
    """Records the results of passes. An object's uid, which its events need, comes from `objects`.

    `memory` returns what is known of an object.
    """

    def __init__(
        self,
        objects: ObjectsByTarget,
        events: EventRecorder,
        metrics: CronMetrics,
        memory: Callable[[Key], RulesMemory],
    ) -> None:
        self._objects = objects
        self._events = events
        self._metrics = metrics
        self._memory = memory

    def report(
        self,
        target: TargetKey,
        planned: CronPlan,
        settled: Settled,
        now: float,
        unstored: frozenset[str],
        *,
        failed: bool,
    ) -> None:
        """Reports what a pass stored at `now`. A later pass reports on the objects in `unstored`."""
        for skipped in planned.skipped:
            if skipped.object not in unstored:
                self._metrics.count(MISSED, skipped.missed.count)
        notes = [note for note in settled.notes if note.object not in unstored]
        self._metrics.count(FAILED, sum(note.reason == SCALE_FAILED for note in notes))
        for execution, values, _ in () if failed else planned.applied:
            if execution.object in unstored:
                continue
            self._metrics.count(APPLIED)
            self._metrics.observe_lateness(now - execution.at)
            log.info(
                "rule applied",
                namespace=target.namespace,
                name=execution.object,
                rule=execution.rule.name,
                due=format_time(execution.at),
                late=round(now - execution.at, 3),
                target=f"{target.kind}/{target.name}",
                **values,
            )
        for note in notes:
            self.record(target.namespace, note)
        for note in (*notes, *planned.reverts):
            if note.change and self._is_again((target.namespace, note.object), note.change):
                self.record(target.namespace, Note(note.object, "RevertedAgain", f"{note.message}{HINT}"))

    def _is_again(self, key: Key, change: str) -> bool:
        """True if a field was set to the same value by the same client before."""
        known = self._memory(key).reverts
        if change in known:
            return True
        known[:] = [*known, change][-MAX_REVERTS:]
        return False

    def tell(
        self,
        owner: CronObject,
        conditions: Iterable[Mapping[str, Any]],
        rules: Sequence[Rule],
        hub: Finding | None,
        held: str,
    ) -> None:
        """Reports once what holds now: who owns the target, what the hub drops, and what waits for a hold."""
        lines = [] if hub is None else [(FIELDS_PRUNED, hub.message)]
        dropped = (rule for rule in rules if rule.hash == DROPPED)
        lines += ((FIELDS_PRUNED, f"rule {rule.name} does not run: {rule.problem}") for rule in dropped)
        lines = lines[:MAX_REPORTED]
        for one in conditions:
            if one["status"] == "False" and (one["type"] == SOLE_OWNER or one["reason"] in TARGET_REASONS):
                lines.append((one["reason"], one["message"]))
        if held:
            lines.append((HELD, held))
        memory = self._memory(owner.key)
        for reason, message in lines:
            if (reason, message) not in memory.told:
                note = Note(owner.key[1], reason, message[:MAX_MESSAGE], warning=reason != HELD)
                self.record(owner.key[0], note)
        memory.told = set(lines)

    def record(self, namespace: str, note: Note, uid: str = "") -> None:
        """Records a note as an event on its object."""
        owner = self._objects.get((namespace, note.object))
        uid = uid if owner is None else owner.cron.metadata.uid
        about = InvolvedObject(API_VERSION, KIND, note.object, namespace, uid)
        self._events.event(about, "Warning" if note.warning else "Normal", note.reason, note.message)


APPLIED: Final = "applied"
FAILED: Final = "failed"
MISSED: Final = "missed"
NAMES: Final = ("namespace", "name")
# From a tenth of a second, which is on time, to a day.
LATENESS_BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 60.0, 300.0, 3600.0, 86400.0)


class CronMetrics:
    """The series of the cron controller in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._known = KnownObjects(self._forget)
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

    def show(
        self, key: Key, coming: float | None, held: float | None, conditions: Iterable[Mapping[str, Any]]
    ) -> None:
        """Shows when the next rule of an object fires, since when an event waits, and why it is not ready."""
        _show(self._next_execution, key, coming)
        _show(self._held_since, key, held)
        _show(self._not_ready, key, None)
        for one in conditions:
            if one["type"] == READY and one["status"] != "True":
                self._not_ready.labels(*key, one["reason"]).set(1)

    def set_objects(self, count: int) -> None:
        """Shows the number of objects."""
        self._objects.set(count)

    def follow(self, key: Key, known: object) -> None:
        """Drops the series of an object together with what is `known` of it."""
        self._known.follow(key, known)

    def _forget(self, key: Key) -> None:
        for gauge in (self._next_execution, self._held_since, self._not_ready):
            _show(gauge, key, None)


def _show(gauge: Gauge, key: Key, value: float | None) -> None:
    """Sets the series of an object, or removes it without a value."""
    if value is None:
        gauge.remove_by_labels(dict(zip(NAMES, key, strict=True)))
    else:
        gauge.labels(*key).set(value)
