"""Times are RFC 3339 and durations are Go's."""

from __future__ import annotations

import pytest

from fedhpa.api.errors import InvalidObject
from fedhpa.api.times import ZERO_TIME, format_duration, format_time, parse_duration, parse_time


@pytest.mark.parametrize(
    ("text", "seconds", "written"),
    [
        ("1970-01-01T00:00:00Z", 0.0, "1970-01-01T00:00:00Z"),
        ("1969-12-31T23:59:59Z", -1.0, "1969-12-31T23:59:59Z"),
        ("0001-01-01T00:00:00Z", ZERO_TIME, "0001-01-01T00:00:00Z"),
        ("2026-03-11T13:23:17Z", 1_773_235_397.0, "2026-03-11T13:23:17Z"),
        ("2026-03-11T13:23:17.250Z", 1_773_235_397.25, "2026-03-11T13:23:17.25Z"),
        ("2026-03-11T13:23:17.123456789Z", 1_773_235_397.123456, "2026-03-11T13:23:17.123456Z"),
        ("2026-03-11T15:23:17+02:00", 1_773_235_397.0, "2026-03-11T13:23:17Z"),
    ],
)
def test_times(text: str, seconds: float, written: str) -> None:
    """A time parses to POSIX seconds, also before 1970, and prints in UTC."""
    assert parse_time(text) == seconds
    assert format_time(seconds) == written


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (parse_time("9999-12-31T23:59:59.999999Z"), "9999-12-31T23:59:59Z"),
        (1e300, "9999-12-31T23:59:59Z"),
        (-1e300, "0001-01-01T00:00:00Z"),
    ],
)
def test_the_ends_of_time(seconds: float, written: str) -> None:
    """Times outside the printable years become the first or the last one."""
    assert format_time(seconds) == written


def test_no_time_stays_none() -> None:
    """None stays None."""
    assert parse_time(None) is None


@pytest.mark.parametrize(
    "text", ["", "now", "2026-03-11", "2026-03-11T13:23:17", "2026-13-11T13:23:17Z", "2026-03-11 13:23:17Z"]
)
def test_bad_times(text: str) -> None:
    """Only RFC 3339 times are valid."""
    with pytest.raises(InvalidObject, match="RFC 3339"):
        parse_time(text)


@pytest.mark.parametrize(
    ("value", "seconds", "written"),
    [
        ("5m", 300.0, "5m0s"),
        ("1h30m", 5400.0, "1h30m0s"),
        ("15.5s", 15.5, "15.5s"),
        ("300ms", 0.3, "300ms"),
        ("1us", 1e-6, "1µs"),
        ("0", 0.0, "0s"),
        ("-1.5h", -5400.0, "-1h30m0s"),
        (45, 45.0, "45s"),
        (0.5, 0.5, "500ms"),
    ],
)
def test_durations(value: str | float, seconds: float, written: str) -> None:
    """A Go duration or a number parses to seconds, and prints as in Go."""
    assert parse_duration(value) == seconds
    assert format_duration(seconds) == written


@pytest.mark.parametrize("value", ["", "5", "m", "5 m", "5d", "soon", True, float("inf"), float("nan")])
def test_bad_durations(value: str | float) -> None:
    """A duration needs a unit and a finite number."""
    with pytest.raises(InvalidObject):
        parse_duration(value)
