"""Reads all objects every two seconds at most, until none of them has replicas in the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from fedhpa.api.errors import ConfigError
from fedhpa.cli.drain.objects import Waiting

if TYPE_CHECKING:
    from fedhpa.kube import Clock

SECONDS: Final = 2.0
# A hub with many objects is asked less often: it works for at most a fifth of the time.
PAUSE_FOR_WORK: Final = 4.0
# One look at all objects. A healthy hub lists ten thousand of them within a few seconds.
LOOK_SECONDS: Final = 60.0

Look = Callable[[], Awaitable[Sequence[Waiting]]]


class Progress(msgspec.Struct, frozen=True):
    """Replicas to move, those that are still there, and the objects that have them."""

    cluster: str
    total: int = 0
    left: int = 0
    waiting: tuple[Waiting, ...] = ()

    @property
    def moved(self) -> int:
        """The replicas that have left the cluster."""
        return self.total - self.left


async def watch(
    cluster: str,
    look: Look,
    show: Callable[[Progress], None],
    warn: Callable[[str], None],
    *,
    clock: Clock,
    timeout: float | None = None,
) -> Progress:
    """Shows the progress after each look, until nothing waits or `timeout` seconds are over.

    `look` returns the objects with replicas in the cluster; `warn` gets each new problem. Returns the last
    progress. Raises ConfigError if the first look fails.
    """
    # The most replicas that each object had in the cluster are the replicas to move.
    most: dict[str, int] = {}
    found, warned = None, ""
    ends = None if timeout is None else clock.monotonic() + timeout
    while True:
        begun = clock.monotonic()
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                waiting = await look()
        except (ConfigError, TimeoutError) as error:
            text = str(error) or f"the hub did not list its objects within {LOOK_SECONDS:g} s"
            if found is None:
                raise ConfigError(text) from error
            if text != warned:
                warned = text
                warn(f"{text}; trying again")
        else:
            warned = ""
            counts = {one.name: one.replicas or 0 for one in waiting}
            most |= {name: max(count, most.get(name, 0)) for name, count in counts.items()}
            found = Progress(cluster, sum(most.values()), sum(counts.values()), tuple(waiting))
            show(found)
            if not waiting:
                return found
        now = clock.monotonic()
        if ends is not None and now >= ends:
            return found
        pause = max(SECONDS, PAUSE_FOR_WORK * (now - begun))
        await asyncio.sleep(pause if ends is None else min(pause, ends - now))
