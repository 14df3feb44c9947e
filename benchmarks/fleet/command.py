"""`python -m benchmarks fleet`: what a fleet costs, measured in a box."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.fleet.box import Options, box
from benchmarks.fleet.layout import FleetSize
from benchmarks.fleet.measuring import measure
from testbed.stage import NotInTime, StartFailed

DESCRIPTION: Final = """\
Runs real controllers, adapters and webhooks with a real hub (its API server and etcd) and lean members on
this machine, and prints the CPU time and memory of each process. Then it kills a controller."""
LEFT_OUT: Final = """\
It leaves out: networks (all is on one machine, over TLS); the members' own API servers and controllers, which
answer from memory, store nothing and check no token; changes of size (usage stays within the tolerance, so no
scale is written); first lists have slim pods; rules and mode Distributed; the hub's own HPAs. All processes
share the machine's cores, so times of waiting are upper bounds, and CPU time is the figure that counts."""
# The name of each group of processes, and how the names of its processes begin.
GROUPS: Final = {
    "controllers": "fedhpa-controller",
    "adapters": "fedhpa-metrics-adapter",
    "webhooks": "fedhpa-webhook",
    "hub": "hub.",
    "members": "members-",
}
OURS: Final = ("controllers", "adapters", "webhooks")


def main(arguments: Sequence[str]) -> int:
    """Measures one fleet, or several with --growth. Returns 1 if one did not work, or not in time."""
    options = _options(arguments)
    size = FleetSize(options.clusters, options.pods, options.autoscalers, options.spread, options.period)
    shape = Options(
        options.controllers,
        options.adapters,
        options.webhooks,
        options.member_processes or max(2, size.clusters // 25),
        options.shard_by,
    )
    began, results = time.monotonic(), []

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:6.0f} s, load {os.getloadavg()[0]:4.1f}] {text}", flush=True)

    print(LEFT_OUT, flush=True)
    for each in (size, *(_smaller(size) if options.growth else ())):
        say(f"{_name(each)}, each in {each.width} clusters, a period of {each.period} s")
        try:
            found = asyncio.run(_within(options.deadline * 60, _measured(each, shape, options.minutes, say)))
        except (TimeoutError, NotInTime, StartFailed, RuntimeError) as error:
            say(f"failed: {type(error).__name__}: {error}")
            return 1
        results.append({"size": asdict(each), "options": asdict(shape), **found})
        print(_table(each, found), flush=True)
    if options.growth:
        print(_growth(size, results), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks fleet",
        description=DESCRIPTION,
        epilog=LEFT_OUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, default, text in (
        ("clusters", 10, "members"),
        ("pods", 20_000, "pods of all members"),
        ("autoscalers", 1_000, "FederatedHPAs"),
        ("spread", 10, "clusters of each workload"),
        ("period", 60, "syncPeriodSeconds of each object"),
        ("controllers", 4, "controllers, and shards"),
        ("adapters", 2, "metrics adapters"),
        ("webhooks", 2, "webhooks"),
    ):
        parser.add_argument(f"--{name}", type=_count, default=default, help=f"{text} (default {default})")
    parser.add_argument("--member-processes", type=_count, help="default: one for 25 members, at least 2")
    parser.add_argument("--shard-by", choices=("target", "namespace"), default="target")
    parser.add_argument("--minutes", type=float, default=3.0, help="of each measurement (default 3)")
    parser.add_argument(
        "--deadline", type=float, default=60.0, help="minutes after which a fleet is ended (default 60)"
    )
    parser.add_argument("--growth", action="store_true", help="also half of clusters, pods and autoscalers")
    parser.add_argument("--json", metavar="FILE", help="also write the figures to a file")
    return parser.parse_args(arguments)


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 10_000_000:
        raise argparse.ArgumentTypeError("expected a number from 1")
    return number


def _name(size: FleetSize) -> str:
    return f"{size.clusters} clusters, {size.all_pods:,} pods, {size.objects:,} autoscalers"


def _smaller(size: FleetSize) -> list[FleetSize]:
    """The same fleet with half of the clusters and their pods; of the pods; of the objects with all pods."""
    return [
        replace(
            size, clusters=max(size.clusters // 2, 1), spread=max(size.width // 2, 1), pods=size.pods // 2
        ),
        replace(size, pods=size.pods // 2),
        replace(size, objects=max(size.objects // 2, 1)),
    ]


async def _within(seconds: float, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """Returns the result of the work. A signal ends it like its deadline, so that all processes end."""
    task = asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    async with asyncio.timeout(seconds):
        try:
            return await task
        except asyncio.CancelledError:
            if task.cancelled():
                raise RuntimeError("ended by a signal, or by the deadline") from None
            raise


async def _measured(
    size: FleetSize, shape: Options, minutes: float, say: Callable[[str], None]
) -> dict[str, Any]:
    async with box(size, shape, say) as running:
        return await measure(running, minutes)


def _groups(values: Mapping[str, float]) -> dict[str, float]:
    return {
        group: sum(value for name, value in values.items() if name.startswith(prefix))
        for group, prefix in GROUPS.items()
    }


def _table(size: FleetSize, found: Mapping[str, Any]) -> str:
    """The figures of a fleet as lines."""
    periods = found["seconds"] / size.period
    lines = [f"\n{_name(size)}, over {found['seconds']:.0f} s with a period of {size.period} s:"]
    lines.append(f"  {'process':28} {'CPU s a period':>15} {'cores':>7} {'MB':>7} {'MB a minute':>12}")
    for name, used in sorted(found["cpu"].items()):
        lines.append(
            f"  {name:28} {used / periods:15.2f} {used / found['seconds']:7.3f}"
            f" {found['resident'][name]:7.0f} {found['growth MB a minute'][name]:12.2f}"
        )
    cpu, resident = _groups(found["cpu"]), _groups(found["resident"])
    for group in GROUPS:
        of_group = cpu[group] / periods
        cores = cpu[group] / found["seconds"]
        lines.append(f"  {group + ', in all':28} {of_group:15.2f} {cores:7.3f} {resident[group]:7.0f}")
    ours = sum(cpu[group] for group in OURS) / periods
    used = {group: seconds / periods for group, seconds in cpu.items()}
    of_pod = {group: resident[group] * 1e6 / size.all_pods for group in OURS}
    lines += [
        f"  controllers, CPU of an object and period:  {used['controllers'] / size.objects * 1e3:.2f} ms",
        f"  controllers, CPU of a pod and period:      {used['controllers'] / size.all_pods * 1e6:.1f} us",
        f"  adapters, CPU of a pod and period:         {used['adapters'] / size.all_pods * 1e6:.1f} us",
        f"  all processes of ours, CPU s a period:     {ours:.2f}",
        f"  the hub, CPU of an object and period:      {used['hub'] / size.objects * 1e3:.2f} ms",
        f"  memory of the controllers for each pod:    {of_pod['controllers']:.0f} bytes",
        f"  memory of the adapters for each pod:       {of_pod['adapters']:.0f} bytes",
    ]
    shown = ("cpu", "resident", "growth MB a minute", "seconds")
    lines += [f"  {name}: {_text(value)}" for name, value in found.items() if name not in shown]
    return "\n".join(lines)


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items()) or "none"
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _growth(size: FleetSize, results: Sequence[Mapping[str, Any]]) -> str:
    """CPU and memory of our processes for the whole fleet, divided by those for the smaller ones."""
    lines = ["\ngrowth, as the whole fleet divided by a smaller one (CPU a second, memory):"]
    whole = results[0]
    for smaller, other in zip(_smaller(size), results[1:], strict=True):
        parts = []
        for group in OURS:
            used = [_groups(each["cpu"])[group] / each["seconds"] for each in (whole, other)]
            kept = [_groups(each["resident"])[group] for each in (whole, other)]
            parts.append(f"{group} {used[0] / max(used[1], 1e-9):.2f}, {kept[0] / max(kept[1], 1e-9):.2f}")
        lines.append(f"  {_name(smaller)}: {'; '.join(parts)}")
    return "\n".join(lines)
