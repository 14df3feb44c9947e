"""Observing one object's world: where its workload is, how big it is, and what each cluster says."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from controller.federatedhpa.ambiguity import Key, rivals
from controller.federatedhpa.candidates import (
    Candidates,
    NoBinding,
    TargetUnreadable,
    by_affinity,
    by_binding,
)
from controller.federatedhpa.caps import most_replicas, offered
from controller.federatedhpa.cluster_capacity import asked, available_replicas, is_needed
from controller.federatedhpa.gather import Readers, Reading, Wanted, Workload, read_clusters
from controller.federatedhpa.hub_metrics import HubMetrics, Told, read_hub
from controller.federatedhpa.memory import ObjectMemory
from controller.federatedhpa.scale_writes import MemberWrite
from controller.federatedhpa.unsupported import unbuilt_field
from controller.flags import DIRECT, HUB, Settings
from controller.workqueue import usage_age
from fedhpa.api.errors import ApiError, InvalidObject
from fedhpa.api.known_cluster import known_cluster
from fedhpa.api.selectors import Selector
from fedhpa.api.wire import Scale
from fedhpa.decision.snapshot import Blocked, ClusterSnapshot, Failure, Snapshot, Target
from fedhpa.decision.spec.federatedhpa import ScalingObject, decode_object
from fedhpa.kube.client import ApiClient
from fedhpa.kube.mapping import ResourceMapper
from fedhpa.kube.writes import get_scale
from fedhpa.members.member import Member

HUB_DEADLINE_SECONDS: Final = 10.0
# What admission allows an object to ask for; one that got past it must not become a storm of looks.
LEAST_PERIOD_SECONDS: Final = 1.0
MOST_PERIOD_SECONDS: Final = 300.0


@dataclass(frozen=True)
class Observation:
    """A snapshot, and what writes must be based on: the template's scale and path, or each member's."""

    snapshot: Snapshot
    path: str = ""
    template: Scale | None = None
    members: Mapping[str, MemberWrite] = field(default_factory=dict)


class Observer:
    """Observes objects one by one; `observe` may run for different objects at once."""

    def __init__(
        self,
        hub: ApiClient,
        members: Callable[[], Mapping[str, Member]],
        readers: Readers,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hub = hub
        self._mapper = ResourceMapper(hub, clock=clock)
        self._hub_metrics = HubMetrics(hub, self._mapper, settings.member_deadline, clock)
        self._members = members
        self._readers = readers
        self._settings = settings
        # By namespace, how often somebody's selectors changed.
        self._claims: dict[str, int] = {}

    def period(self, raw: Mapping[str, Any]) -> float:
        """How many seconds after one look the next is due."""
        spec = raw.get("spec")
        own = spec.get("syncPeriodSeconds") if isinstance(spec, Mapping) else None
        if not own or isinstance(own, bool) or not isinstance(own, int | float):
            return self._settings.sync_period
        return min(max(float(own), LEAST_PERIOD_SECONDS), MOST_PERIOD_SECONDS)

    async def observe(
        self,
        key: Key,
        raw: Mapping[str, Any],
        memories: Mapping[Key, ObjectMemory],
        now: float,
        *,
        late: float = 0.0,
    ) -> Observation:
        """The world of the object read as `raw` at `now`; `memories` holds its own and all others'.

        Who looks `late` seconds after it was due takes usage that is so much older.
        Trouble with the hub or the members is part of the snapshot. InvalidObject if the object cannot be
        read at all.
        """
        memory = memories[key]
        hpa = self._decode(raw)
        spec = raw.get("spec") or {}
        unbuilt = unbuilt_field(spec, direct=self._settings.propagation == DIRECT)
        if unbuilt is not None:
            return _blocked(hpa, Blocked("NotBuilt", unbuilt, condition="ScalingActive"))
        try:
            workload = await self._workload(spec, key[0])
            candidates = await self._candidates(spec, workload)
            template = await self._template(workload)
        except NoBinding as error:
            return _blocked(hpa, Blocked("FailedGetBinding", str(error), event="FailedGetBindings"))
        except TargetUnreadable as error:
            return _blocked(hpa, Blocked("FailedGetScaleTargetRef", str(error)))
        except (ApiError, InvalidObject) as error:
            return Observation(Snapshot(hpa=hpa, target=Failure(str(error))))
        wanted = Wanted.of(hpa.spec.metrics, usage_age(self.period(raw), late))
        told = await self._ask(workload, candidates, wanted)
        memory.aim_at(workload.path)
        memory.note_absences(told.readings)
        # Where the workload was never sent, it is not missed; the template's clusters are Karmada's word.
        expected = {
            name: reading
            for name, reading in told.readings.items()
            if name not in memory.without_workload or template is not None or name in candidates.named
        }
        self._claim(key, memory, _selectors(expected))
        snapshot = Snapshot(
            hpa=hpa,
            clusters=await self._clusters(hpa, memory, expected, now, direct=template is None),
            target=None if template is None else Target(template.spec.replicas),
            hub_custom_metrics=told.custom,
            hub_external_metrics=told.external,
            ambiguous_with=self._rivals(key, memory, expected, memories),
        )
        return Observation(snapshot, workload.path, template, self._writes(expected))

    async def _ask(self, workload: Workload, candidates: Candidates, wanted: Wanted) -> Told:
        """What the members say, and of metrics the hub, where they are read through it."""
        through_hub = self._settings.metrics_via == HUB
        asked = replace(wanted, usage=False, questions={}) if through_hub else wanted
        readings = await read_clusters(self._readers, self._members(), workload, candidates.names, asked)
        if not through_hub:
            return Told(readings)
        return await read_hub(self._readers, self._hub_metrics, workload.namespace, readings, wanted)

    async def _clusters(
        self,
        hpa: ScalingObject,
        memory: ObjectMemory,
        readings: Mapping[str, Reading],
        now: float,
        *,
        direct: bool,
    ) -> tuple[ClusterSnapshot, ...]:
        """The clusters by name, with what is remembered of them; with `direct`, with their room, too."""
        members = self._members()
        rooms = await self._rooms(hpa, readings) if direct else {}
        most = await self._most(hpa, readings) if direct else {}
        held = _held(memory, readings, now) if direct else frozenset()
        return tuple(
            msgspec.structs.replace(
                reading.snapshot,
                absence=memory.absences.get(name),
                last_replicas=_last_known(memory, name, reading),
                cluster=known_cluster(members[name].cluster) if name in members else None,
                available_replicas=rooms.get(name),
                most_replicas=most.get(name),
                held=name in held,
            )
            for name, reading in sorted(readings.items())
        )

    def _claim(self, key: Key, memory: ObjectMemory, selectors: dict[str, Selector]) -> None:
        """Take over which pods are the object's; who shares its namespace must look at them anew."""
        if selectors != memory.selectors:
            self._claims[key[0]] = self._claims.get(key[0], 0) + 1
            memory.selectors = selectors

    def _rivals(
        self,
        key: Key,
        memory: ObjectMemory,
        readings: Mapping[str, Reading],
        memories: Mapping[Key, ObjectMemory],
    ) -> tuple[str, ...]:
        """Who else selects its pods: compared only when labels or anybody's selectors changed."""
        labels = {name: reading.label_sets for name, reading in readings.items() if reading.label_sets}
        basis = (self._claims.get(key[0], 0), len(memories), labels)
        if memory.rivals_basis != basis:
            others = {other: known.selectors for other, known in memories.items() if other[0] == key[0]}
            memory.rivals, memory.rivals_basis = rivals(key, labels, others), basis
        return memory.rivals

    def _decode(self, raw: Mapping[str, Any]) -> ScalingObject:
        hpa = decode_object(raw)
        if not self._settings.paused:
            return hpa
        # Paused is dryRun for everybody: computed and shown, not written, and not remembered as done.
        return msgspec.structs.replace(hpa, spec=msgspec.structs.replace(hpa.spec, dry_run=True))

    async def _rooms(self, hpa: ScalingObject, readings: Mapping[str, Reading]) -> dict[str, int | None]:
        """How many more replicas each cluster could run, where the decision will look at it."""
        pods = [pod for reading in readings.values() for pod in reading.snapshot.pods]
        if not is_needed(hpa.spec.assignment, pods):
            return {}
        wanted, members = asked(pods), self._members()
        here = {name: members[name] for name in readings if name in members}
        rooms = {name: available_replicas(member.cluster, wanted) for name, member in here.items()}
        untold = {name: here[name] for name, room in rooms.items() if room is None and here[name].state.ready}
        if untold:
            listed = await self._readers.rooms.look(untold)
            rooms.update((name, free.fits(wanted)) for name, free in listed.items())
        return rooms

    async def _most(self, hpa: ScalingObject, readings: Mapping[str, Reading]) -> dict[str, int | None]:
        """How many replicas the clusters of clusterHPAPreference may have."""
        members, caps = self._members(), hpa.spec.assignment.caps
        shares = {name: share for name, share in caps.items() if name in readings and name in members}
        if not shares:
            return {}
        offers = {name: offered(members[name].cluster) for name in shares}
        untold = {name: members[name] for name, offer in offers.items() if offer is None}
        if untold:
            listed = await self._readers.rooms.look(untold)
            offers.update((name, free.offered) for name, free in listed.items())
        wanted = asked(pod for reading in readings.values() for pod in reading.snapshot.pods)
        present = {name: found.scale.spec.replicas for name, found in readings.items() if found.scale}
        return {
            name: most_replicas(share, offers[name], wanted, present.get(name, 0))
            for name, share in shares.items()
        }

    def _writes(self, readings: Mapping[str, Reading]) -> dict[str, MemberWrite]:
        members, note = self._members(), self._readers.scales.note
        return {
            name: MemberWrite(
                members[name].client,
                reading.path,
                reading.scale,
                functools.partial(note, members[name], reading.path),
            )
            for name, reading in readings.items()
            # Without a selector it does not answer: its share is held, whatever its scale says.
            if reading.scale is not None and reading.selector is not None and name in members
        }

    async def _workload(self, spec: Mapping[str, Any], namespace: str) -> Workload:
        reference = spec.get("scaleTargetRef") or {}
        api_version, kind = str(reference.get("apiVersion") or "v1"), str(reference.get("kind", ""))
        resource = await self._mapper.resolve(api_version, kind, deadline=HUB_DEADLINE_SECONDS)
        return Workload(resource, namespace, str(reference.get("name", "")))

    async def _candidates(self, spec: Mapping[str, Any], workload: Workload) -> Candidates:
        if self._settings.propagation == DIRECT:
            return by_affinity(spec.get("clusterAffinity"), self._members())
        return await by_binding(
            self._hub,
            self._mapper,
            workload.resource,
            workload.namespace,
            workload.name,
            self._members(),
            HUB_DEADLINE_SECONDS,
        )

    async def _template(self, workload: Workload) -> Scale | None:
        if self._settings.propagation == DIRECT:
            return None
        return await get_scale(self._hub, workload.path, deadline=HUB_DEADLINE_SECONDS)


def _blocked(hpa: ScalingObject, blocked: Blocked) -> Observation:
    return Observation(Snapshot(hpa=hpa, target=Failure(blocked.message), blocked=blocked))


def _last_known(memory: ObjectMemory, name: str, reading: Reading) -> int | None:
    # A cluster whose scale was read and nothing else (no selector, no pods) does not answer, but its size is
    # known for sure, also right after a start.
    return memory.last_replicas.get(name) if reading.scale is None else reading.scale.spec.replicas


def _held(memory: ObjectMemory, readings: Mapping[str, Reading], now: float) -> frozenset[str]:
    """The clusters that did not take their share a short while ago, as long as there are others to ask."""
    answering = {name for name, reading in readings.items() if reading.selector is not None}
    refusing = {name for name in answering if memory.refuses(name, now)}
    return frozenset(refusing if refusing < answering else ())


def _selectors(readings: Mapping[str, Reading]) -> dict[str, Selector]:
    return {name: reading.selector for name, reading in readings.items() if reading.selector is not None}
