"""`python -m benchmarks closed-loop`: figures of each way to scale, side by side, in named worlds."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from benchmarks.closed_loop.random_worlds import KINDS, random_world
from benchmarks.closed_loop.ways import CENTRALIZED, DISTRIBUTED, FIXED, PLAIN, WAYS, Result, simulate
from benchmarks.closed_loop.worlds import ALL, World

DESCRIPTION: Final = """\
Runs the real controller in virtual time against an emulated hub and members, beside plain HPAs with the same
load. Pods are counted each second. `ideal` is ceil(load / target), at least minReplicas; `unserved` is
the load that ready pods cannot serve. A change is `back and forth` if it undoes one within ten minutes.
`goal` of mode Distributed: unserved at most 5 % above the best of the others or 0.1 % of the demand (where a
cluster dies, at most that of mode Centralized), and at most 1.02 times the replica-minutes of plain HPAs."""

# The ways that the goal compares mode Distributed with.
_OTHERS: Final = (PLAIN, FIXED, CENTRALIZED)


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
    parser.add_argument(
        "--random",
        type=range_of,
        metavar="FROM-TO",
        help=f"random worlds of {len(KINDS)} kinds instead, and how many of them meet the goal",
    )
    parser.add_argument("--hours", type=_hours, default=1.0, help="virtual hours of each run (default 1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object a run")
    options = parser.parse_args(arguments)
    if options.random is not None:
        _print_random(options.random, options.hours)
        return 0
    for name in options.world or ALL:
        if not options.json:
            print(f"{name}: {ALL[name].about}")
        runs = (_timed(ALL[name], way, options.hours) for way in options.mode or WAYS)
        _print_json(runs) if options.json else _print_table(runs)
    return 0


def _hours(text: str) -> float:
    hours = float(text)
    if not 0.05 <= hours <= 4 or math.isnan(hours):
        raise argparse.ArgumentTypeError("expected 0.05 to 4 hours")
    return hours


def range_of(text: str) -> range:
    """Reads `4-7` or `4`. Raises ValueError."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def goal(of: Mapping[str, Result], *, loses: bool) -> str:
    """Returns what mode Distributed misses of its goal; "" if nothing. In a world that `loses` a cluster
    mode Centralized is the measure.
    """
    figures = {way: result.figures() for way, result in of.items()}
    own, demand = figures[DISTRIBUTED], of[DISTRIBUTED].tally.demand
    unserved = {way: figures[way]["unserved pod s"] for way in _OTHERS}
    best = unserved[CENTRALIZED] if loses else min(unserved.values())
    most = max(best * 1.05, best + demand / 1000)
    missed = []
    if own["unserved pod s"] > most:
        missed.append(f"unserved {own['unserved pod s']:,.0f} of at most {most:,.0f} pod s")
    minutes = own["replica min"] / figures[PLAIN]["replica min"]
    if minutes > 1.02:
        missed.append(f"{minutes:.3f} times the replica-minutes of plain HPAs")
    return "; ".join(missed)


def _print_random(numbers: Iterable[int], hours: float) -> None:
    kept = count = 0
    for number in numbers:
        world = random_world(number)
        found = {way: simulate(world, way, hours) for way in (*_OTHERS, DISTRIBUTED)}
        missed = goal(found, loses=bool(world.events))
        unserved = ", ".join(f"{way} {one.tally.unserved:,.0f}" for way, one in found.items())
        writes = found[DISTRIBUTED].figures()["member writes/h"]
        head = f"{number} {world.about}: unserved {unserved} pod s; {writes:.0f} writes/h"
        print(f"{head}; {missed or 'meets the goal'}", flush=True)
        kept, count = kept + (not missed), count + 1
    print(f"{kept} of {count} worlds meet the goal")


def _timed(world: World, way: str, hours: float) -> tuple[Result, float]:
    began = time.process_time()
    found = simulate(world, way, hours)
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
