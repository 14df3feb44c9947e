"""The CronFederatedHPAs of this process, by the target that they scale.

An object belongs to the target of its spec. While it has a window open on another target, it belongs to that
one too, until the window is closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from fedhpa.api.autoscaling import CrossVersionObjectReference
from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.decode import decode
from fedhpa.cron.execution import (
    ScheduledObject,
    WindowRecord,
    dropped_fields,
    read_object,
    read_record,
    with_record,
    without_dropped,
)
from fedhpa.kube import Key

Object = Mapping[str, Any]


class TargetKey(NamedTuple):
    """A target: all versions of a group serve the same object."""

    namespace: str
    group: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True)
class CronObject:
    """One stored CronFederatedHPA, with what a plan needs of it.

    `record` is the record of open windows in its status, and `holds` the target of these windows.
    """

    key: Key
    raw: Object
    cron: CronFederatedHPA
    target: TargetKey
    record: WindowRecord | None
    holds: TargetKey | None

    @classmethod
    def of(cls, key: Key, raw: Object) -> CronObject:
        """Returns the object read as `raw`. Raises InvalidObject if it cannot be decoded.

        Where the hub drops fields of the status, the record annotation completes it.
        """
        raw = with_record(raw)
        cron = decode(CronFederatedHPA, raw)
        record = read_record(cron.status)
        window = cron.status.window
        target = _target(key[0], cron.spec.scale_target_ref)
        holds = None if window is None or record is None else _target(key[0], window.target)
        return cls(key, raw, cron, target, record, holds)

    @property
    def targets(self) -> set[TargetKey]:
        """The targets that the object belongs to."""
        return {self.target} if self.holds is None else {self.target, self.holds}

    @property
    def contested(self) -> bool:
        """True if the stored condition SoleOwner is False."""
        stored = self.cron.status.conditions
        return any(each.type == "SoleOwner" and each.status == "False" for each in stored)

    @property
    def reference(self) -> CrossVersionObjectReference:
        """The target as the spec names it."""
        return self.cron.spec.scale_target_ref

    @cached_property
    def _scheduled(self) -> ScheduledObject:
        return read_object(self.cron)

    @cached_property
    def dropped(self) -> dict[str, str]:
        """A field of each rule that was applied and that the hub does not have."""
        return dropped_fields(self.raw)

    @property
    def has_windows(self) -> bool:
        """True if a rule of the object opens windows."""
        return any(rule.duration is not None for rule in self.cron.spec.rules)

    def scheduled(self, target: TargetKey, *, drops: bool = False) -> ScheduledObject:
        """Returns the object as a plan of a target needs it. `drops` is True if the hub drops fields."""
        found = without_dropped(self._scheduled, self.dropped, drops=drops)
        return found if self.target == target else msgspec.structs.replace(found, present=False)


class ObjectsByTarget:
    """The newest known state of each object. A state that this process wrote counts at once."""

    def __init__(self) -> None:
        self._objects: dict[Key, CronObject] = {}
        self._keys: dict[TargetKey, set[Key]] = {}
        # Records of objects that vanished with open windows, until another object of the target has them.
        self._orphans: dict[TargetKey, WindowRecord] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: Key) -> CronObject | None:
        """Returns an object, or None."""
        return self._objects.get(key)

    def contested(self) -> set[TargetKey]:
        """Returns the targets of objects whose condition SoleOwner is False."""
        return {found.target for found in self._objects.values() if found.contested}

    def of(self, target: TargetKey) -> list[CronObject]:
        """Returns the objects of a target by name."""
        return [self._objects[key] for key in sorted(self._keys.get(target, ()))]

    def put(self, found: CronObject, *, written: bool = False) -> set[TargetKey]:
        """Stores an object unless a newer state of it is known. Returns the targets that it changes.

        `written` is True for the answer to a write of ours, which may be of the version that is known.
        """
        old = self._objects.get(found.key)
        if old is not None and not _replaces(found.raw, old.raw, or_equal=written):
            return set()
        self._objects[found.key] = found
        before = set() if old is None else old.targets
        self._move(found.key, before, found.targets)
        return before | found.targets

    def record_of(self, target: TargetKey) -> tuple[WindowRecord | None, str]:
        """Returns the record of the windows that are open on a target, and the object that stores it.

        The object is "" if it is gone.
        """
        stored, carrier = newest_record(self.of(target), target)
        orphan = self._orphans.get(target)
        if orphan is None or (stored is not None and stored.revision >= orphan.revision):
            return stored, carrier
        return orphan, ""

    def adopt(self, target: TargetKey) -> None:
        """Notes that the record of a target is stored, or that no window is open any more."""
        self._orphans.pop(target, None)

    def remove(self, key: Key) -> set[TargetKey]:
        """Forgets an object. Returns the targets that it belonged to."""
        old = self._objects.pop(key, None)
        if old is None:
            return set()
        self._move(key, old.targets, set())
        if old.record is not None and old.holds is not None and old.holds in self._keys:
            self._orphans[old.holds] = old.record
        return old.targets

    def _move(self, key: Key, before: set[TargetKey], after: set[TargetKey]) -> None:
        for target in before - after:
            keys = self._keys[target]
            keys.discard(key)
            if not keys:
                del self._keys[target]
                self._orphans.pop(target, None)
        for target in after - before:
            self._keys.setdefault(target, set()).add(key)


def newest_record(objects: list[CronObject], target: TargetKey) -> tuple[WindowRecord | None, str]:
    """Returns the record of the windows that are open on a target, and the object that stores it."""
    found = [each for each in objects if each.record is not None and each.holds == target]
    newest = max(found, key=lambda each: each.record.revision if each.record else 0, default=None)
    return (None, "") if newest is None else (newest.record, newest.key[1])


def _target(namespace: str, reference: CrossVersionObjectReference) -> TargetKey:
    group = reference.api_version.rpartition("/")[0]
    return TargetKey(namespace, group, reference.kind, reference.name)


def _replaces(new: Object, old: Object, *, or_equal: bool) -> bool:
    """True unless `new` is an older state of the same object than `old`, or the same one."""
    before, after = old["metadata"], new["metadata"]
    if before.get("uid") != after.get("uid"):
        return True
    versions = str(before.get("resourceVersion", "")), str(after.get("resourceVersion", ""))
    # Kubernetes' resourceVersions are numbers that grow; those of other servers are not comparable.
    if not all(version.isdecimal() for version in versions):
        return True
    return int(versions[1]) > int(versions[0]) or (or_equal and versions[0] == versions[1])
