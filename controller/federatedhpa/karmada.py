"""Propagation karmada: the candidates are the clusters of the ResourceBinding and of its placement.

Mode Centralized takes the clusters of the ResourceBinding, to which Karmada's scheduler gives replicas. Mode
Distributed takes those that the placement selects, because Karmada drops empty clusters from a
ResourceBinding.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from controller.apply.member_hpas import MemberHpaWriter, WorkWriter
from controller.apply.scales import WritableScale
from controller.apply.template import BindingSpec, Bound
from controller.federatedhpa.cluster_reader import Workload
from controller.federatedhpa.clusters import HUB_DEADLINE_SECONDS, Candidates, by_affinity, workload_of
from controller.federatedhpa.memory import ObjectMemory
from controller.federatedhpa.workload_search import WorkloadSearch
from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
from fedhpa.api.member_hpas import Owner
from fedhpa.api.propagation import DIVIDED, Placement
from fedhpa.api.taints import NO_EXECUTE, NO_SCHEDULE, Toleration, tolerated_for
from fedhpa.api.texts import one_line
from fedhpa.api.wire import ObjectMeta, WithMetadata
from fedhpa.decision import DISTRIBUTED, ScalingObject
from fedhpa.kube import NOT_FOUND, ApiClient, Key, Resource, ResourceMapper, get_scale
from fedhpa.members import Member
from fedhpa.members.hpas import HpaCache

BINDING_API: Final = "work.karmada.io/v1alpha2"
POLICY_LABELS: Final = (
    "propagationpolicy.karmada.io/permanent-id",
    "clusterpropagationpolicy.karmada.io/permanent-id",
)


# People read the message of a cluster.
_MAX_TASK: Final = 256
CHOSEN: Final = (
    "the PropagationPolicy has spreadConstraints, so only the clusters of the ResourceBinding take part"
)


NO_BINDINGS: Final = (
    "spec.mode: Distributed with --propagation=karmada needs Karmada's ResourceBindings, which this hub does "
    "not serve: use --propagation=direct"
)


class NoBinding(FedHPAError):
    """The hub serves bindings, but has no usable one of the workload (Karmada: FailedGetBinding)."""


class TargetUnreadable(ApiError):
    """The scale target could not be read from the hub (Karmada: FailedGetScaleTargetRef)."""


class _ResourceReference(msgspec.Struct, frozen=True):
    apiVersion: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""


class _Suspension(msgspec.Struct, frozen=True):
    scheduling: bool | None = None


class _EvictionTask(msgspec.Struct, frozen=True):
    fromCluster: str = ""
    reason: str = ""
    producer: str = ""


class _BindingSpec(BindingSpec, frozen=True):
    resource: _ResourceReference = _ResourceReference()
    placement: Placement | None = None
    suspension: _Suspension | None = None
    gracefulEvictionTasks: list[_EvictionTask] | None = None


class _BindingStatus(msgspec.Struct, frozen=True):
    schedulerObservingAffinityName: str = ""


class _Binding(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _BindingSpec = _BindingSpec()
    status: _BindingStatus = _BindingStatus()


@dataclass(eq=False)
class Karmada:
    """--propagation=karmada: the hub has a template of the workload, and Karmada divides its replicas.

    The arguments are those of `Direct`, and the hub with its discovery and the search for workloads.
    """

    no_policy = ""  # that of the placement serves

    _members: Mapping[str, Member]
    _duplicates: Mapping[str, Member]
    _hpas: HpaCache
    _deadline: float
    _hub: ApiClient
    _mapper: ResourceMapper
    _search: WorkloadSearch

    def refusal(self, spec: Mapping[str, Any]) -> str | None:
        """Why an object with this spec cannot be acted on; None if it can."""
        return unsupported_field(spec)

    async def clusters(
        self,
        key: Key,  # noqa: ARG002  # no PlacementDecision is followed
        spec: Mapping[str, Any],
        hpa: ScalingObject,  # noqa: ARG002
        workload: Workload,
        memory: ObjectMemory,
        running: Collection[str],
        now: float,  # noqa: ARG002
    ) -> tuple[Candidates, str | None]:
        """The candidates as `Direct.clusters` returns them. Raises NoBinding and TargetUnreadable, too."""
        found = await self._by_binding(workload)
        if spec.get("mode") == DISTRIBUTED:
            unable, duplicates = memory.state.unable, self._duplicates
            found = _by_placement(found, spec, self._members, unable, duplicates, running)
        if found.bound is not None and not (found.names or found.bound.begins):
            raise NoBinding("the ResourceBinding of the scale target has no schedulable clusters")
        return found, None

    async def template(self, workload: Workload) -> WritableScale | None:
        """The scale of the template on the hub. Raises ApiError that says where the workload is instead."""
        try:
            scale = await get_scale(self._hub, workload.path, deadline=HUB_DEADLINE_SECONDS)
            return WritableScale(self._hub, workload.path, scale, HUB_DEADLINE_SECONDS)
        except ApiError as error:
            text = await self._search.unreadable_on_hub(workload, error)
            raise ApiError(text, status=error.status, reason=error.reason) from error

    def writer(self, owner: Callable[[Key], Owner]) -> MemberHpaWriter:
        """The writer of member HPAs: Karmada's Works."""
        return WorkWriter(self._members, self._hpas, owner, self._deadline, self._hub)

    async def bound(self, key: Key, raw: Mapping[str, Any]) -> Bound | None:
        """Returns template and ResourceBinding of an object's workload; None if one of them is gone.

        Raises ApiError.
        """
        try:
            workload = await workload_of(self._mapper, raw.get("spec") or {}, key[0])
            return (await self._by_binding(workload)).bound
        except (NoBinding, InvalidObject):
            return None
        except TargetUnreadable as error:
            if error.status == NOT_FOUND:
                return None
            raise

    async def _by_binding(self, workload: Workload) -> Candidates:
        """The clusters that Karmada's scheduler chose for a workload, from its ResourceBinding.

        Raises TargetUnreadable, NoBinding, or ApiError if the hub does not answer.
        """
        try:
            bindings = await self._mapper.resolve(
                BINDING_API, "ResourceBinding", deadline=HUB_DEADLINE_SECONDS
            )
        except InvalidObject:  # without Karmada nothing restricts the workload to some of the clusters
            return Candidates(tuple(sorted(self._members)))
        path, namespace, target = workload.path, workload.namespace, workload.resource
        try:
            template = await self._hub.get(
                path, WithMetadata, kind=target.kind, deadline=HUB_DEADLINE_SECONDS
            )
        except ApiError as error:
            text = await self._search.unreadable_on_hub(workload, error, scale=False)
            raise TargetUnreadable(text, status=error.status, reason=error.reason) from error
        labels = template.metadata.labels or {}
        selector = next((f"{label}={labels[label]}" for label in POLICY_LABELS if label in labels), "")
        if not selector:
            raise NoBinding(
                "the scale target has no label of a policy's permanent-id: propagate it by a policy"
            )
        listing = await self._hub.list(bindings.path(namespace), _Binding, label_selector=selector)
        reference = _ResourceReference(target.api_version, target.kind, namespace, workload.name)
        for binding in listing.items:
            if binding.spec.resource == reference:
                return _candidates(binding, bindings, path, template.metadata)
        raise NoBinding("no ResourceBinding matches the scale target")


