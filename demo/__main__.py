"""`python -m demo [--plane=embedded|real]`: shows the whole system at work.

The exit code is 0 if every observation was made (CONTRIBUTING.md), 1 if not, and 2 for wrong usage.
The demo ends DEMO_SECONDS after all processes are ready. Without DEMO_SECONDS it plays once in a pipe, and
until Ctrl-C in a terminal. With little time, one fire of a rule is played before the count begins.
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
from demo.rules import Rules
from demo.stages import RealStage, Stage
from demo.story import Story
from demo.view import Lines, LiveView
from demo.world import World
from testbed.real.assets import PlaneUnavailable, ensure_assets
from testbed.stage import NotInTime, StartFailed

# Two fires at full minutes need so long at most. With less time, the first one comes before the story.
TWO_FIRES_SECONDS = 150.0

NEXT_COMMANDS = (
    (
        "why nothing was scaled down while one member was lost:",
        ".venv/bin/fedhpa replay -o text demo/lost.json",
    ),
    (
        "a hub, two members and the three processes, for your own objects:",
        ".venv/bin/python -m testbed.embedded up",
    ),
    ("when a CronFederatedHPA would fire:", '.venv/bin/fedhpa cron next "0 9 * * MON-FRI"'),
)


def main() -> int:
    """Parses arguments and environment, runs the demo, and returns the exit code."""
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
        return 1  # while programs were being built


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
    """Runs the demo. A signal ends it cleanly, like DEMO_SECONDS."""
    task = asyncio.ensure_future(_demo(make(), seconds))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        return 1  # not everything was ready, so there are no observations


async def _demo(stage: Stage, seconds: float | None) -> int:
    lines = Lines()
    world = World(stage, lines.say)
    story: Story | None = None
    try:
        await world.start()
        rules = Rules(world)
        if seconds is not None and seconds < TWO_FIRES_SECONDS:
            await rules.restart_over_a_fire(lines.say)
        lines.say("ready")
        on_terminal = sys.stdout.isatty()
        view = LiveView(stage.load.peak, _hints(stage)) if on_terminal else lines
        story = Story(world, rules, view.say, view.show)
        try:
            with contextlib.suppress(TimeoutError, asyncio.CancelledError):  # both are clean ends
                async with asyncio.timeout(seconds):
                    await story.run(once=seconds is None and not on_terminal)
        finally:
            view.close()
    finally:
        await world.end()
    return _summary(story)


def _summary(story: Story) -> int:
    made, expected = len(story.observed), len(story.observed) + len(story.missing)
    print(f"{made} of {expected} observations made; all processes have ended")
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
    return [*lines, ".venv/bin/fedhpa explain fhpa/web -n shop --watch"]


if __name__ == "__main__":
    sys.exit(main())
