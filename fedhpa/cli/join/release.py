"""Waits until a deleted Cluster is gone, or removes its finalizers where no controller would do so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from fedhpa.api.cluster_finalizers import own_finalizers
from fedhpa.api.errors import ConfigError
from fedhpa.api.known_cluster import API_VERSION
from fedhpa.cli.hub_client import DEADLINE_SECONDS
from fedhpa.cli.join.registration import MANAGER, Side
from fedhpa.kube import resource_path
from fedhpa.members import change_finalizers, leading_controller, without_own

Say = Callable[[str], None]
Monotonic = Callable[[], float]

# Between two looks at a Cluster, and at the Leases while it waits.
LOOK_SECONDS: Final = 2.0
LEASES_SECONDS: Final = 60.0
# A controller with nothing to move needs a moment, which is not worth a line.
TELL_SECONDS: Final = 10.0


async def until_released(hub: Side, name: str, say: Say, monotonic: Monotonic) -> None:
    """Waits until the finalizers of ours have left a deleted Cluster.

    A controller that holds a Lease removes them once the replicas run in other clusters, and after an hour at
    most. Where none does, they are removed at once. Raises ConfigError.
    """
    uid, led_until, tell_at = "", float("-inf"), monotonic() + TELL_SECONDS
    while (found := await _deleted(hub, name)) is not None and uid in ("", found["uid"]):
        if not own_finalizers(found.get("finalizers")):
            others = ", ".join(found.get("finalizers") or ())
            say(f"Cluster {name} is deleted, but stays until others remove its finalizers: {others}")
            return
        if monotonic() >= led_until:
            if not await _leader(hub, monotonic):
                await _release(hub, found)
                say(f"No controller runs, so the replicas in {name} stay as they are.")
                continue
            led_until = monotonic() + LEASES_SECONDS
        if monotonic() >= tell_at:
            say(
                f"Cluster {name} stays until the controller has moved its replicas to other "
                f"clusters, for an hour at most. See: kubectl describe cluster {name}"
            )
            tell_at = float("inf")
        uid = found["uid"]
        await asyncio.sleep(LOOK_SECONDS)


async def release_all(hub: Side, namespace: str, timeout: float, say: Say, monotonic: Monotonic) -> None:
    """Removes our finalizers from all Clusters, once nobody holds a Lease in the namespace, "" for all.

    Raises ConfigError if one still does after `timeout` seconds.
    """
    ends = monotonic() + timeout
    while holder := await _leader(hub, monotonic, namespace):
        if monotonic() >= ends:
            raise ConfigError(f"{holder} still holds a Lease: stop the controller, and run the command again")
        await asyncio.sleep(LOOK_SECONDS)
    with hub.asking("cannot list Clusters"):
        listed = await hub.api.get_json(resource_path(API_VERSION, "clusters"), deadline=DEADLINE_SECONDS)
    held = [
        one["metadata"]
        for one in listed.get("items") or ()
        if own_finalizers(one["metadata"].get("finalizers"))
    ]
    for metadata in held:
        await _release(hub, metadata)
    say(f"{len(held)} Clusters had finalizers of the controller, which are removed.")


async def _deleted(hub: Side, name: str) -> dict[str, Any] | None:
    """Returns the metadata of a Cluster that is being deleted; None if it is gone."""
    found = await hub.find(resource_path(API_VERSION, "clusters", name=name), f"Cluster {name}")
    metadata = (found or {}).get("metadata") or {}
    return metadata if metadata.get("deletionTimestamp") else None


async def _leader(hub: Side, monotonic: Monotonic, namespace: str = "") -> str:
    with hub.asking("cannot list Leases"):
        return await leading_controller(hub.api, namespace, monotonic, deadline=DEADLINE_SECONDS)


async def _release(hub: Side, metadata: Mapping[str, Any]) -> None:
    with hub.asking(f"cannot write Cluster {metadata['name']}"):
        await change_finalizers(hub.api, metadata, without_own, manager=MANAGER, deadline=DEADLINE_SECONDS)
