"""The Date header of an answer shows a server's clock, and any other text shows nothing."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from fedhpa.kube.server_clock import ServerClock
from fedhpa.scaling.records import PodRecord
from fedhpa.scaling.requests import PodRequests

NOW = 1_800_000_000.0


def ahead(date: str | None, *, passed: float = 0.0) -> float:
    """Returns the lead of a server that answered with this header `passed` seconds ago."""
    clock = ServerClock()
    clock.seen = date or "", 100.0
    return clock.ahead(NOW + passed, 100.0 + passed)


@pytest.mark.parametrize("difference", [600, -600, 86_400])
@pytest.mark.parametrize("passed", [0.0, 3600.0])
def test_wrong_clock_is_seen(difference: int, passed: float) -> None:
    """The difference stays the same while no new answer comes."""
    found = ahead(formatdate(NOW + difference, usegmt=True), passed=passed)

    assert abs(found - difference) <= 1


@pytest.mark.parametrize("difference", [0, 5, -9])
def test_small_difference_is_no_wrong_clock(difference: int) -> None:
    """An answer takes a while, and its header has whole seconds."""
    assert ahead(formatdate(NOW + difference, usegmt=True)) == 0.0


@pytest.mark.parametrize(
    "date",
    [
        None,
        "",
        "yesterday",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "Fri, 31 Dec 99999 23:59:59 GMT",
        "Fri, 99 Foo 2027 99:99:99 +9999999",
        ",,,,::::",
        "0" * 1000,
    ],
)
def test_other_texts_say_nothing(date: str | None) -> None:
    """Neither a text that is no time nor a time that is no clock moves anything."""
    assert ahead(date) == 0.0


def test_times_that_are_not_set_stay() -> None:
    """Only the times that a pod has are moved."""
    pod = PodRecord("m1", "shop", "web-0", {}, PodRequests(), start=NOW)

    moved = pod.moved(-600.0)

    assert (moved.start, moved.unschedulable_since) == (NOW - 600.0, None)
    assert (moved.created, moved.ready_since) == (pod.created, pod.ready_since)
