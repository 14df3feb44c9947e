"""`python -m demo --plane=real`: the whole system at work, for somebody who watches.

Exit code 0 only if every observation was made (docs/contracts.md, section 1); 1 if not; 2 for wrong usage.
DEMO_SECONDS, counted from the moment when all processes are ready, ends it; without it a pipe gets one pass,
and a terminal goes on until Ctrl-C.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

from demo.story import QUIET, Story
from demo.view import Lines, LiveView
from demo.world import RealWorld
from realplane.assets import PlaneUnavailable, ensure_assets
from stage.runs import StartFailed
from stage.waiting import NotInTime

NEXT_COMMANDS = (
    ".venv/bin/python -m realplane up   # a hub, two members and the processes, for your own objects",
    ".venv/bin/fedhpa crds --with-clusters   # the objects that the hub learns to understand",
    '.venv/bin/fedhpa cron next "0 9 * * MON-FRI" --time-zone Europe/Berlin   # scaling by time',
)


def main() -> int:
    """Parse arguments and environment, run, and give the exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--plane", choices=("embedded", "real"), default="real")
    plane = parser.parse_args().plane
    if plane == "embedded":
        print("demo: the embedded plane is not built in this version; use PLANE=real", file=sys.stderr)
        return 2
    try:
        seconds = _seconds(os.environ.get("DEMO_SECONDS"))
    except ValueError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    try:
        return asyncio.run(_until_signal(ensure_assets(), seconds))
    except (PlaneUnavailable, StartFailed, NotInTime) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 1  # while the planes' programs were built


def _seconds(text: str | None) -> float | None:
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError(f"DEMO_SECONDS={text}: expected a positive number of seconds")
    return seconds


async def _until_signal(assets: Path, seconds: float | None) -> int:
    """Run the demo; a signal ends it in order, as its time does."""
    task = asyncio.ensure_future(_demo(assets, seconds))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        return 1  # before everything was ready, so nothing was observed


async def _demo(assets: Path, seconds: float | None) -> int:
    lines = Lines()
    world = RealWorld(assets, lines.say)
    story: Story | None = None
    try:
        await world.start(QUIET)
        lines.say("ready")
        on_terminal = sys.stdout.isatty()
        view = LiveView(_hints(world)) if on_terminal else lines
        story = Story(world, view.say, view.show)
        try:
            with contextlib.suppress(TimeoutError, asyncio.CancelledError):  # its ends, both in order
                async with asyncio.timeout(seconds):
                    await story.run(once=seconds is None and not on_terminal)
        finally:
            view.close()
    finally:
        await world.end()
    return _summary(story)


def _summary(story: Story) -> int:
    made, expected = len(story.observed), len(story.observed) + len(story.missing)
    print(f"{made} of {expected} observations made; all processes are ended")
    for name in story.missing:
        print(f"missing: {name}")
    print("next:")
    for command in NEXT_COMMANDS:
        print(f"  {command}")
    return 1 if story.missing else 0


def _hints(world: RealWorld) -> list[str]:
    return [
        f"  export KUBECONFIG={world.plane.hub.kubeconfig} PATH={world.plane.assets}:$PATH",
        "  kubectl top pods -A",
        "  kubectl get fhpa -A --watch",
        "  .venv/bin/fedhpa explain fhpa/web -n shop",
    ]


if __name__ == "__main__":
    sys.exit(main())
