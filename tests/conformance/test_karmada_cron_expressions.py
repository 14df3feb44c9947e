"""Compares our cron parser with the two of Karmada. Each difference is listed with its reason."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import pytest

from fedhpa.cron import InvalidSchedule, load_zone, parse
from tests.conformance.tables import table
from tests.support.timetables import next_times

TABLE = table("karmada_cron_expressions")

NEVER: Final = "a date that never comes is refused, not searched for"
WEEKDAYS: Final = "Sunday is 0 and 7, ranges of weekdays may wrap"
MACROS: Final = "macros in any case"
ZONE_PREFIX: Final = "the zone has its own field"
EMPTY_ITEM: Final = "empty items are refused"
LINE_BREAK: Final = "line breaks are refused"
EVERY: Final = "@every counts from a start"

# Schedules for which our verdict differs from that of Karmada's controller, which runs schedules.
DIFFERENCES: Final = {
    "0 0 31 4 *": NEVER,
    "* * * * 0-7": WEEKDAYS,
    "* * * * FRI-MON": WEEKDAYS,
    "@DAILY": MACROS,
    "TZ=UTC 0 0 * * *": ZONE_PREFIX,
    "CRON_TZ=UTC 0 0 * * *": ZONE_PREFIX,
    "CRON_TZ=America/New_York 0 0 * * *": ZONE_PREFIX,
    ",5 * * * *": EMPTY_ITEM,
    "0 0 * * *\n": LINE_BREAK,
    "@every 5m": EVERY,
}

# Our times around clock changes for which Karmada's parser gives two or none.
REPEATED_ONCE: Final = "a wall time that repeats fires once, the first time"
SKIPPED_AFTER: Final = "a wall time that is skipped fires at the first instant after the gap"
CLOCK_CHANGES: Final[dict[tuple[str, str, str], tuple[list[str], str]]] = {
    ("Europe/Berlin", "30 2 * * *", "2025-10-25T23:10:00+02:00"): (
        ["2025-10-26T02:30:00+02:00", "2025-10-27T02:30:00+01:00", "2025-10-28T02:30:00+01:00"],
        REPEATED_ONCE,
    ),
    ("Europe/Berlin", "30 2 * * *", "2025-03-29T23:10:00+01:00"): (
        ["2025-03-30T03:00:00+02:00", "2025-03-31T02:30:00+02:00"],
        SKIPPED_AFTER,
    ),
    ("America/New_York", "30 1 * * *", "2025-11-01T12:00:00-04:00"): (
        ["2025-11-02T01:30:00-04:00", "2025-11-03T01:30:00-05:00", "2025-11-04T01:30:00-05:00"],
        REPEATED_ONCE,
    ),
    ("America/New_York", "0 1 * * *", "2025-11-01T12:00:00-04:00"): (
        ["2025-11-02T01:00:00-04:00", "2025-11-03T01:00:00-05:00", "2025-11-04T01:00:00-05:00"],
        REPEATED_ONCE,
    ),
    ("America/Sao_Paulo", "0 0 * * *", "2018-11-03T12:00:00-03:00"): (
        ["2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"],
        SKIPPED_AFTER,
    ),
    ("Australia/Lord_Howe", "45 1 * * *", "2025-04-05T12:00:00+11:00"): (
        ["2025-04-06T01:45:00+11:00", "2025-04-07T01:45:00+10:30", "2025-04-08T01:45:00+10:30"],
        REPEATED_ONCE,
    ),
}


def accepted(schedule: str) -> bool:
    try:
        parse(schedule)
    except InvalidSchedule:
        return False
    return True


def test_schedules_are_accepted_if_karmadas_controller_can_run_them() -> None:
    """Our verdict is that of the controller's parser, except for the listed differences."""
    rows = TABLE["expressions"]
    different = {row["schedule"] for row in rows if accepted(row["schedule"]) != row["schedulerAccepts"]}

    assert different == set(DIFFERENCES)


NEXT = [
    (row["schedule"], zone, row["next5fieldParser"]["from"], expected)
    for row in TABLE["expressions"]
    if "next5fieldParser" in row and row["schedule"] not in DIFFERENCES
    for zone, expected in row["next5fieldParser"].items()
    if zone != "from"
]


@pytest.mark.parametrize("zone", sorted({zone for _, zone, _, _ in NEXT}))
def test_the_next_executions_are_those_of_karmadas_parser(zone: str) -> None:
    """Each row has times in three zones. One row has a clock change, where the wall time fires once."""
    rows = [(schedule, after, expected) for schedule, of_zone, after, expected in NEXT if of_zone == zone]
    different = {}
    for schedule, after, expected in rows:
        if (schedule, zone) == ("30 1 1 11 *", "America/New_York"):
            repeated = "2026-11-01T06:30:00Z"
            assert repeated in expected
            expected = [time for time in expected if time != repeated]
        times = next_times(parse(schedule), load_zone(zone), datetime.fromisoformat(after), len(expected))
        found = [time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for time in times]
        if found != expected:
            different[schedule] = found, expected

    assert len(rows) > 30
    assert different == {}


@pytest.mark.parametrize("row", TABLE["dst"]["rows"], ids=lambda row: f"{row['timeZone']} {row['from']}")
def test_clock_changes_lose_no_execution_and_repeat_none(row: dict[str, Any]) -> None:
    """A wall time fires once a day. A starred hour follows real time, as in Karmada."""
    key = (row["timeZone"], row["schedule"], row["from"])
    expected, _ = CLOCK_CHANGES.get(key, (row["next"], ""))

    after = datetime.fromisoformat(row["from"])
    found = next_times(parse(row["schedule"]), load_zone(row["timeZone"]), after, len(expected))

    assert [time.isoformat() for time in found] == expected


def test_every_listed_difference_differs() -> None:
    """No listed schedule or clock change has become equal to Karmada's."""
    schedules = {row["schedule"] for row in TABLE["expressions"]}
    rows = {(row["timeZone"], row["schedule"], row["from"]): row["next"] for row in TABLE["dst"]["rows"]}

    assert set(DIFFERENCES) <= schedules
    assert all(expected != rows[key] for key, (expected, _) in CLOCK_CHANGES.items())
