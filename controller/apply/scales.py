"""Writes one scale that somebody else may write at the same time.

Every write carries the resourceVersion of the object that the decision used. If the object changed but its
replicas did not, the write is repeated with the new version. If they changed, nothing is written: whoever
decided has to decide again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from fedhpa.api.errors import Conflict, FedHPAError
from fedhpa.api.wire import Scale
from fedhpa.kube import ApiClient, Backoff, get_scale, put_scale

# As client-go retries on conflict.
TRIES: Final = 5
FIRST_WAIT_SECONDS: Final = 0.02
MAX_WAIT_SECONDS: Final = 0.5


class Superseded(FedHPAError):
    """Somebody else changed the values between the decision and its write, so nothing was written."""


def _ignore(_: Scale) -> None:
    """A callback that does nothing."""


class WritableScale(NamedTuple):
    """The scale of one workload as it was read, with its client and path. `deadline` is that of a request.

    `on_read` is called with each newer state that a write returns.
    """

    client: ApiClient
    path: str
    scale: Scale
    deadline: float
    on_read: Callable[[Scale], None] = _ignore

    @property
    def replicas(self) -> int:
        """The replicas that the scale asks for."""
        return self.scale.spec.replicas


async def set_replicas(
    target: WritableScale, replicas: int, *, manager: str = "", strict: bool = False
) -> None:
    """Set the replicas of a scale. If another client set the same ones meanwhile, nothing is written.

    With `strict` that is a change, too, because the decision depends on the replicas before it. Raises
    Superseded, Conflict after TRIES attempts, ApiError or MemberUnavailable.
    """
    client, path, read, deadline, on_read = target
    scale, backoff = read, None
    for attempt in range(1, TRIES + 1):
        if scale is not read and scale.spec.replicas == replicas:
            return
        try:
            on_read(await put_scale(client, path, scale, replicas, manager=manager, deadline=deadline))
            return
        except Conflict:
            if attempt == TRIES:
                raise
        backoff = backoff or Backoff(FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS)
        await asyncio.sleep(backoff.next())
        scale = await get_scale(client, path, deadline=deadline)
        on_read(scale)
        before, now = read.spec.replicas, scale.spec.replicas
        if now != before and (strict or now != replicas):
            raise Superseded(f"{path} was scaled from {before} to {now} by another client")
