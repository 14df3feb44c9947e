"""`python -m demo [--plane=embedded|real]`: the whole system at work, for somebody who watches.

Exit code 0 only if every observation was made (CONTRIBUTING.md); 1 if not; 2 for wrong usage.
DEMO_SECONDS, counted from the moment when all processes are ready, ends it; without it a pipe gets one pass,
and a terminal goes on until Ctrl-C.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from functools import partial

from demo.embedded import EmbeddedStage
from demo.stages import RealStage, Stage
from demo.story import Story
from demo.view import Lines, LiveView
from demo.world import World
from testbed.real.assets import PlaneUnavailable, ensure_assets
from testbed.stage.runs import StartFailed
from testbed.stage.waiting import NotInTime

NEXT_COMMANDS = (
    ("why nothing was scaled down while one was lost:", ".venv/bin/fedhpa replay -o text demo/lost.json"),
    (
        "a hub, two members and the processes, for your own objects:",
        ".venv/bin/python -m testbed.embedded up",
    ),
    ("when a CronFederatedHPA would scale:", '.venv/bin/fedhpa cron next "0 9 * * MON-FRI"'),
)


def main() -> int:
    """Parse arguments and environment, run, and give the exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--plane", choices=("embedded", "real"), default="embedded")
    plane = parser.parse_args().plane
    try:
        seconds = _seconds(os.environ.get("DEMO_SECONDS"))
    except ValueError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    try:
        make = partial(RealStage, ensure_assets()) if plane == "real" else EmbeddedStage
        return asyncio.run(_until_signal(make, seconds))
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


async def _until_signal(make: Callable[[], Stage], seconds: float | None) -> int:
    """Run the demo; a signal ends it in order, as its time does."""
    task = asyncio.ensure_future(_demo(make(), seconds))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        return 1  # before everything was ready, so nothing was observed


async def _demo(stage: Stage, seconds: float | None) -> int:
    lines = Lines()
    world = World(stage, lines.say)
    story: Story | None = None
    try:
        await world.start()
        lines.say("ready")
        on_terminal = sys.stdout.isatty()
        view = LiveView(stage.load.peak, _hints(stage)) if on_terminal else lines
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
    for what, command in NEXT_COMMANDS:
        print(f"  # {what}\n  {command}")
    return 1 if story.missing else 0


def _hints(stage: Stage) -> list[str]:
    lines = [f"export KUBECONFIG={stage.hub.kubeconfig}", *stage.path_lines]
    if stage.has_kubectl:
        lines += ["kubectl top pods -A", "kubectl get fhpa -A --watch"]
    return [*lines, ".venv/bin/fedhpa explain fhpa/web -n shop"]


if __name__ == "__main__":
    sys.exit(main())
