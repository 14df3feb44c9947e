"""`python -m testbed.embedded up [--members N]` runs an embedded hub, members and the processes.

The other commands act on the plane that runs.
"""

import argparse
import asyncio
import sys

from testbed.embedded.cluster.autoscalers import SYNC_SECONDS
from testbed.embedded.plane import Plane
from testbed.stage import COMMANDS, NotInTime, StartFailed, add_commands, carry_out, hold, say


def main(arguments: list[str] | None = None) -> int:
    """Run the subcommand and return the exit code. Kubeconfig lines go to standard output."""
    parser = argparse.ArgumentParser(prog="python -m testbed.embedded", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up_ = commands.add_parser("up", help="start a hub, members and the processes; Ctrl-C ends them")
    up_.add_argument("--members", type=int, default=2, metavar="N")
    add_commands(commands)
    options = parser.parse_args(arguments)
    if options.command in COMMANDS:
        code, text = carry_out(options)
        print(text, file=sys.stderr if code else sys.stdout)
        return code
    try:
        asyncio.run(_up(options.members))
    except (StartFailed, NotInTime) as error:
        print(f"embedded plane: {error}", file=sys.stderr)
        return 1
    return 0


async def _up(members: int) -> None:
    plane = Plane([f"member{n}" for n in range(1, members + 1)], hpa_sync_seconds=SYNC_SECONDS)
    try:
        await hold(plane)
    finally:
        await plane.end()
        say("all processes have ended")


if __name__ == "__main__":
    sys.exit(main())
