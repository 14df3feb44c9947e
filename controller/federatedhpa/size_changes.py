"""Finds changes of the workload's size that this controller did not make, and the client that made them.

The memory has the sizes that the last decision left. A write that failed leaves sizes that nobody knows, so
nothing is found then. Nor is anything found in a dry run, where others scale the workload, nor while another
autoscaler is known, which explains the changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from controller.federatedhpa.memory import ObjectMemory
from controller.federatedhpa.scale_writes import WriteTargets
from fedhpa.api.texts import one_line
from fedhpa.decision import (
    ClusterScale,
    Decision,
    SizeChange,
    Snapshot,
    TemplateScale,
    resets_after,
)
from fedhpa.kube import ApiClient, contain

# The key of the template's size among those of the clusters.
TEMPLATE: Final = ""
DEADLINE_SECONDS: Final = 3.0
# People read the name in a condition.
_MAX_NAME: Final = 64


class _ManagedFields(msgspec.Struct, frozen=True):
    manager: str = ""
    time: str = ""
    fieldsV1: Mapping[str, Any] | None = None

    @property
    def has_replicas(self) -> bool:
        spec = (self.fieldsV1 or {}).get("f:spec")
        return isinstance(spec, Mapping) and "f:replicas" in spec


class _Meta(msgspec.Struct, frozen=True):
    managedFields: Sequence[_ManagedFields] | None = None


class _Workload(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


async def note_changes(
    memory: ObjectMemory, snapshot: Snapshot, targets: WriteTargets, hub: ApiClient, now: float
) -> Snapshot:
    """Note in the memory whether others changed the size. Returns the snapshot with the memory.

    Raises nothing: without the right to read the workload, the client is unknown.
    """
    change = None
    if not snapshot.hpa.spec.dry_run and not snapshot.competitors:
        change = _change(memory.left, _sizes(snapshot))
    if change is not None:
        read = partial(_last_writer, targets, hub, change.cluster)
        by = await contain("find-writer", read, lambda _: "", cluster=change.cluster or "the hub")
        change = msgspec.structs.replace(change, by=by)
    resets = resets_after(memory.state.resets, change, now)
    memory.state = msgspec.structs.replace(memory.state, resets=resets)
    return msgspec.structs.replace(snapshot, memory=memory.state)


def note_left(memory: ObjectMemory, snapshot: Snapshot, targets: WriteTargets, decision: Decision) -> None:
    """Note the sizes that a decision left, after its writes. A cluster that is away keeps its last one."""
    known = {TEMPLATE, *(cluster.name for cluster in snapshot.clusters)}
    memory.left = {name: size for name, size in memory.left.items() if name in known} | _sizes(snapshot)
    if not decision.writes:
        return
    if targets.template is not None:
        memory.left[TEMPLATE] = decision.desired_replicas
    else:
        written = {share.cluster: share.replicas for share in decision.assignment}
        memory.left |= {name: size for name, size in written.items() if name in targets.members}


def _sizes(snapshot: Snapshot) -> dict[str, int]:
    """Returns the sizes that this controller writes: that of the template, or those of the clusters."""
    if isinstance(snapshot.target, TemplateScale):
        return {TEMPLATE: snapshot.target.replicas}
    if snapshot.target is not None:
        return {}
    return {
        cluster.name: cluster.scale.spec_replicas
        for cluster in snapshot.clusters
        if isinstance(cluster.scale, ClusterScale)
    }


def _change(left: Mapping[str, int], found: Mapping[str, int]) -> SizeChange | None:
    for name, size in found.items():
        if left.get(name, size) != size:
            return SizeChange(max(left[name], 0), max(size, 0), name)
    return None


async def _last_writer(targets: WriteTargets, hub: ApiClient, cluster: str) -> str:
    """Returns the field manager that set the replicas last; "" if none is known."""
    if cluster == TEMPLATE:
        found: Sequence[_Workload] = [await hub.get(targets.path, _Workload, deadline=DEADLINE_SECONDS)]
    elif (target := targets.members.get(cluster)) is not None:
        # The rights in members do not include to get workloads, but to list them.
        collection, _, name = target.path.rpartition("/")
        field = f"metadata.name={name}"
        found = (
            await target.client.list(collection, _Workload, field_selector=field, idle=DEADLINE_SECONDS)
        ).items
    else:
        return ""
    owners = [one for each in found for one in each.metadata.managedFields or () if one.has_replicas]
    latest = max(owners, key=lambda one: one.time, default=_ManagedFields())
    return one_line(latest.manager, _MAX_NAME)
