"""Builds the snapshot of one FederatedHPA: its workload, the scale, and the data of each cluster."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from controller.distributed.hpa_reader import HpaReading, is_ours, read_hpas
from controller.distributed.mode_changes import DISTRIBUTED
from controller.distributed.removal import clusters_with_hpas
from controller.distributed.template import Bound
from controller.federatedhpa.candidates import (
    NO_BINDINGS,
    NOT_BUILT,
    Candidates,
    NoBinding,
    TargetUnreadable,
    by_affinity,
    by_binding,
    unsupported_field,
)
from controller.federatedhpa.cluster_reader import (
    ClusterReading,
    FleetReading,
    MetricNeeds,
    Workload,
    read_clusters,
)
from controller.federatedhpa.cluster_snapshots import cluster_snapshots, with_member_hpas
from controller.federatedhpa.competition import ambiguous_with
from controller.federatedhpa.health import hub_problem
from controller.federatedhpa.hub_metrics import HubMetrics, read_hub
from controller.federatedhpa.member_caches import MemberCaches
from controller.federatedhpa.memory import ObjectMemory
from controller.federatedhpa.observation import Observation
from controller.federatedhpa.scale_writes import MemberScale
from controller.federatedhpa.workload_search import WorkloadSearch
from controller.flags import DIRECT, HUB, Settings
from controller.loop import max_usage_age
from fedhpa.api.errors import ApiError, InvalidObject
from fedhpa.api.member_hpas import V2
from fedhpa.api.propagation import with_assignment
from fedhpa.api.selectors import Selector
from fedhpa.api.wire import Scale
from fedhpa.decision import (
    Blocked,
    Failure,
    MemoryState,
    ScalingMetric,
    ScalingObject,
    Snapshot,
    TemplateScale,
    decode_object,
)
from fedhpa.kube import NOT_FOUND, ApiClient, Key, ResourceMapper, get_scale
from fedhpa.members import HpaCache, Member

HUB_DEADLINE_SECONDS: Final = 10.0

TargetIdentity = tuple[str, str, str]

# Admission's bounds of spec.syncPeriodSeconds. An object that bypassed admission must not flood the hub.
MIN_PERIOD_SECONDS: Final = 1.0
MAX_PERIOD_SECONDS: Final = 300.0


class SnapshotBuilder:
    """Builds one object's snapshot at a time; `build` may run for different objects at once."""

    def __init__(
        self,
        hub: ApiClient,
        members: Callable[[], Mapping[str, Member]],
        caches: MemberCaches,
        settings: Settings,
        *,
        clock: Callable[[], float],
        reads_nodes: bool = False,
    ) -> None:
        self._hub = hub
        # For an outlook on lost clusters under any policy, where one list of nodes is not too much.
        self._reads_nodes = reads_nodes
        self._mapper = ResourceMapper(hub, clock=clock)
        self._hub_metrics = HubMetrics(hub, self._mapper, settings.member_deadline, clock)
        self._members = members
        self._caches = caches
        self._settings = settings
        self._search = WorkloadSearch(hub, members, clock=clock)
        # By namespace, how often the selectors or targets of any of its objects changed.
        self._selector_versions: dict[str, int] = {}
        # Group, kind and name of each object's target.
        self._targets: dict[Key, TargetIdentity] = {}

    @property
    def members(self) -> Callable[[], Mapping[str, Member]]:
        """The registered members, as a function."""
        return self._members

    @property
    def hpas(self) -> HpaCache:
        """The HPAs of the members."""
        return self._caches.hpas

    def period(self, raw: Mapping[str, Any]) -> float:
        """Seconds between two reconciles of the object."""
        spec = raw.get("spec")
        own = spec.get("syncPeriodSeconds") if isinstance(spec, Mapping) else None
        if not own or isinstance(own, bool) or not isinstance(own, int | float):
            return self._settings.sync_period
        return float(min(max(own, MIN_PERIOD_SECONDS), MAX_PERIOD_SECONDS))

    def forget(self, key: Key) -> None:
        """Drop what is known of a deleted object."""
        if self._targets.pop(key, None) is not None:
            self._compare_again(key[0])

    async def build(
        self,
        key: Key,
        raw: Mapping[str, Any],
        memories: Mapping[Key, ObjectMemory],
        now: float,
        *,
        late: float = 0.0,
    ) -> Observation:
        """The snapshot of the object read as `raw` at `now`; `memories` are those of all objects.

        A reconcile that is `late` seconds late accepts usage that is so much older. Errors of the hub or of
        members are part of the snapshot. Raises InvalidObject if the object itself cannot be read.
        """
        memory = memories[key]
        hpa = self._decode(raw)
        spec = raw.get("spec") or {}
        unsupported = unsupported_field(spec, direct=self._settings.propagation == DIRECT)
        self._note_target(key, spec, scales=unsupported is None)
        if unsupported is not None:
            return self._blocked(hpa, memory, Blocked(NOT_BUILT, unsupported, condition="ScalingActive"))
        try:
            workload = await self._workload(spec, key[0])
            candidates = await self._candidates(spec, workload)
            template = await self._template(workload)
        except NoBinding as error:
            no_binding = Blocked("FailedGetBinding", str(error), event="FailedGetBindings")
            return self._blocked(hpa, memory, no_binding)
        except TargetUnreadable as error:
            unreadable = self._blocked(hpa, memory, Blocked("FailedGetScaleTargetRef", str(error)))
            return replace(unreadable, hub_problem=hub_problem(error.__cause__))
        except (ApiError, InvalidObject) as error:
            return replace(self._without_scale(hpa, memory, str(error)), hub_problem=hub_problem(error))
        distributed = hpa.spec.mode == DISTRIBUTED
        if distributed and self._settings.propagation != DIRECT:
            if candidates.bound is None:
                return self._blocked(hpa, memory, Blocked(NOT_BUILT, NO_BINDINGS, condition="ScalingActive"))
            hpa = self._decode({**raw, "spec": with_assignment(dict(spec), candidates.placement)})
        needs = MetricNeeds.of(_metrics_read(hpa), max_usage_age(self.period(raw), late))
        fleet = await self._read(workload, candidates, needs)
        memory.set_target(workload.path)
        memory.note_workloads(fleet.clusters)
        # With propagation direct, a cluster without the workload is expected only if the object names it.
        # With propagation karmada, the ResourceBinding decides.
        blocked = await self._without_workload(workload, memory, fleet.clusters)
        expected = {
            name: reading
            for name, reading in fleet.clusters.items()
            if name not in memory.without_workload or template is not None or name in candidates.named
        }
        self._note_selectors(key, memory, _selectors(expected))
        clusters = await cluster_snapshots(
            hpa,
            memory,
            expected,
            now,
            candidates.shares,
            self._members(),
            self._caches.nodes,
            direct=template is None or distributed,
            reads_nodes=self._reads_nodes,
            remembers_full=distributed and memory.state.remembers_full,
        )
        hpas: Mapping[str, HpaReading] = {}
        if distributed:
            hpas = await self._member_hpas(key, memory.state, expected)
            clusters = with_member_hpas(clusters, hpas, memory, raw)
        snapshot = Snapshot(
            hpa=hpa,
            clusters=clusters,
            target=None
            if template is None or distributed
            else TemplateScale(template.spec.replicas, scheduling=candidates.scheduling),
            hub_custom_metrics=fleet.custom,
            hub_external_metrics=fleet.external,
            ambiguous_with=self._ambiguous_with(key, memory, expected, memories),
            decided_size=memory.decided_size(expected),
            blocked=blocked,
            propagation=self._settings.propagation,
            memory=memory.state,
            last_pass=memory.last_pass,
            last_triggers=memory.last_triggers,
            last_steps=memory.last_steps,
            last_reason=memory.last_reason,
        )
        left = {name: found for name, found in hpas.items() if name not in expected and is_ours(found)}
        return Observation(
            snapshot,
            workload.path,
            template,
            self._member_scales(expected),
            hpas=hpas,
            unselected=await self._scales_of(workload, tuple(left)),
            bound=candidates.bound,
        )

    async def bound(self, key: Key, raw: Mapping[str, Any]) -> Bound | None:
        """Returns template and ResourceBinding of an object's workload; None if one of them is gone.

        Raises ApiError.
        """
        spec = raw.get("spec") or {}
        try:
            return (await self._candidates(spec, await self._workload(spec, key[0]))).bound
        except (NoBinding, InvalidObject):
            return None
        except TargetUnreadable as error:
            if error.status == NOT_FOUND:
                return None
            raise

    async def _member_hpas(
        self, key: Key, state: MemoryState, expected: Mapping[str, ClusterReading]
    ) -> dict[str, HpaReading]:
        """The HPAs of the candidates, and of other clusters that have or had one of ours."""
        members, cache = self._members(), self._caches.hpas
        assigned = clusters_with_hpas(state)
        others = [
            name
            for name, member in members.items()
            if name not in expected
            and (name in assigned or cache.cached(member, *key) not in (None, (None, V2)))
        ]
        return await read_hpas(cache, members, (*expected, *others), key)

    async def _scales_of(self, workload: Workload, names: tuple[str, ...]) -> dict[str, MemberScale | None]:
        """The scales of clusters that are no longer selected; None without the workload.

        A cluster whose scale cannot be read is left to the next pass.
        """
        if not names:
            return {}
        nothing = MetricNeeds(usage=False, queries={}, max_age=0.0)
        found = await read_clusters(self._caches, self._members(), workload, names, nothing)
        scales: dict[str, MemberScale | None] = dict.fromkeys(
            [name for name, reading in found.items() if reading.absent]
        )
        return scales | self._member_scales(found)

    async def _read(self, workload: Workload, candidates: Candidates, needs: MetricNeeds) -> FleetReading:
        """The data of the members, and the metrics of the hub with --metrics-via=hub."""
        through_hub = self._settings.metrics_via == HUB and (needs.usage or bool(needs.queries))
        of_members = replace(needs, usage=False, queries={}) if through_hub else needs
        readings = await read_clusters(self._caches, self._members(), workload, candidates.names, of_members)
        if not through_hub:
            return FleetReading(readings)
        return await read_hub(self._caches, self._hub_metrics, workload.namespace, readings, needs)

    def _note_selectors(self, key: Key, memory: ObjectMemory, selectors: dict[str, Selector]) -> None:
        """Store the object's selectors. A change makes all objects of the namespace compare them again."""
        if selectors != memory.selectors:
            self._compare_again(key[0])
            memory.selectors = selectors

    def _note_target(self, key: Key, spec: Mapping[str, Any], *, scales: bool) -> None:
        if not scales:
            self.forget(key)
            return
        reference = spec.get("scaleTargetRef")
        known = reference if isinstance(reference, Mapping) else {}
        # All versions of a group serve the same object.
        group = str(known.get("apiVersion") or "").rpartition("/")[0]
        target = (group, str(known.get("kind") or ""), str(known.get("name") or ""))
        if self._targets.get(key) != target:
            self._targets[key] = target
            self._compare_again(key[0])

    def _compare_again(self, namespace: str) -> None:
        """Let all objects of the namespace compare their selectors and targets again."""
        self._selector_versions[namespace] = self._selector_versions.get(namespace, 0) + 1

    def _ambiguous_with(
        self,
        key: Key,
        memory: ObjectMemory,
        readings: Mapping[str, ClusterReading],
        memories: Mapping[Key, ObjectMemory],
    ) -> tuple[str, ...]:
        """The objects with the same target or the same pods; compared only if any of these changed.

        Two objects with one target are ambiguous while it has no pods, too: their bounds may differ.
        """
        labels = {name: reading.label_sets for name, reading in readings.items() if reading.label_sets}
        basis = (self._selector_versions.get(key[0], 0), len(memories), labels)
        if memory.ambiguity_basis != basis:
            others = {other: known.selectors for other, known in memories.items() if other[0] == key[0]}
            own = self._targets.get(key)  # None if the object was deleted meanwhile
            same = [other for other in others if self._targets.get(other, ()) == own]
            memory.ambiguous_with, memory.ambiguity_basis = ambiguous_with(key, labels, others, same), basis
        return memory.ambiguous_with

    def _decode(self, raw: Mapping[str, Any]) -> ScalingObject:
        hpa = decode_object(raw)
        if not self._settings.paused:
            return hpa
        # --pause means dryRun for every object: computed and shown, never written nor remembered as written.
        return msgspec.structs.replace(hpa, spec=msgspec.structs.replace(hpa.spec, dry_run=True))

    def _member_scales(self, readings: Mapping[str, ClusterReading]) -> dict[str, MemberScale]:
        members, note = self._members(), self._caches.scales.note
        return {
            name: MemberScale(
                members[name].client,
                reading.path,
                reading.scale,
                functools.partial(note, members[name], reading.path),
            )
            for name, reading in readings.items()
            # A cluster without a selector counts as not answering, so its replicas stay.
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
        try:
            return await by_binding(
                self._hub,
                self._mapper,
                workload.resource,
                workload.namespace,
                workload.name,
                self._members(),
                HUB_DEADLINE_SECONDS,
            )
        except TargetUnreadable as error:
            text = await self._search.unreadable_on_hub(workload, error, scale=False)
            raise TargetUnreadable(text, status=error.status, reason=error.reason) from error

    async def _template(self, workload: Workload) -> Scale | None:
        if self._settings.propagation == DIRECT:
            return None
        try:
            return await get_scale(self._hub, workload.path, deadline=HUB_DEADLINE_SECONDS)
        except ApiError as error:
            text = await self._search.unreadable_on_hub(workload, error)
            raise ApiError(text, status=error.status, reason=error.reason) from error

    async def _without_workload(
        self, workload: Workload, memory: ObjectMemory, readings: Mapping[str, ClusterReading]
    ) -> Blocked | None:
        """Why there is nothing to scale; None if a cluster has the workload or may have it."""
        if readings and not (
            self._settings.propagation == DIRECT and memory.without_workload.issuperset(readings)
        ):
            return None
        return Blocked("FailedGetScale", await self._search.missing_in_members(workload, tuple(readings)))

    def _blocked(self, hpa: ScalingObject, memory: ObjectMemory, blocked: Blocked) -> Observation:
        return self._without_scale(hpa, memory, blocked.message, blocked)

    def _without_scale(
        self, hpa: ScalingObject, memory: ObjectMemory, reason: str, blocked: Blocked | None = None
    ) -> Observation:
        found = Snapshot(hpa=hpa, target=Failure(reason), blocked=blocked, memory=memory.state)
        return Observation(msgspec.structs.replace(found, propagation=self._settings.propagation))


def _selectors(readings: Mapping[str, ClusterReading]) -> dict[str, Selector]:
    return {name: reading.selector for name, reading in readings.items() if reading.selector is not None}


def _metrics_read(hpa: ScalingObject) -> Sequence[ScalingMetric]:
    """The metrics that the controller itself reads.

    In mode Distributed the members' HPAs do that. Only a cluster at zero has no HPA at work.
    """
    if hpa.spec.mode != DISTRIBUTED:
        return hpa.spec.metrics
    if not hpa.spec.assignment.scaling_to_zero:
        return ()
    return [metric for metric in hpa.spec.metrics if metric.metric_type.scales_from_zero]
