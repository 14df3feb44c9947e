"""Finds out if a controller holds a Lease of a shard, without a clock that is compared with the holder's."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Final

from fedhpa.api.errors import ApiError
from fedhpa.api.free_json import Json, at, text_at
from fedhpa.kube import ApiClient, resource_path
from fedhpa.kube.leases import API_VERSION

_SHARD: Final = re.compile(r"fedhpa-controller-\d+-of-\d+(-by-target)?")
_LOOK_SECONDS: Final = 1.0
_DEFAULT_SECONDS: Final = 15


async def leading_controller(
    hub: ApiClient, namespace: str, clock: Callable[[], float], *, deadline: float
) -> str:
    """Returns the holder of a Lease for FederatedHPAs, "" if nobody holds one.

    Without a namespace the Leases of all are read. A Lease is held if it is renewed before it ends, so an
    answer takes one period of renewals, or the duration of an abandoned Lease. Raises ApiError.
    """
    path = resource_path(API_VERSION, "leases", namespace)
    began, before = clock(), await _held(hub, path, deadline)
    durations = (at(spec, "leaseDurationSeconds") for spec in before.values())
    longest = max((one if isinstance(one, int) else _DEFAULT_SECONDS for one in durations), default=0)
    now = before
    while now and clock() - began <= longest + _LOOK_SECONDS:
        await asyncio.sleep(_LOOK_SECONDS)
        now = await _held(hub, path, deadline)
        renewed = [text_at(spec, "holderIdentity") for key, spec in now.items() if before.get(key) != spec]
        if renewed:
            return renewed[0]
    return ""


async def _held(hub: ApiClient, path: str, deadline: float) -> dict[tuple[str, str], Json]:
    try:
        async with asyncio.timeout(deadline):
            listing = await hub.list(path, Json)
    except TimeoutError as error:
        raise ApiError(f"the Leases were not listed within {deadline:g} s", status=0) from error
    return {
        (text_at(lease, "metadata", "namespace"), name): lease["spec"]
        for lease in listing.items
        if text_at(lease, "spec", "holderIdentity")
        and _SHARD.fullmatch(name := text_at(lease, "metadata", "name"))
    }
