"""The CronFederatedHPAs of this process, by the target that they scale.

An object belongs to the target of its spec. The windows that it has open on a former target are in the record
of that one (controller.cronfederatedhpa.units).

A rule whose fields the hub has dropped does not run: without its `duration` it would keep its values for
ever, and without its `excludeDates` it would fire on holidays. The manifest of kubectl shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import msgspec

from controller.hub_check import Contest
from controller.scaling_records import Recorded, RecordFile
from fedhpa.api.autoscalers import Target
from fedhpa.api.cronfederatedhpa import KIND, CronFederatedHPA
from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
from fedhpa.api.federatedhpa import API_VERSION
from fedhpa.api.hold import hold_request
from fedhpa.api.json import decode_json
from fedhpa.cron.execution.model import ObjectRecord, ScheduledObject
from fedhpa.cron.execution.objects import (
    TargetReference,
    decode_rules,
    encode_rules,
    read_cron,
    read_object,
    with_record,
)
from fedhpa.kube import NOT_FOUND, ApiClient, Key, Resource, patch_finalizers, patch_with_retry

Object = Mapping[str, Any]


class TargetKey(Target):
    """A target, which messages name with its namespace."""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True)
class CronObject:
    """One stored CronFederatedHPA, with what a plan needs of it.

    `refused` says by index why a rule cannot be read; `cron` has a suspended rule in its place. `cron` may be
    from before a write of ours, which left its specification alone.
    """

    key: Key
    raw: Object
    cron: CronFederatedHPA
    refused: Mapping[int, str]
    reference: TargetReference
    target: TargetKey
    _memory: RulesMemory | None = None

    @classmethod
    def of(cls, raw: Object) -> CronObject:
        """Returns the object read as `raw`. Raises InvalidObject if its target cannot be read."""
        key = raw["metadata"].get("namespace", ""), raw["metadata"]["name"]
        cron, refused = read_cron(raw)
        named = cron.spec.scale_target_ref
        reference = TargetReference(named.api_version, named.kind, named.name)
        return cls(key, raw, cron, refused, reference, target_of(key[0], reference))

    def written(self, raw: Object) -> CronObject:
        """Returns the object as the hub stored it, decoded anew only if somebody changed its spec."""
        before, after = self.raw["metadata"], raw["metadata"]
        fixed = ("uid", "generation", "deletionTimestamp")
        same = after.get("generation") and all(before.get(name) == after.get(name) for name in fixed)
        return replace(self, raw=raw) if same else CronObject.of(raw)

    @property
    def memory(self) -> RulesMemory:
        """The memory of this process; only an object from `CronObjects` has it."""
        assert self._memory is not None
        return self._memory

    @property
    def uid(self) -> str:
        """Its UID."""
        return str(self.raw["metadata"].get("uid") or "")

    @property
    def deleted(self) -> bool:
        """True once its deletion began."""
        return bool(self.raw["metadata"].get("deletionTimestamp"))

    @property
    def conditions(self) -> dict[str, Object]:
        """The stored conditions by type."""
        found = (self.raw.get("status") or {}).get("conditions") or ()
        return {str(each.get("type")): each for each in found if isinstance(each, Mapping)}

    @property
    def contested(self) -> bool:
        """True if the stored condition SoleOwner is False."""
        return self.conditions.get("SoleOwner", {}).get("status") == "False"

    @cached_property
    def _scheduled(self) -> ScheduledObject:
        hold = hold_request(self.raw["metadata"].get("annotations"))
        return msgspec.structs.replace(read_object(self.cron, self.refused), hold=hold)

    @cached_property
    def dropped(self) -> dict[str, str]:
        """A field of each rule that was applied and that the hub does not have."""
        return dropped_fields(self.raw)

    @property
    def name(self) -> str:
        """Its name in the namespace."""
        return self.key[1]

    @property
    def has_finalizer(self) -> bool:
        """True if it has the finalizer of open windows."""
        return FINALIZER in (self.raw["metadata"].get("finalizers") or ())

    @property
    def has_windows(self) -> bool:
        """True if a rule of the object opens windows."""
        return any(rule.duration is not None for rule in self.cron.spec.rules)

    def scheduled(
        self, target: TargetKey, record: ObjectRecord | None = None, *, drops: bool = False
    ) -> ScheduledObject:
        """Returns the object as a plan of a target needs it, with the states of its `record` if there is one.

        `drops` is True if the hub drops fields.
        """
        found = with_record(self._scheduled, self.cron.metadata.generation, record)
        if dropped := self.dropped:
            found = without_dropped(found, dropped, drops=drops)
        return found if self.target == target else msgspec.structs.replace(found, present=False)


@dataclass(eq=False)
class RulesMemory:
    """All that this process knows of one object beside its stored form; dropped with the object.

    `rules` is its record. `told` has the reasons and messages of what holds now and was told as events.
    `reverts` are the changes that clients made of values that rules had set. `elsewhere` is True if another
    process had an open window of it when this one read its record.
    """

    key: Key
    rules: Recorded[ObjectRecord]
    elsewhere: bool = False
    told: set[tuple[str, str]] = field(default_factory=set)
    reverts: list[str] = field(default_factory=list)
    contest: Contest = field(default_factory=Contest)


class CronObjects:
    """The newest known state of each object of this process, and writes to them while `leads` returns True.

    A state that this process wrote counts at once. `follow` gets what is known of each object.
    """

    def __init__(
        self, hub: ApiClient, leads: Callable[[], bool], follow: Callable[[Key, object], None]
    ) -> None:
        self._hub = hub
        self._leads = leads
        self._follow = follow
        # True if the hub dropped fields of the last status that was written.
        self.hub_drops_fields = False
        self._objects: dict[Key, CronObject] = {}
        self._keys: dict[TargetKey, set[Key]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[CronObject]:
        return iter(self._objects.values())

    def get(self, key: Key) -> CronObject | None:
        """Returns an object, or None."""
        return self._objects.get(key)

    def of(self, target: TargetKey) -> list[CronObject]:
        """Returns the objects of a target by name."""
        return [self._objects[key] for key in sorted(self._keys.get(target, ()))]

    async def fetch(self, key: Key) -> CronObject | None:
        """Returns an object of another process as the hub has it; None if it is gone or cannot be read.

        Raises ApiError.
        """
        try:
            raw = await self._hub.get_json(CRON_FEDERATED_HPAS.path(*key), deadline=HUB_DEADLINE_SECONDS)
            return self.known(CronObject.of(raw))
        except InvalidObject:
            return None
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def known(self, found: CronObject) -> CronObject:
        """Returns an object with what this process knows of it."""
        old = self._objects.get(found.key)
        if old is not None and old.uid == found.uid:
            return replace(found, _memory=old.memory)
        memory = RulesMemory(found.key, open_rules(self._hub, found, self.check_lease))
        memory.told = {
            (str(each.get("reason")), str(each.get("message"))) for each in found.conditions.values()
        }
        return replace(found, _memory=memory)

    def put(self, found: CronObject, *, written: bool = False) -> set[TargetKey]:
        """Stores an object unless a newer state of it is known. Returns the targets that it changes.

        `written` is True for the answer to a write of ours, which may be of the version that is known.
        """
        old, key = self._objects.get(found.key), found.key
        if old is not None and not _replaces(found.raw, old.raw, or_equal=written):
            return set()
        found = self.known(found)
        if old is None or old.memory is not found.memory:
            self._follow(key, found.memory)
        touched = self.remove(key) | {found.target}
        self._objects[key] = found
        self._keys.setdefault(found.target, set()).add(key)
        return touched

    def remove(self, key: Key) -> set[TargetKey]:
        """Forgets an object, with all that is known of it. Returns the targets that it belonged to."""
        old = self._objects.pop(key, None)
        if old is None:
            return set()
        self._keys[old.target].discard(key)
        if not self._keys[old.target]:
            del self._keys[old.target]
        return {old.target}

    def end(self) -> None:
        """Forgets all objects."""
        self._objects.clear()
        self._keys.clear()

    def check_lease(self) -> None:
        """Raises NotLeading if another process may hold the Lease."""
        if not self._leads():
            raise NotLeading("the Lease is not held any more")

    async def write_status(self, owner: CronObject, status: Mapping[str, Any]) -> None:
        """Replaces the fields of the status that differ. Raises ApiError if the hub refuses it."""
        raw = self._newest(owner).raw
        before = raw.get("status") or {}
        patch = {name: value for name, value in status.items() if before.get(name) != value}
        if not patch:
            return

        def change(_: Object) -> dict[str, Any]:
            self.check_lease()
            return {"status": patch}

        stored = await patch_with_retry(
            self._hub,
            CRON_FEDERATED_HPAS.path(*owner.key),
            raw,
            change,
            subresource="status",
            manager=FIELD_MANAGER,
            deadline=HUB_DEADLINE_SECONDS,
        )
        if stored is None:
            return
        wanted, kept = {**before, **patch}, stored.get("status") or {}
        self.hub_drops_fields = any(wanted.get(name) is not None and name not in kept for name in OUR_FIELDS)
        # A status that lacks our fields would be written again and again.
        self._note_written(owner, {**stored, "status": wanted} if self.hub_drops_fields else stored)

    async def set_finalizer(self, owner: CronObject, *, wanted: bool) -> None:
        """Adds or removes the finalizer of an object. Raises ApiError if the hub refuses it."""

        def change(present: Sequence[str]) -> list[str]:
            self.check_lease()
            return [*(each for each in present if each != FINALIZER), *([FINALIZER] if wanted else [])]

        stored = await patch_finalizers(
            self._hub,
            CRON_FEDERATED_HPAS.path(*owner.key),
            self._newest(owner).raw,
            change,
            manager=FIELD_MANAGER,
            deadline=HUB_DEADLINE_SECONDS,
        )
        if stored is not None:
            self._note_written(owner, stored)

    def _newest(self, owner: CronObject) -> CronObject:
        return self.get(owner.key) or owner

    def _note_written(self, owner: CronObject, stored: Object) -> None:
        """Notes an object as a write returned it, unless it is gone or another process's."""
        if (known := self.get(owner.key)) is not None:
            self.put(known.written(stored), written=True)


