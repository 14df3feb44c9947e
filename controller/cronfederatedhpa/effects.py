"""The effect of one pass: reads the target, plans, stores the write that begins, and makes it.

A write that the hub refuses is planned again without the events at fault, so that the other ones are applied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from controller.cronfederatedhpa.object_writes import FINALIZER, NotLeading, ObjectWriter
from controller.cronfederatedhpa.objects import CronObject, ObjectsByTarget, TargetKey
from controller.cronfederatedhpa.status import render_window
from controller.cronfederatedhpa.targets import Reading, TargetChanged, Targets
from fedhpa.api.autoscaling import CrossVersionObjectReference
from fedhpa.api.errors import ApiError, FedHPAError
from fedhpa.cron.execution import Attempts, Cause, Plan, ScheduledObject, WindowRecord, as_before

# A reading is used for a fire if it is no older. The resourceVersion shows if it is outdated, so a fire that
# waits for its turn in a busy minute need not read again.
MAX_READING_AGE_SECONDS: Final = 60.0
PLAN_TRIES: Final = 3
# Answers that are not about the values of a write. All others from 400 to 499 may be.
NO_REFUSALS: Final = frozenset({401, 404, 408, 409, 429})


@dataclass(frozen=True)
class Stored:
    """The stored record of open windows, and the object that stores it."""

    record: WindowRecord | None
    carrier: str


class Effect(NamedTuple):
    """A plan whose write was made, or failed with `error`.

    `refusals` says why the hub refused the events that the plan leaves out.
    """

    plan: Plan
    error: str
    refusals: Mapping[Cause, str]


@dataclass(frozen=True)
class _Ahead:
    """A reading that was made at `at` for what is due at `due`, both on the wall clock."""

    reading: Reading
    at: float
    due: float


class Effects:
    """Makes the effects of targets. `scheduled` returns an object as a plan of a target needs it."""

    def __init__(
        self,
        objects: ObjectsByTarget,
        targets: Targets,
        writer: ObjectWriter,
        scheduled: Callable[[CronObject, TargetKey], ScheduledObject],
        *,
        paused: bool,
        wall: Callable[[], float],
    ) -> None:
        self._objects = objects
        self._targets = targets
        self._writer = writer
        self._scheduled = scheduled
        self._paused = paused
        self._wall = wall
        self._ahead: dict[TargetKey, _Ahead] = {}

    def forget(self, target: TargetKey) -> None:
        """Drops what is known of a target."""
        self._targets.forget(target)
        self._ahead.pop(target, None)

    def is_due(self, target: TargetKey, now: float) -> bool:
        """True if a target was read ahead for something that is due now."""
        ahead = self._ahead.get(target)
        return ahead is not None and now >= ahead.due

    async def read_ahead(
        self, target: TargetKey, objects: Sequence[CronObject], now: float, due: float
    ) -> None:
        """Reads a target for what is due soon."""
        self._ahead[target] = _Ahead(await self._read(target, objects), now, due)

    async def make(self, target: TargetKey, objects: Sequence[CronObject], stored: Stored) -> Effect:
        """Reads the target, plans and writes; plans anew if somebody changed the target meanwhile."""
        reading = await self._reading(target, objects, stored.record)
        record = stored.record
        for attempt in range(1, PLAN_TRIES + 1):
            scheduled = [self._scheduled(owner, target) for owner in objects]
            attempts = Attempts(scheduled, record, reading.target, self._wall())
            try:
                error = await self._try_all(target, objects, attempts, stored.carrier, reading)
            except TargetChanged as changed:
                if attempt == PLAN_TRIES:
                    error = str(changed)
                    break
                reading = await self._read(target, objects)
                record = as_before(record, attempts.plan)
                continue
            break
        return Effect(attempts.plan, error, attempts.refusals)

    async def _try_all(
        self,
        target: TargetKey,
        objects: Sequence[CronObject],
        attempts: Attempts,
        carrier: str,
        reading: Reading,
    ) -> str:
        """Writes the first of some plans that is not refused. Returns why the last one failed, or ""."""
        while True:
            try:
                await self._write(target, objects, attempts.plan, carrier, reading)
            except (NotLeading, TargetChanged):
                raise
            except _Refused as refused:
                if not attempts.refused(str(refused)):
                    return str(refused)
            except FedHPAError as failure:
                return str(failure)
            else:
                return attempts.plan.error

    async def _write(
        self, target: TargetKey, objects: Sequence[CronObject], planned: Plan, carrier: str, reading: Reading
    ) -> None:
        """Makes the writes of a plan before its result. Raises _Refused if the hub refuses the values."""
        if self._paused or planned.error:
            return
        await self._prepare(target, objects, planned, carrier)
        if not planned.write:
            return
        self._writer.check_lease()
        try:
            await reading.write(planned.write, planned.marker)
        except ApiError as error:
            if 400 <= error.status < 500 and error.status not in NO_REFUSALS:
                raise _Refused(str(error)) from error
            raise

    async def _prepare(
        self, target: TargetKey, objects: Sequence[CronObject], planned: Plan, carrier: str
    ) -> None:
        """Sets the finalizers of objects whose windows open, and stores the write that is about to begin."""
        for owner in objects:
            if owner.key[1] in planned.holders and FINALIZER not in owner.cron.metadata.finalizers:
                await self._writer.set_finalizer(owner, wanted=True)
        if planned.pending is not None:
            carrying = self._objects.get((target.namespace, carrier or planned.carrier or ""))
            if carrying is not None:
                reference = reference_of(target, objects)
                await self._writer.patch_status(
                    carrying, {"window": render_window(planned.pending, reference)}
                )

    async def _reading(
        self, target: TargetKey, objects: Sequence[CronObject], record: WindowRecord | None
    ) -> Reading:
        """Returns the values of a target, read ahead of the fire if that is recent enough.

        A window takes its baseline from the reading, so then it is always read at the fire.
        """
        ahead = self._ahead.pop(target, None)
        windows = record is not None or any(owner.has_windows for owner in objects)
        if ahead is not None and not windows and 0 <= self._wall() - ahead.at <= MAX_READING_AGE_SECONDS:
            return ahead.reading
        return await self._read(target, objects)

    async def _read(self, target: TargetKey, objects: Sequence[CronObject]) -> Reading:
        return await self._targets.read(target, reference_of(target, objects).api_version)


class _Refused(FedHPAError):
    """The hub refused the values of a write."""


def reference_of(target: TargetKey, objects: Sequence[CronObject]) -> CrossVersionObjectReference:
    """Returns a target as one of its objects names it."""
    for owner in objects:
        if owner.target == target:
            return owner.reference
    window = objects[0].cron.status.window
    assert window is not None
    return window.target
