"""Tells on the hub that a controller runs with --pause."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from fedhpa.kube import ApiClient, Clock, EventRecorder, InvolvedObject

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
