"""Telling that a controller is paused: the one thing that it writes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from fedhpa.kube.client import ApiClient
from fedhpa.kube.events import EventRecorder, InvolvedObject

MESSAGE: Final = (
    "a controller was started with --pause: it computes decisions and shows them in its metrics and at "
    "/decisions, and writes neither scales nor statuses; it takes no Lease, so another one may still work"
)


async def tell_paused(
    hub: ApiClient, component: str, namespace: str, lease: str, *, wall: Callable[[], float] = time.time
) -> None:
    """Record an event on the Lease that it would hold, until cancelled; the hub may refuse it."""
    events = EventRecorder(hub, component, wall=wall)
    about = InvolvedObject("coordination.k8s.io/v1", "Lease", lease, namespace)
    events.event(about, "Warning", "Paused", MESSAGE)
    await events.run()
