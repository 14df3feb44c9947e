"""Builds the snapshot of one FederatedHPA: its workload, the scale, and the data of each cluster."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import msgspec

from controller.apply.plan import WriteTargets, member_scales
from controller.apply.scales import WritableScale
from controller.failure_log import hub_problem
from controller.federatedhpa.ambiguity import Ambiguities
from controller.federatedhpa.cluster_reader import MemberCaches, MetricNeeds, Workload, read_clusters
from controller.federatedhpa.clusters import (
    NOT_BUILT,
    Candidates,
    Direct,
    cluster_snapshots,
    hpa_fields,
    with_gone,
    without_duplicates,
    workload_of,
)
from controller.federatedhpa.hub_metrics import HubMetrics, read_hub
from controller.federatedhpa.karmada import NO_BINDINGS, Karmada, NoBinding, TargetUnreadable
from controller.federatedhpa.memory import ObjectMemory
from controller.federatedhpa.pod_index import Look
from controller.federatedhpa.workload_search import WorkloadSearch
from controller.flags import DIRECT, HUB, Settings
from controller.holds import HoldOfNamespace, NamespaceHolds, member_spec
from controller.placement.placements import Placements, nowhere_yet
from fedhpa.api.errors import ApiError, InvalidObject
from fedhpa.api.hold import hold_in_force
from fedhpa.api.member_hpas import MemberHpa
from fedhpa.api.propagation import with_assignment
from fedhpa.decision import (
    DISTRIBUTED,
    PUBLISHED,
    Answers,
    Blocked,
    ClusterSnapshot,
    Failure,
    MemoryState,
    ScalingObject,
    ScalingSpec,
    Snapshot,
    TemplateScale,
    decode_object,
    decode_spec,
)
from fedhpa.kube import ApiClient, Key, Reflector, ResourceMapper
from fedhpa.members import Again, Gone, Member
from fedhpa.members.hpas import HpaReading

# Admission's bounds of spec.syncPeriodSeconds. An object that bypassed admission must not flood the hub.
MIN_PERIOD_SECONDS: Final = 1.0
MAX_PERIOD_SECONDS: Final = 300.0

# The age that usage may have, as a share of the sync period: one list serves all objects of a namespace, and
# no object decides twice on the same list.
USAGE_AGE: Final = 0.5
# A long period must not lead to decisions on old usage. This is half of the default period.
MAX_USAGE_AGE_SECONDS: Final = 7.5
# A late reconcile may use the list from when it was due. Otherwise a slow controller would list more often.
MAX_LATENESS_SECONDS: Final = 15.0
# The slots of a namespace's objects lie within this share of the usage age, so that they use one list.
SLOT_SPREAD: Final = 0.9
# A slot that is nearer than this is the present one.
SAME_SLOT_SECONDS: Final = 0.001


def max_usage_age(period: float, lateness: float = 0.0) -> float:
    """The age in seconds that usage may have, for an object's sync period and how late its reconcile is."""
    return min(period * USAGE_AGE, MAX_USAGE_AGE_SECONDS) + min(lateness, MAX_LATENESS_SECONDS)


def until_slot(key: Key, period: float, now: float) -> float:
    """Seconds from `now` to the object's next slot: more than 0, at most its period.

    Namespaces are spread over the whole period; the objects of one namespace over the age of one list.
    """
    namespace, name = (zlib.crc32(part.encode()) / 2**32 for part in key)
    slot = namespace * period + name * max_usage_age(period) * SLOT_SPREAD
    delay = period - math.fmod(now - slot, period)
    if delay > period:  # fmod keeps the sign of its first argument
        delay -= period
    return period if delay < SAME_SLOT_SECONDS else delay


