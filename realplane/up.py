"""`python -m realplane up`: a hub, members and the three processes to try things on, until Ctrl-C."""

import asyncio
import signal
from collections.abc import Iterable
from pathlib import Path

from realplane.assets import say
from realplane.plane import Plane
from realplane.processes import Processes


async def up(assets: Path, members: int) -> None:
    """Start them, print one `export KUBECONFIG` a plane, hold until a signal, then end everything."""
    stopping = stop_event((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    say(f"starting a hub, {members} members and the processes")
    plane = Plane(assets, members=[f"member{n}" for n in range(1, members + 1)])
    try:
        async with asyncio.TaskGroup() as group:
            starting = group.create_task(_start(plane))
            await stopping.wait()
            starting.cancel()
    finally:
        plane.end()
        say("everything is ended")


async def _start(plane: Plane) -> None:
    await plane.start()
    await Processes(plane).start()
    for one in (plane.hub, *plane.members.values()):
        print(f"export KUBECONFIG={one.kubeconfig}  # {one.name}", flush=True)
    print(f"export PATH={plane.assets}:$PATH  # kubectl and the rest", flush=True)
    say("up; Ctrl-C ends everything")


def stop_event(signals: Iterable[signal.Signals]) -> asyncio.Event:
    """An event that is set by any of the signals, instead of what they would do."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in signals:
        loop.add_signal_handler(number, event.set)
    return event
