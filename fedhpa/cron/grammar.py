"""The grammar of schedules: parses five cron fields into bit sets, and finds their shortest interval.

Every error names the field and says what to write instead. Admission and `fedhpa cron next` share this
parser, so an admitted schedule can always run. Source: docs/reference/schedules.md.
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date
from functools import lru_cache, reduce
from operator import or_
from typing import Final

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.texts import one_line
from fedhpa.cron.characters import foreign_character

MAX_LENGTH: Final = 512
_MAX_QUOTED: Final = 40


class InvalidSchedule(InvalidObject):
    """A text is not a valid schedule. The message names the field and the remedy."""


class Schedule(msgspec.Struct, frozen=True):
    """A parsed schedule. The fields are bit sets: bit n stands for value n, and Sunday is bit 0.

    `any_day` and `any_weekday` are true if the field is `*`. If both are false, a day matches if either field
    matches. `real_time` is true if the hour field begins with `*`. Such a schedule follows real time through
    clock changes, and every other one follows the wall clock. `minutes_of_day` combines hours and minutes.
    """

    text: str
    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    any_day: bool
    any_weekday: bool
    real_time: bool
    minutes_of_day: int


@lru_cache(maxsize=2048)
def _minutes_of_day(hours: int, minutes: int) -> int:
    """Returns the minutes of a day that match, as bits."""
    bits = 0
    while hours:
        lowest = hours & -hours
        hours ^= lowest
        bits |= minutes << (lowest.bit_length() - 1) * 60
    return bits


@dataclass(frozen=True, eq=False)
class _Field:
    """One of the five fields: its name in messages, its range, and the names of its values.

    Fields compare by identity, which makes them cheap cache keys.
    """

    name: str
    low: int
    high: int
    names: dict[str, int]
    # The highest number that may be written. It is above `high` for weekdays, where 7 means Sunday.
    written_high: int
    # Values are taken modulo this number, because ranges of weekdays wrap. No other field reaches 64.
    cycle: int = 64


_FIRST_HALF: Final = "JANUARY FEBRUARY MARCH APRIL MAY JUNE"
_SECOND_HALF: Final = "JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER"
_MONTHS: Final = f"{_FIRST_HALF} {_SECOND_HALF}".split()
_WEEKDAYS: Final = "SUNDAY MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY".split()  # noqa: SIM905
# MAY is whole and short.
_FULL_NAMES: Final = {*_MONTHS, *_WEEKDAYS} - {"MAY"}

_MINUTE: Final = _Field("minute", 0, 59, {}, 59)
_HOUR: Final = _Field("hour", 0, 23, {}, 23)
_DAY: Final = _Field("day-of-month", 1, 31, {}, 31)
_MONTH: Final = _Field("month", 1, 12, {name[:3]: number for number, name in enumerate(_MONTHS, 1)}, 12)
_WEEKDAY: Final = _Field(
    "day-of-week", 0, 6, {name[:3]: number for number, name in enumerate(_WEEKDAYS)}, 7, 7
)

_FIELDS: Final = (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)

# A day-of-month beside the weekday would not help: the two mean "either".
_ONE_WEEKDAY: Final = "write the weekday alone and list the other dates in excludeDates"
# Values of other schedulers: the fields, the form, the meaning, and the remedy.
_OTHER_DIALECTS: Final = tuple(
    (fields, re.compile(pattern, re.DOTALL), meaning, remedy)
    for fields, pattern, meaning, remedy in (
        (_FIELDS, ".*#.*", "the n-th weekday of a month", _ONE_WEEKDAY),
        ((_WEEKDAY,), "L", "the last day of the week", "write SAT or SUN"),
        ((_WEEKDAY,), ".*L", "the last such weekday of a month", _ONE_WEEKDAY),
        (
            (_DAY,),
            ".*W.*",
            "the nearest weekday",
            "write the day alone, such as 15, with * as day-of-week",
        ),
        ((_DAY,), "L.*|.*L", "the last day", "name the day, or use day 1 of the next month"),
        (_FIELDS, "H.*", "a hashed value", "write a number"),
    )
)
_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_OTHER_MACROS: Final = {
    "@reboot": "@reboot is not a time; write five fields, or @daily and the like",
    "@every": "@every counts from a start, not by the clock; write a step such as */5 * * * *",
}
# Each month of six years, which begin with a leap year: its number, the days before it, and its days as bits.
_SIX_YEARS: Final = tuple(
    (month, (date(year, month, 1) - date(2000, 1, 1)).days, (2 << monthrange(year, month)[1]) - 2)
    for year in range(2000, 2006)
    for month in range(1, 13)
)
# Days: longer than the eight years between two 29 Februaries around a century without one.
_NEVER: Final = 9 * 366

_BLANKS = re.compile(r"[ \t]+")
_ZONE_PREFIX = re.compile(r"[ \t]*(CRON_)?TZ=", re.IGNORECASE)


@lru_cache(maxsize=4096)
def parse(text: str) -> Schedule:
    """Parses a schedule. Raises InvalidSchedule, also for a date that never comes, such as 30 February."""
    if "\n" in text or "\r" in text:
        raise InvalidSchedule("schedule: it contains a line break; write one line")
    if len(text) > MAX_LENGTH:
        raise InvalidSchedule(
            f"schedule: {len(text)} characters are more than {MAX_LENGTH}; write ranges and steps, not lists"
        )
    if "=" in text and _ZONE_PREFIX.match(text):
        raise InvalidSchedule("schedule: a zone prefix (TZ=) is not supported; set the rule's timeZone")
    stripped = text.strip(" \t")
    if not (stripped.isascii() and stripped.isprintable()):
        _refuse_foreign_character(stripped)
    if stripped.startswith("@"):
        stripped = _macro(stripped)
    # Most texts have single blanks. Splitting with the regular expression would double the cost of parsing.
    if "\t" in stripped or "  " in stripped:
        fields = _BLANKS.split(stripped)
    else:
        fields = stripped.split(" ") if stripped else []
    if len(fields) != 5:
        raise InvalidSchedule(_wrong_count(len(fields)))
    minutes, _ = _parse_field(_MINUTE, fields[0])
    hours, _ = _parse_field(_HOUR, fields[1])
    days, any_day = _parse_field(_DAY, fields[2])
    months, _ = _parse_field(_MONTH, fields[3])
    weekdays, any_weekday = _parse_field(_WEEKDAY, fields[4])
    if any_weekday and not any_day and not _dates(days, months):
        raise InvalidSchedule(
            f"day-of-month: {_quoted(fields[2])} never comes in month {_quoted(fields[3])}; "
            "choose a day that the month has"
        )
    real_time = fields[1][0] in "*?"
    day = _minutes_of_day(hours, minutes)
    return Schedule(text, minutes, hours, days, months, weekdays, any_day, any_weekday, real_time, day)


def _refuse_foreign_character(text: str) -> None:
    """Raises InvalidSchedule for a character that is not printable ASCII. Many look like one that is."""
    for index, field in enumerate(_BLANKS.split(text)):
        if character := foreign_character(field, "field"):
            named = index < len(_FIELDS) and not text.startswith("@")
            raise InvalidSchedule(f"{_FIELDS[index].name if named else 'schedule'}: {character}")


def _macro(text: str) -> str:
    expansion = _MACROS.get(text.lower())
    if expansion is not None:
        return expansion
    word = text.split()[0].lower()
    if word in _MACROS:
        problem = f"nothing may follow {word}; drop {_quoted(text[len(word) :].strip())}"
    else:
        unknown = f"{_quoted(word)} is not known; write five fields or one of {', '.join(_MACROS)}"
        problem = _OTHER_MACROS.get(word, unknown)
    raise InvalidSchedule(f"schedule: {problem}")


def _wrong_count(count: int) -> str:
    expected = "expected five fields (minute hour day-of-month month day-of-week)"
    if count == 0:
        return f"schedule: it is empty; {expected}"
    more = {6: "drop that field", 7: "drop both"}.get(count, "")
    why = f": seconds and years are not supported; {more}" if more else ""
    return f"schedule: {expected}, found {count}{why}"


# A thousand different schedules have few different fields, and even fewer different items.
@lru_cache(maxsize=4096)
def _parse_field(field: _Field, text: str) -> tuple[int, bool]:
    """Returns the bit set of a field, and whether the field is unrestricted (one of its items is `*`)."""
    items = dict.fromkeys(text.split(","))
    if "" in items:
        raise InvalidSchedule(f"{field.name}: {_quoted(text)} has an empty item; drop the stray comma")
    found = [_parse_item(field, item) for item in items]
    return reduce(or_, (bits for bits, _ in found)), any(star for _, star in found)


@lru_cache(maxsize=8192)
def _parse_item(field: _Field, item: str) -> tuple[int, bool]:
    """Returns the bit set of an item of a field, and whether it is `*`."""
    span, slash, step_text = item.partition("/")
    step = _parse_step(field, item, step_text) if slash else 1
    first, dash, last = span.partition("-")
    if span in ("*", "?"):
        start, end = field.low, field.high
    else:
        start = end = _parse_value(field, item, first)
        if dash:
            end = _parse_value(field, item, last)
        elif slash:
            # "a/n" runs to the end of the range. If `a` is 7, it is Sunday, the first day of the week.
            start, end = start if start <= field.high else field.low, field.high
    if end < start:
        if field is not _WEEKDAY:
            raise InvalidSchedule(
                f"{field.name}: the range {_quoted(span)} runs backwards; write two ranges, such as "
                f"{first[:8]}-{field.high},{field.low}-{last[:8]}"
            )
        end += 7
    bits = 0
    for value in range(start, end + 1, step):
        bits |= 1 << value % field.cycle
    return bits, span in ("*", "?") and step == 1


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _parse_step(field: _Field, item: str, text: str) -> int:
    if _is_number(text) and int(text):
        return int(text)
    problem = "is zero; write 1 or more" if _is_number(text) else "is not a number; write one such as */5"
    if "/" in text:
        raise InvalidSchedule(f"{field.name}: {_quoted(item)} has two steps; write one")
    raise InvalidSchedule(f"{field.name}: the step of {_quoted(item)} {problem}")


def _parse_value(field: _Field, item: str, text: str) -> int:
    if _is_number(text):
        value = int(text)
        if field.low <= value <= field.written_high:
            return value
        raise InvalidSchedule(
            f"{field.name}: {_quoted(item)} is out of range; write {field.low} to {field.written_high}"
        )
    # The isascii check matters because upper() turns some letters of other alphabets into ASCII letters.
    upper = text.upper()
    if text.isascii() and upper in field.names:
        return field.names[upper]
    raise InvalidSchedule(f"{field.name}: {_remedy(field, item, text, upper)}")


def _remedy(field: _Field, item: str, text: str, upper: str) -> str:
    """Returns the problem and the remedy for a text that is neither a number nor a name of the field."""
    span = f"write {field.low} to {field.written_high}"
    if not text:
        return f"{_quoted(item)} lacks a value; {span}, or * alone"
    if upper in _FULL_NAMES and field.names:
        return f"full names such as {_quoted(text)} are not supported; write {text[:3].upper()}"
    for fields, pattern, meaning, remedy in _OTHER_DIALECTS:
        if field in fields and pattern.fullmatch(upper):
            return f"{_quoted(text)} ({meaning}) is not supported; {remedy}"
    if upper in _MONTH.names or upper in _WEEKDAY.names:
        return f"the name {_quoted(text)} does not belong here; {span}"
    if "*" in text or "?" in text:
        return f"{_quoted(item)} mixes * with a value; write * alone, a step such as */5, or a range"
    names = f" or names such as {next(iter(field.names))}" if field.names else ""
    return f"{_quoted(item)} is not a value; {span}{names}"


def _quoted(text: str) -> str:
    """Returns the text in quotes, cut so that the remedy still fits into a warning."""
    return repr(one_line(text, _MAX_QUOTED))


def shortest_interval(schedule: Schedule) -> int:
    """Returns the seconds between the two times that are closest to each other, without clock changes.

    The result is exact, because the plain calendar repeats every 400 years and every date falls on every
    weekday within them.
    """
    day = schedule.minutes_of_day
    width = day.bit_length() - (day & -day).bit_length()
    return 60 * min(_shortest_day_gap(schedule) * 1440 - width, _closest(day))


def _shortest_day_gap(schedule: Schedule) -> int:
    """Returns the days between the two matching days that are closest to each other."""
    dates = _dates(schedule.days, schedule.months)
    if schedule.any_weekday:
        return _closest(dates)
    if not schedule.any_day and dates:
        # In some year, a matching weekday is the day beside a matching date.
        return 1
    # Every month has four whole weeks.
    return _closest(schedule.weekdays | schedule.weekdays << 7)


@lru_cache(maxsize=1024)
def _dates(days: int, months: int) -> int:
    """Returns the dates of six years that match, as bits. They have all that a longer time has.

    A century without a leap day adds no closer pair, because common years in a row are among the six.
    """
    found = 0
    for month, before, whole in _SIX_YEARS:
        if months >> month & 1:
            found |= (days & whole) << before
    return found


# A thousand different schedules have few different fields, so the results are shared.
@lru_cache(maxsize=4096)
def _closest(bits: int) -> int:
    """Returns the distance between the two closest bits; more than any two times if there is one bit."""
    _, *gaps, _ = f"0{bits:b}0".split("1")
    return 1 + min(map(len, gaps), default=_NEVER * 1440)