class SnapshotBuilder:
    """Builds one object's snapshot at a time; `build` may run for different objects at once."""

    def __init__(
        self,
        hub: ApiClient,
        members: Mapping[str, Member],
        caches: MemberCaches,
        settings: Settings,
        *,
        clock: Callable[[], float],
        reads_nodes: bool = False,
        duplicates: Mapping[str, Member] = MappingProxyType({}),
        holds: NamespaceHolds | HoldOfNamespace | None = None,
        gone: Callable[[str], Gone | None] = lambda _: None,
    ) -> None:
        self._hub, self._gone, self._holds = hub, gone, holds
        # For an outlook on lost clusters under any policy, where one list of nodes is not too much.
        self._reads_nodes = reads_nodes
        self._mapper = ResourceMapper(hub, clock=clock)
        self._hub_metrics = HubMetrics(hub, self._mapper, settings.member_deadline, clock)
        # Live views. The duplicates are other names of the members, and no candidates.
        self.members, self.duplicates = members, duplicates
        self.hpas = caches.hpas
        self._caches, self._settings = caches, settings
        self._search = WorkloadSearch(hub, members, clock=clock)
        self.ambiguities = Ambiguities(clock)
        self.placements = Placements(hub, members, settings, duplicates=duplicates, clock=clock)
        common = members, duplicates, caches.hpas, settings.member_deadline
        self.propagation: Direct | Karmada = (
            Direct(*common, self.placements.followed)
            if settings.propagation == DIRECT
            else Karmada(*common, hub, self._mapper, self._search)
        )

    def hpa_watch(self, cluster: str) -> Reflector[MemberHpa] | None:
        """The watch of the HPAs of a cluster, if it is up to date; else None."""
        member = self.members.get(cluster)
        if member is None or member.unavailable() is not None:
            return None
        return self.hpas.watching(member, self.hpas.clock())

    def period(self, raw: Mapping[str, Any]) -> float:
        """Seconds between two reconciles of the object."""
        spec = raw.get("spec")
        own = spec.get("syncPeriodSeconds") if isinstance(spec, Mapping) else None
        if not own or isinstance(own, bool) or not isinstance(own, int | float):
            return self._settings.sync_period
        return float(min(max(own, MIN_PERIOD_SECONDS), MAX_PERIOD_SECONDS))

    async def build(
        self,
        key: Key,
        raw: Mapping[str, Any],
        memories: Mapping[Key, ObjectMemory],
        now: float,
        *,
        late: float = 0.0,
    ) -> tuple[Snapshot, WriteTargets]:
        """The snapshot of the object read as `raw` at `now`; `memories` are those of all objects.

        A reconcile that is `late` seconds late accepts usage that is so much older. Errors of the hub or of
        members are part of the snapshot. Raises InvalidObject if the object itself cannot be read.
        """
        memory = memories[key]
        unfollowed: str | None = None
        hpa = self._object(raw, memory.spec_of(raw))
        spec = raw.get("spec") or {}
        holds = () if self._holds is None else self._holds.of(key[0])
        refusal = self.propagation.refusal(spec)
        self.ambiguities.note_target(key, spec, scales=refusal is None)
        if refusal is not None:
            return self._blocked(hpa, memory, Blocked(NOT_BUILT, refusal, condition="ScalingActive"))
        try:
            workload = await workload_of(self._mapper, spec, key[0])
            own = self._holding(key, memory.state) if spec.get("mode") == DISTRIBUTED else frozenset[str]()
            holding = memory.running(workload.path) | own
            chosen, unfollowed = await self.propagation.clusters(
                key, spec, hpa, workload, memory, holding, now
            )
            candidates, found = without_duplicates(chosen, self.duplicates)
            candidates, gone = with_gone(candidates, memory, holding, self.members, self._gone, now)
            template = await self.propagation.template(workload)
        except NoBinding as error:
            no_binding = Blocked("FailedGetBinding", str(error), event="FailedGetBindings")
            return self._blocked(hpa, memory, no_binding)
        except TargetUnreadable as error:
            unreadable = Blocked("FailedGetScaleTargetRef", str(error))
            return self._blocked(hpa, memory, unreadable, hub_problem(error.__cause__))
        except (ApiError, InvalidObject) as error:
            return self._blocked(hpa, memory, str(error), hub_problem(error))
        distributed = hpa.spec.mode == DISTRIBUTED
        if distributed and template is not None:
            if candidates.bound is None:
                return self._blocked(hpa, memory, Blocked(NOT_BUILT, NO_BINDINGS, condition="ScalingActive"))
            hpa = self._object(raw, decode_spec(with_assignment(dict(spec), candidates.placement)))
        if candidates.placement is not None:
            tolerant = msgspec.structs.replace(hpa.spec, tolerations=candidates.placement.tolerations)
            hpa = msgspec.structs.replace(hpa, spec=tolerant)
        period = self.period(raw)
        again = Again(period, MAX_USAGE_AGE_SECONDS)
        needs = MetricNeeds.of(hpa.spec.metrics_read, max_usage_age(period, late), again)
        readings, of_hub = await self._read(workload, candidates, needs, memory.looks)
        memory.set_target(workload.path)
        memory.note_workloads(readings, now)
        # With propagation direct, a cluster without the workload is expected only if the object names it.
        shows = hpa.spec.publish or any(one.type == PUBLISHED for one in hpa.status.conditions)
        placement = self.placements.given(hpa, candidates, readings, memory) if shows else None
        awaited = placement.names if placement is not None else frozenset[str]()
        if awaited and awaited.issuperset(readings):
            blocked: Blocked | None = nowhere_yet(workload.text, awaited)
        else:
            blocked = await self._without_workload(workload, memory, readings, template)
        left_out = awaited if template is not None else awaited | (memory.without_workload - candidates.named)
        expected = {name: reading for name, reading in readings.items() if name not in left_out}
        self.ambiguities.note_selectors(key, memory, expected)
        hpas: Mapping[str, HpaReading] = {}
        of_hpas: Mapping[str, Mapping[str, Any]] = {}
        if distributed:
            hpas = await self._member_hpas(key, memory.state, expected)
            held_spec = member_spec(spec, hold_in_force((hpa.hold, *holds), now), memory.state)
            of_hpas = hpa_fields(hpas, memory, {**raw, "spec": held_spec})
        timeout, own_timeout = self._settings.decision.cluster_lost_timeout, hpa.spec.lost_after
        lost_after = timeout if own_timeout is None else own_timeout
        clusters = await cluster_snapshots(
            hpa,
            memory,
            expected,
            now,
            candidates,
            self.members,
            self._caches.nodes,
            direct=template is None or distributed,
            lost_after=lost_after,
            reads_nodes=self._reads_nodes,
            gone=gone,
            hpas=of_hpas,
        )
        others = [name for name in hpas.keys() - expected.keys() if hpas[name].ours]
        left = {name for name in others if not memory.briefly_absent(name, now)}
        bound = candidates.bound if distributed else None
        placed = set[str]() if bound is None else bound.shares.keys() & self.members.keys()
        scales = await self._scales_of(workload, tuple(sorted(left | placed - expected.keys())))
        running = {name: 0 if one is None else one.replicas for name, one in scales.items()}
        snapshot = Snapshot(
            hpa=hpa,
            clusters=clusters,
            target=None
            if template is None or distributed
            else TemplateScale(template.replicas, scheduling=candidates.scheduling),
            hub_metrics=of_hub,
            ambiguous_with=self.ambiguities.of(key, memory, expected, memories),
            decided_size=memory.decided_size(expected),
            blocked=blocked,
            hub_findings=found if self._holds is None else (*found, *self._holds.finding),
            holds=holds,
            leftovers=tuple(sorted(left & scales.keys())),
            placement=placement,
            unfollowed=unfollowed,
            propagation=self._settings.propagation,
            selection=candidates.selection,
            evictions=candidates.evictions,
            memory=memory.state,
            answers=memory.answers,
        )
        targets = WriteTargets(
            workload.path,
            template,
            memory.scales.of(
                memory.workloads, self.members, self._settings.member_deadline, self._caches.scales.note
            ),
            hpas=hpas,
            unselected={name: scale for name, scale in scales.items() if scale is not None and name in left},
            bound=None if bound is None else bound.with_others(running, left),
        )
        return snapshot, targets

    def _holding(self, key: Key, state: MemoryState) -> Set[str]:
        """The registered clusters that may hold our HPA: by the record, or by what a watch shows."""
        members, cache = self.members, self.hpas
        found = state.clusters_with_hpas & members.keys()
        cached = {name: cache.cached(one, *key) for name, one in members.items() if name not in found}
        return found | {name for name, known in cached.items() if known is not None and known.ours}

    async def _member_hpas(
        self, key: Key, state: MemoryState, expected: Mapping[str, ClusterSnapshot]
    ) -> dict[str, HpaReading]:
        """The HPAs of the candidates, and of other clusters that have or had one of ours."""
        members, cache = self.members, self.hpas
        assigned = state.clusters_with_hpas
        others = [
            name
            for name in sorted(members.keys() - expected.keys())
            if name in assigned or ((known := cache.cached(members[name], *key)) and known.hpa is not None)
        ]
        return await cache.read_all(members, (*expected, *others), key)

    async def _scales_of(self, workload: Workload, names: tuple[str, ...]) -> dict[str, WritableScale | None]:
        """The scales of clusters that are no longer selected; None without the workload.

        A cluster whose scale cannot be read is left to the next pass.
        """
        if not names:
            return {}
        nothing = MetricNeeds(usage=False, queries={}, max_age=0.0)
        found = await read_clusters(self._caches, self.members, workload, names, nothing)
        scales: dict[str, WritableScale | None] = dict.fromkeys(
            [name for name, reading in found.items() if reading.workload.is_absent]
        )
        workloads = {name: one.workload for name, one in found.items()}
        return scales | member_scales(
            workloads, self.members, self._settings.member_deadline, self._caches.scales.note
        )

    async def _read(
        self, workload: Workload, candidates: Candidates, needs: MetricNeeds, looks: dict[str, Look]
    ) -> tuple[dict[str, ClusterSnapshot], Answers]:
        """The data of the members, and the metrics of the hub with --metrics-via=hub."""
        through_hub = self._settings.metrics_via == HUB and (needs.usage or bool(needs.queries))
        of_members = replace(needs, usage=False, queries={}) if through_hub else needs
        readings = await read_clusters(
            self._caches, self.members, workload, candidates.names, of_members, looks
        )
        if not through_hub:
            return readings, {}
        return await read_hub(self._caches, self._hub_metrics, workload.namespace, readings, needs)

    def _object(self, raw: Mapping[str, Any], spec: ScalingSpec) -> ScalingObject:
        hpa = decode_object(raw, spec)
        if not self._settings.paused:
            return hpa
        # --pause means dryRun for every object: computed and shown, never written nor remembered as written.
        return msgspec.structs.replace(hpa, spec=msgspec.structs.replace(hpa.spec, dry_run=True))

    async def _without_workload(
        self,
        workload: Workload,
        memory: ObjectMemory,
        readings: Mapping[str, ClusterSnapshot],
        template: WritableScale | None,
    ) -> Blocked | None:
        """Why there is nothing to scale; None if a cluster has the workload or may have it."""
        nowhere = memory.without_workload.union(memory.absent_since).issuperset(readings)
        if readings and not (template is None and nowhere):
            return None
        return Blocked("FailedGetScale", await self._search.missing_in_members(workload, tuple(readings)))

    def _blocked(
        self, hpa: ScalingObject, memory: ObjectMemory, why: Blocked | str, hub_problem: str = ""
    ) -> tuple[Snapshot, WriteTargets]:
        """Return the snapshot of an object whose scale is not read."""
        blocked = None if isinstance(why, str) else why
        snapshot = Snapshot(
            hpa=hpa,
            target=Failure(why if isinstance(why, str) else why.message),
            blocked=blocked,
            memory=memory.state,
            propagation=self._settings.propagation,
        )
        return snapshot, WriteTargets(hub_problem=hub_problem)
