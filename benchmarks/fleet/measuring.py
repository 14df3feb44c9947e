"""The cost of a fleet in a box over some minutes, and the time that the loss of a controller takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.fleet.box import Box
from benchmarks.fleet.callers import callers
from benchmarks.fleet.series import Samples, quantile, total

RECONCILES: Final = "fedhpa_controller_reconciliation_duration_seconds_count"
LATENESS: Final = "fedhpa_controller_reconcile_lateness_seconds"
OBJECTS: Final = "fedhpa_controller_objects"
LEADER: Final = "fedhpa_controller_leader"
SAY_SECONDS: Final = 15.0
# The first statuses of all objects come within so many periods, also on a busy machine.
SETTLE_PERIODS: Final = 10
TAKE_OVER_SECONDS: Final = 240.0
# Two times the duration of a Lease.
LEASES_SECONDS: Final = 30.0


@dataclass(frozen=True)
class _Reading:
    """CPU seconds and resident megabytes of each process, and the series of the controllers."""

    at: float
    cpu: dict[str, float]
    resident: dict[str, float]
    series: dict[str, Samples]

    @classmethod
    async def of(cls, box: Box) -> _Reading:
        series = await box.controller_samples()
        stats = box.stats()
        return cls(
            time.monotonic(),
            {name: each.cpu for name, each in stats.items()},
            {name: each.resident for name, each in stats.items()},
            series,
        )


async def measure(box: Box, minutes: float) -> dict[str, Any]:
    """Returns the figures of a running fleet: `minutes` of steady work, then the loss of a controller."""
    settled = await _until_settled(box)
    box.begin_faults()
    before, members = await _Reading.of(box), await box.member_figures()
    box.say(f"measuring for {minutes:g} minutes")
    async with callers(box) as answers:
        for _ in range(int(minutes * 60 / SAY_SECONDS)):
            await asyncio.sleep(SAY_SECONDS)
            done = total(await box.controller_samples(), RECONCILES) - total(before.series, RECONCILES)
            faulty = (await box.member_figures())["faulty"]
            box.say(
                f"{done:.0f} reconciles, {sum(answers.count.values())} answers, {faulty:.0f} members faulty"
            )
        after, later = await _Reading.of(box), await box.member_figures()
    seconds = after.at - before.at
    periods = seconds / box.size.period
    reconciles = total(after.series, RECONCILES) - total(before.series, RECONCILES)
    found = {
        "settled seconds": settled,
        "seconds": seconds,
        "reconciles of an object a period": reconciles / box.size.objects / periods,
        "objects by controller": {
            name: total({name: samples}, OBJECTS) for name, samples in after.series.items()
        },
        "lateness p50": quantile(before.series, after.series, LATENESS, 0.5),
        "lateness p99": quantile(before.series, after.series, LATENESS, 0.99),
        "cpu": {name: used - before.cpu[name] for name, used in after.cpu.items() if name in before.cpu},
        "resident": after.resident,
        "growth MB a minute": {
            name: (now - before.resident[name]) / seconds * 60
            for name, now in after.resident.items()
            if name in before.resident
        },
        "answers": answers.count,
        "failed answers": answers.failed,
        "longest answer": answers.longest,
        "members": {name: later[name] - members[name] for name in ("requests", "churned", "scaled")},
        "connections": later["connections"],
    }
    return found | await _lose_one(box)


async def _until_settled(box: Box) -> float:
    """Returns the seconds until each object was reconciled once and belongs to one controller."""
    began = time.monotonic()
    limit = began + SETTLE_PERIODS * box.size.period + box.size.objects * 0.05
    said = began
    while True:
        series = await box.controller_samples()
        objects, done = total(series, OBJECTS), total(series, RECONCILES)
        spread = _is_spread(box, series)
        if objects == box.size.objects and done >= box.size.objects and spread:
            seconds = time.monotonic() - began
            box.say(f"settled after {seconds:.0f} s")
            # An object that has just moved is reconciled at once, and then at its own time.
            await asyncio.sleep(box.size.period)
            return seconds
        if time.monotonic() - said >= SAY_SECONDS:
            said = time.monotonic()
            box.say(f"{done:.0f} first reconciles, {objects:.0f} objects held; evenly spread: {spread}")
        if time.monotonic() > limit:
            raise TimeoutError(
                f"not settled after {time.monotonic() - began:.0f} s: {objects:.0f} objects held"
            )
        await asyncio.sleep(2)


def _is_spread(box: Box, series: dict[str, Samples]) -> bool:
    """True if each controller leads one shard of FederatedHPAs."""
    return len(series) == box.options.controllers and all(
        len([name for name, leads in _leads(samples).items() if leads]) == 1 for samples in series.values()
    )


def _leads(samples: Samples) -> dict[str, float]:
    """The shards of FederatedHPAs, and 1 for those that a controller leads."""
    found = {dict(labels).get("shard", ""): value for labels, value in samples.get(LEADER, {}).items()}
    return {name: value for name, value in found.items() if name[:1].isdigit()}


async def _lose_one(box: Box) -> dict[str, Any]:
    """Kills a controller, and starts another one once its objects are taken over."""
    if box.options.controllers < 2:
        return {}
    scaled = (await box.member_figures())["scaled"]
    killed = box.kill_controller()
    box.say(f"{killed} is killed")

    async def all_held() -> bool:
        return total(await box.controller_samples(), OBJECTS) == box.size.objects

    taken = await _seconds_until(all_held)
    box.say(f"its objects were taken over after {taken:.0f} s")
    started = box.start_controller()

    async def spread() -> bool:
        series = await box.controller_samples()
        return _is_spread(box, series) and total(series, OBJECTS) == box.size.objects

    balanced = await _seconds_until(spread)
    box.say(f"{started} has its share after {balanced:.0f} s")
    return {
        "taken over after seconds": taken,
        "within two Leases": taken <= LEASES_SECONDS,
        "balanced after seconds": balanced,
        "scale changes meanwhile": (await box.member_figures())["scaled"] - scaled,
    }


async def _seconds_until(reached: Callable[[], Any]) -> float:
    """Returns the seconds until a condition holds. Raises TimeoutError after TAKE_OVER_SECONDS."""
    began = time.monotonic()
    async with asyncio.timeout(TAKE_OVER_SECONDS):
        while not await reached():  # noqa: ASYNC110  # processes are asked
            await asyncio.sleep(1)
    return time.monotonic() - began