def _candidates(binding: _Binding, bindings: Resource, path: str, template: ObjectMeta) -> Candidates:
    spec, metadata = binding.spec, binding.metadata
    placement, shares = spec.placement, {target.name: target.replicas for target in spec.clusters or ()}
    scheduling = "" if placement is None else placement.scheduling
    return Candidates(
        tuple(sorted(shares)),
        scheduling=scheduling,
        shares={name: replicas for name, replicas in shares.items() if replicas is not None},
        bound=Bound(
            template_path=path,
            template=template,
            binding_path=bindings.path(metadata.namespace, metadata.name),
            binding=metadata,
            suspended=spec.suspension is not None and spec.suspension.scheduling is True,
            replicas=spec.replicas,
            shares=shares,
            divided=scheduling == DIVIDED,
        ),
        placement=placement,
        group=binding.status.schedulerObservingAffinityName,
        evictions={
            one.fromCluster: one_line(f"Karmada evicts it ({one.producer}: {one.reason})", _MAX_TASK)
            for one in spec.gracefulEvictionTasks or ()
        },
    )


def _by_placement(
    found: Candidates,
    spec: Mapping[str, Any],
    members: Mapping[str, Member],
    unable: Collection[str],
    duplicates: Collection[str],
    running: Collection[str],
) -> Candidates:
    """Returns the candidates of mode Distributed.

    They are the clusters that the placement and spec.clusterAffinity select. Those that the ResourceBinding
    does not hold yet begin. The next group of the placement's clusterAffinities takes part only if all
    clusters of the one before are `unable` to run replicas, are evicted, or have a Cluster that is being
    deleted. Other names of a cluster, the `duplicates`, stay in the ResourceBinding as they are. Those of
    `running` that are selected no more stay candidates until their replicas have moved.
    """
    placement, bound = found.placement, found.bound
    if placement is None or bound is None:
        return found
    allowed = set(by_affinity(spec.get("clusterAffinity"), members).names)
    gone = {*unable, *found.evictions}
    tiers: dict[str, int] = {}
    replaced: frozenset[str] = frozenset()
    for group in placement.groups(found.group):
        for tier, part in enumerate(group):
            for name in by_affinity(part, members, where="the placement's clusterAffinity").names:
                if name in allowed and name in members:
                    tiers.setdefault(name, tier)
        if not all(name in gone or members[name].known.deleted for name in tiers):
            break
        replaced = frozenset(tiers)
    # Karmada takes a cluster out of the ResourceBinding first, and removes the workload there after a while.
    held = bound.shares.keys() | found.evictions.keys()
    begins = frozenset(
        name
        for name in (() if placement.spreadConstraints else tiers)
        if name not in held and _may_begin(members[name], placement)
    )
    # Karmada waits with the deletion of a Cluster until no ResourceBinding names it.
    # For another name of a registered cluster, Karmada would remove the workload of that cluster.
    twice = bound.shares.keys() & set(duplicates)
    removed = frozenset(bound.shares.keys() - members.keys() - twice)
    left = frozenset(set(running) & bound.shares.keys() & members.keys() - tiers.keys() - twice)
    return replace(
        found,
        names=tuple(sorted(held & tiers.keys() | twice | left)),
        deselected=left,
        bound=replace(bound, begins=begins, gone=removed),
        overflow={name: tier for name, tier in tiers.items() if tier},
        replaced=replaced,
        selection=CHOSEN if placement.spreadConstraints else "",
    )


