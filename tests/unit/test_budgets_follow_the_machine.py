"""The limits of times follow the slowness of the machine. Those of counts and of memory do not."""

from __future__ import annotations

import re

import yaml

from benchmarks.__main__ import BUDGET, Result
from benchmarks.calibration import MAX_SLOWDOWN, slowdown
from benchmarks.calls import counted


def test_slow_machine_excuses_times_only() -> None:
    """On a machine of a third of the speed, a time may be three times as long, and no count is higher."""
    budget = {"a round, CPU ms": 10.0, "a walk, files": 2.0, "a call, p99 ms": 4.0, "resident, MB": 90.0}
    figures = {name: limit * 2 for name, limit in budget.items()}

    quiet = Result("walk", figures, budget, {}).exceeded()
    slow = Result("walk", figures, budget, {}, slowdown=3.0).exceeded()

    assert len(quiet) == 4
    assert [line.partition(" = ")[0] for line in slow] == ["walk: a walk, files", "walk: resident, MB"]


def test_every_time_in_the_budget_is_known_as_one() -> None:
    """A unit of time that is not recognized would fail on slow machines."""
    scenarios: dict[str, dict[str, float]] = yaml.safe_load(BUDGET.read_text())
    for name, budget in scenarios.items():
        slow = Result(name, {}, budget, {}, slowdown=3.0)
        for figure, limit in budget.items():
            is_time = re.search(r"(?<!')\b(us|ms|s)\b", figure) is not None
            assert slow.limit(figure) == limit * (3.0 if is_time else 1.0), figure


def test_slowness_is_bounded() -> None:
    """No machine is faster than a quiet one, and none so slow that it excuses everything."""
    assert 1.0 <= slowdown() <= MAX_SLOWDOWN


def test_calls_are_counted() -> None:
    """The number does not depend on the machine."""
    numbers = []
    for _ in range(2):
        with counted() as calls:
            sorted(range(100), key=lambda number: -number)
        numbers.append(calls[0])

    assert numbers[0] == numbers[1] >= 101
