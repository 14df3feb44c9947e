"""`python -m testbed.real up`: runs a hub, members and the three processes until Ctrl-C."""

import asyncio
from pathlib import Path

from testbed.real.plane import Plane
from testbed.stage import hold, say


async def up(assets: Path, members: int) -> None:
    """Starts everything, prints how to reach it, waits for a signal, then ends everything."""
    plane = Plane(assets, members=[f"member{n}" for n in range(1, members + 1)])
    try:
        load = asyncio.create_task(plane.load.follow())
        try:
            await hold(plane, [f"export PATH={assets}:$PATH  # kubectl and the other programs"])
        finally:
            load.cancel()
            await asyncio.wait([load])
        if not load.cancelled():
            load.result()
    finally:
        plane.end()
        say("all processes have ended")
