"""The units of this process: each target, with the windows that are open on it.

Karmada's controller manager writes the status of an object after each execution. If it wrote after the last
execution that was due, and after our last write, it runs the rules, and so nothing is written here. When it
leaves out an execution, it was switched off, and the execution is caught up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
import structlog

from controller.cronfederatedhpa.objects import (
    FIELD_MANAGER,
    HUB_DEADLINE_SECONDS,
    CronObject,
    CronObjects,
    TargetKey,
    target_of,
)
from controller.cronfederatedhpa.scales import KnownShares, Reading
from controller.hub_check import ANOTHER_CONTROLLER, KARMADA_MANAGER, HubCheck, status_written
from controller.scaling_records import SCALING_RECORDS, Recorded, RecordFile
from fedhpa.api.errors import ApiError, InvalidObject
from fedhpa.api.scaling_record import CRON_TARGETS, KeptRecord, new_target_record
from fedhpa.cron.execution.model import ObjectRecord, ObservedTarget, ScheduledObject, WindowRecord
from fedhpa.cron.execution.objects import (
    StoredWindows,
    TargetReference,
    decode_windows,
    encode_windows,
    executable_rules,
)
from fedhpa.decision import Finding
from fedhpa.kube import FORBIDDEN, NOT_FOUND, ApiClient, Backoff, Key

# Reasons of condition Ready, and of the events: the target does not exist, or rules cannot scale it.
TARGET_NOT_FOUND: Final = "TargetNotFound"
TARGET_UNUSABLE: Final = "TargetUnusable"
TARGET_REASONS: Final = frozenset({TARGET_NOT_FOUND, TARGET_UNUSABLE})
# A target that is absent, or does not answer, is looked for again after this time. One that was there may
# have been deleted.
ABSENT_SECONDS: Final = 60.0
PRESENT_SECONDS: Final = 600.0

log = structlog.get_logger(__name__)


def open_unit(
    hub: ApiClient, target: TargetKey, reference: TargetReference, check_lease: Callable[[], None]
) -> Unit:
    """Returns the unit of a target whose record was not read yet."""

    def encode(record: WindowRecord) -> Mapping[str, Any]:
        return encode_windows(unit.reference, record)

    def decode(content: Mapping[str, Any]) -> WindowRecord:
        found = decode_windows(content)
        # Group, kind and name of two targets may be joined to the same name.
        if target_of(target.namespace, found.target) != target:
            raise KeptRecord(f"it is that of {found.target.kind} {found.target.name}: delete it once unused")
        return found.state

    file = RecordFile(hub, new_target_record(*target), HUB_DEADLINE_SECONDS, manager=FIELD_MANAGER)
    unit = Unit(target, Recorded(file, encode, decode, check_lease), reference)
    return unit


class Units:
    """Units by target. `objects` are those of this process; `check` says which fields the hub drops.

    `shared` is True if other processes run the rules of objects that may have windows open here.
    """

    def __init__(self, hub: ApiClient, objects: CronObjects, check: HubCheck, *, shared: bool) -> None:
        self._hub = hub
        self._shared = shared
        self.check = check
        self.objects = objects
        self._units: dict[TargetKey, Unit] = {}
        # The objects with open windows, by namespace and target.
        self._holders: dict[str, dict[TargetKey, frozenset[str]]] = {}
        # The names of the records that the list at the start had; None if the hub did not let us list them.
        self._listed: set[tuple[str, str]] | None = None

    async def _list(self, namespace: str = "") -> list[tuple[dict[str, Any], StoredWindows | None]] | None:
        """Returns the records of open windows with what can be read; None without the right to list them.

        Raises ApiError.
        """
        path = SCALING_RECORDS.path(namespace)
        try:
            records = (await self._hub.list(path, dict[str, Any], label_selector=CRON_TARGETS)).items
        except ApiError as error:
            if error.status not in (NOT_FOUND, FORBIDDEN):
                raise
            log.warning("scaling records not listed", error=str(error))
            return None
        return [(raw, _readable(raw)) for raw in records]

    async def load(self, owns: Callable[[TargetKey], bool]) -> list[TargetKey]:
        """Read the records of all own targets with open windows; return these targets. Raises ApiError.

        Without the right to list them, each is read when its target is first reconciled.
        """
        listed = await self._list()
        if listed is None:
            return []
        self._listed = {_place_of(raw) for raw, _ in listed}
        found = []
        for raw, stored in listed:
            namespace, name = _place_of(raw)
            target = None if stored is None else target_of(namespace, stored.target)
            if stored is None or target is None or not owns(target):
                continue
            unit = self.of(target, stored.target)
            if unit.windows.file.name == name:  # otherwise somebody copied it
                unit.windows.take(unit.windows.file.adopt(raw))
                self.note(unit)
                found.append(target)
        return found

    async def recall(self, owner: CronObject, *, writes: bool) -> str:
        """Reads the record of an object at its first pass. Returns why what it had is lost, or "".

        Raises ApiError if the hub does not answer.
        """
        memory, rules = owner.memory, owner.memory.rules
        if rules.known:
            return ""
        await rules.read(writes=writes)
        memory.elsewhere = owner.has_finalizer and await self.opened_elsewhere(owner.key)
        if rules.obstacle:
            return ""
        shown = (owner.raw.get("status") or {}).get("observedGeneration") is not None
        return rules.lost or (f"{rules.file} is gone" if rules.state is None and shown else "")

    def scheduled(self, owner: CronObject, unit: Unit) -> ScheduledObject:
        """Returns an object as a plan needs it, without the rules whose fields the hub dropped."""
        drops = self.objects.hub_drops_fields or self.check.pruned is not None
        found = owner.scheduled(unit.target, owner.memory.rules.state, drops=drops)
        known = owner.memory.elsewhere or self.targets_of(owner.key)
        return msgspec.structs.replace(found, waits=True) if owner.has_finalizer and not known else found

    async def open(self, target: TargetKey, *, writes: bool) -> Unit | None:
        """Returns the unit of a target with the newest form of its objects.

        Returns None, and nothing is known of the target any more, if it has no rules.
        """
        here, unit = self.objects.of(target), self._units.get(target)
        if unit is None:
            if not here:
                return None
            unit = self.of(target, here[0].reference)
        if here:
            unit.reference = here[0].reference
        await unit.windows.read(writes=writes)
        self.note(unit)
        holders = []
        for name in sorted(unit.holders):
            key = target.namespace, name
            owner = self.objects.get(key)
            if owner is None and self._shared:
                owner = await self.objects.fetch(key)
                if owner is not None and owner.target == target:
                    self.objects.put(owner)  # the watch has not shown yet that it belongs here
            holders += [] if owner is None else [owner]
        here = self.objects.of(target)
        if not here and unit.windows.state is None:
            unit.objects.clear()  # the unit is in a cycle, and what is known of the objects ends now
            del self._units[target]
            self._holders.get(target.namespace, {}).pop(target, None)
            return None
        found = {owner.key: owner for owner in (*holders, *here)}
        unit.objects = [found[key] for key in sorted(found)]
        return unit

    def end(self) -> None:
        """Drops what is known of all objects."""
        for unit in self._units.values():
            unit.objects.clear()
        self.objects.end()

    def of(self, target: TargetKey, reference: TargetReference) -> Unit:
        """Returns the unit of a target, a new one if there is none."""
        unit = self._units.get(target)
        if unit is None:
            unit = self._units[target] = open_unit(self._hub, target, reference, self.objects.check_lease)
            if self._listed is not None and (target.namespace, unit.windows.file.name) not in self._listed:
                unit.windows.take(None)
        return unit

    def looks_again(self, target: TargetKey, *, present: bool) -> bool:
        """Lets the next pass look at a target that came or went. Returns False if that is no news."""
        unit = self._units.get(target)
        if unit is None or present == (unit.unusable is None):
            return False
        unit.next_look = 0.0
        return True

    def note(self, unit: Unit) -> None:
        """Notes which objects have windows on a target, after its windows changed."""
        here = self._holders.setdefault(unit.target.namespace, {})
        here.pop(unit.target, None)
        if unit.holders:
            here[unit.target] = unit.holders

    def targets_of(self, key: Key) -> frozenset[TargetKey]:
        """Returns the targets on which an object has open windows."""
        here = self._holders.get(key[0], {})
        return frozenset(target for target, names in here.items() if key[1] in names)

    async def release(self, owner: CronObject) -> None:
        """Removes the finalizer of an object that has no open window on any target."""
        latest = self.objects.get(owner.key) or owner
        here = not latest.has_finalizer or self.targets_of(owner.key)
        if not here and not await self.opened_elsewhere(owner.key):
            await self.objects.set_finalizer(latest, wanted=False)

    async def free_deleted(self, unit: Unit) -> None:
        """Removes the finalizer of deleted objects, whose values this process must not restore."""
        for owner in unit.objects:
            if owner.deleted and owner.has_finalizer:
                await self.objects.set_finalizer(owner, wanted=False)

    async def opened_elsewhere(self, key: Key) -> bool:
        """Returns True if another process may have an open window of an object. Raises ApiError.

        Without the right to list the records, only the windows of this process are known.
        """
        listed = await self._list(key[0]) if self._shared else None
        return any(stored is not None and key[1] in stored.state.holders for _, stored in listed or ())


def _place_of(record: Mapping[str, Any]) -> tuple[str, str]:
    metadata = record["metadata"]
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def _readable(record: Mapping[str, Any]) -> StoredWindows | None:
    try:
        return decode_windows(record.get("status") or {})
    except InvalidObject as error:
        namespace, name = _place_of(record)
        log.warning("scaling record unreadable", namespace=namespace, name=name, error=str(error))
        return None


# Karmada gets this long to write the result of an execution.
GRACE_SECONDS: Final = 60.0
MESSAGE: Final = (
    f"{KARMADA_MANAGER} writes the status of this object, so its own controller runs the rules: nothing is "
    "written here; switch it off with --controllers=*,-cronFederatedHorizontalPodAutoscaler"
)


def other_controller(owner: CronObject, now: float) -> Finding | None:
    """Returns a finding if Karmada runs the rules of an object, else None."""
    theirs, ours = status_written(owner.raw, KARMADA_MANAGER), status_written(owner.raw, FIELD_MANAGER)
    if theirs is None or (ours is not None and ours >= theirs):
        return None
    due = [
        time
        for rule in executable_rules(owner.cron.spec)
        if (time := rule.latest_time(now - GRACE_SECONDS)) is not None
    ]
    if due and max(due) > theirs:
        return None
    return Finding(ANOTHER_CONTROLLER, MESSAGE)


def is_run_by_karmada(raw: Mapping[str, Any], now: float) -> bool:
    """True if Karmada's controller runs the rules of a stored object. Raises InvalidObject."""
    return other_controller(CronObject.of(raw), now) is not None


