"""Makes what is due on a target: reads its values, plans, and writes what should hold.

The target is a FederatedHPA, or a workload (controller.cronfederatedhpa.scales). After a conflict the target
is read again. The same values are written if nobody changed the present ones. A write that the hub refuses is
planned again without the events at fault, so that the other ones are applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from controller.apply.scales import Superseded
from controller.cronfederatedhpa.objects import FIELD_MANAGER, HUB_DEADLINE_SECONDS, NotLeading, TargetKey
from controller.cronfederatedhpa.scales import (
    KnownShares,
    MemberScales,
    Reading,
    read_on_hub,
    unreadable,
)
from controller.cronfederatedhpa.units import Unit, Units
from controller.scaling_records import NotRecorded
from fedhpa.api.errors import ApiError, Conflict, FedHPAError, InvalidObject
from fedhpa.api.federatedhpa import API_VERSION, GROUP, KIND
from fedhpa.api.hold import HoldRequest, hold_request
from fedhpa.api.json import InvalidJson, decode_json
from fedhpa.cron.execution.model import MAXIMUM, MINIMUM, ObservedTarget, Values, WriteCause
from fedhpa.cron.execution.objects import split_markers
from fedhpa.cron.execution.outcome import Attempts
from fedhpa.cron.execution.planning import CronPlan
from fedhpa.kube import NOT_FOUND, ApiClient, Clock, ResourceMapper, patch_with_retry, resource_path

# Names the executions and ends of windows of the last write to a FederatedHPA: `object/rule@time`, with
# commas between several of them. After a crash before the result is stored, it shows which of them were
# applied.
LAST_EXECUTION: Final = "autoscaling.karmada.io/last-cron-execution"
# The bounds from before the open windows, in case their record is lost: `{"minReplicas":1}`.
BASELINE: Final = "autoscaling.karmada.io/cron-baseline"
# The other names of the bounds. An object has one name of each.
OTHER_NAMES: Final = {MINIMUM: "federatedMinReplicas", MAXIMUM: "federatedMaxReplicas"}

# A reading is used for an execution if it is no older. The resourceVersion shows if it is outdated, so an
# execution that waits for its turn in a busy minute need not read again.
MAX_READING_AGE_SECONDS: Final = 60.0
PLAN_TRIES: Final = 3
# Answers that are not about the values of a write. All others from 400 to 499 may be.
NO_REFUSALS: Final = frozenset({401, 404, 408, 409, 429})
# More rules are planned in a thread, so that the loop runs. A rule takes up to 0.1 ms, and the first rule
# of each time zone 1 ms.
MANY_RULES: Final = 200

T = TypeVar("T")


class CronTargets:
    """Reads targets of all kinds. With `in_members`, workloads are read there (--propagation=direct)."""

    def __init__(self, hub: ApiClient, in_members: MemberScales | None = None, *, clock: Clock) -> None:
        self._hub = hub
        on_hub = partial(read_on_hub, hub, ResourceMapper(hub, clock=clock.monotonic))
        self._read_scale = on_hub if in_members is None else in_members.read

    async def read(self, key: TargetKey, api_version: str, shares: KnownShares) -> Reading:
        """Returns the present values of a target. Failures are part of the reading.

        `shares` is what is known of the clusters; it is brought up to date.
        """
        try:
            if (api_version, key.kind) == (API_VERSION, KIND):
                return await self._read_federatedhpa(key)
            if key.kind == KIND:
                return unreadable(f"apiVersion {api_version} is not that of a {KIND}: write {API_VERSION}")
            if key.group == GROUP:
                return unreadable(f"kind {key.kind} of {GROUP} cannot be scaled: write kind {KIND}")
            return await self._read_scale(key, api_version, shares)
        except ApiError as error:
            missing = error.status == NOT_FOUND
            text = f"{key} does not exist" if missing else f"{key}: {error}"
            return unreadable(text, gone=missing, unread=not missing)
        except FedHPAError as error:
            return unreadable(f"{key}: {error}", unread=not isinstance(error, InvalidObject))

    async def _read_federatedhpa(self, key: TargetKey) -> Reading:
        path = resource_path(API_VERSION, "federatedhpas", key.namespace, key.name)
        raw = await self._hub.get_json(path, deadline=HUB_DEADLINE_SECONDS)

        async def write(values: Values, marker: str, baseline: Values | None) -> None:
            """Sets bounds under the names that the object uses, in one patch.

            Raises Superseded if somebody changed them, or the hold.
            """
            text = None if baseline is None else msgspec.json.encode(baseline).decode()
            annotations = {**({LAST_EXECUTION: marker} if marker else {}), BASELINE: text}

            def change(found: Mapping[str, Any]) -> dict[str, Any]:
                if (bounds_of(found), _asked_hold(found)) != (bounds_of(raw), _asked_hold(raw)):
                    raise Superseded(f"the bounds or the hold of {key.name} were changed at the same time")
                spec = {_name_in_use(found, bound): value for bound, value in values.items()}
                return {"metadata": {"annotations": annotations}, "spec": spec}

            if not await patch_with_retry(
                self._hub, path, raw, change, manager=FIELD_MANAGER, deadline=HUB_DEADLINE_SECONDS
            ):
                raise Superseded(f"{key} was deleted at the same time")

        uid = raw["metadata"].get("uid")
        target = ObservedTarget(
            bounds_of(raw),
            done=split_markers(_our_annotation(raw, LAST_EXECUTION)),
            managers=_managers(raw),
            baseline=_named_baseline(_our_annotation(raw, BASELINE)),
            hold=_asked_hold(raw),
            uids={"": uid} if uid else {},
        )
        return Reading(target, write)


def bounds_of(raw: Mapping[str, Any]) -> Values:
    """Returns the bounds of a FederatedHPA under their usual names; None for one that is absent."""
    found: Values = {}
    for bound in (MINIMUM, MAXIMUM):
        value = (raw.get("spec") or {}).get(_name_in_use(raw, bound))
        found[bound] = value if isinstance(value, int) and not isinstance(value, bool) else None
    return found


def _name_in_use(raw: Mapping[str, Any], bound: str) -> str:
    """Returns the name under which a FederatedHPA has a bound."""
    spec, other = raw.get("spec") or {}, OTHER_NAMES[bound]
    return other if spec.get(other) is not None and spec.get(bound) is None else bound


def _asked_hold(raw: Mapping[str, Any]) -> HoldRequest | None:
    """Returns what the annotations of a FederatedHPA ask for."""
    metadata = raw["metadata"]
    return hold_request(metadata.get("annotations"), name=f"{KIND} {metadata.get('name', '')}")


def _our_annotation(raw: Mapping[str, Any], name: str) -> str:
    """Returns an annotation of the last write, "" if there is none or somebody else wrote it.

    The managed fields show who wrote it. A server without them leaves that open.
    """
    annotations = raw["metadata"].get("annotations")
    text = annotations.get(name) if isinstance(annotations, Mapping) else None
    if not isinstance(text, str):
        return ""
    writers = _writers(raw, "f:metadata", "f:annotations", f"f:{name}")
    return text if not writers or FIELD_MANAGER in writers else ""


def _named_baseline(text: str) -> Values | None:
    try:
        return decode_json(text, Values) if text else None
    except InvalidJson:
        return None


def _managers(raw: Mapping[str, Any]) -> dict[str, str]:
    """Returns the client that wrote each bound of a FederatedHPA, if it is known and not this controller."""
    found = {}
    for bound in (MINIMUM, MAXIMUM):
        writers = _writers(raw, "f:spec", f"f:{_name_in_use(raw, bound)}")
        if writers and FIELD_MANAGER not in writers:
            found[bound] = min(writers)
    return found


def _writers(raw: Mapping[str, Any], *path: str) -> set[str]:
    """Returns the managers of a field, by the managed fields of its object."""
    writers = set()
    for entry in raw["metadata"].get("managedFields") or ():
        found: Any = entry.get("fieldsV1")
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        if found is not None:
            writers.add(str(entry.get("manager", "")))
    return writers


class Effect(NamedTuple):
    """A plan whose write was made, or failed with `error`.

    `refusals` says why the events cannot act that the plan leaves out. `shares` are the replicas of each
    cluster after the write, for a workload in the members.
    """

    plan: CronPlan
    error: str
    refusals: Mapping[WriteCause, str]
    shares: Mapping[str, int] = {}


class _Refused(FedHPAError):
    """The hub refused the values of a write, or what its events in `causes` need, if there are some."""

    def __init__(self, message: str, causes: Collection[WriteCause] = ()) -> None:
        super().__init__(message)
        self.causes = causes


class Effects:
    """Makes the effects of rules on targets.

    `holds` returns what the namespaces that concern an object's namespace ask for.
    """

    def __init__(
        self,
        units: Units,
        targets: CronTargets,
        *,
        paused: bool,
        holds: Callable[[str], Sequence[HoldRequest]],
        wall: Callable[[], float],
    ) -> None:
        self._units = units
        self._targets = targets
        self._paused = paused
        self._holds = holds
        self._wall = wall

    async def make(self, unit: Unit) -> Effect:
        """Reads the target, plans and writes; plans anew if somebody changed the target or its record."""
        reading = await self._reading(unit)
        record = unit.windows.state
        for attempt in range(1, PLAN_TRIES + 1):
            known = record, reading.target, self._wall(), self._holds(unit.target.namespace)
            attempts = await self._off_loop(unit, Attempts, *known)
            try:
                error = await self._try_all(unit, attempts, reading)
                break
            except Superseded as changed:
                error = str(changed)
                if attempt == PLAN_TRIES:
                    break
                # The record comes first: a write of another process between the two requests is then known.
                if not unit.windows.known:
                    await unit.windows.read()
                    record = unit.windows.state
                reading = await self.read(unit)
        if attempts.plan.applied or attempts.plan.closed:
            error = error or reading.awaited
        shares = dict(unit.shares.replicas) if reading.target.shares else {}
        return Effect(attempts.plan, error, attempts.refusals, shares)

    async def read(self, unit: Unit) -> Reading:
        """Returns the values of a target as they are now."""
        reading = await self._targets.read(unit.target, unit.reference.api_version, unit.shares)
        unit.saw(reading.target, self._wall())
        return reading

    async def none_due(self, unit: Unit, now: float) -> Effect | None:
        """Returns the plan of a pass without an effect; None if something may be due."""
        unread = ObservedTarget({}, "not read yet", unread=True)
        planned = await self._off_loop(unit, CronPlan, None, unread, now)
        return None if planned.applied or planned.invalid or planned.unjudged else Effect(planned, "", {})

    async def _try_all(self, unit: Unit, attempts: Attempts, reading: Reading) -> str:
        """Writes the first of some plans that is not refused. Returns why the last one failed, or ""."""
        while True:
            try:
                await self._write(unit, attempts.plan, reading)
                return attempts.plan.error
            except (NotLeading, Superseded):
                raise
            except _Refused as refused:
                text, causes = str(refused), refused.causes
                if not (attempts.exclude(causes, text) if causes else attempts.refused(text)):
                    return text
            except FedHPAError as failure:
                return str(failure)

    async def _write(self, unit: Unit, planned: CronPlan, reading: Reading) -> None:
        """Makes the writes of a plan before its result. Raises _Refused if the hub refuses the values."""
        if self._paused or planned.error:
            return
        await self._prepare(unit, planned)
        baseline = None if planned.record is None else planned.record.baseline
        # The target must not name a baseline that nobody restores any more.
        if not planned.write and (reading.target.baseline is None or baseline is not None):
            return
        self._units.objects.check_lease()
        try:
            await reading.write(planned.write, planned.marker, baseline)
        except ApiError as error:
            if 400 <= error.status < 500 and error.status not in NO_REFUSALS:
                raise _Refused(str(error)) from error
            raise

    async def _prepare(self, unit: Unit, planned: CronPlan) -> None:
        """Sets the finalizers of objects whose windows open, and stores the write that is about to begin.

        Raises _Refused if that is refused: then these windows do not open, and all others act.
        """
        for owner in unit.objects:
            if owner.name in planned.holders and not owner.has_finalizer:
                try:
                    await self._units.objects.set_finalizer(owner, wanted=True)
                except ApiError as error:
                    # Of a window that is open already the finalizer was removed by somebody.
                    if causes := planned.openings(owner.name):
                        raise _Refused(str(error), causes) from error
        if planned.pending is None:
            return
        try:
            await unit.windows.write(planned.pending)
        except Conflict as error:
            raise Superseded(f"{unit.windows.file} was written by another process") from error
        except NotRecorded as error:
            # Windows do not begin where a restart would not know them. Other executions of the plan do.
            raise _Refused(str(error), planned.openings()) from error

    async def _reading(self, unit: Unit) -> Reading:
        """Returns the values of a target, read ahead of the execution if that is recent enough.

        A window takes its baseline from the reading, so then it is always read at the execution.
        """
        ahead, unit.ahead = unit.ahead, None
        windows = unit.windows.state is not None or any(owner.has_windows for owner in unit.objects)
        if ahead is not None and not windows and 0 <= self._wall() - ahead.at <= MAX_READING_AGE_SECONDS:
            return ahead.reading
        return await self.read(unit)

    async def _off_loop(self, unit: Unit, plans: Callable[..., T], *known: object) -> T:
        """Returns what `plans` makes of the objects, as a plan needs them, and of all else that is known."""
        objects = [self._units.scheduled(owner, unit) for owner in unit.objects]
        if sum(len(each.rules) for each in objects) <= MANY_RULES:
            return plans(objects, *known)
        return await asyncio.to_thread(plans, objects, *known)
