"""A hub, members and the three processes to try things on, until Ctrl-C."""

import asyncio
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from testbed.stage import processes


class Reachable(Protocol):
    """A hub or a member, for people."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def kubeconfig(self) -> Path:
        """Its administrator's kubeconfig."""


class Hub(processes.Hub, Reachable, Protocol):
    """A hub that processes and people reach."""


class Plane(processes.Plane, Protocol):
    """What is held up: a plane that can be started. Who made it ends it."""

    @property
    def hub(self) -> Hub:
        """Where the processes work."""

    @property
    def members(self) -> Mapping[str, Reachable]:
        """The members by name."""

    async def start(self) -> None:
        """Start the plane; returns when it works."""


async def hold(plane: Plane, more: Sequence[str] = ()) -> None:
    """Start plane and processes, print one `export KUBECONFIG` a plane and the lines `more`, and return at a
    signal.
    """
    stopping = stop_event((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    say(f"starting a hub, {len(plane.members)} members and the processes")
    starting = asyncio.ensure_future(_start(plane, more))
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait((starting, stopped), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            await stopped
    finally:
        for task in (starting, stopped):
            task.cancel()
        await asyncio.wait((starting, stopped))


async def _start(plane: Plane, more: Sequence[str]) -> None:
    await plane.start()
    await processes.Processes(plane).start()
    for one in (plane.hub, *plane.members.values()):
        print(f"export KUBECONFIG={one.kubeconfig}  # {one.name}", flush=True)
    for line in more:
        print(line, flush=True)
    say("up; Ctrl-C ends everything")


def say(text: str) -> None:
    """One line for the person who waits; standard error, since standard output carries the answer."""
    print(f"plane: {text}", file=sys.stderr, flush=True)


def stop_event(signals: Iterable[signal.Signals]) -> asyncio.Event:
    """An event that is set by any of the signals, instead of what they would do."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in signals:
        loop.add_signal_handler(number, event.set)
    return event
