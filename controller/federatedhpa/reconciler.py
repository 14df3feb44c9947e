"""One reconcile of one FederatedHPA: build the snapshot, decide, write.

Status, events, series and log are all derived from the one `Decision`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import structlog

from controller.federatedhpa.competition import CompetingAutoscalers
from controller.federatedhpa.memory import ObjectMemory
from controller.federatedhpa.scale_writes import NotWritten, Superseded, write_assignment, write_scale
from controller.federatedhpa.snapshot import HUB_DEADLINE_SECONDS, Observation, SnapshotBuilder
from controller.federatedhpa.status import QUIET_SECONDS, worth_writing
from controller.flags import Settings
from controller.hub_check import ANOTHER_CONTROLLER, HubCheck
from controller.publish import FEDERATED_HPAS, record_events, write_status
from controller.telemetry import ControllerMetrics
from fedhpa.api.errors import FedHPAError, InvalidObject
from fedhpa.decision import Decision, Event, Snapshot, decide
from fedhpa.kube.client import ApiClient
from fedhpa.kube.events import EventRecorder
from fedhpa.kube.reflector import Key

log = structlog.get_logger(__name__)


class FederatedHPAReconciler:
    """Reconciles objects one by one; `reconcile` may run for different objects at once."""

    def __init__(
        self,
        hub: ApiClient,
        snapshots: SnapshotBuilder,
        events: EventRecorder,
        metrics: ControllerMetrics,
        settings: Settings,
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hub = hub
        self._snapshots = snapshots
        self._events = events
        self._metrics = metrics
        self._settings = settings
        self._wall = wall
        self._clock = clock
        self._memories: dict[Key, ObjectMemory] = {}
        self._autoscalers = CompetingAutoscalers(clock=clock)
        self._hub_check = HubCheck(hub, clock=clock, on_finding=metrics.set_hub_finding)
        self._competitors: dict[Key, tuple[str, ...]] = {}

    def period(self, raw: Mapping[str, Any]) -> float:
        """Seconds between two reconciles of the object."""
        return self._snapshots.period(raw)

    def forget(self, key: Key) -> None:
        """Drop the memory of a deleted object."""
        self._competitors.pop(key, None)
        self._hub_check.forget(key)
        if self._memories.pop(key, None) is not None:
            self._metrics.forget(*key)

    async def reconcile(
        self, key: Key, raw: Mapping[str, Any], known: Iterable[Key] = (), *, late: float = 0.0
    ) -> bool:
        """Reconcile the object read as `raw`, `late` seconds after it was due; True asks for a quick retry.

        `known` are the keys of all objects. Nothing is scaled while an object of the same namespace was never
        reconciled, because it may select the same pods. Raises ApiError only if the hub refuses the status;
        errors of members are part of the decision.
        """
        began = self._clock()
        memory = self._memory(key, raw)
        try:
            observed = await self._snapshots.build(key, raw, self._memories, self._wall(), late=late)
        except InvalidObject as error:
            self._metrics.record_failure(self._clock() - began)
            self._report_invalid(key, raw, memory, str(error))
            return False
        finally:
            memory.reconciled = True
        if self._memories.get(key) is not memory:
            return False  # deleted in between
        memory.read_error = ""
        now = self._wall()
        observed = replace(observed, snapshot=self._with_conflicts(key, raw, observed.snapshot, now))
        outcome = await self._decide_and_write(key, memory, observed, known, now)
        if outcome is None:
            return True
        (decision, written), snapshot = outcome, observed.snapshot
        if self._memories.get(key) is memory:  # otherwise a deleted object's series would stay for ever
            self._metrics.record_decision(*key, decision, written=written, seconds=self._clock() - began)
            self._metrics.set_conflicts(
                *key, dry_run=snapshot.hpa.spec.dry_run, competitors=len(snapshot.contested_by)
            )
        self._log(key, memory, decision, written)
        if not self._settings.paused:
            blocked = snapshot.blocked
            contended = blocked is not None and blocked.reason == ANOTHER_CONTROLLER
            await self._publish(key, raw, memory, decision, contended=contended)
        # The results are used by the next reconcile, so that no write waits for them.
        competitors = await self._autoscalers.find(raw, observed.clients(self._hub))
        if self._memories.get(key) is memory:
            self._competitors[key] = competitors
        await self._hub_check.refresh()
        return False

    def _with_conflicts(self, key: Key, raw: Mapping[str, Any], snapshot: Snapshot, now: float) -> Snapshot:
        """The snapshot with the other actors on the workload and the object, which are read less often."""
        return msgspec.structs.replace(
            snapshot,
            contested_by=self._competitors.get(key, ()),
            hub_findings=self._hub_check.findings,
            blocked=snapshot.blocked or self._hub_check.other_controller(key, raw, now),
        )

    async def _decide_and_write(
        self, key: Key, memory: ObjectMemory, observed: Observation, known: Iterable[Key], now: float
    ) -> tuple[Decision, bool] | None:
        """Decide at `now` and write the scale. Returns the decision and True if a scale was written.

        None asks for a new decision: someone else's write came first, or the owner of the pods is unknown.
        """
        snapshot, rules = observed.snapshot, self._settings.decision
        memory.count_unreported_scale(snapshot, now)
        decision = decide(snapshot, memory.history, now, rules)
        written = decision.writes
        if written and self._has_unknown_neighbours(key, known):
            return None
        if written:
            try:
                await self._write_scale(observed, decision)
            except Superseded as error:
                log.info("decision superseded", namespace=key[0], name=key[1], detail=str(error))
                return None
            except FedHPAError as error:
                written = False
                if isinstance(error, NotWritten):
                    memory.refused |= dict.fromkeys(error.clusters, now)
                decision = decide(snapshot, memory.history, now, rules, write_error=str(error))
        memory.note_decision(snapshot, decision)
        if written and observed.template is None:
            memory.note_write(decision.assignment)
        memory.history = decision.history
        return decision, written

    def _has_unknown_neighbours(self, key: Key, known: Iterable[Key]) -> bool:
        """True if an object of the same namespace was never reconciled."""
        return any(
            other[0] == key[0] and (other not in self._memories or not self._memories[other].reconciled)
            for other in known
        )

    def _report_invalid(self, key: Key, raw: Mapping[str, Any], memory: ObjectMemory, error: str) -> None:
        """Log and record once that an object cannot be read. Its status cannot be written either."""
        if memory.read_error == error:
            return
        memory.read_error = error
        log.warning("object cannot be read", namespace=key[0], name=key[1], error=error)
        if not self._settings.paused:
            record_events(self._events, FEDERATED_HPAS, raw, [Event("Warning", "InvalidObject", error)])

    def _memory(self, key: Key, raw: Mapping[str, Any]) -> ObjectMemory:
        memory = self._memories.get(key)
        if memory is None or memory.uid != raw["metadata"].get("uid", ""):
            memory = self._memories[key] = ObjectMemory.restore(raw, self._wall())
        return memory

    async def _write_scale(self, observed: Observation, decision: Decision) -> None:
        template, replicas = observed.template, decision.desired_replicas
        if template is None:
            await write_assignment(observed.members, decision.assignment, self._settings.member_deadline)
        else:
            await write_scale(self._hub, observed.path, template, replicas, HUB_DEADLINE_SECONDS)

    async def _publish(
        self,
        key: Key,
        raw: Mapping[str, Any],
        memory: ObjectMemory,
        decision: Decision,
        *,
        contended: bool = False,
    ) -> None:
        record_events(self._events, FEDERATED_HPAS, raw, decision.events)
        # The other controller also writes the status. At most one write a minute keeps the two from racing.
        due = not contended or abs(decision.now - memory.status_written_at) >= QUIET_SECONDS
        if due and worth_writing(raw.get("status"), decision.status, memory.status_written_at, decision.now):
            await write_status(self._hub, FEDERATED_HPAS, raw, decision.status, HUB_DEADLINE_SECONDS)
            memory.status_written_at = decision.now
            log.debug("status written", namespace=key[0], name=key[1])

    def _log(self, key: Key, memory: ObjectMemory, decision: Decision, written: bool) -> None:
        bound = log.bind(namespace=key[0], name=key[1])
        missing = decision.coverage.missing
        for cluster in sorted(set(missing) - memory.missing):
            bound.warning("cluster missing", cluster=cluster, reason=missing[cluster])
        for cluster in sorted(memory.missing.intersection(decision.coverage.answered) - set(missing)):
            bound.info("cluster available again", cluster=cluster)
        memory.missing = frozenset(missing)
        if written:
            bound.info(
                "scaled",
                before=decision.current_replicas,
                after=decision.desired_replicas,
                reason=decision.reason,
            )
        elif decision.error is not None:
            bound.debug("no decision", error=decision.error)
        else:
            bound.debug(
                "decided", replicas=decision.desired_replicas, missing=dict(decision.coverage.missing)
            )