def open_rules(hub: ApiClient, owner: CronObject, check_lease: Callable[[], None]) -> Recorded[ObjectRecord]:
    """Returns the memory of an object's rules, whose record was not read yet."""
    metadata = {"namespace": owner.key[0], "name": owner.name, "uid": owner.uid}
    file = RecordFile.of(hub, CRON_FEDERATED_HPAS, metadata, HUB_DEADLINE_SECONDS, manager=FIELD_MANAGER)
    return Recorded(file, encode_rules, decode_rules, check_lease)


def target_of(namespace: str, reference: TargetReference) -> TargetKey:
    """Returns the target that a reference in a namespace names."""
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


FIELD_MANAGER: Final = "fedhpa-cron"
HUB_DEADLINE_SECONDS: Final = 10.0
CRON_FEDERATED_HPAS: Final = Resource(API_VERSION, KIND, "cronfederatedhpas", namespaced=True, scale=False)
# Stands on an object while one of its windows is open, so that a deletion restores the values first.
FINALIZER: Final = "autoscaling.karmada.io/fedhpa-cron-window"
# The fields of the status that Karmada's CRD lacks.
OUR_FIELDS: Final = ("observedGeneration", "conditions")


class NotLeading(FedHPAError):
    """The Lease of this process ended, so it must not write."""


LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
RULE_FIELDS: Final = ("duration", "maxDelaySeconds", "excludeDates", "startDate", "endDate", "atLeast")
# The hash of a rule that does not run because of this. The rule starts anew once its fields are stored.
DROPPED: Final = "fields-dropped"
_REMEDY: Final = "the hub's CRD dropped the field: apply 'fedhpa crds' there, then the object again"
# The API server's limit of all annotations together.
_MAX_BYTES: Final = 256 * 1024


def dropped_fields(raw: Mapping[str, Any]) -> dict[str, str]:
    """Returns the fields that were applied and are not stored: for each rule `spec.rules[i].field`."""
    annotations = raw["metadata"].get("annotations")
    text = annotations.get(LAST_APPLIED) if isinstance(annotations, Mapping) else None
    if not isinstance(text, str) or len(text) > _MAX_BYTES or not any(name in text for name in RULE_FIELDS):
        return {}
    try:
        applied: Any = decode_json(text, dict[str, Any])
    except InvalidObject:
        return {}
    written = {str(rule.get("name")): rule for rule in _rules(applied)}
    found: dict[str, str] = {}
    for index, rule in enumerate(_rules(raw)):
        name = str(rule.get("name"))
        lost = [field for field in RULE_FIELDS if written.get(name, {}).get(field) and field not in rule]
        if lost:
            found[name] = f"spec.rules[{index}].{lost[0]}"
    return found


def without_dropped(owner: ScheduledObject, dropped: Mapping[str, str], *, drops: bool) -> ScheduledObject:
    """Returns the object with the rules that may run; the others have a problem and never fire.

    `dropped` names a field of each rule that lacks some. `drops` is True if the hub is known to drop fields.
    Otherwise somebody has removed the field, unless the rule was stopped before.
    """
    rules = []
    for rule in owner.rules:
        state, field = owner.states.get(rule.name), dropped.get(rule.name)
        if field and (drops or (state is not None and state.hash == DROPPED)):
            rule = msgspec.structs.replace(rule, timetable=None, hash=DROPPED, problem=f"{field}: {_REMEDY}")
        rules.append(rule)
    return msgspec.structs.replace(owner, rules=tuple(rules))


def _rules(raw: Any) -> list[Mapping[str, Any]]:
    spec = raw.get("spec") if isinstance(raw, Mapping) else None
    rules = spec.get("rules") if isinstance(spec, Mapping) else None
    return [rule for rule in (rules if isinstance(rules, list) else ()) if isinstance(rule, Mapping)]
