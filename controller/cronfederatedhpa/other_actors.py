"""The other actors on objects and targets of rules: FederatedHPAs of a workload, and Karmada's controller.

A rule that sets the replicas of a workload and the FederatedHPA of that workload overwrite one another. Both
objects say so in condition SoleOwner; nothing is stopped, because nobody can know which of the two is wanted.

Rules that change a FederatedHPA belong to the shard of its workload, like the FederatedHPA itself.

Karmada's controller manager writes the status of an object after each execution. If it wrote after the last
execution that was due, and after our last write, it runs the rules, and so nothing is written here. When it
leaves out an execution, it was switched off, and the execution is caught up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from controller.cronfederatedhpa.objects import (
    CRON_FEDERATED_HPAS,
    FIELD_MANAGER,
    OUR_FIELDS,
    CronObject,
    Object,
    TargetKey,
)
from controller.hub_check import ANOTHER_CONTROLLER, KARMADA_MANAGER
from controller.shards import Place
from fedhpa.api.autoscalers import Autoscaler, AutoscalerIndex, StoredAutoscaler, Target, from_stored
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import API_VERSION, GROUP, KIND
from fedhpa.api.times import parse_time
from fedhpa.cron.execution.due import latest_time
from fedhpa.cron.execution.objects import RULE_FIELDS, executable_rules
from fedhpa.decision import Finding
from fedhpa.kube import ApiClient, Change, Reflector, resource_path

FEDERATED_HPAS: Final = resource_path(API_VERSION, "federatedhpas")
CRD_PATH: Final = (
    f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRON_FEDERATED_HPAS.plural}.{GROUP}"
)
# The fields that Karmada's CRD lacks.
PATHS: Final = (
    *(f"spec.rules[].{field}" for field in RULE_FIELDS),
    *(f"status.{field}" for field in OUR_FIELDS),
)
# Karmada gets this long to write the result of an execution.
GRACE_SECONDS: Final = 60.0
MESSAGE: Final = (
    f"{KARMADA_MANAGER} writes the status of this object, so its own controller runs the rules: nothing is "
    "written here; switch it off with --controllers=*,-cronFederatedHorizontalPodAutoscaler"
)


class WorkloadOwners:
    """Watches the FederatedHPAs in these namespaces while `run` runs; none mean all."""

    def __init__(
        self,
        hub: ApiClient,
        *,
        namespaces: Collection[str] = (),
        clock: Callable[[], float],
    ) -> None:
        self._namespaces = namespaces
        self._index = AutoscalerIndex()
        self._changed: Callable[[TargetKey], None] = lambda _: None
        self._moved: Callable[[TargetKey], None] = lambda _: None
        self._came: Callable[[TargetKey, bool], None] = lambda *_: None
        self._reflector: Reflector[Autoscaler] = Reflector(
            hub, FEDERATED_HPAS, StoredAutoscaler, self._read, name="federatedhpas", clock=clock
        )
        self._reflector.subscribe(self._change)

    async def run(self) -> None:
        """List and watch until cancelled."""
        await self._reflector.run()

    async def synced(self) -> None:
        """Waits for the first whole list."""
        await self._reflector.synced.wait()

    def on_change(
        self, changed: Callable[[TargetKey], None], came: Callable[[TargetKey, bool], None]
    ) -> None:
        """Calls `changed` with each workload whose owners change.

        Calls `came` with each FederatedHPA that came, and False with one that went.
        """
        self._changed, self._came = changed, came

    def on_move(self, call: Callable[[TargetKey], None]) -> None:
        """Calls a function with each FederatedHPA that begins, ends, or changes its target."""
        self._moved = call

    def place_of(self, target: TargetKey) -> Place:
        """Returns the target that decides the shard: of a FederatedHPA that exists, the target of that."""
        if (target.group, target.kind) == (GROUP, KIND):
            found = self._reflector.store.get((target.namespace, target.name))
            if found is not None:
                target = TargetKey(*found.target)
        return target.namespace, target.kind, target.name

    def of(self, target: TargetKey) -> tuple[str, ...] | None:
        """Returns the active FederatedHPAs that scale a workload; None before the first whole list."""
        if (target.group, target.kind) == (GROUP, KIND):
            return ()
        if not self._reflector.synced.is_set():
            return None
        found = self._index.of(Target(*target))
        return tuple(f"{KIND} {each.namespace}/{each.name}" for each in found)

    def _read(self, stored: StoredAutoscaler) -> Autoscaler | None:
        if self._namespaces and stored.metadata.namespace not in self._namespaces:
            return None
        return from_stored(KIND, stored)

    def _change(self, change: Change[Autoscaler]) -> None:
        self._index.replace(change.old, change.new)
        for each in (change.old, change.new):
            if each is not None:
                self._changed(TargetKey(*each.target))
        if change.old is None or change.new is None or change.old.target != change.new.target:
            moved = TargetKey(change.key[0], GROUP, KIND, change.key[1])
            self._moved(moved)
            self._came(moved, change.new is not None)


def other_controller(owner: CronObject, now: float) -> Finding | None:
    """Returns a finding if Karmada runs the rules of an object, else None."""
    theirs = _written_by(owner, KARMADA_MANAGER)
    ours = _written_by(owner, FIELD_MANAGER)
    if theirs is None or (ours is not None and ours >= theirs):
        return None
    due = [
        time
        for rule in executable_rules(owner.cron.spec)
        if (time := latest_time(rule, now - GRACE_SECONDS)) is not None
    ]
    if due and max(due) > theirs:
        return None
    return Finding(ANOTHER_CONTROLLER, MESSAGE)


def is_run_by_karmada(raw: Object, now: float) -> bool:
    """True if Karmada's controller runs the rules of a stored object. Raises InvalidObject."""
    metadata = raw["metadata"]
    owner = CronObject.of((metadata.get("namespace", ""), metadata["name"]), raw)
    return other_controller(owner, now) is not None


def _written_by(owner: CronObject, manager: str) -> float | None:
    """Returns when a manager last wrote the status of an object; None if never."""
    times = []
    for entry in owner.cron.metadata.managed_fields:
        if entry.manager == manager and entry.subresource == "status" and entry.time is not None:
            try:
                times.append(parse_time(entry.time) or 0.0)
            except InvalidObject:
                continue
    return max(times, default=None)
