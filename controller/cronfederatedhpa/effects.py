"""The effect of one pass: reads the target, plans, stores the write that begins, and makes it.

A write that the hub refuses is planned again without the events at fault, so that the other ones are applied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from controller.apply.scales import Superseded
from controller.cronfederatedhpa.objects import FINALIZER, CronObject, NotLeading, ObjectWriter, off_loop
from controller.cronfederatedhpa.targets import CronTargets, Reading
from controller.cronfederatedhpa.units import Ahead, Unit
from controller.scaling_records import NotRecorded
from fedhpa.api.errors import ApiError, Conflict, FedHPAError
from fedhpa.api.hold import HoldRequest
from fedhpa.cron.execution.model import CronPlan, ScheduledObject, WriteCause
from fedhpa.cron.execution.outcome import Attempts

# A reading is used for an execution if it is no older. The resourceVersion shows if it is outdated, so an
# execution that waits for its turn in a busy minute need not read again.
MAX_READING_AGE_SECONDS: Final = 60.0
PLAN_TRIES: Final = 3
# Answers that are not about the values of a write. All others from 400 to 499 may be.
NO_REFUSALS: Final = frozenset({401, 404, 408, 409, 429})


class Effect(NamedTuple):
    """A plan whose write was made, or failed with `error`.

    `refusals` says why the events cannot act that the plan leaves out. `shares` are the replicas of each
    cluster after the write, for a workload in the members.
    """

    plan: CronPlan
    error: str
    refusals: Mapping[WriteCause, str]
    shares: Mapping[str, int] = {}


class Effects:
    """Makes the effects of targets. `scheduled` returns an object as the plan of a unit needs it.

    `holds` returns what the namespaces that concern an object's namespace ask for.
    """

    def __init__(
        self,
        targets: CronTargets,
        writer: ObjectWriter,
        scheduled: Callable[[CronObject, Unit], ScheduledObject],
        *,
        paused: bool,
        wall: Callable[[], float],
        holds: Callable[[str], Sequence[HoldRequest]] = lambda _: (),
    ) -> None:
        self._targets = targets
        self._writer = writer
        self._scheduled = scheduled
        self._paused = paused
        self._wall = wall
        self._holds = holds

    async def read_ahead(self, unit: Unit, now: float, due: float) -> None:
        """Reads a target for what is due soon."""
        unit.ahead = Ahead(await self._read(unit), now, due)

    async def make(self, unit: Unit, objects: Sequence[CronObject]) -> Effect:
        """Reads the target, plans and writes; plans anew if somebody changed the target or its record."""
        reading = await self._reading(unit, objects)
        record = unit.windows.state
        for attempt in range(1, PLAN_TRIES + 1):
            scheduled = [self._scheduled(owner, unit) for owner in objects]
            holds = self._holds(unit.target.namespace)
            work = partial(Attempts, scheduled, record, reading.target, self._wall(), holds)
            attempts = await off_loop(scheduled, work)
            try:
                error = await self._try_all(unit, objects, attempts, reading)
            except Superseded as changed:
                if attempt == PLAN_TRIES:
                    error = str(changed)
                    break
                # The record comes first: a write of another process between the two requests is then known.
                if not unit.windows.known:
                    await unit.windows.read()
                    record = unit.windows.state
                reading = await self._read(unit)
                continue
            break
        if attempts.plan.applied or attempts.plan.closed:
            error = error or reading.awaited
        shares = dict(unit.shares.replicas) if reading.target.shares else {}
        return Effect(attempts.plan, error, attempts.refusals, shares)

    async def _try_all(
        self, unit: Unit, objects: Sequence[CronObject], attempts: Attempts, reading: Reading
    ) -> str:
        """Writes the first of some plans that is not refused. Returns why the last one failed, or ""."""
        while True:
            try:
                await self._write(unit, objects, attempts.plan, reading)
            except (NotLeading, Superseded):
                raise
            except _Excluded as excluded:
                if not attempts.exclude(excluded.causes, str(excluded)):
                    return str(excluded)
            except _Refused as refused:
                if not attempts.refused(str(refused)):
                    return str(refused)
            except FedHPAError as failure:
                return str(failure)
            else:
                return attempts.plan.error

    async def _write(
        self, unit: Unit, objects: Sequence[CronObject], planned: CronPlan, reading: Reading
    ) -> None:
        """Makes the writes of a plan before its result. Raises _Refused if the hub refuses the values."""
        if self._paused or planned.error:
            return
        await self._prepare(unit, objects, planned)
        baseline = None if planned.record is None else planned.record.baseline
        # The target must not name a baseline that nobody restores any more.
        if not planned.write and (reading.target.baseline is None or baseline is not None):
            return
        self._writer.check_lease()
        try:
            await reading.write(planned.write, planned.marker, baseline)
        except ApiError as error:
            if 400 <= error.status < 500 and error.status not in NO_REFUSALS:
                raise _Refused(str(error)) from error
            raise

    async def _prepare(self, unit: Unit, objects: Sequence[CronObject], planned: CronPlan) -> None:
        """Sets the finalizers of objects whose windows open, and stores the write that is about to begin.

        Raises _Excluded if that is refused: then these windows do not open, and all others act.
        """
        for owner in objects:
            if owner.key[1] in planned.holders and FINALIZER not in owner.cron.metadata.finalizers:
                try:
                    await self._writer.set_finalizer(owner, wanted=True)
                except ApiError as error:
                    # Of a window that is open already the finalizer was removed by somebody.
                    if causes := planned.openings(owner.key[1]):
                        raise _Excluded(str(error), causes) from error
        if planned.pending is None:
            return
        try:
            await unit.windows.write(planned.pending)
        except Conflict as error:
            raise Superseded(f"{unit.windows.file} was written by another process") from error
        except NotRecorded as error:
            # Windows do not begin where a restart would not know them. Other executions of the plan do.
            if causes := planned.openings():
                raise _Excluded(str(error), causes) from error
            raise _Refused(str(error)) from error

    async def _reading(self, unit: Unit, objects: Sequence[CronObject]) -> Reading:
        """Returns the values of a target, read ahead of the execution if that is recent enough.

        A window takes its baseline from the reading, so then it is always read at the execution.
        """
        ahead, unit.ahead = unit.ahead, None
        windows = unit.windows.state is not None or any(owner.has_windows for owner in objects)
        if ahead is not None and not windows and 0 <= self._wall() - ahead.at <= MAX_READING_AGE_SECONDS:
            return ahead.reading
        return await self._read(unit)

    async def look(self, unit: Unit) -> None:
        """Reads a target only to see if rules can act on it."""
        await self._read(unit)

    async def _read(self, unit: Unit) -> Reading:
        reading = await self._targets.read(unit.target, unit.reference.api_version, unit.shares)
        unit.saw(reading.target, self._wall())
        return reading


class _Refused(FedHPAError):
    """The hub refused the values of a write, or the record that it needs."""


class _Excluded(FedHPAError):
    """The hub refused what some events of a plan need."""

    def __init__(self, message: str, causes: Collection[WriteCause]) -> None:
        super().__init__(message)
        self.causes = causes
