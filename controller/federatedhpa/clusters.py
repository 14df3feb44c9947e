"""The candidate clusters of a FederatedHPA, their records, and fields that the propagation cannot act on.

With propagation karmada these are the clusters of the ResourceBinding, or all registered clusters if the hub
serves no bindings. With propagation direct these are the clusters of spec.clusterAffinity, or all registered
clusters without one (docs/reference/processes.md). Nothing is scaled while a field is set that this version
cannot act on. Fields that it does not even know hold nothing; another condition names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from controller.distributed.hpa_reader import HpaReading
from controller.distributed.template import Bound, WithMetadata
from controller.federatedhpa.capacity import NodeCapacity, available_replicas, capped_replicas
from controller.federatedhpa.memory import ObjectMemory
from fedhpa.api.affinity import Selection
from fedhpa.api.decode import decode
from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
from fedhpa.api.federatedhpa import ClusterAffinity
from fedhpa.api.gate import Judgement
from fedhpa.api.member_hpas import MemberHpa, differing_fields, wanted_spec
from fedhpa.api.propagation import DIVIDED, Placement
from fedhpa.api.texts import listed
from fedhpa.api.wire import ObjectMeta
from fedhpa.decision import ClusterSnapshot, Finding, ScalingObject
from fedhpa.kube import ApiClient, Resource, ResourceMapper
from fedhpa.members import Member

BINDING_API: Final = "work.karmada.io/v1alpha2"
POLICY_LABELS: Final = (
    "propagationpolicy.karmada.io/permanent-id",
    "clusterpropagationpolicy.karmada.io/permanent-id",
)


class NoBinding(FedHPAError):
    """The hub serves bindings, but has no usable one of the workload (Karmada: FailedGetBinding)."""


class TargetUnreadable(ApiError):
    """The scale target could not be read from the hub (Karmada: FailedGetScaleTargetRef)."""


@dataclass(frozen=True)
class Candidates:
    """The clusters' sorted `names`. `named` are those that spec.clusterAffinity lists by name.

    `scheduling` is Duplicated or Divided by the ResourceBinding's placement, "" if unknown. `shares` are the
    replicas that the ResourceBinding gives to each cluster. `bound` is the ResourceBinding with its template,
    and `placement` that of the policy.
    """

    names: tuple[str, ...]
    named: frozenset[str] = frozenset()
    scheduling: str = ""
    shares: Mapping[str, int] = field(default_factory=dict)
    bound: Bound | None = None
    placement: Placement | None = None


class _ResourceReference(msgspec.Struct, frozen=True):
    apiVersion: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""


class _TargetCluster(msgspec.Struct, frozen=True):
    name: str = ""
    replicas: int | None = None


class _Suspension(msgspec.Struct, frozen=True):
    scheduling: bool | None = None


class _BindingSpec(msgspec.Struct, frozen=True):
    resource: _ResourceReference = _ResourceReference()
    clusters: list[_TargetCluster] | None = None
    placement: Placement | None = None
    replicas: int = 0
    suspension: _Suspension | None = None


class _Binding(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _BindingSpec = _BindingSpec()


def by_affinity(affinity: Mapping[str, Any] | None, members: Mapping[str, Member]) -> Candidates:
    """The clusters that a Karmada ClusterAffinity selects by names, labels, fields and exclusions; None: all.

    A cluster that is named but not registered stays a candidate, so it counts as missing. Raises
    InvalidObject for an affinity or a selector that cannot be read.
    """
    if affinity is None:
        return Candidates(tuple(sorted(members)))
    try:
        decoded = decode(ClusterAffinity, affinity)
        selection = Selection(decoded)
    except InvalidObject as error:
        raise InvalidObject(f"spec.clusterAffinity cannot be read: {error}") from error
    chosen = {name for name, member in members.items() if selection.selects(member.known)}
    if decoded.label_selector is None and decoded.field_selector is None:
        chosen |= selection.named - set(decoded.exclude)
    return Candidates(tuple(sorted(chosen)), selection.named & chosen)


async def by_binding(
    hub: ApiClient,
    mapper: ResourceMapper,
    target: Resource,
    namespace: str,
    name: str,
    members: Mapping[str, Member],
    deadline: float,
) -> Candidates:
    """The clusters that Karmada's scheduler chose for a workload, from its ResourceBinding.

    Raises TargetUnreadable, NoBinding, or ApiError if the hub does not answer.
    """
    try:
        bindings = await mapper.resolve(BINDING_API, "ResourceBinding", deadline=deadline)
    except InvalidObject:  # without Karmada nothing restricts the workload to some of the clusters
        return Candidates(tuple(sorted(members)))
    try:
        path = target.path(namespace, name)
        template = await hub.get(path, WithMetadata, kind=target.kind, deadline=deadline)
    except ApiError as error:
        raise TargetUnreadable(str(error), status=error.status, reason=error.reason) from error
    labels = template.metadata.labels or {}
    selector = next((f"{label}={labels[label]}" for label in POLICY_LABELS if label in labels), "")
    if not selector:
        raise NoBinding("the scale target has no label of a policy's permanent-id: propagate it by a policy")
    listing = await hub.list(bindings.path(namespace), _Binding, label_selector=selector)
    reference = _ResourceReference(target.api_version, target.kind, namespace, name)
    for binding in listing.items:
        if binding.spec.resource == reference:
            targets, placement = binding.spec.clusters or (), binding.spec.placement
            if not targets:
                raise NoBinding("the ResourceBinding of the scale target has no schedulable clusters")
            return Candidates(
                tuple(sorted({target.name for target in targets})),
                scheduling="" if placement is None else placement.scheduling,
                shares={target.name: target.replicas for target in targets if target.replicas is not None},
                bound=_bound(path, template.metadata, bindings, binding),
                placement=placement,
            )
    raise NoBinding("no ResourceBinding matches the scale target")


def _bound(path: str, template: ObjectMeta, bindings: Resource, binding: _Binding) -> Bound:
    spec, metadata = binding.spec, binding.metadata
    return Bound(
        template_path=path,
        template=template,
        binding_path=bindings.path(metadata.namespace, metadata.name),
        binding=metadata,
        suspended=spec.suspension is not None and spec.suspension.scheduling is True,
        replicas=spec.replicas,
        shares={target.name: target.replicas for target in spec.clusters or ()},
        divided=spec.placement is not None and spec.placement.scheduling == DIVIDED,
    )


# Reasons in conditions.
NOT_BUILT: Final = "NotBuilt"
UNKNOWN_FIELD: Final = "UnknownField"
_MAX_UNKNOWN: Final = 5
PROPAGATED: Final = "Karmada's scheduler divides the replicas by the workload's PropagationPolicy"
# The API server holds the object to shorter names, unless its CRD is another one.
_MAX_SHOWN: Final = 64

_WEIGHTED: Final = (
    "replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, "
    "weightPreference: {%s}}"
)
# The policies that a PropagationPolicy has, too (docs/decisions/0017).
_IN_POLICY: Final = {
    "Duplicated": "replicaScheduling: {replicaSchedulingType: Duplicated}",
    "Aggregated": (
        "replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}"
    ),
    "DynamicWeighted": _WEIGHTED % "dynamicWeight: AvailableReplicas",
    "StaticWeighted": _WEIGHTED % "staticWeightList: [{targetCluster: {clusterNames: [...]}, weight: ...}]",
}
_OF_KARMADA: Final = {
    "clusterHPAPreference": (
        "leave the field out, and limit the namespace in each cluster by the staticAssignments of a "
        "FederatedResourceQuota"
    ),
    "autoscaleMultiClusterDelay": (
        "leave the field out, and run karmada-descheduler, whose --unschedulable-threshold is that delay"
    ),
}

NO_BINDINGS: Final = (
    "spec.mode: Distributed with --propagation=karmada needs Karmada's ResourceBindings, which this hub does "
    "not serve: use --propagation=direct"
)


def unsupported_field(spec: Mapping[str, Any], *, direct: bool) -> str | None:
    """A message that names the first unsupported field of the spec; None if there is none.

    `direct` is true if this controller places the replicas (--propagation=direct).
    """
    if direct:
        return None
    if spec.get("mode") == "Distributed":
        return _unsupported_target(spec.get("scaleTargetRef"))
    assignment = (spec.get("federatedHPAAssignment") or {}).get("federatedHPAAssignmentType")
    if assignment is not None:
        field = f"spec.federatedHPAAssignment.federatedHPAAssignmentType: {str(assignment)[:_MAX_SHOWN]}"
        return _not_built(field, _remedy(str(assignment)))
    for name, remedy in _OF_KARMADA.items():
        if spec.get(name):
            return _not_built(f"spec.{name}", remedy)
    return None


def unknown_fields(judgement: Judgement) -> tuple[Finding, ...]:
    """The finding that names unknown fields of a spec, such as those of a newer release; () without any."""
    paths = judgement.unknown_fields
    if not paths:
        return ()
    what = f"this release does not know {listed(paths, _MAX_UNKNOWN)}, which has no effect"
    return (Finding(UNKNOWN_FIELD, f"{what}: run a release that does, or remove it"),)


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


def _remedy(policy: str) -> str:
    if policy not in _IN_POLICY:
        return "Karmada has no such policy, so leave the field out, or use --propagation=direct"
    return (
        f"leave the field out, and write {_IN_POLICY[policy]} in the spec.placement of the PropagationPolicy"
    )


def _not_built(what: str, remedy: str) -> str:
    return f"{what} is not built for --propagation=karmada, where {PROPAGATED}: {remedy}"


async def cluster_snapshots(
    hpa: ScalingObject,
    memory: ObjectMemory,
    readings: Mapping[str, ClusterSnapshot],
    now: float,
    shares: Mapping[str, int],
    members: Mapping[str, Member],
    nodes: NodeCapacity,
    *,
    direct: bool,
    remembers_full: bool = False,
    reads_nodes: bool = False,
) -> tuple[ClusterSnapshot, ...]:
    """Returns the clusters by name, with their capacity as far as it is known.

    `shares` are those of the ResourceBinding. With `remembers_full`, mode Distributed has full clusters that
    may have room again. `reads_nodes` lists the nodes under any policy.
    """
    assignment = hpa.spec.assignment
    always = reads_nodes or remembers_full
    available = await available_replicas(nodes, members, assignment, readings, direct=direct, always=always)
    capped = await capped_replicas(nodes, members, assignment, readings) if direct else {}
    held = _held(memory, readings, now) if direct else frozenset()
    return tuple(
        msgspec.structs.replace(
            reading,
            absence=memory.state.absences.get(name),
            last_replicas=_last_known(memory, shares, name, reading),
            cluster=members[name].known if name in members else None,
            available_replicas=available.get(name),
            most_replicas=capped.get(name),
            held=name in held,
            implausible_for=memory.implausible_for(name, now),
        )
        for name, reading in sorted(readings.items())
    )


def with_member_hpas(
    clusters: tuple[ClusterSnapshot, ...],
    hpas: Mapping[str, HpaReading],
    memory: ObjectMemory,
    raw: Mapping[str, Any],
) -> tuple[ClusterSnapshot, ...]:
    """Returns the clusters of mode Distributed with their HPAs, and the fields that differ in each."""
    memory.drift = {name: known for name, known in memory.drift.items() if name in hpas}
    return tuple(
        msgspec.structs.replace(
            cluster, hpa=hpas[cluster.name].hpa, drift=_drift(cluster.name, hpas[cluster.name], memory, raw)
        )
        if cluster.name in hpas
        else cluster
        for cluster in clusters
    )


def _drift(name: str, reading: HpaReading, memory: ObjectMemory, raw: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the fields of our HPA, besides the bounds, that are not as the FederatedHPA has them.

    The comparison is repeated only after a change, because the status of an HPA changes all the time.
    """
    found = reading.hpa
    if not isinstance(found, MemberHpa) or not found.ours:
        return ()
    basis = (found.spec, raw["metadata"].get("generation"), reading.api_version)
    known = memory.drift.get(name)
    if known is None or known[0] != basis:
        least = 1 if found.spec.minReplicas is None else found.spec.minReplicas
        wanted = wanted_spec(raw.get("spec") or {}, least, found.spec.maxReplicas, reading.api_version)
        known = memory.drift[name] = basis, differing_fields(found.spec, wanted)
    return known[1]


def _last_known(
    memory: ObjectMemory, shares: Mapping[str, int], name: str, reading: ClusterSnapshot
) -> int | None:
    """The cluster's last known replicas, else its share in the ResourceBinding."""
    # A cluster whose scale has no selector, or whose pods could not be read, does not answer. Its size is
    # known all the same, also right after a start.
    if reading.workload.scale is not None:
        return reading.workload.scale.spec.replicas
    return memory.last_replicas.get(name, shares.get(name))


def _held(memory: ObjectMemory, readings: Mapping[str, ClusterSnapshot], now: float) -> frozenset[str]:
    """The clusters that refused their share recently; none if every answering cluster did."""
    answering = {name for name, reading in readings.items() if reading.workload.selector is not None}
    refusing = {name for name in answering if memory.refuses(name, now)}
    return frozenset(refusing if refusing < answering else ())
