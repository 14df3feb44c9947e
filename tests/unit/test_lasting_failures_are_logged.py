"""A failure that lasts is logged when it begins, when it ends, and every ten minutes in between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.failure_log import FailureLog, Lines
from tests.support.timing import background

LINES = Lines("fails", "still fails", "well")


class Watched:
    """A log of failures of one object, and a clock that the test moves."""

    def __init__(self, entries: list[Any]) -> None:
        self.now = 0.0
        self.entries = entries
        self.log: FailureLog[str] = FailureLog(LINES, lambda: self.now, lambda name: {"name": name})

    def pass_minutes(self, minutes: float, *reasons: str, step: float = 15.0) -> None:
        """Reconcile every `step` seconds; the reasons take turns, and "" is a success."""
        for number in range(int(minutes * 60 / step)):
            reason = reasons[number % len(reasons)]
            if reason:
                self.log.failing("web", reason, f"{reason} of web")
            else:
                self.log.well("web")
            self.now += step

    @property
    def told(self) -> list[tuple[str, str]]:
        """The lines so far: text and reason."""
        return [(entry["event"], entry.get("reason", "")) for entry in self.entries]


@pytest.fixture
def watched() -> Iterator[Watched]:
    """A log of failures and what it wrote."""
    with capture_logs() as entries:
        yield Watched(entries)


def test_failure_is_told_at_its_begin_at_its_end_and_every_ten_minutes(watched: Watched) -> None:
    """Half an hour of failures at each reconcile is four lines."""
    watched.pass_minutes(30, "FailedGetScale")
    watched.pass_minutes(10, "")

    assert watched.told == [
        ("fails", "FailedGetScale"),
        ("still fails", "FailedGetScale"),
        ("still fails", "FailedGetScale"),
        ("well", ""),
    ]
    begin, *_, end = watched.entries
    assert (begin["log_level"], end["log_level"]) == ("warning", "info")
    assert begin["error"] == "FailedGetScale of web"
    assert (end["name"], end["seconds"], end["failures"]) == ("web", 1800.0, 120)


def test_failure_that_may_be_over_in_a_moment_is_no_warning_yet(watched: Watched) -> None:
    """Its first line is for information, and the reminder is a warning."""
    for _ in range(60):
        watched.log.failing("web", "FailedGetResourceMetric", "no metrics", severe=False)
        watched.now += 15

    assert [entry["log_level"] for entry in watched.entries] == ["info", "warning"]


def test_another_reason_is_one_line(watched: Watched) -> None:
    """A reason that changes while the object fails is told once."""
    watched.pass_minutes(3, "FailedGetScale")
    watched.pass_minutes(3, "AmbiguousSelector")

    assert watched.told == [("fails", "FailedGetScale"), ("still fails", "AmbiguousSelector")]


def test_reasons_that_take_turns_fill_no_log(watched: Watched) -> None:
    """Two reasons that alternate are told once each between two reminders."""
    watched.pass_minutes(10, "FailedGetScale", "AmbiguousSelector")

    assert watched.told == [("fails", "FailedGetScale"), ("still fails", "AmbiguousSelector")]


def test_reasons_without_end_fill_no_log(watched: Watched) -> None:
    """A text that is another one each time is told at most four times in ten minutes."""
    watched.pass_minutes(60, *(f"after {number} ms" for number in range(240)))

    assert len(watched.told) <= 6 * 4


def test_object_that_fails_now_and_then_fills_no_log(watched: Watched) -> None:
    """An object that fails at every other reconcile is told of twice in ten minutes."""
    watched.pass_minutes(60, "FailedGetScale", "")

    assert 2 <= len(watched.told) <= 2 * 7


def test_failure_that_comes_back_and_lasts_is_told(watched: Watched) -> None:
    """A failure that begins again soon after its end is told once it has lasted for a minute."""
    watched.pass_minutes(1, "FailedGetScale")
    watched.pass_minutes(0.25, "")
    watched.pass_minutes(2, "AmbiguousSelector")

    assert watched.told == [("fails", "FailedGetScale"), ("well", ""), ("fails", "AmbiguousSelector")]


@pytest.mark.looptime
async def test_object_that_nobody_tries_again_is_reminded_of(watched: Watched) -> None:
    """The reminder does not wait for another reconcile, and a deleted object has none."""
    loop = asyncio.get_running_loop()
    failures: FailureLog[str] = FailureLog(LINES, loop.time, lambda name: {"name": name})
    failures.failing("web", "InvalidObject", "nested too deeply")
    failures.failing("api", "InvalidObject", "nested too deeply")
    failures.forget("api")

    async with background(failures.remind()):
        await asyncio.sleep(1500)

    assert [entry["name"] for entry in watched.entries] == ["web", "api", "web", "web"]


@pytest.mark.looptime
async def test_memory_is_given_back(watched: Watched) -> None:
    """Objects that are well again leave nothing behind."""
    loop = asyncio.get_running_loop()
    failures: FailureLog[str] = FailureLog(LINES, loop.time, lambda name: {"name": name})

    async with background(failures.remind()):
        for number in range(1000):
            failures.failing(f"web-{number}", "FailedGetScale", "no answer")
            failures.well(f"web-{number}")
        await asyncio.sleep(700)

    assert len(failures) == 0
