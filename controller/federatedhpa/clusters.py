"""The candidate clusters of a FederatedHPA, their records, and fields that the propagation cannot act on.

With propagation karmada these are the clusters of the ResourceBinding, or all registered clusters if the hub
serves no bindings. With propagation direct these are the clusters of spec.clusterAffinity, or all registered
clusters without one (docs/reference/processes.md). Nothing is scaled while a field is set that this version
cannot act on. Fields that it does not even know hold nothing; another condition names them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

import msgspec

from controller.apply.template import Bound
from controller.distributed.hpa_reader import HpaReading
from controller.federatedhpa.capacity import NodeCapacity, available_replicas, capped_replicas
from controller.federatedhpa.memory import Completed, ObjectMemory
from fedhpa.api.affinity import Selection
from fedhpa.api.cluster_affinity import ClusterAffinity
from fedhpa.api.decode import decode
from fedhpa.api.errors import InvalidObject
from fedhpa.api.gate import Judgement
from fedhpa.api.member_hpas import MemberHpa, differing_fields, wanted_spec
from fedhpa.api.propagation import Placement
from fedhpa.api.texts import listed
from fedhpa.decision import Absence, ClusterSnapshot, Finding, ScalingObject
from fedhpa.members import Gone, Member


@dataclass(frozen=True)
class Candidates:
    """The clusters' sorted `names`. `named` are those that spec.clusterAffinity lists by name.

    `deselected` are those of the `names` that spec.clusterAffinity does not select any more.
    `scheduling` is Duplicated or Divided by the ResourceBinding's placement, "" if unknown. `shares` are the
    replicas that the ResourceBinding gives to each cluster. `bound` is the ResourceBinding with its template,
    and `placement` that of the policy; of its clusterAffinities the `group` is in use. `overflow` clusters
    come after the others, in the order of their numbers. `replaced` are the clusters of groups for which the
    next one takes part. `evictions` are those of Karmada, by cluster. `selection` says why not all clusters
    of the placement take part.
    """

    names: tuple[str, ...]
    deselected: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    scheduling: str = ""
    shares: Mapping[str, int] = field(default_factory=dict)
    bound: Bound | None = None
    placement: Placement | None = None
    group: str = ""
    overflow: Mapping[str, int] = field(default_factory=dict)
    evictions: Mapping[str, str] = field(default_factory=dict)
    replaced: frozenset[str] = frozenset()
    selection: str = ""


def by_affinity(
    affinity: Mapping[str, Any] | None,
    members: Mapping[str, Member],
    running: Collection[str] = (),
    where: str = "spec.clusterAffinity",
) -> Candidates:
    """The clusters that a Karmada ClusterAffinity selects by names, labels, fields and exclusions; None: all.

    A cluster that is named but not registered stays a candidate, so it counts as missing. Those of `running`
    have replicas of the workload, and stay candidates until these are gone. `where` names the field. Raises
    InvalidObject for an affinity or a selector that cannot be read.
    """
    if affinity is None:
        return Candidates(tuple(sorted(members)))
    try:
        decoded = decode(ClusterAffinity, affinity)
        selection = Selection(decoded)
    except InvalidObject as error:
        raise InvalidObject(f"{where} cannot be read: {error}") from error
    chosen = {name for name, member in members.items() if selection.selects(member.known)}
    if decoded.label_selector is None and decoded.field_selector is None:
        chosen |= selection.named - set(decoded.exclude)
    left = frozenset(name for name in running if name in members and name not in chosen)
    return Candidates(tuple(sorted(chosen | left)), left, selection.named & chosen)


def narrowed(found: Candidates, decided: Collection[str], running: Collection[str]) -> Candidates:
    """The candidates that another scheduler has `decided` on, and the `running` ones that it left."""
    chosen = {name for name in found.names if name in decided and name not in found.deselected}
    left = frozenset(name for name in found.names if name in running and name not in chosen)
    return replace(
        found, names=tuple(sorted(chosen | left)), deselected=left, named=found.named & frozenset(chosen)
    )


def with_gone(
    candidates: Candidates,
    memory: ObjectMemory,
    running: Collection[str],
    members: Mapping[str, Member],
    gone: Callable[[str], Gone | None],
    now: float,
) -> tuple[Candidates, dict[str, Gone]]:
    """Returns the candidates with those of `running` that no object of the hub registers any more, and these.

    A cluster that has another name now is not gone. One whose replicas may be failed over is forgotten after
    an hour, because nobody can ask it whether they still run.
    """
    found: dict[str, Gone] = {}
    unregistered = {*running, *candidates.names} - members.keys()
    others = {member.short_uid for member in members.values()} if unregistered else set[str]()
    for name in unregistered:
        one = gone(name)
        known, clock = memory.state.clusters.get(name), memory.state.absences.get(name)
        if one is None or (known is not None and known.uid and known.uid in others):
            continue
        if one.held or clock is None or clock.elapsed(now) < FORGOTTEN_SECONDS:
            found[name] = one
    if not found:
        return candidates, found
    return replace(candidates, names=tuple(sorted({*candidates.names, *found}))), found


def without_duplicates(
    found: Candidates, duplicates: Mapping[str, Member]
) -> tuple[Candidates, tuple[Finding, ...]]:
    """The candidates without the other names of a cluster, and a finding for each of these names.

    Such a name would never answer, so it would count as missing and then as lost.
    """
    left_out = [name for name in found.names if name in duplicates]
    if not left_out:
        return found, ()
    names = tuple(name for name in found.names if name not in duplicates)
    wrong = [name for name in left_out if duplicates[name].stands_back_in_error]
    findings = [Finding(DUPLICATE_CLUSTER, duplicates[name].duplicate) for name in wrong[:_MAX_DUPLICATES]]
    return replace(found, names=names, named=found.named - duplicates.keys()), tuple(findings)


# As long as a deleted Cluster waits for its replicas.
FORGOTTEN_SECONDS: Final = 3600.0
# Reasons in conditions.
DUPLICATE_CLUSTER: Final = "DuplicateCluster"
NOT_BUILT: Final = "NotBuilt"
UNKNOWN_FIELD: Final = "UnknownField"
_MAX_UNKNOWN: Final = 5
_MAX_DUPLICATES: Final = 3
PROPAGATED: Final = "Karmada's scheduler divides the replicas by the workload's PropagationPolicy"
# The API server holds the object to shorter names, unless its CRD is another one.
_MAX_SHOWN: Final = 64
_MAX_JSON: Final = 200

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
    # Overflow needs a division by free capacity.
    "Prioritized": (
        "clusterAffinities: [{affinityName: first, clusterNames: [...], overflowAffinities: "
        "[{affinityName: next, ...}]}] and replicaScheduling: {replicaSchedulingType: Divided, "
        "replicaDivisionPreference: Aggregated} (since Karmada v1.18)"
    ),
    "DynamicWeighted": _WEIGHTED % "dynamicWeight: AvailableReplicas",
    "StaticWeighted": _WEIGHTED % "staticWeightList: [{targetCluster: {clusterNames: [...]}, weight: ...}]",
}
WHEN_QUIET: Final = "WhenQuiet"
_REBALANCER: Final = (
    "leave the field out, and create a WorkloadRebalancer (apps.karmada.io/v1alpha1) that names the workload "
    "whenever it is to be placed anew"
)
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
    if (spec.get("clusterAffinity") or {}).get("placementDecision"):
        return _not_built("spec.clusterAffinity.placementDecision", "name the clusters in its spec.placement")
    if spec.get("mode") == "Distributed":
        return _unsupported_target(spec.get("scaleTargetRef"))
    given = spec.get("federatedHPAAssignment") or {}
    assignment = given.get("federatedHPAAssignmentType")
    if assignment is not None:
        field = f"spec.federatedHPAAssignment.federatedHPAAssignmentType: {str(assignment)[:_MAX_SHOWN]}"
        return _not_built(field, _remedy(str(assignment)))
    if given.get("rebalance") == WHEN_QUIET:
        return _not_built("spec.federatedHPAAssignment.rebalance: WhenQuiet", _REBALANCER)
    for name, remedy in _OF_KARMADA.items():
        if spec.get(name):
            return _not_built(f"spec.{name}", remedy)
    affinity = spec.get("clusterAffinity")
    if affinity:
        # JSON is YAML too, and a placement has the same fields.
        return _not_built("spec.clusterAffinity", _in_placement(f"clusterAffinity: {_short_json(affinity)}"))
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
    return _in_placement(_IN_POLICY[policy])


def _in_placement(fields: str) -> str:
    return f"leave the field out, and write {fields} in the spec.placement of the PropagationPolicy"


def _short_json(value: object) -> str:
    """The value as JSON; {...} for one that is too long for a condition."""
    text = json.dumps(value)
    return text if len(text) <= _MAX_JSON else "{...}"


def _not_built(what: str, remedy: str) -> str:
    return f"{what} is not built for --propagation=karmada, where {PROPAGATED}: {remedy}"


async def cluster_snapshots(
    hpa: ScalingObject,
    memory: ObjectMemory,
    readings: Mapping[str, ClusterSnapshot],
    now: float,
    candidates: Candidates,
    members: Mapping[str, Member],
    nodes: NodeCapacity,
    *,
    direct: bool,
    lost_after: float,
    reads_nodes: bool = False,
    gone: Mapping[str, Gone] = MappingProxyType({}),
    hpas: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> tuple[ClusterSnapshot, ...]:
    """Returns the clusters by name, with their capacity as far as it is known; the same until they change.

    A cluster is lost after `lost_after` seconds, and a deleted one at once. `reads_nodes` lists the nodes
    under any policy. `gone` are clusters that no object registers any more. `hpas` are the fields of
    `hpa_fields`.
    """
    assignment = hpa.spec.assignment
    available = await available_replicas(
        nodes, members, assignment, readings, direct=direct, always=reads_nodes
    )
    capped = await capped_replicas(nodes, members, assignment, readings) if direct else {}
    held = _held(memory, readings, now) if direct else frozenset()
    # Of a cluster that a ResourceBinding names and nobody registers any more, Karmada has removed the Works.
    named = readings.keys() - members.keys() if candidates.bound is not None else frozenset()
    deleted = {name for name in named if memory.was_seen(name)}
    lost = Absence(max(now - lost_after, 0.0))
    at = asyncio.get_running_loop().time()
    absences = {**memory.state.absences, **dict.fromkeys(deleted, lost)}
    # Fields by cluster that few clusters have.
    rare: tuple[tuple[str, Mapping[str, Any]], ...] = (
        ("selected", dict.fromkeys(candidates.deselected, False)),
        ("absence", absences),
        ("available_replicas", available),
        ("most_replicas", capped),
        ("held", dict.fromkeys(held, True)),
        ("overflow", candidates.overflow),
        ("replaced", dict.fromkeys(candidates.replaced, True)),
        ("missing_since", memory.missed_since),
        ("error", {name: one.reason for name, one in gone.items()}),
        ("gone", {name: one.held for name, one in gone.items() if one.settled}),
    )
    known = [(field, of) for field, of in (*rare, *hpas.items()) if of]
    kept, before = dict[str, Completed](), memory.completed
    for name, reading in sorted(readings.items()):
        member = members.get(name)
        last = _last_known(memory, candidates.shares, name, reading, direct=direct)
        more = {field: of[name] for field, of in known if name in of} if known else {}
        fields = {
            "last_replicas": last,
            "cluster": None if member is None else member.known,
            "implausible_for": memory.implausible_for(name, now) if memory.implausible_since else 0.0,
            "clock_ahead": 0.0 if member is None else member.client.server_clock.ahead(now, at),
            "uid": memory.uids.get(name, ""),
            **more,
        }
        one = before.get(name)
        if one is None or one[0] is not reading or one[1] != fields:
            one = reading, fields, msgspec.structs.replace(reading, **fields)
        kept[name] = one
    if hpas:  # in mode Distributed the readings are the same most of the time
        memory.completed = kept
    return tuple([one[2] for one in kept.values()])


def hpa_fields(
    hpas: Mapping[str, HpaReading], memory: ObjectMemory, raw: Mapping[str, Any]
) -> Mapping[str, Mapping[str, Any]]:
    """Returns the HPA of each cluster, and the fields that differ in it, by field of the snapshot."""
    if memory.drift.keys() - hpas.keys():
        memory.drift = {name: known for name, known in memory.drift.items() if name in hpas}
    spec = raw.get("spec") or {}
    # A hold changes behavior without a new generation.
    basis = (raw["metadata"].get("generation"), spec.get("behavior"))
    drift = {name: _drift(name, reading, memory, spec, basis) for name, reading in hpas.items()}
    return {
        "hpa": {name: reading.hpa for name, reading in hpas.items()},
        "drift": {name: fields for name, fields in drift.items() if fields},
    }


def _drift(
    name: str,
    reading: HpaReading,
    memory: ObjectMemory,
    spec: Mapping[str, Any],
    wanted_by: tuple[object, ...],
) -> tuple[str, ...]:
    """Returns the fields of our HPA, besides the bounds, that are not as the FederatedHPA has them.

    The comparison is repeated only after a change of these or of `wanted_by`, because the status of an HPA
    changes all the time.
    """
    found = reading.hpa
    if not isinstance(found, MemberHpa) or not found.ours:
        return ()
    basis = (found.spec, reading.api_version, wanted_by)
    known = memory.drift.get(name)
    if known is None or known[0] != basis:
        least = 1 if found.spec.minReplicas is None else found.spec.minReplicas
        wanted = wanted_spec(spec, least, found.spec.maxReplicas, reading.api_version)
        known = memory.drift[name] = basis, differing_fields(found.spec, wanted)
    return known[1]


def _last_known(
    memory: ObjectMemory, shares: Mapping[str, int], name: str, reading: ClusterSnapshot, *, direct: bool
) -> int | None:
    """The cluster's last known replicas, else its share in the ResourceBinding.

    With `direct` propagation, a cluster that answers that it has no such workload runs nothing of it.
    """
    # A cluster whose scale has no selector, or whose pods could not be read, does not answer. Its size is
    # known all the same, also right after a start.
    if reading.workload.scale is not None:
        return reading.workload.scale.spec.replicas
    nothing = 0 if direct and reading.workload.is_absent else None
    return memory.last_replicas.get(name, shares.get(name, nothing))


def _held(memory: ObjectMemory, readings: Mapping[str, ClusterSnapshot], now: float) -> frozenset[str]:
    """The clusters that refused their share recently; none if every answering cluster did."""
    if not memory.refused:
        return frozenset()
    answering = {name for name, reading in readings.items() if reading.workload.selector is not None}
    refusing = {name for name in answering if memory.refuses(name, now)}
    return frozenset(refusing if refusing < answering else ())
