"""The clusters of a snapshot: readings joined with remembered values, capacity, and member HPAs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from controller.distributed.hpa_reader import HpaReading
from controller.federatedhpa.capacity import NodeCapacity, available_replicas, capped_replicas
from controller.federatedhpa.memory import ObjectMemory
from fedhpa.api.member_hpas import MemberHpa, differing_fields, wanted_spec
from fedhpa.decision import ClusterSnapshot, ScalingObject
from fedhpa.members import Member


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
