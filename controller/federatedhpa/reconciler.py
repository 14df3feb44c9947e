"""One look at one FederatedHPA: observe, decide, apply.

Everything that is shown of the outcome (status, events, series, log) is read off the one `Decision`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import structlog

from controller.federatedhpa.ambiguity import Key
from controller.federatedhpa.competition import CompetingAutoscalers
from controller.federatedhpa.memory import ObjectMemory
from controller.federatedhpa.scale_writes import NotWritten, Superseded, write_assignment, write_scale
from controller.federatedhpa.snapshot import HUB_DEADLINE_SECONDS, Observation, Observer
from controller.flags import Settings
from controller.hub_check import ANOTHER_CONTROLLER, HubCheck
from controller.publish import QUIET_SECONDS, record_events, worth_writing, write_status
from controller.telemetry import Series
from fedhpa.api.errors import FedHPAError, InvalidObject
from fedhpa.decision.decide import decide
from fedhpa.decision.model import Decision, Event
from fedhpa.decision.snapshot import Snapshot
from fedhpa.kube.client import ApiClient
from fedhpa.kube.events import EventRecorder

log = structlog.get_logger(__name__)


class Reconciler:
    """Looks at objects one by one; `reconcile` may run for different objects at once."""

    def __init__(
        self,
        hub: ApiClient,
        observer: Observer,
        events: EventRecorder,
        series: Series,
        settings: Settings,
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hub = hub
        self._observer = observer
        self._events = events
        self._series = series
        self._settings = settings
        self._wall = wall
        self._clock = clock
        self._memories: dict[Key, ObjectMemory] = {}
        self._contests = CompetingAutoscalers(hub, clock=clock)
        self._hub_check = HubCheck(hub, clock=clock, shown=series.hub_finding)
        self._contested: dict[Key, tuple[str, ...]] = {}

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a deleted object."""
        self._contested.pop(key, None)
        self._hub_check.forget(key)
        if self._memories.pop(key, None) is not None:
            self._series.forget(*key)

    async def reconcile(
        self, key: Key, raw: Mapping[str, Any], known: Iterable[Key] = (), *, late: float = 0.0
    ) -> bool:
        """Look at the object read as `raw`, `late` seconds after it was due, and act. True if it should be
        looked at again at once.

        `known` are all objects there are: as long as one of the same namespace was never looked at, its pods
        may be this one's, and nothing is scaled. Raises ApiError only if the hub did not take the status; a
        member's trouble is in the decision.
        """
        began = self._clock()
        memory = self._memory(key, raw)
        try:
            seen = await self._observer.observe(key, raw, self._memories, self._wall(), late=late)
        except InvalidObject as error:
            self._series.failed(self._clock() - began)
            self._complain(key, raw, memory, str(error))
            return False
        finally:
            memory.looked = True
        if self._memories.get(key) is not memory:
            return False  # deleted meanwhile
        memory.complaint = ""
        now = self._wall()
        seen = replace(seen, snapshot=self._completed(key, raw, seen.snapshot, now))
        outcome = await self._act(key, memory, seen, known, now)
        if outcome is None:
            return True
        (decision, written), snapshot = outcome, seen.snapshot
        if self._memories.get(key) is memory:  # or its series would stay for ever
            self._series.decided(*key, decision, written=written, seconds=self._clock() - began)
            self._series.settings(
                *key, dry_run=snapshot.hpa.spec.dry_run, contested=len(snapshot.contested_by)
            )
        self._log(key, memory, decision, written)
        if not self._settings.paused:
            blocked = snapshot.blocked
            contended = blocked is not None and blocked.reason == ANOTHER_CONTROLLER
            await self._publish(key, raw, memory, decision, contended=contended)
        # Told of at the next look: nothing waits for it.
        contested = await self._contests.look(raw, seen)
        if self._memories.get(key) is memory:
            self._contested[key] = contested
        await self._hub_check.look()
        return False

    def _completed(self, key: Key, raw: Mapping[str, Any], snapshot: Snapshot, now: float) -> Snapshot:
        """The snapshot with what is looked at less often: who else acts on the workload or the object."""
        return msgspec.structs.replace(
            snapshot,
            contested_by=self._contested.get(key, ()),
            hub_findings=self._hub_check.findings,
            blocked=snapshot.blocked or self._hub_check.rival(key, raw, now),
        )

    async def _act(
        self, key: Key, memory: ObjectMemory, seen: Observation, known: Iterable[Key], now: float
    ) -> tuple[Decision, bool] | None:
        """Decide at `now` and write the scale: the decision and whether it was written.

        None if it must be made anew: somebody else's write came first, or it is not known whose the pods are.
        """
        snapshot, rules = seen.snapshot, self._settings.decision
        memory.account(snapshot, now)
        decision = decide(snapshot, memory.history, now, rules)
        written = decision.writes
        if written and self._has_strangers(key, known):
            return None
        if written:
            try:
                await self._write_scale(seen, decision)
            except Superseded as error:
                log.info("decision superseded", namespace=key[0], name=key[1], detail=str(error))
                return None
            except FedHPAError as error:
                written = False
                if isinstance(error, NotWritten):
                    memory.refused |= dict.fromkeys(error.clusters, now)
                decision = decide(snapshot, memory.history, now, rules, write_error=str(error))
        memory.observe(snapshot, decision)
        if written and seen.template is None:
            memory.wrote(decision.assignment)
        memory.history = decision.history
        return decision, written

    def _has_strangers(self, key: Key, known: Iterable[Key]) -> bool:
        """Whether an object of the same namespace was never looked at."""
        return any(
            other[0] == key[0] and (other not in self._memories or not self._memories[other].looked)
            for other in known
        )

    def _complain(self, key: Key, raw: Mapping[str, Any], memory: ObjectMemory, error: str) -> None:
        """Say once that an object cannot be read; its status is part of what cannot be."""
        if memory.complaint == error:
            return
        memory.complaint = error
        log.warning("object cannot be decided on", namespace=key[0], name=key[1], error=error)
        if not self._settings.paused:
            record_events(self._events, raw, [Event("Warning", "InvalidObject", error)])

    def _memory(self, key: Key, raw: Mapping[str, Any]) -> ObjectMemory:
        memory = self._memories.get(key)
        if memory is None or memory.uid != raw["metadata"].get("uid", ""):
            memory = self._memories[key] = ObjectMemory.restore(raw, self._wall())
        return memory

    async def _write_scale(self, seen: Observation, decision: Decision) -> None:
        if seen.template is None:
            await write_assignment(seen.members, decision.assignment, self._settings.member_deadline)
        else:
            await write_scale(
                self._hub, seen.path, seen.template, decision.desired_replicas, HUB_DEADLINE_SECONDS
            )

    async def _publish(
        self,
        key: Key,
        raw: Mapping[str, Any],
        memory: ObjectMemory,
        decision: Decision,
        *,
        contended: bool = False,
    ) -> None:
        record_events(self._events, raw, decision.events)
        # Two that write one status at each look would never end: where another does, once a minute must do.
        due = not contended or abs(decision.now - memory.status_written_at) >= QUIET_SECONDS
        if due and worth_writing(raw.get("status"), decision.status, memory.status_written_at, decision.now):
            await write_status(self._hub, raw, decision.status, HUB_DEADLINE_SECONDS)
            memory.status_written_at = decision.now
            log.debug("status written", namespace=key[0], name=key[1])

    def _log(self, key: Key, memory: ObjectMemory, decision: Decision, written: bool) -> None:
        bound = log.bind(namespace=key[0], name=key[1])
        missing = decision.coverage.missing
        for cluster in sorted(set(missing) - memory.missing):
            bound.warning("cluster missing", cluster=cluster, reason=missing[cluster])
        for cluster in sorted(memory.missing.intersection(decision.coverage.answered) - set(missing)):
            bound.info("cluster answers again", cluster=cluster)
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