def _may_begin(member: Member, placement: Placement) -> bool:
    """True if Karmada would give the cluster its first replicas."""
    tolerations: tuple[Toleration, ...] = placement.tolerations
    return member.state.ready and all(
        tolerated_for(taint, tolerations) is None
        for taint in member.known.taints
        if taint.effect in (NO_SCHEDULE, NO_EXECUTE)
    )


# A short piece of the object is shown, and of JSON only what people read in a condition.
_MAX_SHOWN: Final = 64
_MAX_JSON: Final = 200
_WEIGHTED: Final = (
    "replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, "
    "weightPreference: {%s}}"
)
_AGGREGATED: Final = (
    "replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}"
)
# The policies that a PropagationPolicy has, too (docs/decisions/0017).
_IN_POLICY: Final = {
    "Duplicated": "replicaScheduling: {replicaSchedulingType: Duplicated}",
    "Aggregated": _AGGREGATED,
    # Overflow needs a division by free capacity.
    "Prioritized": "clusterAffinities: [{affinityName: first, clusterNames: [...], overflowAffinities: "
    f"[{{affinityName: next, ...}}]}}] and {_AGGREGATED} (since Karmada v1.18)",
    "DynamicWeighted": _WEIGHTED % "dynamicWeight: AvailableReplicas",
    "StaticWeighted": _WEIGHTED % "staticWeightList: [{targetCluster: {clusterNames: [...]}, weight: ...}]",
}
_OF_KARMADA: Final = {
    "clusterHPAPreference": "limit the namespace in each cluster by the staticAssignments of a "
    "FederatedResourceQuota",
    "autoscaleMultiClusterDelay": "run karmada-descheduler, whose --unschedulable-threshold is that delay",
}


def unsupported_field(spec: Mapping[str, Any]) -> str | None:
    """Returns a message that names a field that cannot be acted on, with the remedy; None without one.

    Nothing is scaled while it is set. Fields that this version does not even know hold nothing.
    """
    affinity, given = spec.get("clusterAffinity") or {}, spec.get("federatedHPAAssignment") or {}
    policy, field, remedy = given.get("federatedHPAAssignmentType"), "", ""
    if affinity.get("placementDecision"):
        field, remedy = "clusterAffinity.placementDecision", "name the clusters in its spec.placement"
    elif spec.get("mode") == DISTRIBUTED:
        return _unsupported_target(spec.get("scaleTargetRef"))
    elif policy is not None:
        field = f"federatedHPAAssignment.federatedHPAAssignmentType: {str(policy)[:_MAX_SHOWN]}"
        if str(policy) in _IN_POLICY:
            remedy = _in_placement(_IN_POLICY[str(policy)])
        else:
            remedy = "Karmada has no such policy, so leave the field out, or use --propagation=direct"
    elif given.get("rebalance") == "WhenQuiet":
        field = "federatedHPAAssignment.rebalance: WhenQuiet"
        remedy = "leave the field out, and create a WorkloadRebalancer (apps.karmada.io/v1alpha1) that names "
        remedy += "the workload whenever it is to be placed anew"
    elif field := next((name for name in _OF_KARMADA if spec.get(name)), ""):
        remedy = f"leave the field out, and {_OF_KARMADA[field]}"
    elif affinity:
        # JSON is YAML too, and a placement has the same fields.
        text = json.dumps(affinity)
        remedy = _in_placement(f"clusterAffinity: {text if len(text) <= _MAX_JSON else '{...}'}")
        field = "clusterAffinity"
    if not field:
        return None
    where = "Karmada's scheduler divides the replicas by the workload's PropagationPolicy"
    return f"spec.{field} is not built for --propagation=karmada, where {where}: {remedy}"


def _in_placement(fields: str) -> str:
    return f"leave the field out, and write {fields} in the spec.placement of the PropagationPolicy"


def _unsupported_target(reference: object) -> str | None:
    found = reference if isinstance(reference, Mapping) else {}
    version, kind = (str(found.get(name))[:_MAX_SHOWN] for name in ("apiVersion", "kind"))
    if (version, kind) == ("apps/v1", "Deployment"):
        return None
    return (
        f"spec.scaleTargetRef: {version} {kind}: with --propagation=karmada mode Distributed is built only "
        "for apps/v1 Deployment, because Karmada undoes what member HPAs set on other kinds: use mode "
        "Centralized, or --propagation=direct"
    )
