"""The acts of a paused controller: it tells on the hub that it is paused, and holds no deleted Cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec
import structlog

from controller.publish import FIELD_MANAGER
from fedhpa.api.cluster_finalizers import own_finalizers
from fedhpa.api.errors import FedHPAError
from fedhpa.kube import ApiClient, Clock, EventRecorder, InvolvedObject
from fedhpa.members import MemberRegistry, change_finalizers, leading_controller, without_own

log = structlog.get_logger(__name__)

PAUSED_MESSAGE: Final = (
    "a controller was started with --pause: it computes decisions and shows them in its metrics and at "
    "/decisions, and writes neither scales nor statuses; it takes no Lease, so another one may still work"
)


async def record_paused(hub: ApiClient, namespace: str, leases: Mapping[str, str], clock: Clock) -> None:
    """Record an event on each Lease, until cancelled. The hub may refuse it."""
    async with asyncio.TaskGroup() as group:
        for lease, component in leases.items():
            events = EventRecorder(hub, component, wall=clock.wall)
            about = InvolvedObject("coordination.k8s.io/v1", "Lease", lease, namespace)
            events.event(about, "Warning", "Paused", PAUSED_MESSAGE)
            group.create_task(events.run())


PERIOD_SECONDS: Final = 60.0
HUB_SECONDS: Final = 10.0


async def release_clusters(hub: ApiClient, registry: MemberRegistry, namespace: str, clock: Clock) -> None:
    """Remove our finalizers from Clusters while no controller holds a Lease, until cancelled.

    While all controllers pause, nobody moves replicas, so a deletion would wait for nothing.
    """
    while True:
        held = [
            member.cluster.metadata
            for member in registry.registered.values()
            if own_finalizers(member.cluster.metadata.finalizers)
        ]
        try:
            if held and not await leading_controller(hub, namespace, clock.monotonic, deadline=HUB_SECONDS):
                for metadata in held:
                    read = msgspec.to_builtins(metadata)
                    await change_finalizers(
                        hub, read, without_own, manager=FIELD_MANAGER, deadline=HUB_SECONDS
                    )
        except FedHPAError as error:
            log.debug("finalizer not removed", error=str(error))
        await asyncio.sleep(PERIOD_SECONDS)
