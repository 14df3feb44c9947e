"""Finds the client that changed the workload's size, by the managed fields of the workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from controller.apply.plan import WriteTargets
from controller.federatedhpa.memory import ObjectMemory
from fedhpa.api.texts import one_line
from fedhpa.assignment import TEMPLATE
from fedhpa.decision import Snapshot, resets_after
from fedhpa.kube import ApiClient, contain

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
    """Note a change of the size by others, or that there was none. Returns the snapshot with the memory.

    Raises nothing: if the workload cannot be read, the client is unknown.
    """
    change = memory.size_change(snapshot)
    if change is not None:
        read = partial(_last_writer, targets, hub, change.cluster)
        by = await contain("find-writer", read, lambda _: "", cluster=change.cluster or "the hub")
        change = msgspec.structs.replace(change, by=by)
    resets = resets_after(memory.state.resets, change, now)
    memory.state = msgspec.structs.replace(memory.state, resets=resets)
    return msgspec.structs.replace(snapshot, memory=memory.state)


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
