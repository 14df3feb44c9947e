"""`python -m realplane up`: a hub and members to try things on, until Ctrl-C."""

import asyncio
import signal
from collections.abc import Iterable
from pathlib import Path

from realplane.assets import say
from realplane.plane import Plane


async def up(assets: Path, members: int) -> None:
    """Start them, print one `export KUBECONFIG` a plane, and hold until a signal; then end everything."""
    with_signals = stop_event((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    say(f"starting a hub and {members} members")
    plane = Plane(assets, members=[f"member{number}" for number in range(1, members + 1)])
    try:
        starting = asyncio.ensure_future(plane.start())
        stopping = asyncio.ensure_future(with_signals.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.wait({starting})
            return
        starting.result()
        for one in (plane.hub, *plane.members.values()):
            print(f"export KUBECONFIG={one.kubeconfig}  # {one.name}", flush=True)
        say("up; Ctrl-C ends everything")
        await stopping
    finally:
        plane.end()
        say("everything is ended")


def stop_event(signals: Iterable[signal.Signals]) -> asyncio.Event:
    """An event that is set by any of the signals, instead of what they would do."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in signals:
        loop.add_signal_handler(number, event.set)
    return event
