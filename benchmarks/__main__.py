"""`make bench`: run every named scenario and hold its figures against `benchmarks/budget.yaml`.

A scenario module offers `run() -> dict[str, float]`: figure name -> measured value, in the unit that the
figure's name ends with. Budgets carry headroom for slow machines; they catch a change of kind, not of noise.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

import yaml

BUDGET = Path(__file__).with_name("budget.yaml")
# These take minutes: they run only when they are named.
ONLY_NAMED = ("controller-large", "adapter-large", "adapter-callers")


def main(arguments: list[str] | None = None) -> int:
    """Run the scenarios (or only those named), print a table, return 1 if a budget is exceeded."""
    budget: dict[str, dict[str, float]] = yaml.safe_load(BUDGET.read_text())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Named scenarios against their budget."
    )
    parser.add_argument(
        "scenario",
        nargs="*",
        help=f"one of {', '.join(budget)}; when none is named, all but {', '.join(ONLY_NAMED)}",
    )
    names = parser.parse_args(arguments).scenario or [name for name in budget if name not in ONLY_NAMED]
    unknown = [name for name in names if name not in budget]
    if unknown:
        parser.error(f"unknown scenario {unknown[0]!r}: use one of {', '.join(budget)}")
    exceeded = [line for name in names for line in measure(name, budget[name])]
    for line in exceeded:
        print(line, file=sys.stderr)
    return 1 if exceeded else 0


def measure(name: str, limits: dict[str, float]) -> list[str]:
    """Run one scenario, print its figures, return a line for each that is missing or above its limit."""
    figures: dict[str, float] = importlib.import_module(f"benchmarks.{name.replace('-', '_')}").run()
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
