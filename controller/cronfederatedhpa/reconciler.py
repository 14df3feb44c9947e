"""One pass over one target: read its values, plan, write what should hold, and store the result.

The order of writes keeps the rules right if this process ends between two of them: the finalizer, the record
of what is about to be written, the effect, and then the statuses, the one with the record first.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import structlog

from controller.cronfederatedhpa.hub import CronHubCheck
from controller.cronfederatedhpa.object_writes import FINALIZER, NotLeading, ObjectWriter
from controller.cronfederatedhpa.objects import CronObject, ObjectsByTarget, TargetKey, newest_record
from controller.cronfederatedhpa.reporter import Reporter
from controller.cronfederatedhpa.status import (
    Finding,
    Json,
    changes,
    conditions,
    render_status,
    render_window,
    replaced,
    with_hub,
)
from controller.cronfederatedhpa.targets import (
    Reading,
    TargetChanged,
    Targets,
    unreadable,
)
from controller.cronfederatedhpa.telemetry import CronMetrics
from controller.hub_check import FIELDS_PRUNED
from fedhpa.api.errors import FedHPAError
from fedhpa.api.metrics.parts import CrossVersionObjectReference
from fedhpa.api.times import format_time
from fedhpa.cron.execution import Note, Plan, ScheduledObject, Settled, WindowRecord, plan, settle
from fedhpa.kube import (
    ApiClient,
    Backoff,
    EventRecorder,
    Key,
)

log = structlog.get_logger(__name__)

# A target that is due this soon is read ahead of its fire.
READ_AHEAD_SECONDS: Final = 5.0
# A reading is used for a fire if it is no older. The resourceVersion shows if it is outdated, so a fire that
# waits for its turn in a busy minute need not read again.
MAX_READING_AGE_SECONDS: Final = 60.0
FIRST_RETRY_SECONDS: Final = 1.0
MAX_RETRY_SECONDS: Final = 60.0
# An object that another controller runs is looked at again after this time.
BLOCKED_SECONDS: Final = 60.0
PLAN_TRIES: Final = 3

Gate = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class _Ahead:
    """A reading that was made at `at` for what is due at `due`, both on the wall clock."""

    reading: Reading
    at: float
    due: float


@dataclass(frozen=True)
class _Stored:
    """The stored record of open windows, and the object that stores it."""

    record: WindowRecord | None
    carrier: str


class CronReconciler:
    """Reconciles targets; `reconcile` runs for different targets at once.

    `leads` tells if this process may write. `blocked` returns why an object must not be touched, or None.
    `owners` returns the FederatedHPAs that scale a target, or None while they are unknown.
    """

    def __init__(
        self,
        hub: ApiClient,
        objects: ObjectsByTarget,
        targets: Targets,
        events: EventRecorder,
        metrics: CronMetrics,
        *,
        paused: bool,
        leads: Callable[[], bool] = lambda: True,
        blocked: Callable[[CronObject, float], Finding | None] = lambda *_: None,
        owners: Callable[[TargetKey], tuple[str, ...] | None] = lambda _: None,
        check: CronHubCheck | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._check = check or CronHubCheck(hub)
        self._objects = objects
        self._targets = targets
        self._metrics = metrics
        self._reporter = Reporter(objects, events, metrics)
        self._paused = paused
        self._writer = ObjectWriter(hub, objects, leads)
        self._blocked = blocked
        self._owners = owners
        self._wall = wall
        self._ahead: dict[TargetKey, _Ahead] = {}
        self._retries: dict[TargetKey, Backoff] = {}

    def forget(self, target: TargetKey) -> None:
        """Drops what is known of a target that no object has any more."""
        self._targets.forget(target)
        self._ahead.pop(target, None)
        self._retries.pop(target, None)

    def forget_object(self, key: Key) -> None:
        """Drops what is known of a deleted object."""
        self._check.forget(key)

    async def reconcile(self, target: TargetKey, results: Gate) -> float | None:
        """Does what is due for a target. Returns when it is due next (POSIX seconds), or None.

        `results` is awaited between the effect and the statuses, so that all effects of a minute come first.
        """
        objects = self._objects.of(target)
        if not objects:
            self.forget(target)
            return None
        await self._check.refresh()
        now = self._wall()
        if self._paused:
            await self._free_deleted(objects)
        for owner in objects:
            finding = self._blocked(owner, now)
            if finding is not None:
                return await self._hold(objects, finding, now)
        if any(owner.target == target and owner.holds not in (None, target) for owner in objects):
            # One status has one record: the windows on the former target close first.
            return now + FIRST_RETRY_SECONDS
        record, carrier = newest_record(objects, target)
        ahead = self._ahead.get(target)
        if ahead is not None and now >= ahead.due:
            return await self._apply(target, objects, _Stored(record, carrier), results)
        scheduled = [self._scheduled(owner, target) for owner in objects]
        planned = plan(scheduled, record, unreadable("not read yet").target, now)
        if _concerns_target(planned, record):
            return await self._apply(target, objects, _Stored(record, carrier), results)
        if planned.wake is not None and planned.wake - now <= READ_AHEAD_SECONDS:
            self._ahead[target] = _Ahead(await self._read(target, objects), now, planned.wake)
        return await self._finish_stored(target, objects, planned, carrier, settle(planned, now), now)

    async def _apply(
        self, target: TargetKey, objects: list[CronObject], stored: _Stored, results: Gate
    ) -> float | None:
        """Reads the target, plans and writes; plans anew if somebody changed the target meanwhile."""
        reading = await self._reading(target, objects, stored.record)
        record = stored.record
        for attempt in range(1, PLAN_TRIES + 1):
            scheduled = [self._scheduled(owner, target) for owner in objects]
            planned = plan(scheduled, record, reading.target, self._wall())
            try:
                error = await self._write(target, objects, planned, stored.carrier, reading)
            except TargetChanged as changed:
                if attempt == PLAN_TRIES:
                    error = str(changed)
                    break
                reading = await self._read(target, objects)
                record = _as_before(record, planned)
                continue
            break
        return await self._finish(target, objects, planned, stored.carrier, error, results)

    async def _write(
        self,
        target: TargetKey,
        objects: list[CronObject],
        planned: Plan,
        carrier: str,
        reading: Reading,
    ) -> str:
        """Makes the writes of a plan before its result. Returns why they failed, or ""."""
        if self._paused or planned.error:
            return planned.error
        try:
            await self._prepare(target, objects, planned, carrier)
            if planned.write:
                self._writer.check_lease()
                await reading.write(planned.write, planned.marker)
        except (NotLeading, TargetChanged):
            raise
        except FedHPAError as failure:
            return str(failure)
        return ""

    async def _finish(
        self,
        target: TargetKey,
        objects: list[CronObject],
        planned: Plan,
        carrier: str,
        error: str,
        results: Gate,
    ) -> float | None:
        """Stores the result of a plan. Returns when the target is due next."""
        now = self._wall()
        await results()
        settled = settle(planned, now, error)
        carrier = planned.carrier or carrier
        return await self._finish_stored(target, objects, planned, carrier, settled, now, error)

    async def _finish_stored(
        self,
        target: TargetKey,
        objects: list[CronObject],
        planned: Plan,
        carrier: str,
        settled: Settled,
        now: float,
        error: str = "",
    ) -> float | None:
        """Stores statuses and tells of what was stored. Returns when the target is due next."""
        unstored = await self._store(target, objects, settled, carrier)
        if not self._paused:
            self._reporter.tell(target, planned, settled, now, unstored, failed=bool(error))
        if unstored or error:
            backoff = self._retries.setdefault(target, Backoff(FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS))
            retry = now + backoff.next()
            return retry if planned.wake is None else min(retry, planned.wake)
        self._retries.pop(target, None)
        return self._next(planned.wake, now)

    async def _prepare(
        self, target: TargetKey, objects: list[CronObject], planned: Plan, carrier: str
    ) -> None:
        """Sets the finalizers of objects whose windows open, and stores the write that is about to begin."""
        for owner in objects:
            if owner.key[1] in planned.holders and FINALIZER not in owner.cron.metadata.finalizers:
                await self._writer.set_finalizer(owner, wanted=True)
        if planned.pending is not None:
            carrying = self._objects.get((target.namespace, carrier or planned.carrier or ""))
            if carrying is not None:
                reference = self._reference(target, objects)
                await self._writer.patch_status(
                    carrying, {"window": render_window(planned.pending, reference)}
                )

    async def _store(
        self, target: TargetKey, objects: list[CronObject], settled: Settled, carrier: str
    ) -> frozenset[str]:
        """Writes the statuses that changed, the one with the record first. Returns the objects not stored."""
        if self._paused:
            return frozenset()
        now, unstored = self._wall(), set[str]()
        failing = {fire.key for fire in settled.failed}
        reference = self._reference(target, objects)
        for owner in sorted(objects, key=lambda each: each.key[1] != carrier):
            holds = settled.record is not None and owner.key[1] == carrier
            window = render_window(settled.record, reference) if holds and settled.record else None
            try:
                await self._store_one(target, owner, settled, failing, window, now)
                await self._release(target, owner, settled.record)
            except NotLeading:
                raise
            except FedHPAError as error:
                namespace, name = owner.key
                log.warning("status not written", namespace=namespace, name=name, error=str(error))
                unstored.add(name)
        return frozenset(unstored)

    async def _store_one(
        self,
        target: TargetKey,
        owner: CronObject,
        settled: Settled,
        failing: set[tuple[str, str]],
        window: Json | None,
        now: float,
    ) -> None:
        """Writes the status of one object if it changed."""
        latest = self._objects.get(owner.key)
        if latest is None:
            return
        stored = latest.raw.get("status") or {}
        patch: Json = {}
        if latest.target == target and latest.cron.metadata.deletion_timestamp is None:
            rules, states = self._scheduled(latest, target).rules, settled.states[owner.key[1]]
            failed = {rule for name, rule in failing if name == owner.key[1]}
            owners = self._owners(target)
            status = render_status(latest, rules, states, _failure(rules, states, failed), now, owners)
            status["conditions"] = with_hub(status["conditions"], self._check.finding, now)
            for line in self._check.news(owner.key, rules):
                self._reporter.record(owner.key[0], Note(owner.key[1], FIELDS_PRUNED, line))
            patch = changes(stored, status)
            coming = [state.next_execution for state in states.values() if state.next_execution is not None]
            self._metrics.set_next_fire(owner.key, min(coming, default=None))
        if latest.holds in (None, target) and stored.get("window") != window:
            patch["window"] = replaced(stored.get("window"), window)
        if patch:
            await self._writer.patch_status(latest, patch)
            self._reporter.tell_owners(latest, patch.get("conditions", []))

    def _scheduled(self, owner: CronObject, target: TargetKey) -> ScheduledObject:
        """Returns an object as a plan needs it, without the rules whose fields the hub dropped."""
        drops = self._writer.hub_drops_fields or self._check.finding is not None
        return owner.scheduled(target, drops=drops)

    async def _release(self, target: TargetKey, owner: CronObject, record: WindowRecord | None) -> None:
        """Removes the finalizer of an object that has no open window."""
        latest = self._objects.get(owner.key)
        if latest is None or FINALIZER not in latest.cron.metadata.finalizers:
            return
        holds_here = record is not None and any(each.object == owner.key[1] for each in record.open)
        holds_elsewhere = latest.holds not in (None, target)
        if not holds_here and not holds_elsewhere:
            await self._writer.set_finalizer(latest, wanted=False)

    async def _free_deleted(self, objects: list[CronObject]) -> None:
        """Removes the finalizer of deleted objects, whose values this process must not restore."""
        for owner in objects:
            meta = owner.cron.metadata
            if meta.deletion_timestamp is not None and FINALIZER in meta.finalizers:
                await self._writer.set_finalizer(owner, wanted=False)

    async def _hold(self, objects: list[CronObject], finding: Finding, now: float) -> float:
        """Shows why nothing is written, and returns when to look again."""
        await self._free_deleted(objects)
        for owner in () if self._paused else objects:
            patch = changes(owner.raw.get("status") or {}, {"conditions": conditions(owner, finding, now)})
            if patch:
                await self._writer.patch_status(owner, patch)
        return now + BLOCKED_SECONDS

    async def _reading(
        self, target: TargetKey, objects: list[CronObject], record: WindowRecord | None
    ) -> Reading:
        """Returns the values of a target, read ahead of the fire if that is recent enough.

        A window takes its baseline from the reading, so then it is always read at the fire.
        """
        ahead = self._ahead.pop(target, None)
        windows = record is not None or any(owner.has_windows for owner in objects)
        if ahead is not None and not windows and 0 <= self._wall() - ahead.at <= MAX_READING_AGE_SECONDS:
            return ahead.reading
        return await self._read(target, objects)

    async def _read(self, target: TargetKey, objects: list[CronObject]) -> Reading:
        return await self._targets.read(target, self._reference(target, objects).api_version)

    @staticmethod
    def _reference(target: TargetKey, objects: list[CronObject]) -> CrossVersionObjectReference:
        """Returns the target as one of its objects names it."""
        for owner in objects:
            if owner.target == target:
                return owner.reference
        window = objects[0].cron.status.window
        assert window is not None
        return window.target

    def _next(self, wake: float | None, now: float) -> float | None:
        """Returns when to look again: before the next fire, to read its target ahead."""
        if wake is None:
            return None
        early = wake - READ_AHEAD_SECONDS
        return early if early > now else wake


def _concerns_target(planned: Plan, record: WindowRecord | None) -> bool:
    """True if the values of the target matter now: something is due, or a window is open."""
    return record is not None or bool(planned.applied or planned.invalid or planned.skipped)


def _as_before(record: WindowRecord | None, planned: Plan) -> WindowRecord | None:
    """Returns the record to plan with again after a plan whose write was not made.

    Its revision is that of the record that the plan stored, so that the next one replaces it.
    """
    if planned.pending is None:
        return record
    return msgspec.structs.replace(record or WindowRecord(), revision=planned.pending.revision)


def _failure(rules: Any, states: Mapping[str, Any], failing: set[str]) -> Finding | None:
    """Returns the newest failure of a rule that will be tried again, as a finding."""
    for rule in rules:
        state = states.get(rule.name)
        if rule.name in failing and state is not None and state.failures:
            failure = state.failures[0]
            text = f"rule {rule.name}, due {format_time(failure.scheduled)}: {failure.message}"
            return Finding("ScaleFailed", text)
    return None
