"""Input of decisions about placements, and their typed write, for the reader and the reconciler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec
import structlog

from controller.apply.kept import KeptObjects, Stored
from controller.federatedhpa.clusters import Candidates
from controller.federatedhpa.memory import ObjectMemory
from controller.flags import ARGOCD, DIRECT, Settings
from controller.placement.argocd import ArgoPlacements
from controller.placement.profiles import FLAG, ClusterProfiles
from controller.publish import FEDERATED_HPAS
from fedhpa.api.errors import ApiError, Conflict, InvalidObject
from fedhpa.api.json import convert_json
from fedhpa.api.model import MAX_CLUSTERS
from fedhpa.api.placement_decisions import (
    API_VERSION,
    INDEX_LABEL,
    KEY_LABEL,
    KIND,
    MAX_DECISIONS,
    PLURAL,
    SCHEDULER,
    DecisionSlice,
    SliceMeta,
    listed_profiles,
    slice_name,
    slices_of,
)
from fedhpa.api.taints import LEAVING
from fedhpa.api.texts import listed
from fedhpa.decision import (
    AwaitedCluster,
    Blocked,
    ClusterSnapshot,
    Failure,
    Finding,
    PlacementInput,
    PublicationOutcome,
    PublishPlacement,
    ScalingObject,
)
from fedhpa.kube import ApiClient, Key, Resource
from fedhpa.members import Member

DECISIONS: Final = Resource(API_VERSION, KIND, PLURAL, namespaced=True, scale=False)
# Placements whose object is gone are deleted within this time.
COLLECT_SECONDS: Final = 60.0
MAX_SLICES: Final = MAX_CLUSTERS // MAX_DECISIONS
_RIGHTS: Final = "install its CRD, and grant the rights of `fedhpa rbac controller --placements`"
_FIELD: Final = "spec.clusterAffinity.placementDecision"

log = structlog.get_logger(__name__)


class Placements:
    """Publishes placements and follows those of other schedulers, while `run` runs.

    Another scheduler's change acts after `settled_seconds`, as a change of labels does.
    """

    settled_seconds = 60.0

    def __init__(
        self,
        hub: ApiClient,
        members: Mapping[str, Member],
        settings: Settings,
        *,
        duplicates: Mapping[str, Member] = MappingProxyType({}),
        clock: Callable[[], float],
    ) -> None:
        self._hub = hub
        self._members, self._duplicates = members, duplicates
        self._settings = settings
        self._profiles = ClusterProfiles(hub, settings.sources.profile_namespaces, clock)
        self._decisions: KeptObjects[DecisionSlice] = KeptObjects(hub, DECISIONS, _stored, clock=clock)
        self._argocd: ArgoPlacements | None = None
        if ARGOCD in settings.publishes_to:
            self._argocd = ArgoPlacements(hub, settings.sources.argocd_namespace, clock)
        watches = self._decisions, self._profiles, self._argocd
        self._watches = [one for one in watches if one is not None]

    async def run(self) -> None:
        """Watch what is needed, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for watch in self._watches:
                group.create_task(watch.run())

    async def collect(
        self, objects: Mapping[Key, Mapping[str, Any]], belongs_to_others: Callable[[Key], bool]
    ) -> None:
        """Delete what was published for objects that are gone, until cancelled.

        `objects` are all that this process reconciles. Those that belong to others are left to them.
        """
        while self._argocd is not None and not self._settings.paused:
            await self._argocd.collect(objects, belongs_to_others)
            await asyncio.sleep(COLLECT_SECONDS)

    def followed(
        self, key: Key, hpa: ScalingObject, memory: ObjectMemory, now: float
    ) -> tuple[frozenset[str], str | None]:
        """Returns the clusters that the object's PlacementDecision selects, and why it cannot be followed.

        The reason is "" while it can, and None while nobody knows.
        """
        state, placed = memory.state, memory.placed
        known = state.followed or tuple(
            sorted(name for name, one in state.clusters.items() if one.standing.membership != LEAVING)
        )
        if self.begins:
            return frozenset(known), None
        problem = ""
        try:
            asked = self._selected(key[0], hpa)
        except InvalidObject as error:
            asked, problem = known, f"{_FIELD}: {error}; the selection stays as it was"
        if asked == known or asked != placed.asked:
            placed.asked, placed.asked_since = (None if asked == known else asked), now
        settled = placed.asked is None or now - placed.asked_since >= self.settled_seconds
        chosen = asked if settled or not known else known
        if chosen != state.followed:
            memory.state = msgspec.structs.replace(state, followed=chosen)
        return frozenset(chosen), problem

    @property
    def begins(self) -> bool:
        """True until everything was listed, or that failed."""
        # Each of them is asked, because that begins its watch.
        begin = [watch.begins for watch in self._watches]
        return any(begin)

    def _selected(self, namespace: str, hpa: ScalingObject) -> tuple[str, ...]:
        """Returns the members that the PlacementDecision lists. Raises InvalidObject."""
        if problem := self._decisions.problem:
            raise InvalidObject(f"{KIND}s cannot be read: {problem}; {_RIGHTS}")
        if problem := self._profiles.problem:
            raise InvalidObject(f"ClusterProfiles cannot be read: {problem}")
        slices = [one.content for one in self._decisions.of(namespace).values()]
        profiles = set(listed_profiles(hpa.spec.follows, slices))
        own = next(one for one in slices if one.metadata.name == hpa.spec.follows)
        if own.schedulerName == SCHEDULER and hpa.uid in own.owners:
            raise InvalidObject(f"{KIND} {hpa.spec.follows} is published by this object itself")
        found = sorted(
            name
            for name, one in self._profiles.of(self._members, self._duplicates).items()
            if one in profiles
        )
        if not found:
            raise InvalidObject(f"no cluster in {KIND} {hpa.spec.follows} is a member")
        return tuple(found)

    def given(
        self,
        hpa: ScalingObject,
        candidates: Candidates,
        readings: Mapping[str, ClusterSnapshot],
        memory: ObjectMemory,
    ) -> PlacementInput:
        """Returns what a decision needs to publish an object's clusters, or to end that.

        `readings` are what the candidates answered.
        """
        if self._settings.propagation != DIRECT and hpa.spec.publish:
            return PlacementInput()
        if not hpa.spec.publish:
            return PlacementInput(outcome=memory.placed.outcome)
        waits = [
            AwaitedCluster(name, _why(reading), member.known if (member := self._members.get(name)) else None)
            for name, reading in sorted(readings.items())
            if name not in candidates.deselected and is_awaited(name, reading, memory)
        ]
        profiles = self._profiles.of(self._members, self._duplicates)
        outcome = memory.placed.outcome
        if outcome is not None and outcome.removed:
            outcome = None
        return PlacementInput(awaited=tuple(waits), profiles=profiles, outcome=outcome)

    async def carry_out(self, raw: Mapping[str, Any], write: PublishPlacement, memory: ObjectMemory) -> None:
        """Write a placement. `memory` keeps the problems for the next decision. Raises nothing of the hub."""
        if self._settings.paused or self.begins:
            return
        problems: list[Finding] = []
        try:
            problems += await self._publish(raw, write)
            if self._argocd is not None:
                problems += await self._argocd.publish(raw["metadata"], write.clusters, self._members)
        except Conflict as error:
            # Somebody wrote it meanwhile: the watch shows what, and the next decision writes again.
            log.debug("placement superseded", error=str(error))
            return
        except ApiError as error:
            problems.append(Finding("NotWritten", f"the hub refused it: {error}"))
        removed = not write.clusters and not problems
        memory.placed.outcome = PublicationOutcome(tuple(problems), removed)

    async def _publish(self, raw: Mapping[str, Any], write: PublishPlacement) -> tuple[Finding, ...]:
        metadata, uid = raw["metadata"], str(raw["metadata"].get("uid", ""))
        if problem := self._decisions.problem:
            return (Finding("NotServed", f"{KIND}s cannot be written: {problem}; {_RIGHTS}"),)
        problem = self._profiles.problem if write.clusters else ""
        if problem:
            return (Finding("NoClusterProfile", f"ClusterProfiles cannot be read: {problem}"),)
        chosen = [(one.profile, one.reason) for one in write.clusters if one.profile is not None]
        wanted = slices_of(metadata, FEDERATED_HPAS.api_version, FEDERATED_HPAS.kind, chosen)
        names = [slice_name(metadata["name"], index) for index in range(MAX_SLICES)]
        # Without any ClusterProfile, others keep what they know: an empty list would remove the workload.
        former = names[len(wanted) :] if wanted or not write.clusters else []
        found = await self._decisions.apply(metadata["namespace"], uid, wanted, former)
        return (*found, *self._without_profile(write))

    def _without_profile(self, write: PublishPlacement) -> tuple[Finding, ...]:
        names = [one.cluster for one in write.clusters if one.profile is None]
        if not names:
            return ()
        verb, where = "has" if len(names) == 1 else "have", ", ".join(self._profiles.namespaces)
        text = f"{listed(names)} {verb} no ClusterProfile in {where} ({FLAG})"
        return (Finding("NoClusterProfile", text),)


