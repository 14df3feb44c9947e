"""`make bench`: run the named scenarios and compare their figures with `benchmarks/budget.yaml`.

A scenario's module has `run() -> dict[str, float]`: the name of each figure and its value, in the unit at the
end of that name. Budgets leave headroom for slow machines. They catch a change of complexity, not noise.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

BUDGET: Final = Path(__file__).with_name("budget.yaml")
MODULES: Final[Mapping[str, str]] = {
    "decision": "benchmarks.decision",
    "adapter": "benchmarks.adapter.lists",
    "adapter-large": "benchmarks.adapter.large",
    "adapter-callers": "benchmarks.adapter.callers",
    "webhook": "benchmarks.webhook",
    "controller": "benchmarks.controller.rounds",
    "controller-large": "benchmarks.controller.large",
    "distributed": "benchmarks.controller.distributed",
    "closed-loop-cost": "benchmarks.closed_loop.cost",
    "cron": "benchmarks.cron",
    "cron-rules": "benchmarks.cron_rules",
    "cron-real": "benchmarks.cron_real",
}
# These take minutes, so they run only when named.
ONLY_NAMED: Final = ("controller-large", "adapter-large", "adapter-callers", "cron-real")


def main(arguments: list[str] | None = None) -> int:
    """Run the named scenarios, or all short ones; return 1 if a figure exceeds its budget."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["closed-loop"]:
        from benchmarks.closed_loop.command import main as closed_loop

        return closed_loop(given[1:])
    budget: dict[str, dict[str, float]] = yaml.safe_load(BUDGET.read_text())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Run named scenarios and compare them with their budget.",
        epilog="`python -m benchmarks closed-loop --help`: the controller in emulated fleets.",
    )
    parser.add_argument(
        "scenario",
        nargs="*",
        help=f"one of {', '.join(budget)}; without a name, all but {', '.join(ONLY_NAMED)}",
    )
    names = parser.parse_args(given).scenario or [name for name in budget if name not in ONLY_NAMED]
    unknown = [name for name in names if name not in budget]
    if unknown:
        parser.error(f"unknown scenario {unknown[0]!r}: use one of {', '.join(budget)}")
    exceeded = [line for name in names for line in measure(name, budget[name])]
    for line in exceeded:
        print(line, file=sys.stderr)
    return 1 if exceeded else 0


def measure(name: str, limits: dict[str, float]) -> list[str]:
    """Run one scenario and print its figures; return a line for each missing or exceeded budget."""
    figures: dict[str, float] = importlib.import_module(MODULES[name]).run()
    for figure, value in figures.items():
        limit = limits.get(figure)
        print(f"{name:12} {figure:56} {value:12.3f}" + (f"   budget {limit:g}" if limit is not None else ""))
    missing = [
        f"{name}: {figure} has a budget but was not measured" for figure in limits if figure not in figures
    ]
    above = [
        f"{name}: {figure} = {figures[figure]:.3f} is above its budget {limit:g}"
        for figure, limit in limits.items()
        if figure in figures and figures[figure] > limit
    ]
    return missing + above


if __name__ == "__main__":
    sys.exit(main())
