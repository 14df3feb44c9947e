"""`python -m testbed.real up`: a hub, members and the three processes to try things on, until Ctrl-C."""

from pathlib import Path

from testbed.real.plane import Plane
from testbed.stage.up import hold, say


async def up(assets: Path, members: int) -> None:
    """Start them, say how to reach them, hold until a signal, then end everything."""
    plane = Plane(assets, members=[f"member{n}" for n in range(1, members + 1)])
    try:
        await hold(plane, [f"export PATH={assets}:$PATH  # kubectl and the rest"])
    finally:
        plane.end()
        say("everything is ended")
