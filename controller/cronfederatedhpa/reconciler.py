"""One pass over one target: read its values, plan, write what should hold, and store the result.

The order of writes keeps the rules right if this process ends between two of them: the finalizer, the record
of what is about to be written, the effect, and then the statuses, the one with the record first.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from controller.cronfederatedhpa.objects import CronObject, ObjectsByTarget, TargetKey, newest_record
from controller.cronfederatedhpa.status import (
    Finding,
    Json,
    changes,
    conditions,
    render_status,
    render_window,
)
from controller.cronfederatedhpa.targets import (
    FIELD_MANAGER,
    HUB_DEADLINE_SECONDS,
    Reading,
    Targets,
    unreadable,
)
from controller.cronfederatedhpa.telemetry import APPLIED, FAILED, MISSED, CronMetrics
from fedhpa.api.cronfederatedhpa import KIND
from fedhpa.api.errors import ApiError, Conflict, FedHPAError
from fedhpa.api.federatedhpa import API_VERSION
from fedhpa.api.metrics.parts import CrossVersionObjectReference
from fedhpa.api.times import format_time
from fedhpa.cron.execution import Note, Plan, Settled, WindowRecord, plan, settle
from fedhpa.kube import (
    NOT_FOUND,
    ApiClient,
    Backoff,
    EventRecorder,
    InvolvedObject,
    Key,
    Resource,
    patch_status,
)

log = structlog.get_logger(__name__)

CRON_FEDERATED_HPAS: Final = Resource(API_VERSION, KIND, "cronfederatedhpas", namespaced=True, scale=False)
# Stands on an object while one of its windows is open, so that a deletion restores the values first.
FINALIZER: Final = "autoscaling.karmada.io/fedhpa-cron-window"
# A target that is due this soon is read ahead of its fire.
READ_AHEAD_SECONDS: Final = 5.0
# A reading is used for a fire if it is no older. The resourceVersion shows if it is outdated.
MAX_READING_AGE_SECONDS: Final = 10.0
FIRST_RETRY_SECONDS: Final = 1.0
MAX_RETRY_SECONDS: Final = 60.0
# An object that another controller runs is looked at again after this time.
BLOCKED_SECONDS: Final = 60.0
STATUS_TRIES: Final = 5

Gate = Callable[[], Awaitable[None]]


class NotLeading(FedHPAError):
    """The Lease of this process ended, so it must not write."""


@dataclass(frozen=True)
class _Ahead:
    """A reading that was made before a fire, and when, on the wall clock."""

    reading: Reading
    at: float


class CronReconciler:
    """Reconciles targets; `reconcile` runs for different targets at once.

    `leads` tells if this process may write. `blocked` returns why an object must not be touched, or None.
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
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._hub = hub
        self._objects = objects
        self._targets = targets
        self._events = events
        self._metrics = metrics
        self._paused = paused
        self._leads = leads
        self._blocked = blocked
        self._wall = wall
        self._ahead: dict[TargetKey, _Ahead] = {}
        self._retries: dict[TargetKey, Backoff] = {}

    def forget(self, target: TargetKey) -> None:
        """Drops what is known of a target that no object has any more."""
        self._targets.forget(target)
        self._ahead.pop(target, None)
        self._retries.pop(target, None)

    async def reconcile(self, target: TargetKey, results: Gate) -> float | None:
        """Does what is due for a target. Returns when it is due next (POSIX seconds), or None.

        `results` is awaited between the effect and the statuses, so that all effects of a minute come first.
        """
        objects = self._objects.of(target)
        if not objects:
            self.forget(target)
            return None
        now = self._wall()
        for owner in objects:
            finding = self._blocked(owner, now)
            if finding is not None:
                return await self._hold(objects, finding, now)
        if any(owner.target == target and owner.holds not in (None, target) for owner in objects):
            # One status has one record: the windows on the former target close first.
            return now + FIRST_RETRY_SECONDS
        record, carrier = newest_record(objects, target)
        scheduled = [owner.scheduled(target) for owner in objects]
        planned = plan(scheduled, record, unreadable("not read yet").target, now)
        if _concerns_target(planned, record):
            reading = await self._reading(target, objects)
            now = self._wall()
            planned = plan(scheduled, record, reading.target, now)
            return await self._carry_out(target, objects, planned, carrier, reading, results)
        if planned.wake is not None and planned.wake - now <= READ_AHEAD_SECONDS:
            self._ahead[target] = _Ahead(await self._read(target, objects), now)
        await self._store(target, objects, settle(planned, now), carrier)
        return self._next(planned.wake, now)

    async def _carry_out(
        self,
        target: TargetKey,
        objects: list[CronObject],
        planned: Plan,
        carrier: str,
        reading: Reading,
        results: Gate,
    ) -> float | None:
        """Makes the writes of a plan, and stores the result."""
        error = planned.error
        if not self._paused and not error:
            try:
                objects = await self._prepare(target, objects, planned, carrier)
                if planned.write:
                    self._check_lease()
                    await reading.write(planned.write, planned.marker)
            except NotLeading:
                raise
            except FedHPAError as failure:
                error = str(failure)
        now = self._wall()
        await results()
        settled = settle(planned, now, error)
        stored = self._paused or await self._store(target, objects, settled, planned.carrier or carrier)
        if not self._paused:
            self._tell(target, planned, settled, now, failed=bool(error))
        if not stored or error:
            backoff = self._retries.setdefault(target, Backoff(FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS))
            retry = now + backoff.next()
            return retry if planned.wake is None else min(retry, planned.wake)
        self._retries.pop(target, None)
        return self._next(planned.wake, now)

    async def _prepare(
        self, target: TargetKey, objects: list[CronObject], planned: Plan, carrier: str
    ) -> list[CronObject]:
        """Sets the finalizers of objects whose windows open, and stores the write that is about to begin."""
        for owner in objects:
            if owner.key[1] in planned.holders and FINALIZER not in owner.cron.metadata.finalizers:
                await self._set_finalizer(owner, wanted=True)
        if planned.pending is not None:
            carrying = self._objects.get((target.namespace, carrier or planned.carrier or ""))
            if carrying is not None:
                reference = self._reference(target, objects)
                await self._patch_status(carrying, {"window": render_window(planned.pending, reference)})
        return self._objects.of(target)

    async def _store(
        self, target: TargetKey, objects: list[CronObject], settled: Settled, carrier: str
    ) -> bool:
        """Writes the statuses that changed, the one with the record first. False if one was not stored."""
        if self._paused:
            return True
        now, stored = self._wall(), True
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
                stored = False
        return stored

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
            rules, states = latest.scheduled(target).rules, settled.states[owner.key[1]]
            failed = {rule for name, rule in failing if name == owner.key[1]}
            status = render_status(latest, rules, states, _failure(rules, states, failed), now)
            patch = changes(stored, status)
            coming = [state.next_execution for state in states.values() if state.next_execution is not None]
            self._metrics.set_next_fire(owner.key, min(coming, default=None))
        if latest.holds in (None, target) and stored.get("window") != window:
            patch["window"] = window
        if patch:
            await self._patch_status(latest, patch)

    async def _release(self, target: TargetKey, owner: CronObject, record: WindowRecord | None) -> None:
        """Removes the finalizer of an object that has no open window."""
        latest = self._objects.get(owner.key)
        if latest is None or FINALIZER not in latest.cron.metadata.finalizers:
            return
        holds_here = record is not None and any(each.object == owner.key[1] for each in record.open)
        holds_elsewhere = latest.holds not in (None, target)
        if not holds_here and not holds_elsewhere:
            await self._set_finalizer(latest, wanted=False)

    async def _hold(self, objects: list[CronObject], finding: Finding, now: float) -> float:
        """Shows why nothing is written, and returns when to look again."""
        for owner in () if self._paused else objects:
            patch = changes(owner.raw.get("status") or {}, {"conditions": conditions(owner, finding, now)})
            if patch:
                await self._patch_status(owner, patch)
        return now + BLOCKED_SECONDS

    async def _reading(self, target: TargetKey, objects: list[CronObject]) -> Reading:
        """Returns the values of a target, read ahead of the fire if that is recent enough."""
        ahead = self._ahead.pop(target, None)
        if ahead is not None and 0 <= self._wall() - ahead.at <= MAX_READING_AGE_SECONDS:
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

    def _check_lease(self) -> None:
        if not self._leads():
            raise NotLeading("the Lease is not held any more")

    async def _patch_status(self, owner: CronObject, patch: Mapping[str, Any]) -> None:
        """Merges a patch into the status of an object. After a conflict the newest object is patched."""

        async def write(version: str) -> Mapping[str, Any]:
            return await patch_status(
                self._hub,
                self._path(owner.key),
                dict(patch),
                resource_version=version,
                manager=FIELD_MANAGER,
                deadline=HUB_DEADLINE_SECONDS,
            )

        await self._write_object(owner, write)

    async def _set_finalizer(self, owner: CronObject, *, wanted: bool) -> None:
        async def write(version: str) -> Mapping[str, Any]:
            latest = self._objects.get(owner.key) or owner
            others = [each for each in latest.cron.metadata.finalizers if each != FINALIZER]
            finalizers = [*others, FINALIZER] if wanted else others
            patch = {"metadata": {"resourceVersion": version, "finalizers": finalizers}}
            path = self._path(owner.key)
            return (
                await self._hub.patch(path, patch, manager=FIELD_MANAGER, deadline=HUB_DEADLINE_SECONDS)
            ).json()

        await self._write_object(owner, write)

    async def _write_object(
        self, owner: CronObject, write: Callable[[str], Awaitable[Mapping[str, Any]]]
    ) -> None:
        """Makes one write to an object with its newest resourceVersion, and stores what the hub returns."""
        latest = self._objects.get(owner.key) or owner
        raw = latest.raw
        for attempt in range(1, STATUS_TRIES + 1):
            self._check_lease()
            try:
                written = await write(str(raw["metadata"].get("resourceVersion", "")))
            except Conflict:
                if attempt == STATUS_TRIES:
                    raise
                raw = await self._hub.get_json(self._path(owner.key), deadline=HUB_DEADLINE_SECONDS)
                if raw["metadata"].get("uid") != owner.raw["metadata"].get("uid"):
                    return
                self._objects.put(CronObject.of(owner.key, raw))
                continue
            except ApiError as error:
                if error.status == NOT_FOUND:
                    return
                raise
            self._objects.put(CronObject.of(owner.key, written))
            return

    def _path(self, key: Key) -> str:
        return CRON_FEDERATED_HPAS.path(*key)

    def _tell(self, target: TargetKey, planned: Plan, settled: Settled, now: float, *, failed: bool) -> None:
        """Records the events, series and log lines of a pass."""
        for skipped in planned.skipped:
            self._metrics.count(MISSED, skipped.missed.count)
        told = {note.object for note in settled.notes if note.reason == "ScaleFailed"}
        self._metrics.count(FAILED, len(told)) if told else None
        if not failed:
            for fire, values, _ in planned.applied:
                self._metrics.count(APPLIED)
                self._metrics.observe_lateness(now - fire.at)
                log.info(
                    "rule applied",
                    namespace=target.namespace,
                    name=fire.object,
                    rule=fire.rule.name,
                    due=format_time(fire.at),
                    late=round(now - fire.at, 3),
                    target=f"{target.kind}/{target.name}",
                    **values,
                )
        for note in settled.notes:
            self._record(target, note)

    def _record(self, target: TargetKey, note: Note) -> None:
        owner = self._objects.get((target.namespace, note.object))
        uid = "" if owner is None else owner.cron.metadata.uid
        about = InvolvedObject(API_VERSION, KIND, note.object, target.namespace, uid)
        self._events.event(about, "Warning" if note.warning else "Normal", note.reason, note.message)


def _concerns_target(planned: Plan, record: WindowRecord | None) -> bool:
    """True if the values of the target matter now: something is due, or a window is open."""
    return record is not None or bool(planned.applied or planned.invalid or planned.skipped)


def _failure(rules: Any, states: Mapping[str, Any], failing: set[str]) -> Finding | None:
    """Returns the newest failure of a rule that will be tried again, as a finding."""
    for rule in rules:
        state = states.get(rule.name)
        if rule.name in failing and state is not None and state.failures:
            failure = state.failures[0]
            text = f"rule {rule.name}, due {format_time(failure.scheduled)}: {failure.message}"
            return Finding("ScaleFailed", text)
    return None
