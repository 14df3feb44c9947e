"""Runs a hub, members and the three processes until Ctrl-C, for manual trials."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from testbed.stage import control, processes
from testbed.stage.kubeconfig import merge_kubeconfigs
from testbed.stage.registrations import ADAPTER


class Reachable(control.Member, Protocol):
    """A hub or a member that kubectl can reach."""

    @property
    def name(self) -> str:
        """The name of the cluster."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""


class Hub(processes.Hub, Reachable, Protocol):
    """A hub for processes and kubectl."""


class Plane(processes.Plane, control.Plane, Protocol):
    """A plane that can be started. Its creator ends it."""

    @property
    def hub(self) -> Hub:
        """The hub that the processes serve."""

    @property
    def members(self) -> Mapping[str, Reachable]:
        """The members by name."""

    async def start(self) -> None:
        """Starts the plane; returns once it works."""


async def hold(plane: Plane, more: Sequence[str] = ()) -> None:
    """Starts plane and processes, prints the shell lines for kubectl and the paths of the logs, carries out
    commands, and returns at a signal. `more` are further shell lines.
    """
    stopping = stop_event((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    say(f"starting a hub, {len(plane.members)} members and the processes")
    async with contextlib.AsyncExitStack() as stack:
        starting = asyncio.ensure_future(_start(plane, more, stack))
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


async def _start(plane: Plane, more: Sequence[str], stack: contextlib.AsyncExitStack) -> None:
    await plane.start()
    started = processes.Processes(plane, webhook_reads_the_hub=True)
    await started.start()
    folder, clusters = plane.run.folder, (plane.hub, *plane.members.values())
    merged = merge_kubeconfigs(folder / "kubeconfig", {one.name: one.kubeconfig for one in clusters})
    contexts = ", ".join(one.name for one in clusters)
    lines = [f"export KUBECONFIG={merged}  # contexts {contexts}", *more]
    (folder / control.ENVIRONMENT).write_text("\n".join(lines) + "\n", encoding="utf-8")
    await stack.enter_async_context(control.listening(plane, folder))
    for line in lines:
        print(line, flush=True)
    for name in (processes.WEBHOOK, ADAPTER, processes.CONTROLLER):
        say(f"log of {name}: {started.log(name)}")
    say("up; Ctrl-C ends everything")


def say(text: str) -> None:
    """Prints one line of progress on standard error; standard output carries the result."""
    print(f"plane: {text}", file=sys.stderr, flush=True)


def stop_event(signals: Iterable[signal.Signals]) -> asyncio.Event:
    """Returns an event that each of the signals sets, instead of its default action."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in signals:
        loop.add_signal_handler(number, event.set)
    return event
