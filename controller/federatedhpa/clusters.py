"""The candidate clusters of a FederatedHPA and their records, and propagation direct.

With propagation karmada these are the clusters of the ResourceBinding, or all registered clusters if the hub
serves no bindings. With propagation direct these are the clusters of spec.clusterAffinity, or all registered
clusters without one (docs/reference/processes.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

import msgspec

from controller.apply.member_hpas import MemberHpaWriter
from controller.apply.scales import WritableScale
from controller.apply.template import Bound
from controller.federatedhpa.capacity import NodeCapacity, available_replicas, capped_replicas
from controller.federatedhpa.cluster_reader import Workload
from controller.federatedhpa.memory import Completed, ObjectMemory
from fedhpa.api.affinity import Selection
from fedhpa.api.cluster_affinity import ClusterAffinity
from fedhpa.api.decode import decode
from fedhpa.api.errors import InvalidObject
from fedhpa.api.gate import Judgement
from fedhpa.api.member_hpas import FINALIZER, OWNER, MemberHpa, Owner, differing_fields, wanted_spec
from fedhpa.api.propagation import Placement
from fedhpa.api.texts import listed
from fedhpa.decision import Absence, ClusterSnapshot, Finding, ScalingObject
from fedhpa.kube import Key, ResourceMapper
from fedhpa.members import Gone, Member
from fedhpa.members.hpas import HpaCache, HpaReading

HUB_DEADLINE_SECONDS: Final = 10.0


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


async def workload_of(mapper: ResourceMapper, spec: Mapping[str, Any], namespace: str) -> Workload:
    """The workload that a spec names. Raises InvalidObject and ApiError."""
    reference = spec.get("scaleTargetRef") or {}
    api_version, kind = str(reference.get("apiVersion") or "v1"), str(reference.get("kind", ""))
    resource = await mapper.resolve(api_version, kind, deadline=HUB_DEADLINE_SECONDS)
    return Workload(resource, namespace, str(reference.get("name", "")))


@dataclass(eq=False)
class Direct:
    """--propagation=direct: the controller writes the scale of the workload in each member.

    `duplicates` are other names of the `members`. `deadline` is that of one request to a member.
    """

    # The seeds' default policy would let each cluster run maxReplicas.
    no_policy = (
        "mode Distributed needs a policy, because without one each cluster would run up to maxReplicas: "
        "write spec.federatedHPAAssignment.federatedHPAAssignmentType, such as StaticWeighted for equal "
        "parts, or Duplicated for maxReplicas in each cluster"
    )

    _members: Mapping[str, Member]
    _duplicates: Mapping[str, Member]
    _hpas: HpaCache
    _deadline: float
    _followed: Callable[[Key, ScalingObject, ObjectMemory, float], tuple[frozenset[str], str | None]]

    def refusal(self, spec: Mapping[str, Any]) -> str | None:  # noqa: ARG002  # every field is built
        """Why an object with this spec cannot be acted on; None if it can."""
        return None

    async def clusters(
        self,
        key: Key,
        spec: Mapping[str, Any],
        hpa: ScalingObject,
        workload: Workload,  # noqa: ARG002  # Karmada's ResourceBinding is that of the workload
        memory: ObjectMemory,
        running: Collection[str],
        now: float,
    ) -> tuple[Candidates, str | None]:
        """The candidates, and why the PlacementDecision of another scheduler cannot be followed.

        Those of `running` have replicas, and stay candidates until these are gone. Raises InvalidObject.
        """
        found = by_affinity(spec.get("clusterAffinity"), {**self._members, **self._duplicates}, running)
        if not hpa.spec.follows:
            return found, None
        decided, unfollowed = self._followed(key, hpa, memory, now)
        chosen = (decided & frozenset(found.names)) - found.deselected
        left = (frozenset(found.names) & frozenset(running)) - chosen
        names, named = tuple(sorted(chosen | left)), found.named & chosen
        return replace(found, names=names, deselected=left, named=named), unfollowed

    async def template(self, workload: Workload) -> WritableScale | None:  # noqa: ARG002  # there is none
        """The scale of the template on the hub; None, because the members have the scales."""
        return None

    def writer(self, owner: Callable[[Key], Owner]) -> MemberHpaWriter:
        """The writer of member HPAs: the members' own clients."""
        return MemberHpaWriter(self._members, self._hpas, owner, self._deadline)

    async def bound(self, key: Key, raw: Mapping[str, Any]) -> Bound | None:  # noqa: ARG002  # there is none
        """Template and ResourceBinding of an object's workload; None, because nothing is bound."""
        return None


