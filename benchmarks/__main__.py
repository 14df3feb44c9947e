"""`make bench`: run the named scenarios and compare their figures with `benchmarks/budget.yaml`.

A scenario's module has `run() -> dict[str, float]`: the name of each figure and its value, in the unit at the
end of that name. Budgets of time and memory leave headroom. They catch a change of complexity, not noise.
Budgets of time grow with the time that a fixed piece of work takes now (`benchmarks.calibration`), so that a
slow or busy machine fails none. A module that counts things may have `details() -> dict[str, list[str]]`, the
counted things of each figure.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import yaml

from benchmarks.calibration import slowdown

BUDGET: Final = Path(__file__).with_name("budget.yaml")
MODULES: Final[Mapping[str, str]] = {
    "walk": "benchmarks.walk.walks",
    "decision": "benchmarks.decision",
    "adapter": "benchmarks.adapter.lists",
    "adapter-large": "benchmarks.adapter.large",
    "adapter-callers": "benchmarks.adapter.callers",
    "adapter-crowd": "benchmarks.adapter.crowd",
    "webhook": "benchmarks.webhook",
    "controller": "benchmarks.controller.rounds",
    "controller-members": "benchmarks.controller.many_members",
    "controller-large": "benchmarks.controller.large",
    "distributed": "benchmarks.controller.distributed",
    "distributed-members": "benchmarks.controller.distributed_members",
    "closed-loop-cost": "benchmarks.closed_loop.cost",
    "backtest": "benchmarks.backtest",
    "fortnights": "benchmarks.fortnights",
    "cron": "benchmarks.cron",
    "cron-rules": "benchmarks.cron_rules",
    "cron-real": "benchmarks.cron_real",
}
# These take minutes, so they run only when named.
ONLY_NAMED: Final = (
    "controller-large",
    "adapter-large",
    "adapter-callers",
    "adapter-crowd",
    "fortnights",
    "cron-real",
)


def main(arguments: list[str] | None = None) -> int:
    """Run the named scenarios, or all short ones; return 1 if a figure exceeds its budget."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["closed-loop"]:
        from benchmarks.closed_loop.command import main as closed_loop

        return closed_loop(given[1:])
    if given[:1] == ["fleet"]:
        from benchmarks.fleet.command import main as fleet

        return fleet(given[1:])
    if given[:1] == ["fidelity"]:
        from benchmarks.fidelity.command import main as fidelity

        return fidelity(given[1:])
    budget: dict[str, dict[str, float]] = yaml.safe_load(BUDGET.read_text())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Run named scenarios and compare them with their budget.",
        epilog="`python -m benchmarks closed-loop --help`: the controller in emulated fleets. "
        "`python -m benchmarks fleet --help`: all processes with a real hub and many lean members.",
    )
    parser.add_argument(
        "scenario",
        nargs="*",
        help=f"one of {', '.join(budget)}; without a name, all but {', '.join(ONLY_NAMED)}",
    )
    parser.add_argument("--list", action="store_true", help="also print what was counted")
    parser.add_argument(
        "--json", action="store_true", help="print figures, budgets and what was counted as JSON"
    )
    options = parser.parse_args(given)
    names = options.scenario or [name for name in budget if name not in ONLY_NAMED]
    unknown = [name for name in names if name not in budget]
    if unknown:
        parser.error(f"unknown scenario {unknown[0]!r}: use one of {', '.join(budget)}")
    results = []
    for name in names:
        results.append(measure(name, budget[name]))
        if not options.json:
            show(results[-1], counted=options.list)
    if options.json:
        print(json.dumps({result.scenario: asdict(result) for result in results}, indent=2))
    exceeded = [line for result in results for line in result.exceeded()]
    for line in exceeded:
        print(line, file=sys.stderr)
    return 1 if exceeded else 0


# A name ends with its unit, which may be for each object or request.
_OF_TIME: Final = re.compile(r"\b(CPU (s|ms)|us/pod|m?s$)\b")


@dataclass(frozen=True)
class Result:
    """The figures of a scenario with their budgets, and what was counted for them.

    Budgets of times are those of a quiet machine, and this one is slower by the factor `slowdown`.
    """

    scenario: str
    figures: dict[str, float]
    budget: dict[str, float]
    counted: dict[str, list[str]]
    slowdown: float = 1.0

    def limit(self, figure: str) -> float:
        """Returns the limit of a figure on this machine. Raises KeyError without a budget."""
        return self.budget[figure] * (self.slowdown if _OF_TIME.search(figure) else 1.0)

    def exceeded(self) -> list[str]:
        """Returns a line for each missing or exceeded budget."""
        missing = [
            f"{self.scenario}: {figure} has a budget but was not measured"
            for figure in self.budget
            if figure not in self.figures
        ]
        above = [
            f"{self.scenario}: {figure} = {self.figures[figure]:.3f} is above its budget {limit:g}"
            for figure in self.budget
            if figure in self.figures and self.figures[figure] > (limit := self.limit(figure))
        ]
        return missing + above


def measure(name: str, limits: dict[str, float]) -> Result:
    """Run one scenario."""
    module = importlib.import_module(MODULES[name])
    before, figures = slowdown(), module.run()
    counted = module.details() if hasattr(module, "details") else {}
    return Result(name, figures, limits, counted, max(before, slowdown()))


def show(result: Result, *, counted: bool) -> None:
    """Print the figures of a scenario, and what was counted."""
    for figure, value in result.figures.items():
        suffix = f"   budget {result.limit(figure):g}" if figure in result.budget else ""
        print(f"{result.scenario:12} {figure:56} {value:12.3f}{suffix}")
        for line in result.counted.get(figure, ()) if counted else ():
            print(f"    {line}")


if __name__ == "__main__":
    sys.exit(main())
