"""The units of this process: each target, with the windows that are open on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeVar

import structlog

from controller.cronfederatedhpa.objects import (
    CRON_FEDERATED_HPAS,
    FIELD_MANAGER,
    HUB_DEADLINE_SECONDS,
    CronObject,
    TargetKey,
    target_of,
)
from controller.cronfederatedhpa.targets import KnownShares, Reading
from controller.hub_check import Contest
from controller.scaling_records import FORBIDDEN, SCALING_RECORDS, NotRecorded, RecordFile
from fedhpa.api.errors import ApiError, Conflict, InvalidObject
from fedhpa.api.scaling_record import CRON_TARGETS, KeptRecord, new_target_record
from fedhpa.cron.execution.due import newest_success
from fedhpa.cron.execution.model import ObjectRecord, ObservedTarget, WindowRecord
from fedhpa.cron.execution.stored import (
    TargetReference,
    decode_rules,
    decode_windows,
    encode_rules,
    encode_windows,
)
from fedhpa.decision import Finding
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
    """Units by target. `check_lease` raises unless this process may write."""

    def __init__(self, hub: ApiClient, check_lease: Callable[[], None]) -> None:
        self._hub = hub
        self._check_lease = check_lease
        self._units: dict[TargetKey, Unit] = {}
        # The objects with open windows, by namespace and target.
        self._holders: dict[str, dict[TargetKey, frozenset[str]]] = {}
        # The names of the records that the list at the start had; None if the hub did not let us list them.
        self._listed: set[tuple[str, str]] | None = None

    async def _list(self, namespace: str = "") -> Sequence[dict[str, Any]] | None:
        """Returns the records of open windows; None without the right to list them. Raises ApiError."""
        path = SCALING_RECORDS.path(namespace)
        try:
            return (await self._hub.list(path, dict[str, Any], label_selector=CRON_TARGETS)).items
        except ApiError as error:
            if error.status not in (NOT_FOUND, FORBIDDEN):
                raise
            log.warning("scaling records not listed", error=str(error))
            return None

    async def load(self, owns: Callable[[TargetKey], bool]) -> list[TargetKey]:
        """Read the records of all own targets with open windows; return these targets. Raises ApiError.

        Without the right to list them, each is read when its target is first reconciled.
        """
        listed = await self._list()
        if listed is None:
            return []
        self._listed = {_place_of(raw) for raw in listed}
        return [target for raw in listed if (target := self._take(raw, owns)) is not None]

    def _take(self, raw: Mapping[str, Any], owns: Callable[[TargetKey], bool]) -> TargetKey | None:
        namespace, name = _place_of(raw)
        try:
            reference = decode_windows(raw.get("status") or {}).target
        except InvalidObject as error:
            log.warning("scaling record unreadable", namespace=namespace, name=name, error=str(error))
            return None
        target = target_of(namespace, reference)
        if not owns(target):
            return None
        unit = self.of(target, reference)
        if unit.windows.file.name != name:
            return None  # somebody copied it
        unit.windows.take(unit.windows.file.adopt(raw))
        self.note(unit)
        return target

    def get(self, target: TargetKey) -> Unit | None:
        """Returns the unit of a target, or None."""
        return self._units.get(target)

    def of(self, target: TargetKey, reference: TargetReference) -> Unit:
        """Returns the unit of a target, a new one if there is none."""
        unit = self._units.get(target)
        if unit is None:
            unit = self._units[target] = open_unit(self._hub, target, reference, self._check_lease)
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
        """Returns True if any record of the hub has an open window of an object. Raises ApiError.

        Without the right to list them, only the windows of this process are known.
        """
        for raw in await self._list(key[0]) or ():
            try:
                found = decode_windows(raw.get("status") or {})
            except InvalidObject:
                continue
            if any(window.object == key[1] for window in found.state.open):
                return True
        return False

    def leave(self, target: TargetKey) -> frozenset[str]:
        """Drops the unit of a target without rules here. Returns the objects with windows on it."""
        self._units.pop(target, None)
        return self._holders.get(target.namespace, {}).pop(target, frozenset())


def _place_of(record: Mapping[str, Any]) -> tuple[str, str]:
    metadata = record["metadata"]
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))


T = TypeVar("T")


class Recorded(Generic[T]):
    """A state and its record. `state` is what this process knows; None if there is none.

    `known` is False until the record was read. `lost` says why its content could not be read, and `problem`
    why this process must not write it.
    """

    def __init__(
        self,
        file: RecordFile,
        encode: Callable[[T], Mapping[str, Any]],
        decode: Callable[[Mapping[str, Any]], T],
        check_lease: Callable[[], None],
    ) -> None:
        self.file = file
        self._encode = encode
        self._decode = decode
        self._check_lease = check_lease
        self._stored: Mapping[str, Any] | None = None
        self.state: T | None = None
        self.known = False
        self.lost = ""
        self.problem = ""
        self._reading = asyncio.Lock()

    @property
    def obstacle(self) -> str:
        """Why the state cannot be stored now; "" if it can, as far as known."""
        return self.problem or self.file.problem

    async def read(self, *, writes: bool = True) -> None:
        """Read the record unless it is known. Raises ApiError if the hub does not answer."""
        # Two targets may work on one object, and the later answer must not undo what the other one stored.
        async with self._reading:
            if not self.known:
                self.take(await self.file.read(writes=writes))

    def take(self, content: Mapping[str, Any] | None) -> None:
        """Note the content of the record as it was just read; None without one."""
        self.known, self.state, self._stored = True, None, content
        self.lost = self.problem = ""
        if content is None:
            return
        try:
            self.state = self._decode(content)
        except KeptRecord as error:
            self.problem = f"{self.file}: {error}"
        except InvalidObject as error:
            self.lost = f"{self.file}: {error}"

    async def write(self, state: T | None) -> None:
        """Store a state if the record has another one; None deletes the record.

        Raises Conflict if another process wrote it, which is then read again; NotRecorded if it must not or
        cannot be written; and ApiError if the hub does not answer.
        """
        content = None if state is None else self._encode(state)
        if content != self._stored:
            if self.problem:
                raise NotRecorded(self.problem)
            self._check_lease()
            try:
                await (self.file.delete() if content is None else self.file.write(content))
            except Conflict:
                self.known = False
                raise
        self._stored, self.state = content, state

    async def store(self, state: T | None) -> bool:
        """Store a state. Returns False if the hub refuses it: then this process alone knows it.

        Raises Conflict and ApiError as `write` does.
        """
        try:
            await self.write(state)
        except NotRecorded:
            self.state = state
            return False
        return True


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

    `reference` names the target as its objects do. `shares` is what is known of the clusters.
    """

    target: TargetKey
    windows: Recorded[WindowRecord]
    reference: TargetReference
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
        shares = dict(max(found, key=newest_success).shares) if found else {}
        if self.windows.state is not None:
            shares |= self.windows.state.shares
        self.shares.replicas, self.shares.complete = shares, bool(shares)

    def is_due(self, objects: Iterable[CronObject], now: float) -> bool:
        """True if it has open windows, was read ahead, or has to be asked for a lost baseline."""
        if self.windows.state is not None or (self.ahead is not None and now >= self.ahead.due):
            return True
        asks = not self.asked and any(one.has_windows for one in objects)
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
        record = self.windows.state
        return frozenset() if record is None else frozenset(window.object for window in record.open)