# As long as a deleted Cluster waits for its replicas.
FORGOTTEN_SECONDS: Final = 3600.0
# Reasons in conditions.
DUPLICATE_CLUSTER: Final = "DuplicateCluster"
NOT_BUILT: Final = "NotBuilt"
UNKNOWN_FIELD: Final = "UnknownField"
_MAX_UNKNOWN: Final = 5
_MAX_DUPLICATES: Final = 3


def unknown_fields(judgement: Judgement) -> tuple[Finding, ...]:
    """The finding that names unknown fields of a spec, such as those of a newer release; () without any."""
    paths = judgement.unknown_fields
    if not paths:
        return ()
    what = f"this release does not know {listed(paths, _MAX_UNKNOWN)}, which has no effect"
    return (Finding(UNKNOWN_FIELD, f"{what}: run a release that does, or remove it"),)


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
    assignment, at = hpa.spec.assignment, asyncio.get_running_loop().time()
    registered = {name: members[name] if name in members else None for name in readings}  # noqa: SIM401
    aheads = [
        0.0 if member is None else member.client.server_clock.ahead(now, at) for member in registered.values()
    ]
    basis = (
        (hpa.spec, candidates, hpas, readings, aheads, memory.uids, gone),
        [member and member.cluster for member in registered.values()],
        (memory.state.absences, dict(memory.missed_since)),  # a step of the clock moves the times in place
    )
    if memory.steady is not None and memory.steady[0] == basis:
        return memory.steady[1]
    if direct and not reads_nodes:
        # A list of all pods of a large cluster is too much for an outlook.
        reads_nodes = assignment.policy.by_capacity or any(
            pod.unschedulable_since is not None for reading in readings.values() for pod in reading.pods
        )
    available, capped = dict[str, int | None](), dict[str, int | None]()
    if reads_nodes or any(one and one.cluster.status.resourceSummary for one in registered.values()):
        available = await available_replicas(nodes, members, readings, reads_nodes=reads_nodes)
    if direct and assignment.caps:
        capped = await capped_replicas(nodes, members, assignment, readings)
    held = _held(memory, readings, now) if direct else frozenset()
    # Of a cluster that a ResourceBinding names and nobody registers any more, Karmada has removed the Works.
    named = readings.keys() - members.keys() if candidates.bound is not None else frozenset()
    deleted = {name for name in named if memory.was_seen(name)}
    lost = Absence(max(now - lost_after, 0.0))
    ahead = dict(zip(readings, aheads, strict=True))
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
    kept, before, doubted = dict[str, Completed](), memory.completed, memory.implausible_since
    found = list[ClusterSnapshot]()
    uids = memory.uids  # a call for each cluster costs, so no `get` below
    for name, reading in sorted(readings.items()):
        scale, member = reading.workload.scale, registered[name]
        # A cluster whose scale has no selector, or whose pods could not be read, does not answer. Its size is
        # known all the same, also right after a start.
        last = (
            _last_known(memory, candidates.shares, reading, direct) if scale is None else scale.spec.replicas
        )
        fields = _differing(reading, last, member, uids[name] if name in uids else "")  # noqa: SIM401
        if known:
            fields |= {field: of[name] for field, of in known if name in of}
        if ahead[name]:
            fields["clock_ahead"] = ahead[name]
        if name in doubted or reading.implausible_for is None:
            fields["implausible_for"] = memory.implausible_for(name, now)
        if fields:
            one = before[name] if name in before else None  # noqa: SIM401
            if one is None or one[0] is not reading or one[1] != fields:
                one = reading, fields, msgspec.structs.replace(reading, **fields)
            kept[name], reading = one, one[2]
        found.append(reading)
    snapshots = tuple(found)
    if hpas:  # in mode Distributed the readings are the same most of the time
        memory.completed = kept
        follows_time = reads_nodes or assignment.caps or memory.refused or memory.implausible_since or deleted
        sizes_known = all(reading.workload.scale is not None for reading in readings.values())
        memory.steady = (basis, snapshots) if sizes_known and not follows_time else None
    return snapshots


