"""The hub of a random history: the stored objects, the record of windows, and the target.

Records go through JSON, as they do on a hub. All edits are valid objects, and each edit is noted in the
managed fields, as an API server does.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import msgspec

from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.times import format_time
from fedhpa.cron.execution.model import (
    ObjectRecord,
    ObservedTarget,
    RuleState,
    ScheduledObject,
    Values,
    WindowRecord,
)
from fedhpa.cron.execution.objects import (
    TargetReference,
    decode_rules,
    decode_windows,
    encode_rules,
    encode_windows,
    read_object,
    split_markers,
    with_record,
)
from fedhpa.cron.execution.outcome import Attempts, Settled, settle
from fedhpa.cron.execution.planning import CronPlan
from tests.property.cron.histories import Json

REFERENCE = TargetReference("autoscaling.karmada.io/v1alpha1", "FederatedHPA", "web")
FHPA = {"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "name": "web"}
FORBIDDEN = 99
BEGINNING: Values = {"minReplicas": 1, "maxReplicas": 10}


class Outcome(NamedTuple):
    """The results of a pass: the effect, and the objects whose record was stored."""

    effect: bool
    stored: frozenset[str]


class Era(NamedTuple):
    """A rule between two edits of its calendar; executions up to `since` are its past."""

    since: float
    hash: str


class Hub:
    """The stored objects, the record of windows and the target."""

    def __init__(self, specs: dict[str, Json], start: float) -> None:
        self.values: Values = dict(BEGINNING)
        self.objects: dict[str, Json] = {}
        # The clients other than the controller that wrote a field of the target last.
        self.managers: dict[str, str] = dict.fromkeys(BEGINNING, "kubectl")
        # The events that the annotation of the target names.
        self.done: frozenset[str] = frozenset()
        self._rules: dict[str, Json] = {}
        self._windows: Json | None = None
        self.applied: dict[tuple[str, str], set[float]] = defaultdict(set)
        self.missed: dict[tuple[str, str], int] = defaultdict(int)
        self._eras: dict[tuple[str, str], Era] = {}
        self._known_eras: dict[tuple[str, str], Era] = {}
        for name, spec in specs.items():
            self.create(name, spec, start)

    def create(self, name: str, spec: Json, now: float) -> None:
        """Creates an object."""
        self.objects[name] = {"metadata": {"name": name, "creationTimestamp": format_time(now)}, "status": {}}
        self.edit(name, spec, now)

    def edit(self, name: str, spec: Json, now: float) -> None:
        """Writes the spec of an object."""
        found = self.objects[name]
        found["spec"] = spec
        found["metadata"]["managedFields"] = [
            {"manager": "kubectl", "time": format_time(now), "fieldsV1": {"f:spec": {}}}
        ]
        for rule in (owner := self.read(name)).rules:
            key, state = (name, rule.name), owner.states.get(rule.name)
            era = self._eras.get(key)
            if state is not None and state.hash == rule.hash and key in self._known_eras:
                # The controller did not see the rule change and change back.
                self._eras[key] = self._known_eras[key]
            elif era is None or era.hash != rule.hash:
                self._eras[key] = Era(now, rule.hash)
        names = {rule["name"] for rule in spec["rules"]}
        for key in [key for key in self._eras if key[0] == name and key[1] not in names]:
            del self._eras[key]

    def delete(self, name: str, now: float) -> None:
        """Deletes an object. One with a finalizer stays until its windows are closed."""
        self.objects[name]["metadata"].setdefault("deletionTimestamp", format_time(now))
        self._release()

    def change_target(self, field: str, value: int | None) -> None:
        """Somebody sets a field of the target."""
        self.values[field] = value
        self.managers[field] = "kubectl"

    @property
    def record(self) -> WindowRecord | None:
        """The windows that the stored record has."""
        return None if self._windows is None else decode_windows(self._windows).state

    def _keep(self, record: WindowRecord | None) -> None:
        """Stores the record of windows, through JSON."""
        content = None if record is None else encode_windows(REFERENCE, record)
        self._windows = None if content is None else msgspec.json.decode(msgspec.json.encode(content))

    def is_former(self, field: str, value: int | None) -> bool:
        """True if a field had a value before a write whose result was not stored."""
        record = self.record
        return record is not None and record.pending is not None and record.applied.get(field, value) == value

    def is_deleted(self, name: str) -> bool:
        return "deletionTimestamp" in self.objects[name]["metadata"]

    def is_present(self, name: str) -> bool:
        """True if an object has our target."""
        return bool(self.objects[name]["spec"]["scaleTargetRef"] == FHPA)

    def read(self, name: str) -> ScheduledObject:
        found = CronFederatedHPA.model_validate_json(msgspec.json.encode(self.objects[name]))
        content = self._rules.get(name)
        record = None if content is None else decode_rules(content)
        owner = with_record(read_object(found), found.metadata.generation, record)
        return msgspec.structs.replace(owner, present=self.is_present(name))

    def run(self, now: float, does: str) -> Outcome:
        """Plans and writes at one instant, as far as `does` lets it."""
        owners = [self.read(name) for name in sorted(self.objects) if self._belongs(name)]
        record = self.record
        target = ObservedTarget(dict(self.values), done=self.done, managers=dict(self.managers))
        attempts = Attempts(owners, record, target, now)
        self._begin(attempts.plan)
        while self._is_forbidden(attempts.plan):
            assert attempts.refused("forbidden"), "no event is at fault"
            self._begin(attempts.plan)
        planned = attempts.plan
        if does == "crash-effect":
            return Outcome(False, frozenset())
        if does == "refused" and planned.write:
            self._store(owners, planned, settle(planned, now, "refused"), None)
            return Outcome(False, frozenset())
        self.values |= planned.write
        self.managers = {name: each for name, each in self.managers.items() if name not in planned.write}
        if planned.write and planned.marker:
            self.done = split_markers(planned.marker)
        if does == "crash-result":
            return Outcome(bool(planned.write), frozenset())
        first = owners[0].name if owners else ""
        only = first if does == "crash-status" else None
        self._store(owners, planned, settle(planned, now, "", attempts.refusals), only)
        stored = frozenset(owner.name for owner in owners if only in (None, owner.name))
        if only is None:
            self._store_elsewhere()
        return Outcome(True, stored)

    def _begin(self, planned: CronPlan) -> None:
        if planned.pending is not None:
            self._keep(planned.pending)

    @staticmethod
    def _is_forbidden(planned: CronPlan) -> bool:
        """True if admission refuses a write, because of a value that no good rule sets."""
        return FORBIDDEN in planned.write.values()

    def _belongs(self, name: str) -> bool:
        return self.is_present(name) or name in self.holders()

    def holders(self) -> set[str]:
        return set() if self.record is None else {each.object for each in self.record.open}

    def _store(
        self, owners: list[ScheduledObject], planned: CronPlan, settled: Settled, only: str | None
    ) -> None:
        """Stores the record of one object, or of all for None. That of the target is stored first."""
        self._keep(settled.record)
        for owner in owners:
            if only in (None, owner.name) and owner.present and owner.deleted is None:
                states = settled.states[owner.name]
                for rule, state in states.items():
                    key = (owner.name, rule)
                    self._count(key, owner.states.get(rule, RuleState()), state)
                    self._known_eras[key] = self._eras[key]
                self._rules[owner.name] = msgspec.json.decode(
                    msgspec.json.encode(encode_rules(ObjectRecord(states)))
                )
        self._release()

    def _store_elsewhere(self) -> None:
        """The rules of objects with another target are run there."""
        for name in self.objects:
            if not self.is_present(name) and name not in self.holders() and name in self._rules:
                for state in self._rules[name]["rules"].values():
                    state["hash"] = "elsewhere"

    def _release(self) -> None:
        """Removes the deleted objects without an open window."""
        for name in [name for name in self.objects if self.is_deleted(name)]:
            if name not in self.holders():
                del self.objects[name]
                self._rules.pop(name, None)
                for key in [key for key in self._eras if key[0] == name]:
                    del self._eras[key]

    def _count(self, key: tuple[str, str], old: RuleState, new: RuleState) -> None:
        """Counts the executions that a state adds, each of which must be new and of this era."""
        self.missed[key] += sum(each.count for each in new.missed) - sum(each.count for each in old.missed)
        known = {done.scheduled for done in old.successes}
        fresh = {done.scheduled for done in new.successes} - known
        assert not fresh & self.applied[key], "an execution was applied twice"
        assert all(at > self._eras[key].since for at in fresh), "an execution of the past was applied"
        self.applied[key] |= fresh
        if len(new.missed) > len(old.missed):
            assert new.missed[0].last > self._eras[key].since, "an execution of the past was missed"


def as_spec(rules: list[Json]) -> dict[str, Any]:
    """Returns the spec of an object with our target."""
    return {"scaleTargetRef": FHPA, "rules": rules}
