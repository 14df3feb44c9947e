"""The suite collects garbage rarely. Measured costs are those of a process, which collects it more often."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.support.costs import least_cpu_seconds, least_hold_by_thread, least_longest_hold


def by_cpu(work: Callable[[], None]) -> None:
    least_cpu_seconds(work, 1.0)


def by_hold(work: Callable[[], None]) -> None:
    async def step() -> None:
        work()

    asyncio.run(least_longest_hold(step, 1.0))


def by_thread(work: Callable[[], None]) -> None:
    asyncio.run(least_hold_by_thread(work, 1.0))


@pytest.mark.parametrize("measure", [by_cpu, by_hold, by_thread])
def test_a_measurement_has_the_collector_of_a_process(measure: Callable[[Callable[[], None]], None]) -> None:
    """The thresholds are those of a new interpreter during the measurement, and the suite's after it."""
    command = [sys.executable, "-c", "import gc; print(gc.get_threshold())"]
    of_a_process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    seen: list[tuple[int, ...]] = []
    before = gc.get_threshold()

    measure(lambda: seen.append(gc.get_threshold()))

    assert {str(thresholds) for thresholds in seen} == {of_a_process.strip()}
    assert gc.get_threshold() == before != seen[0]
