"""`python -m benchmarks closed-loop`: figures of each way to scale, side by side, in named worlds."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterable, Sequence
from typing import Final

from benchmarks.closed_loop.ways import WAYS, Result, simulate
from benchmarks.closed_loop.worlds import ALL

DESCRIPTION: Final = """\
Runs the real controller in virtual time against an emulated hub and members, beside plain HPAs with the same
load. Pods are counted each second. `ideal` is ceil(load / target), at least minReplicas; `unserved` is
the load that ready pods cannot serve. A change is `back and forth` if it undoes one within ten minutes."""


def main(arguments: Sequence[str]) -> int:
    """Prints a table, or one JSON object for each run as it ends."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks closed-loop",
        description=DESCRIPTION,
        epilog="worlds:\n" + "\n".join(f"  {world.name:22} {world.about}" for world in ALL.values()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--mode", action="append", choices=WAYS, help="a way to scale; repeatable; default: all"
    )
    parser.add_argument(
        "--world", action="append", choices=ALL, metavar="NAME", help="repeatable; default: all"
    )
    parser.add_argument("--hours", type=_hours, default=1.0, help="virtual hours of each run (default 1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object a run")
    options = parser.parse_args(arguments)
    for name in options.world or ALL:
        if not options.json:
            print(f"{name}: {ALL[name].about}")
        runs = (_timed(name, way, options.hours) for way in options.mode or WAYS)
        _print_json(runs) if options.json else _print_table(runs)
    return 0


def _hours(text: str) -> float:
    hours = float(text)
    if not 0.05 <= hours <= 4 or math.isnan(hours):
        raise argparse.ArgumentTypeError("expected 0.05 to 4 hours")
    return hours


def _timed(name: str, way: str, hours: float) -> tuple[Result, float]:
    began = time.process_time()
    found = simulate(ALL[name], way, hours)
    return found, time.process_time() - began


def _print_json(runs: Iterable[tuple[Result, float]]) -> None:
    for result, cpu in runs:
        figures = {name: round(value, 4) for name, value in result.figures().items()}
        run = {"world": result.world, "mode": result.way, "hours": result.tally.seconds / 3600}
        row = {**run, **figures, "CPU s": round(cpu, 1)}
        print(json.dumps(row), flush=True)


def _print_table(runs: Iterable[tuple[Result, float]]) -> None:
    heads: list[str] = []
    for result, cpu in runs:
        figures = {**result.figures(), "CPU s": cpu}
        if not heads:
            heads = [*figures]
            print(f"  {'':12}" + "".join(f"{head:>{_width(head)}}" for head in heads))
        cells = "".join(f"{_shown(value):>{_width(head)}}" for head, value in figures.items())
        print(f"  {result.way:12}{cells}", flush=True)
    print()


def _width(head: str) -> int:
    return max(len(head), 7) + 2


def _shown(value: float) -> str:
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