def _differing(reading: ClusterSnapshot, last: int | None, member: Member | None, uid: str) -> dict[str, Any]:
    """Returns what a reading does not have as it is known now. A usual cluster's has all."""
    fields: dict[str, Any] = {}
    if reading.last_replicas != last:
        fields["last_replicas"] = last
    if member is not None and reading.cluster is not member.known:
        fields["cluster"] = member.known
    if reading.uid != uid:
        fields["uid"] = uid
    return fields


def has_finalizer(raw: Mapping[str, Any]) -> bool:
    """True if a FederatedHPA has the finalizer with which it waits for the removal of member HPAs."""
    return FINALIZER in (raw["metadata"].get("finalizers") or ())


def hpa_fields(
    hpas: Mapping[str, HpaReading], memory: ObjectMemory, raw: Mapping[str, Any]
) -> Mapping[str, Mapping[str, Any]]:
    """Returns the HPA of each cluster, and the fields that differ in it, by field of the snapshot."""
    spec = raw.get("spec") or {}
    # A hold changes behavior without a new generation.
    wanted_by = (raw["metadata"].get("generation"), spec.get("behavior"))
    if memory.hpa_fields is not None and memory.hpa_fields[0] == (hpas, wanted_by):
        return memory.hpa_fields[1]
    if memory.drift.keys() - hpas.keys():
        memory.drift = {name: known for name, known in memory.drift.items() if name in hpas}
    drift = {name: _drift(name, reading, memory, spec, wanted_by) for name, reading in hpas.items()}
    found: dict[str, Mapping[str, Any]] = {
        "hpa": {name: reading.hpa for name, reading in hpas.items()},
        "drift": {name: fields for name, fields in drift.items() if fields},
    }
    memory.hpa_fields = (hpas, wanted_by), found
    return found


def _drift(
    name: str,
    reading: HpaReading,
    memory: ObjectMemory,
    spec: Mapping[str, Any],
    wanted_by: tuple[object, ...],
) -> tuple[str, ...]:
    """Returns the parts of our HPA, besides the bounds, that are not as the FederatedHPA has them.

    The comparison is repeated only after a change of these or of `wanted_by`, because the status of an HPA
    changes all the time.
    """
    found = reading.hpa
    if not isinstance(found, MemberHpa) or not found.ours:
        return ()
    basis = (found.spec, found.owner, reading.api_version, wanted_by)
    known = memory.drift.get(name)
    if known is None or known[0] != basis:
        least = 1 if found.spec.minReplicas is None else found.spec.minReplicas
        wanted = wanted_spec(spec, least, found.spec.maxReplicas, reading.api_version)
        # Another hub could take an HPA that was handed over by its label alone.
        unowned = () if found.owner else (OWNER,)
        known = memory.drift[name] = basis, (*differing_fields(found.spec, wanted), *unowned)
    return known[1]


def _last_known(
    memory: ObjectMemory, shares: Mapping[str, int], reading: ClusterSnapshot, direct: bool
) -> int | None:
    """The last known replicas of a cluster without a scale, else its share in the ResourceBinding.

    With `direct` propagation, a cluster that answers that it has no such workload runs nothing of it.
    """
    nothing = 0 if direct and reading.workload.is_absent else None
    return memory.last_replicas.get(reading.name, shares.get(reading.name, nothing))


def _held(memory: ObjectMemory, readings: Mapping[str, ClusterSnapshot], now: float) -> frozenset[str]:
    """The clusters that refused their share recently; none if every answering cluster did."""
    if not memory.refused:
        return frozenset()
    answering = {name for name, reading in readings.items() if reading.workload.selector is not None}
    refusing = {name for name in answering if memory.refuses(name, now)}
    return frozenset(refusing if refusing < answering else ())
