"""The grammar of schedules: accepted texts and the errors for others."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fedhpa.cron import InvalidSchedule, Timetable, UnknownZone, load_zone, parse, shortest_interval
from tests.support.timetables import next_times, times_of


def values(bits: int) -> list[int]:
    return [value for value in range(64) if bits >> value & 1]


def refusal(schedule: str) -> str:
    with pytest.raises(InvalidSchedule) as caught:
        parse(schedule)
    return str(caught.value)


@pytest.mark.parametrize(
    ("schedule", "minutes"),
    [
        ("5 * * * *", [5]),
        ("005 * * * *", [5]),
        ("1,3,1 * * * *", [1, 3]),
        ("10-12 * * * *", [10, 11, 12]),
        ("*/20 * * * *", [0, 20, 40]),
        ("?/20 * * * *", [0, 20, 40]),
        ("50/4 * * * *", [50, 54, 58]),
        ("10-20/5 * * * *", [10, 15, 20]),
        ("*/70 * * * *", [0]),
        ("30/99 * * * *", [30]),
        ("7-7 * * * *", [7]),
        ("\t5\t *  * * * ", [5]),
        ("@hourly", [0]),
    ],
)
def test_lists_ranges_and_steps_select_minutes(schedule: str, minutes: list[int]) -> None:
    """A step above the range gives only the start value. Tabs separate fields too."""
    assert values(parse(schedule).minutes) == minutes


@pytest.mark.parametrize(
    ("field", "days"),
    [
        ("0", [0]),
        ("7", [0]),
        ("SUN", [0]),
        ("mon-Fri", [1, 2, 3, 4, 5]),
        ("5-7", [0, 5, 6]),
        ("0-7", [0, 1, 2, 3, 4, 5, 6]),
        ("7-2", [0, 1, 2]),
        ("FRI-MON", [0, 1, 5, 6]),
        ("FRI-MON/2", [0, 5]),
        ("6-0", [0, 6]),
        ("1-7/2", [0, 1, 3, 5]),
        ("5/1", [5, 6]),
        ("7/2", [0, 2, 4, 6]),
        ("MON,WED", [1, 3]),
    ],
)
def test_sunday_is_0_and_7_and_weekdays_may_wrap(field: str, days: list[int]) -> None:
    """Names work in any case. Ranges of weekdays can wrap around the end of the week."""
    assert values(parse(f"0 0 * * {field}").weekdays) == days


@pytest.mark.parametrize(
    ("macro", "fields"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@Annually", "0 0 1 1 *"),
        ("@MONTHLY", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        (" @midnight ", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ],
)
def test_macros_stand_for_their_fields_in_any_case(macro: str, fields: str) -> None:
    """A macro has the same executions as its five fields."""
    after = datetime(2026, 3, 11, 13, 23, tzinfo=UTC)

    assert next_times(parse(macro), UTC, after, 4) == next_times(parse(fields), UTC, after, 4)


@pytest.mark.parametrize(
    ("schedule", "field", "remedy"),
    [
        ("", "schedule", "five fields"),
        ("0 0 * *", "schedule", "found 4"),
        ("0 0 0 * * *", "schedule", "seconds and years are not supported"),
        ("0 0 0 1 1 * 2030", "schedule", "drop both"),
        ("@reboot", "schedule", "write five fields"),
        ("@every 5m", "schedule", "*/5"),
        ("@always", "schedule", "@hourly"),
        ("@daily now", "schedule", "drop 'now'"),
        ("TZ=UTC 0 0 * * *", "schedule", "timeZone"),
        ("CRON_TZ=UTC 0 0 * * *", "schedule", "timeZone"),
        ("0 0 * * *\n", "schedule", "one line"),
        ("0 0\n* * *", "schedule", "one line"),
        ("0\v0 * * *", "minute", "character U+000B (control character) at position 2 of the field: delete"),
        ("0 " * 300, "schedule", "512"),
        ("99 * * * *", "minute", "write 0 to 59"),
        ("1,,3 * * * *", "minute", "drop the stray comma"),
        ("5, * * * *", "minute", "drop the stray comma"),
        (",5 * * * *", "minute", "drop the stray comma"),
        ("+5 * * * *", "minute", "write 0 to 59"),
        ("-1 * * * *", "minute", "write 0 to 59"),
        ("*-5 * * * *", "minute", "write * alone"),
        ("5-* * * * *", "minute", "write * alone"),
        ("** * * * *", "minute", "write * alone"),
        ("10-5 * * * *", "minute", "10-59,0-5"),
        ("1-2-3 * * * *", "minute", "write 0 to 59"),
        ("1/0 * * * *", "minute", "write 1 or more"),
        ("*/5/2 * * * *", "minute", "write one"),
        ("*/-1 * * * *", "minute", "*/5"),
        ("*/ * * * *", "minute", "*/5"),
        ("1.5 * * * *", "minute", "write 0 to 59"),
        ("H * * * *", "minute", "write a number"),
        ("MON * * * *", "minute", "does not belong here"),
        ("0 24 * * *", "hour", "write 0 to 23"),
        ("0 22-2 * * *", "hour", "22-23,0-2"),
        ("0 0 0 * *", "day-of-month", "write 1 to 31"),
        ("0 0 L * *", "day-of-month", "day 1 of the next month"),
        ("0 0 L-3 * *", "day-of-month", "day 1 of the next month"),
        ("0 0 15W * *", "day-of-month", "write the day alone, such as 15, with * as day-of-week"),
        ("0 0 LW * *", "day-of-month", "write the day alone"),
        ("0 0 1 13 *", "month", "write 1 to 12"),
        ("0 0 1 NOV-FEB *", "month", "NOV-12,1-FEB"),
        ("0 0 1 JANUARY *", "month", "write JAN"),
        ("0 0 * * 8", "day-of-week", "write 0 to 7"),
        ("0 0 * * FRI#2", "day-of-week", "write the weekday alone and list the other dates in excludeDates"),
        ("0 0 * * 5L", "day-of-week", "write the weekday alone and list the other dates in excludeDates"),
        ("0 0 * * L", "day-of-week", "write SAT or SUN"),
        ("0 0 * * MONDAY", "day-of-week", "write MON"),
        ("0 0 * * JAN", "day-of-week", "does not belong here"),
        ("0 0 31 2 *", "day-of-month", "choose a day that the month has"),
        ("0 0 31 4 *", "day-of-month", "choose a day that the month has"),
        ("0 0 30,31 2 ?", "day-of-month", "choose a day that the month has"),
        ("0 0 31 2,4,6,9,11 *", "day-of-month", "choose a day that the month has"),
    ],
)
def test_a_refusal_names_the_field_and_the_remedy(schedule: str, field: str, remedy: str) -> None:
    """Each message begins with the field and says what to write instead."""
    message = refusal(schedule)

    assert message.startswith(f"{field}: ")
    assert remedy in message


@pytest.mark.parametrize(
    ("schedule", "field", "character", "position", "remedy"),
    [
        ("0\u00a08 * * *", "minute", "U+00A0 (no-break space)", 2, "use a blank"),
        ("0 8 * * *\u00a0", "day-of-week", "U+00A0 (no-break space)", 2, "use a blank"),
        ("0 8 * * 1\u20135", "day-of-week", "U+2013 (en dash)", 2, "use -"),
        ("0 8 1\u221215 * *", "day-of-month", "U+2212 (minus sign)", 2, "use -"),
        ("\u200b0 8 * * *", "minute", "U+200B (zero width space)", 1, "delete it"),
        ("0 8 * *\ufeff *", "month", "U+FEFF (zero width no-break space)", 2, "delete it"),
        ("\uff10 8 * * *", "minute", "U+FF10 (fullwidth digit zero)", 1, "use 0"),
        ("\u0663 8 * * *", "minute", "U+0663 (arabic-indic digit three)", 1, "use 3"),
        ("0 8 * * \u041cON", "day-of-week", "U+041C (cyrillic capital letter em)", 1, "use M"),
        ("0 8 * \u0430ug *", "month", "U+0430 (cyrillic small letter a)", 1, "use a"),
        ("0 8 \u2217 * *", "day-of-month", "U+2217 (asterisk operator)", 1, "use *"),
        ("*\u20445 * * * *", "minute", "U+2044 (fraction slash)", 2, "use /"),
        ("1\uff0c5 * * * *", "minute", "U+FF0C (fullwidth comma)", 2, "use ,"),
        ("0 8 * * \u201c1\u201d", "day-of-week", "U+201C (left double quotation mark)", 1, "delete it"),
        ("0 8 * * \u6708", "day-of-week", "U+6708 (cjk unified ideograph-6708)", 1, "use ASCII characters"),
        ("0 8 * *\u2028*", "month", "U+2028 (line separator)", 2, "use a blank"),
        ("0 8 * * \ud800", "day-of-week", "U+D800 (no name)", 1, "use ASCII characters"),
        ("@daily\u00a0", "schedule", "U+00A0 (no-break space)", 7, "use a blank"),
        ("0 8 * * * * \u00a0", "schedule", "U+00A0 (no-break space)", 1, "use a blank"),
    ],
)
def test_a_character_that_looks_like_another_is_named(
    schedule: str, field: str, character: str, position: int, remedy: str
) -> None:
    """Editors and chats replace blanks, dashes and digits with characters that a person cannot tell apart."""
    expected = f"{field}: character {character} at position {position} of the field: {remedy}"

    assert refusal(schedule) == expected


@pytest.mark.parametrize("bad", ["x", "9", "1-", "L", "MON", "*/", "1,,", "\u00fc", "59-1,"])
@pytest.mark.parametrize("place", range(5))
def test_an_error_is_short_for_a_long_schedule(bad: str, place: int) -> None:
    """Quoted text is cut, so that the remedy is never cut."""
    fields = ["1", "1", "1", "1", "1"]
    fields[place] = (bad * 400)[:480]

    assert len(refusal(" ".join(fields))) < 200
    assert len(refusal("@" + fields[place])) < 256
    assert len(refusal("@daily " + fields[place])) < 200


@pytest.mark.parametrize("schedule", ["0 0 29 2 *", "0 0 31 2 MON", "0 0 31 * *", "0 0 30 2,3 *"])
def test_a_rare_date_is_accepted(schedule: str) -> None:
    """It is a leap day, or it has a weekday as an alternative, or one month has the day."""
    assert next(times_of(Timetable(parse(schedule), UTC), datetime(2096, 3, 1, tzinfo=UTC)), None) is not None


def test_a_leap_day_is_found_over_a_century_without_one() -> None:
    """After 2096 the next 29 February is in 2104."""
    time = next(times_of(Timetable(parse("0 0 29 2 *"), UTC), datetime(2096, 3, 1, tzinfo=UTC)), None)

    assert time == datetime(2104, 2, 29, tzinfo=UTC)


def test_both_day_fields_restricted_match_either() -> None:
    """The schedule fires on the 13th and on Fridays. `*/2` counts as restricted, `*/1` does not."""
    after = datetime(2026, 3, 11, tzinfo=UTC)

    assert [time.day for time in next_times(parse("0 0 13 * 5"), UTC, after, 3)] == [13, 20, 27]
    assert not parse("0 0 */2 * 1").any_day
    assert parse("0 0 */1 * 1").any_day
    assert [time.day for time in next_times(parse("0 0 */2 * MON"), UTC, after, 4)] == [13, 15, 16, 17]


@pytest.mark.parametrize(
    ("zone", "schedule", "after", "expected"),
    [
        # The zone skipped a whole day.
        (
            "Pacific/Apia",
            "0 9 * * *",
            "2011-12-29T12:00:00-10:00",
            ["2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"],
        ),
        # Several skipped wall times make one execution, even if the instant after the gap matches too.
        (
            "Europe/Berlin",
            "0,30 2,3 * * *",
            "2026-03-28T12:00:00+01:00",
            ["2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00", "2026-03-30T02:00:00+02:00"],
        ),
        # The search starts in the second occurrence of the hour, so this wall time has fired.
        ("Europe/Berlin", "30 2 * * *", "2025-10-26T02:10:00+01:00", ["2025-10-27T02:30:00+01:00"]),
        # An hour step follows real time, so a wall time that does not exist has no execution.
        (
            "Europe/Berlin",
            "0 */2 * * *",
            "2026-03-29T00:00:00+01:00",
            ["2026-03-29T04:00:00+02:00", "2026-03-29T06:00:00+02:00"],
        ),
        # Half an hour repeats, and a starred hour fires in both occurrences.
        (
            "Australia/Lord_Howe",
            "45 ? * * *",
            "2025-04-06T01:15:00+11:00",
            ["2025-04-06T01:45:00+11:00", "2025-04-06T01:45:00+10:30", "2025-04-06T02:45:00+10:30"],
        ),
        # A far month lies behind two clock changes.
        (
            "America/New_York",
            "15 * 4 7 *",
            "2025-12-01T00:00:00-05:00",
            ["2026-07-04T00:15:00-04:00", "2026-07-04T01:15:00-04:00"],
        ),
    ],
)
def test_clock_changes(zone: str, schedule: str, after: str, expected: list[str]) -> None:
    """Skipped wall times fire after the gap, repeated ones once. A starred hour follows real time."""
    found = next_times(parse(schedule), load_zone(zone), datetime.fromisoformat(after), len(expected))

    assert [time.isoformat() for time in found] == expected


@pytest.mark.parametrize(
    ("name", "message", "remedy"),
    [
        ("UTC+8", "unknown time zone UTC+8", "Etc/GMT-8"),
        ("GMT-5", "unknown time zone GMT-5", "Etc/GMT+5"),
        ("+08:00", "unknown time zone +08:00", "Etc/GMT-8"),
        ("+05:30", "unknown time zone +05:30", "Asia/Kolkata"),
        ("asia/shanghai", "unknown time zone asia/shanghai", "Asia/Shanghai"),
        ("Mars/Phobos", "unknown time zone Mars/Phobos", "IANA"),
        ("America/NewYork", "unknown time zone America/NewYork", "America/New_York"),
        ("berlin", "unknown time zone berlin", "Europe/Berlin"),
        ("America", "is a directory", "America/"),
        ("../UTC", "time: invalid location name", "IANA"),
        ("/etc/localtime", "time: invalid location name", "IANA"),
        ("posix/UTC", "unknown time zone posix/UTC", "IANA"),
        ("Europe/Berlin\x00", "unknown time zone Europe/Berlin\x00", "U+0000 (control character)"),
        (
            "Europe/B\u0435rlin",
            "unknown time zone Europe/B\u0435rlin",
            "character U+0435 (cyrillic small letter ie) at position 9 of the name: use e",
        ),
        (
            "Etc/GMT\u22128",
            "unknown time zone Etc/GMT\u22128",
            "(minus sign) at position 8 of the name: use -",
        ),
    ],
)
def test_an_unknown_zone_is_refused_with_a_remedy(name: str, message: str, remedy: str) -> None:
    """The message is that of Go's zone loader. The remedy names a valid zone or the naming scheme."""
    with pytest.raises(UnknownZone) as caught:
        load_zone(name)

    assert str(caught.value) == message
    assert remedy in caught.value.remedy


@pytest.mark.parametrize("name", [None, "", "Local", "UTC"])
def test_no_zone_is_utc(name: str | None) -> None:
    """None, an empty name and Local are UTC."""
    assert load_zone(name).key == "UTC"


@pytest.mark.parametrize(
    ("schedule", "seconds"),
    [
        ("* * * * *", 60),
        ("*/10 * * * *", 600),
        ("0 8 * * *", 86400),
        ("0 8,18 * * *", 10 * 3600),
        ("59 23 * * *", 86400),
        ("0,59 0,23 * * *", 60),
        ("0 0 * * MON", 7 * 86400),
        ("0 0 * * MON,TUE", 86400),
        ("0 0 1 * *", 28 * 86400),
        ("0 0 29 2 *", 1461 * 86400),
        ("0 0 31 12 *", 365 * 86400),
    ],
)
def test_the_shortest_interval_is_that_of_the_plain_calendar(schedule: str, seconds: int) -> None:
    """The closest times can be within a day, across midnight, or weeks, months and years apart."""
    assert shortest_interval(parse(schedule)) == seconds
