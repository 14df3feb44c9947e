"""The units of this process: each target, with the windows that are open on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import structlog

from controller.cronfederatedhpa.memory import Recorded, Unit
from controller.cronfederatedhpa.object_writes import CRON_FEDERATED_HPAS
from controller.cronfederatedhpa.objects import TargetKey, target_of
from controller.cronfederatedhpa.scales import FIELD_MANAGER
from controller.cronfederatedhpa.targets import HUB_DEADLINE_SECONDS
from controller.scaling_records import FORBIDDEN, SCALING_RECORDS, RecordFile
from fedhpa.api.errors import ApiError, InvalidObject
from fedhpa.api.scaling_record import CRON_TARGETS, KeptRecord, new_target_record
from fedhpa.cron.execution.model import ObjectRecord, WindowRecord
from fedhpa.cron.execution.stored import (
    TargetReference,
    decode_rules,
    decode_windows,
    encode_rules,
    encode_windows,
)
from fedhpa.kube import NOT_FOUND, ApiClient, Key

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
    unit = Unit(target, Recorded[WindowRecord](file, encode, decode, check_lease), reference)
    return unit


def open_rules(hub: ApiClient, key: Key, uid: str, check_lease: Callable[[], None]) -> Recorded[ObjectRecord]:
    """Returns the memory of an object's rules, whose record was not read yet."""
    metadata = {"namespace": key[0], "name": key[1], "uid": uid}
    file = RecordFile.of(hub, CRON_FEDERATED_HPAS, metadata, HUB_DEADLINE_SECONDS, manager=FIELD_MANAGER)
    return Recorded[ObjectRecord](file, encode_rules, decode_rules, check_lease)


class Units:
    """Units by target. `check_lease` raises unless this process may write."""

    def __init__(self, hub: ApiClient, check_lease: Callable[[], None]) -> None:
        self._hub = hub
        self._check_lease = check_lease
        self._units: dict[TargetKey, Unit] = {}
        self._targets: dict[Key, set[TargetKey]] = {}
        # The names of the records that the list at the start had; None if the hub did not let us list them.
        self._listed: set[tuple[str, str]] | None = None

    async def load(self, owns: Callable[[Key], bool]) -> list[TargetKey]:
        """Read the records of all targets with open windows; return these targets. Raises ApiError.

        Without the right to list them, each is read when its target is first reconciled.
        """
        try:
            listed = await self._hub.list(SCALING_RECORDS.path(), dict[str, Any], label_selector=CRON_TARGETS)
        except ApiError as error:
            if error.status not in (NOT_FOUND, FORBIDDEN):
                raise
            log.warning("scaling records not listed", error=str(error))
            return []
        self._listed = set()
        return [target for raw in listed.items if (target := self._take(raw, owns)) is not None]

    def _take(self, raw: Mapping[str, Any], owns: Callable[[Key], bool]) -> TargetKey | None:
        metadata = raw["metadata"]
        namespace, name = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
        assert self._listed is not None
        self._listed.add((namespace, name))
        if not owns((namespace, name)):
            return None
        try:
            reference = decode_windows(raw.get("status") or {}).target
        except InvalidObject as error:
            log.warning("scaling record unreadable", namespace=namespace, name=name, error=str(error))
            return None
        unit = self.of(target_of(namespace, reference), reference)
        if unit.windows.file.name != name:
            return None  # somebody copied it
        unit.windows.take(unit.windows.file.adopt(raw))
        self.note(unit)
        return unit.target

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

    def note(self, unit: Unit) -> None:
        """Notes which objects have windows on a target, after its windows changed."""
        namespace, holders = unit.target.namespace, unit.holders
        for name in unit.noted - holders:
            targets = self._targets[namespace, name]
            targets.discard(unit.target)
            if not targets:
                del self._targets[namespace, name]
        for name in holders - unit.noted:
            self._targets.setdefault((namespace, name), set()).add(unit.target)
        unit.noted = holders

    def targets_of(self, key: Key) -> frozenset[TargetKey]:
        """Returns the targets on which an object has open windows."""
        return frozenset(self._targets.get(key, ()))

    def forget(self, target: TargetKey) -> None:
        """Drops the unit of a target without objects and windows."""
        unit = self._units.pop(target, None)
        if unit is not None:
            unit.windows.state = None
            self.note(unit)