class Ahead(NamedTuple):
    """A reading that was made at `at` for what is due at `due`, both on the wall clock."""

    reading: Reading
    at: float
    due: float


@dataclass
class Unit:
    """All that this process knows of one target; dropped with its last object and window.

    `reference` names the target as its objects do. `objects` are those of the present pass, by name, also
    those that only have windows open on it. `shares` is what is known of the clusters.
    """

    target: TargetKey
    windows: Recorded[WindowRecord]
    reference: TargetReference
    objects: list[CronObject] = field(default_factory=list)
    shares: KnownShares = field(default_factory=KnownShares)
    retry: Backoff | None = None
    ahead: Ahead | None = None
    # Why rules cannot act on the target, as it was read last, and when to look at it again.
    unusable: Finding | None = None
    next_look: float = 0.0
    # True once the target was asked for the baseline of windows whose record is lost.
    asked: bool = False

    def recall_shares(self, records: Iterable[ObjectRecord | None]) -> None:
        """Take the replicas of each cluster from the records of the objects: a cluster may be silent now."""
        if self.shares.complete or self.shares.replicas:
            return
        found = [each for each in records if each is not None and each.target == str(self.target)]
        shares = dict(max(found, key=lambda each: each.newest_success).shares) if found else {}
        if self.windows.state is not None:
            shares |= self.windows.state.shares
        self.shares.replicas, self.shares.complete = shares, bool(shares)

    def is_due(self, now: float) -> bool:
        """True if it has open windows, was read ahead, or has to be asked for a lost baseline."""
        if self.windows.state is not None or (self.ahead is not None and now >= self.ahead.due):
            return True
        asks = not self.asked and any(one.has_windows for one in self.objects)
        self.asked = True
        return asks

    def saw(self, target: ObservedTarget, now: float) -> None:
        """Note what a reading at `now` (POSIX seconds) says of the target. One that failed says nothing."""
        if not target.unread:
            remedy = ": create it, or correct spec.scaleTargetRef" if target.gone else ""
            reason = TARGET_NOT_FOUND if target.gone else TARGET_UNUSABLE
            self.unusable = Finding(reason, f"{target.error}{remedy}") if target.error else None
        uncertain = target.unread or self.unusable is not None
        self.next_look = now + (ABSENT_SECONDS if uncertain else PRESENT_SECONDS)

    @property
    def holders(self) -> frozenset[str]:
        """The objects whose windows are open here."""
        return frozenset() if self.windows.state is None else self.windows.state.holders
