"""Which clusters one FederatedHPA is about (docs/reference/processes.md).

With propagation karmada: the clusters of the workload's ResourceBinding; on a hub that does not serve
bindings, all registered clusters. With propagation direct: those of spec.clusterAffinity, else all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fedhpa.api.affinity import Selection
from fedhpa.api.decode import decode
from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
from fedhpa.api.federatedhpa import ClusterAffinity
from fedhpa.api.known_cluster import known_cluster
from fedhpa.api.wire import ObjectMeta
from fedhpa.kube.client import ApiClient
from fedhpa.kube.mapping import Resource, ResourceMapper
from fedhpa.members.member import Member

BINDING_API: Final = "work.karmada.io/v1alpha2"
POLICY_LABELS: Final = (
    "propagationpolicy.karmada.io/permanent-id",
    "clusterpropagationpolicy.karmada.io/permanent-id",
)


class NoBinding(FedHPAError):
    """Bindings are served, but none tells where the workload runs (Karmada: FailedGetBinding)."""


class TargetUnreadable(FedHPAError):
    """The scale target could not be read from the hub (Karmada: FailedGetScaleTargetRef)."""


@dataclass(frozen=True)
class Candidates:
    """`names` are sorted. `named` are those that the object itself names, present there or not."""

    names: tuple[str, ...]
    named: frozenset[str] = frozenset()


class _Reference(msgspec.Struct, frozen=True):
    apiVersion: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""


class _TargetCluster(msgspec.Struct, frozen=True):
    name: str = ""


class _BindingSpec(msgspec.Struct, frozen=True):
    resource: _Reference = _Reference()
    clusters: list[_TargetCluster] | None = None


class _Binding(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _BindingSpec = _BindingSpec()


class _Labelled(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


def by_affinity(affinity: Mapping[str, Any] | None, members: Mapping[str, Member]) -> Candidates:
    """The clusters that a Karmada ClusterAffinity selects: names, labels, fields, exclusions. None is all.

    A cluster that is named but not registered stays a candidate, and so is missed. InvalidObject for an
    affinity or a selector that cannot be read.
    """
    if affinity is None:
        return Candidates(tuple(sorted(members)))
    try:
        wanted = decode(ClusterAffinity, affinity)
        selection = Selection(wanted)
    except InvalidObject as error:
        raise InvalidObject(f"spec.clusterAffinity cannot be read: {error}") from error
    chosen = {name for name, member in members.items() if selection.selects(known_cluster(member.cluster))}
    if wanted.label_selector is None and wanted.field_selector is None:
        chosen |= selection.named - set(wanted.exclude)
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

    Raises TargetUnreadable or NoBinding; ApiError if the hub does not answer.
    """
    try:
        bindings = await mapper.resolve(BINDING_API, "ResourceBinding", deadline=deadline)
    except InvalidObject:  # no Karmada here: nobody chose among the clusters, and the scale is all we read
        return Candidates(tuple(sorted(members)))
    try:
        template = await hub.get(target.path(namespace, name), _Labelled, deadline=deadline)
    except ApiError as error:
        raise TargetUnreadable(str(error)) from error
    labels = template.metadata.labels or {}
    selector = next((f"{label}={labels[label]}" for label in POLICY_LABELS if label in labels), "")
    if not selector:
        raise NoBinding("the scale target has no label of a policy's permanent-id: propagate it by a policy")
    listing = await hub.list(bindings.path(namespace), _Binding, label_selector=selector)
    wanted = _Reference(target.api_version, target.kind, namespace, name)
    for binding in listing.items:
        if binding.spec.resource == wanted:
            clusters = tuple(sorted(cluster.name for cluster in binding.spec.clusters or ()))
            if not clusters:
                raise NoBinding("the ResourceBinding of the scale target has no schedulable clusters")
            return Candidates(clusters)
    raise NoBinding("no ResourceBinding matches the scale target")
