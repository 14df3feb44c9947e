"""The leader writes on each Cluster of a plain hub whether it is ready; on Karmada's hub Karmada does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import structlog

from fedhpa.api.errors import FedHPAError
from fedhpa.kube.client import ApiClient
from fedhpa.members.registry import MemberRegistry
from fedhpa.members.status import write_cluster_status

# All members are checked this often even if none changed: a version may differ, or a write may have failed.
PERIOD_SECONDS: Final = 60.0

log = structlog.get_logger(__name__)


async def follow_cluster_status(
    hub: ApiClient, registry: MemberRegistry, *, wall: Callable[[], float] = time.time
) -> None:
    """Write each member's condition when it changes, until cancelled."""
    changed: set[str] = set()
    wake = asyncio.Event()

    def note(name: str) -> None:
        changed.add(name)
        wake.set()

    unsubscribe = registry.subscribe(note)
    try:
        while True:
            names, due = (sorted(changed), True) if changed else (sorted(registry.members), False)
            changed.clear()
            wake.clear()
            for name in names:
                await _write(hub, registry, name, wall())
            if not due:
                await _wait(wake)
    finally:
        unsubscribe()


async def _write(hub: ApiClient, registry: MemberRegistry, name: str, now: float) -> None:
    member = registry.get(name)
    if member is None:
        return
    try:
        await write_cluster_status(hub, member, now)
    except FedHPAError as error:
        log.debug("cluster status not written", cluster=name, error=str(error))


async def _wait(wake: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(PERIOD_SECONDS):
            await wake.wait()
    except TimeoutError:
        return