def nowhere_yet(workload: str, awaited: frozenset[str]) -> Blocked:
    """Returns why a published workload that no cluster has yet is not scaled."""
    where = listed(sorted(awaited), more="more clusters")
    return Blocked("FailedGetScale", f"{workload} runs in no cluster yet, and is awaited in {where}")


def is_awaited(name: str, reading: ClusterSnapshot, memory: ObjectMemory) -> bool:
    """True if a cluster does not have the workload yet, as far as is known."""
    if reading.workload.scale is not None:
        return False
    if name in memory.without_workload:
        return True
    return not reading.workload.is_absent and name not in memory.last_replicas and not memory.was_seen(name)


def _why(reading: ClusterSnapshot) -> str:
    if reading.error is not None:
        return reading.error
    return reading.scale.error if isinstance(reading.scale, Failure) else "it does not answer"


def _stored(raw: dict[str, Any]) -> Stored[DecisionSlice]:
    found = convert_json(raw, DecisionSlice)
    meta = found.metadata
    owner = next(iter(found.owners), "") if found.schedulerName == SCHEDULER else ""
    given = meta.labels or {}
    labels = {label: given[label] for label in (KEY_LABEL, INDEX_LABEL) if label in given}
    content = msgspec.structs.replace(
        found,
        metadata=SliceMeta(
            name=meta.name, namespace=meta.namespace, labels=labels, ownerReferences=meta.ownerReferences
        ),
    )
    return Stored(owner=owner, content=content, uid=meta.uid, version=meta.resourceVersion)
