"""`python -m demo [--plane=embedded|real] [--scenario=NAME]`: shows the whole system at work.

The exit code is 0 if every observation was made (CONTRIBUTING.md), 1 if not, and 2 for wrong usage.
The demo ends DEMO_SECONDS after all processes are ready. Without DEMO_SECONDS it plays once in a pipe, and
until Ctrl-C in a terminal. With little time, the rules are played before the count begins.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from demo.clusters import Clusters
from demo.embedded import EmbeddedStage
from demo.play import Play
from demo.scenarios import DEFAULT, SCENARIOS, Scenario
from demo.stages import RealStage, Stage
from demo.view import Lines, LiveView
from testbed.real.assets import PlaneUnavailable, ensure_assets
from testbed.stage import NotInTime, StartFailed

NEXT_COMMANDS = (
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
    parser.add_argument("--scenario", choices=tuple(SCENARIOS), default=DEFAULT)
    arguments = parser.parse_args()
    scenario = SCENARIOS[arguments.scenario]
    try:
        seconds = _seconds(os.environ.get("DEMO_SECONDS"))
    except ValueError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    try:
        make = partial(RealStage, ensure_assets()) if arguments.plane == "real" else EmbeddedStage
        return asyncio.run(_until_signal(partial(_demo, scenario, make), seconds))
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


async def _until_signal(
    demo: Callable[[float | None], Coroutine[Any, Any, int]], seconds: float | None
) -> int:
    """Runs the demo. A signal ends it cleanly, like DEMO_SECONDS."""
    task = asyncio.ensure_future(demo(seconds))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        return 1  # not everything was ready, so there are no observations


async def _demo(scenario: Scenario[Any], make: Callable[..., Stage], seconds: float | None) -> int:
    lines = Lines()
    stage = make(members=scenario.members, load=scenario.load)
    world: Clusters = scenario.world(stage, lines.say)
    try:
        await world.start()
        await world.prepare(seconds)
        lines.say("ready")
        on_terminal = sys.stdout.isatty()
        view = _view(scenario, stage) if on_terminal else lines
        played = scenario.play(world, view.say, view.show)
        try:
            with contextlib.suppress(TimeoutError, asyncio.CancelledError):  # both are clean ends
                async with asyncio.timeout(seconds):
                    await played.run(once=seconds is None and not on_terminal)
        finally:
            view.close()
    finally:
        await world.end()
    return _summary(played, scenario.commands)


def _summary(played: Play, commands: Iterable[tuple[str, str]]) -> int:
    made, expected = len(played.observed), len(played.observed) + len(played.missing)
    print(f"{made} of {expected} observations made; all processes have ended")
    for name in played.missing:
        print(f"missing: {name}")
    print("next:")
    for what, command in (*commands, *NEXT_COMMANDS):
        print(f"  # {what}\n  {command}")
    return 1 if played.missing else 0


def _view(scenario: Scenario[Any], stage: Stage) -> LiveView:
    return LiveView(stage.load.peak, _hints(stage), samples_per_column=scenario.samples_per_column)


def _hints(stage: Stage) -> list[str]:
    lines = [f"export KUBECONFIG={stage.hub.kubeconfig}", *stage.path_lines]
    if stage.has_kubectl:
        lines += ["kubectl top pods -A", "kubectl get fhpa -A --watch"]
    return [*lines, ".venv/bin/fedhpa explain fhpa/web -n shop --watch"]


if __name__ == "__main__":
    sys.exit(main())
