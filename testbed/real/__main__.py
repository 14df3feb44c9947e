"""`python -m testbed.real build | stop [--all] | up [--members N]`.

The other commands act on the plane that runs.
"""

import argparse
import asyncio
import sys

from testbed.real.assets import PlaneUnavailable, ensure_assets
from testbed.real.up import up
from testbed.stage import COMMANDS, NotInTime, StartFailed, add_commands, carry_out, reap


def main(arguments: list[str] | None = None) -> int:
    """Runs one sub-command; returns the exit code. Only results go to standard output."""
    parser = argparse.ArgumentParser(prog="python -m testbed.real", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "build", help="build the missing programs; the last line is the folder with all programs"
    )
    stop = commands.add_parser("stop", help="end the programs of crashed runs")
    stop.add_argument("--all", action="store_true", help="also end runs whose owner is alive")
    up_ = commands.add_parser("up", help="run a hub, members and the three processes until Ctrl-C")
    up_.add_argument("--members", type=int, default=2, metavar="N")
    add_commands(commands)
    options = parser.parse_args(arguments)
    if options.command in COMMANDS:
        code, text = carry_out(options)
        print(text, file=sys.stderr if code else sys.stdout)
        return code
    try:
        if options.command == "build":
            print(ensure_assets())
            return 0
        if options.command == "up":
            asyncio.run(up(ensure_assets(), options.members))
            return 0
    except (PlaneUnavailable, StartFailed, NotInTime) as error:
        print(f"real-plane: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    for name in reap(living_owners=options.all):
        print(f"ended {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
