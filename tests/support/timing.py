"""Clocks, waits and background tasks, for tests in virtual and in real time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from looptime import LoopTimeEventLoop

from fedhpa.kube import Clock

# 2027-01-15T08:00:00Z, when virtual time begins.
EPOCH = 1_800_000_000.0
# The shortest deadline of a wait in real time, in seconds. Machines stall for seconds.
PATIENCE = 60.0


def loop_time() -> float:
    """Returns the running loop's time, in seconds."""
    return asyncio.get_running_loop().time()


def virtual_clock() -> Clock:
    """Returns the clock of the running loop, which starts at EPOCH."""
    monotonic = asyncio.get_running_loop().time
    return Clock(monotonic, lambda: EPOCH + monotonic(), boot=monotonic, virtual=True)


def patient(within: float) -> float:
    """Returns `within` in virtual time, and at least PATIENCE in real time."""
    loop = asyncio.get_running_loop()
    virtual = isinstance(loop, LoopTimeEventLoop) and loop.looptime_on
    return within if virtual else max(within, PATIENCE)


async def eventually(holds: Callable[[], object], within: float = 5.0) -> None:
    """Waits until `holds` is true, with growing pauses.

    Fails after `within` seconds of virtual time, or after at least PATIENCE seconds of real time.
    """
    pause = 0.005
    async with asyncio.timeout(patient(within)):
        while not holds():  # the state of other tasks has no event
            await asyncio.sleep(pause)
            pause = min(pause * 1.05, 0.1)


async def until(holds: Callable[[], object], within: float = 120.0) -> None:
    """Waits until `holds` is true, checking every tenth of a second of virtual time. Fails after `within`."""
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110  # the state of other processes has no event
            await asyncio.sleep(0.1)


@asynccontextmanager
async def background(work: Any) -> AsyncIterator[asyncio.Task[None]]:
    """Runs work that must not end by itself, and cancels it on exit."""
    task: asyncio.Task[None] = asyncio.create_task(work)
    try:
        yield task
        assert not task.done() or task.cancelled(), task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
