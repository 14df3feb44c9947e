"""The CronFederatedHPAs of this process, by the target that they scale.

An object belongs to the target of its spec. The windows that it has open on a former target are in the record
of that one (controller.cronfederatedhpa.units).

A rule whose fields the hub has dropped does not run: without its `duration` it would keep its values for
ever, and without its `excludeDates` it would fire on holidays. The manifest of kubectl shows them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import msgspec

from fedhpa.api.autoscalers import Target
from fedhpa.api.autoscalers import target_of as stored_target
from fedhpa.api.cronfederatedhpa import KIND, CronFederatedHPA
from fedhpa.api.errors import ApiError, Conflict, FedHPAError, InvalidObject
from fedhpa.api.federatedhpa import API_VERSION, GROUP
from fedhpa.api.hold import hold_request
from fedhpa.api.json import decode_json
from fedhpa.cron.execution.model import ObjectRecord, ScheduledObject
from fedhpa.cron.execution.objects import (
    TargetReference,
    read_cron,
    read_object,
    with_record,
)
from fedhpa.kube import NOT_FOUND, ApiClient, Key, Resource, patch_status

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
        found = without_dropped(found, self.dropped, drops=drops)
        return found if self.target == target else msgspec.structs.replace(found, present=False)


class KeysByTarget:
    """The keys of objects by their target."""

    def __init__(self) -> None:
        self._targets: dict[Key, TargetKey] = {}
        self._keys: dict[TargetKey, set[Key]] = {}

    def of(self, target: TargetKey) -> frozenset[Key]:
        """Returns the objects of a target."""
        return frozenset(self._keys.get(target, ()))

    def put(self, key: Key, target: TargetKey | None) -> set[TargetKey]:
        """Stores the target of an object; None removes it. Returns the targets that it had and has."""
        old = self._targets.pop(key, None)
        if old is not None and old != target:
            self._keys[old].discard(key)
            if not self._keys[old]:
                del self._keys[old]
        if target is not None:
            self._targets[key] = target
            self._keys.setdefault(target, set()).add(key)
        return {each for each in (old, target) if each is not None}


class CronObjects:
    """The newest known state of each object, and writes to it while `leads` returns True.

    A state that this process wrote counts at once.
    """

    def __init__(self, hub: ApiClient, leads: Callable[[], bool]) -> None:
        self._hub = hub
        self._leads = leads
        # True if the hub dropped fields of the last status that was written.
        self.hub_drops_fields = False
        self._objects: dict[Key, CronObject] = {}
        self._keys = KeysByTarget()

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._objects)

    def get(self, key: Key) -> CronObject | None:
        """Returns an object, or None."""
        return self._objects.get(key)

    def contested(self) -> set[TargetKey]:
        """Returns the targets of objects whose condition SoleOwner is False."""
        return {found.target for found in self._objects.values() if found.contested}

    def of(self, target: TargetKey) -> list[CronObject]:
        """Returns the objects of a target by name."""
        return [self._objects[key] for key in sorted(self._keys.of(target))]

    def put(self, found: CronObject, *, written: bool = False) -> set[TargetKey]:
        """Stores an object unless a newer state of it is known. Returns the targets that it changes.

        `written` is True for the answer to a write of ours, which may be of the version that is known.
        """
        old = self._objects.get(found.key)
        if old is not None and not _replaces(found.raw, old.raw, or_equal=written):
            return set()
        self._objects[found.key] = found
        return self._keys.put(found.key, found.target)

    def remove(self, key: Key) -> set[TargetKey]:
        """Forgets an object. Returns the targets that it belonged to."""
        self._objects.pop(key, None)
        return self._keys.put(key, None)

    def check_lease(self) -> None:
        """Raises NotLeading if another process may hold the Lease."""
        if not self._leads():
            raise NotLeading("the Lease is not held any more")

    async def patch_status(self, owner: CronObject, patch: Mapping[str, Any]) -> None:
        """Replaces fields of the status of an object. Raises ApiError if the hub refuses it."""

        async def write(version: str) -> Mapping[str, Any]:
            before = (self.get(owner.key) or owner).raw.get("status") or {}
            stored = await patch_status(
                self._hub,
                _path(owner.key),
                dict(patch),
                resource_version=version,
                manager=FIELD_MANAGER,
                deadline=HUB_DEADLINE_SECONDS,
            )
            wanted = {**before, **patch}
            kept = stored.get("status") or {}
            self.hub_drops_fields = any(
                wanted.get(name) is not None and name not in kept for name in OUR_FIELDS
            )
            # A status that lacks our fields would be written again and again.
            return {**stored, "status": wanted} if self.hub_drops_fields else stored

        await self._write(owner, write)

    async def set_finalizer(self, owner: CronObject, *, wanted: bool) -> None:
        """Adds or removes the finalizer of an object. Raises ApiError if the hub refuses it."""

        async def write(version: str) -> Mapping[str, Any]:
            latest = self.get(owner.key) or owner
            present = latest.raw["metadata"].get("finalizers") or ()
            others = [each for each in present if each != FINALIZER]
            finalizers = [*others, FINALIZER] if wanted else others
            patch = {"metadata": {"resourceVersion": version, "finalizers": finalizers}}
            response = await self._hub.patch(
                _path(owner.key), patch, manager=FIELD_MANAGER, deadline=HUB_DEADLINE_SECONDS
            )
            return response.json()

        await self._write(owner, write)

    async def _write(self, owner: CronObject, write: Callable[[str], Awaitable[Mapping[str, Any]]]) -> None:
        """Makes one write with the newest resourceVersion. After a conflict the object is read again."""
        raw = (self.get(owner.key) or owner).raw
        for attempt in range(1, TRIES + 1):
            self.check_lease()
            try:
                written = await write(str(raw["metadata"].get("resourceVersion", "")))
            except Conflict:
                if attempt == TRIES:
                    raise
            except ApiError as error:
                if error.status == NOT_FOUND:
                    return
                raise
            else:
                self.put((self.get(owner.key) or owner).written(written), written=True)
                return
            raw = await self._hub.get_json(_path(owner.key), deadline=HUB_DEADLINE_SECONDS)
            if raw["metadata"].get("uid") != owner.raw["metadata"].get("uid"):
                return
            self.put(CronObject.of(raw))


def target_of(namespace: str, reference: TargetReference) -> TargetKey:
    """Returns the target that a reference in a namespace names."""
    group = reference.api_version.rpartition("/")[0]
    return TargetKey(namespace, group, reference.kind, reference.name)


def target_in(raw: Object) -> TargetKey | None:
    """Returns the target that a stored object names, None if it names none."""
    namespace = str((raw.get("metadata") or {}).get("namespace", ""))
    spec = raw.get("spec")
    found = stored_target(namespace, spec.get("scaleTargetRef") if isinstance(spec, Mapping) else None)
    return None if found is None else TargetKey(*found)


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
TRIES: Final = 5
# The fields of the status that Karmada's CRD lacks.
OUR_FIELDS: Final = ("observedGeneration", "conditions")


class NotLeading(FedHPAError):
    """The Lease of this process ended, so it must not write."""


def _path(key: Key) -> str:
    return CRON_FEDERATED_HPAS.path(*key)


LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
RULE_FIELDS: Final = ("duration", "maxDelaySeconds", "excludeDates", "startDate", "endDate", "atLeast")
# The hash of a rule that does not run because of this. The rule starts anew once its fields are stored.
DROPPED: Final = "fields-dropped"
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
    if not dropped:
        return owner
    rules = []
    for rule in owner.rules:
        state, field = owner.states.get(rule.name), dropped.get(rule.name)
        if field and (drops or (state is not None and state.hash == DROPPED)):
            text = (
                f"{field}: the hub's CRD dropped the field: apply 'fedhpa crds' there, then the object again"
            )
            rule = msgspec.structs.replace(rule, timetable=None, hash=DROPPED, problem=text)
        rules.append(rule)
    return msgspec.structs.replace(owner, rules=tuple(rules))


def _rules(raw: Any) -> list[Mapping[str, Any]]:
    spec = raw.get("spec") if isinstance(raw, Mapping) else None
    rules = spec.get("rules") if isinstance(spec, Mapping) else None
    return [rule for rule in (rules if isinstance(rules, list) else ()) if isinstance(rule, Mapping)]


CRD_PATH: Final = (
    f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRON_FEDERATED_HPAS.plural}.{GROUP}"
)
# The fields that Karmada's CRD lacks.
PATHS: Final = (
    *(f"spec.rules[].{field}" for field in RULE_FIELDS),
    *(f"status.{field}" for field in OUR_FIELDS),
)
