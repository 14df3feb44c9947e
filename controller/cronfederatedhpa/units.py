"""The units of this process: each target, with the windows that are open on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
import structlog

from controller.cronfederatedhpa.objects import (
    CRON_FEDERATED_HPAS,
    FIELD_MANAGER,
    HUB_DEADLINE_SECONDS,
    CronObject,
    CronObjects,
    TargetKey,
    target_of,
)
from controller.cronfederatedhpa.targets import KnownShares, Reading
from controller.hub_check import Contest
from controller.scaling_records import FORBIDDEN, SCALING_RECORDS, Recorded, RecordFile
from fedhpa.api.errors import ApiError, InvalidObject
from fedhpa.api.scaling_record import CRON_TARGETS, KeptRecord, new_target_record
from fedhpa.cron.execution.model import ObjectRecord, ObservedTarget, ScheduledObject, WindowRecord
from fedhpa.cron.execution.objects import (
    StoredWindows,
    TargetReference,
    decode_rules,
    decode_windows,
    encode_rules,
    encode_windows,
)
from fedhpa.decision import NO_RECORD, Finding
from fedhpa.kube import NOT_FOUND, ApiClient, Backoff, Key

# A target that is due this soon is read ahead of its execution.
READ_AHEAD_SECONDS: Final = 5.0
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


def open_rules(hub: ApiClient, key: Key, uid: str, check_lease: Callable[[], None]) -> Recorded[ObjectRecord]:
    """Returns the memory of an object's rules, whose record was not read yet."""
    metadata = {"namespace": key[0], "name": key[1], "uid": uid}
    file = RecordFile.of(hub, CRON_FEDERATED_HPAS, metadata, HUB_DEADLINE_SECONDS, manager=FIELD_MANAGER)
    return Recorded(file, encode_rules, decode_rules, check_lease)


class Units:
    """Units by target, and what is known of each of the `objects`, whose series `follow` ends with it.

    `adopt` is set if objects may belong to other processes: it brings in one whose windows are open on a
    target of this process, if it exists.
    """

    adopt: Callable[[Key], Awaitable[None]] | None = None
    # A finding names the fields that the hub drops, as it was checked last.
    pruned: Finding | None = None

    def __init__(self, hub: ApiClient, objects: CronObjects, follow: Callable[[Key, object], None]) -> None:
        self._hub = hub
        self.objects = objects
        self._follow = follow
        self._memories: dict[Key, RulesMemory] = {}
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

    def memory(self, key: Key) -> RulesMemory:
        """Returns what this process knows of an object beside its stored form."""
        owner, memory = self.objects.get(key), self._memories.get(key)
        uid = "" if owner is None else owner.uid
        if memory is None or memory.uid != uid:
            memory = RulesMemory(key, uid, open_rules(self._hub, key, uid, self.objects.check_lease))
            if owner is not None:  # otherwise it would stay for ever
                memory.told = {
                    (str(each.get("reason")), str(each.get("message"))) for each in owner.conditions.values()
                }
                self._follow(key, memory)
                self._memories[key] = memory
        return memory

    async def recall(self, owner: CronObject, *, writes: bool) -> str:
        """Reads the record of an object at its first pass. Returns why what it had is lost, or "".

        Raises ApiError if the hub does not answer.
        """
        memory = self.memory(owner.key)
        if memory.rules.known:
            return ""
        await memory.rules.read(writes=writes)
        memory.elsewhere = owner.has_finalizer and await self.opened_elsewhere(owner.key)
        if memory.rules.obstacle:
            return ""
        shown = (owner.raw.get("status") or {}).get("observedGeneration") is not None
        gone = memory.rules.state is None and shown
        return memory.rules.lost or (f"{memory.rules.file} is gone" if gone else "")

    def scheduled(self, owner: CronObject, unit: Unit) -> ScheduledObject:
        """Returns an object as a plan needs it, without the rules whose fields the hub dropped."""
        memory, drops = self.memory(owner.key), self.objects.hub_drops_fields or self.pruned is not None
        found = owner.scheduled(unit.target, memory.rules.state, drops=drops)
        known = memory.elsewhere or self.targets_of(owner.key)
        return msgspec.structs.replace(found, waits=True) if owner.has_finalizer and not known else found

    def running(self, unit: Unit, owner: CronObject) -> CronObject | None:
        """Returns the newest form of an object whose rules run on a target; None if they do not."""
        latest = self.objects.get(owner.key)
        if latest is None or latest.target != unit.target or latest.deleted:
            return None
        return latest

    def unrecorded(self, unit: Unit, owner: CronObject) -> Finding | None:
        """Returns why the memory of an object, or of the windows that it opens, cannot be stored."""
        windows = unit.windows.obstacle if owner.has_windows else ""
        obstacle = self.memory(owner.key).rules.obstacle or windows
        return Finding(NO_RECORD, obstacle) if obstacle else None

    def forget(self, key: Key) -> None:
        """Drops what is known of a deleted object."""
        self._memories.pop(key, None)

    def end(self) -> None:
        """Drops what is known of all objects."""
        self._memories.clear()

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
        holders = [(target.namespace, name) for name in unit.holders]
        for key in holders:
            if self.adopt is not None and self.objects.get(key) is None:
                await self.adopt(key)
        if not here and unit.windows.state is None:
            self.leave(target)
            return None
        found = {owner.key: owner for owner in self.objects.of(target)}
        found |= {key: owner for key in holders if (owner := self.objects.get(key)) is not None}
        unit.objects = [found[key] for key in sorted(found)]
        return unit

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

    def expect(self, target: TargetKey) -> None:
        """Notes that another process may have written the record of a target since the list at the start."""
        if self._listed is not None:
            self._listed.add((target.namespace, str(new_target_record(*target)["metadata"]["name"])))

    async def opened_elsewhere(self, key: Key) -> bool:
        """Returns True if another process may have an open window of an object. Raises ApiError.

        Without the right to list the records, only the windows of this process are known.
        """
        listed = None if self.adopt is None else await self._list(key[0])
        return any(stored is not None and key[1] in stored.state.holders for _, stored in listed or ())

    def leave(self, target: TargetKey) -> frozenset[str]:
        """Drops the unit of a target without rules here. Returns the objects with windows on it."""
        self._units.pop(target, None)
        return self._holders.get(target.namespace, {}).pop(target, frozenset())


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


@dataclass(eq=False)
class RulesMemory:
    """All that this process knows of one object beside its stored form; dropped with the object.

    `told` has the reasons and messages of what holds now and was told as events. `reverts` are the changes
    that clients made of values that rules had set. `elsewhere` is True if another process had an open window
    of it when this one read its record.
    """

    key: Key
    uid: str
    rules: Recorded[ObjectRecord]
    elsewhere: bool = False
    told: set[tuple[str, str]] = field(default_factory=set)
    reverts: list[str] = field(default_factory=list)
    contest: Contest = field(default_factory=Contest)


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

    def next_pass(self, wake: float | None, now: float, *, looks: bool) -> float | None:
        """Returns when to work on the target: before `wake`, to read it ahead, or to look if it exists."""
        if wake is not None and wake - READ_AHEAD_SECONDS > now:
            wake -= READ_AHEAD_SECONDS
        look = self.next_look if looks else None
        return min((at for at in (wake, look) if at is not None), default=None)

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
