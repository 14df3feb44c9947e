"""The timetable of one rule: its schedule, time zone, excluded dates and windows.

The state of a rule at any instant follows from its timetable alone, so a restart or a new leader loses
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from fedhpa.api.cronfederatedhpa import CronFederatedHPARule
from fedhpa.api.errors import InvalidObject
from fedhpa.api.times import parse_duration
from fedhpa.cron.fires import count_fires, fires, previous_fire
from fedhpa.cron.grammar import Schedule, parse
from fedhpa.cron.zones import load_zone

# Seconds. Schedules have a resolution of one minute, and a window of over a year is most likely a mistake.
_MIN_WINDOW: Final = 60
_MAX_WINDOW: Final = 366 * 86400
_MAX_DURATION_LENGTH: Final = 64


class Timetable(msgspec.Struct, frozen=True):
    """The fires of a rule, and the `duration` of its windows.

    `excluded` are the ordinals of the dates on which it does not fire.

    Returned times are in the zone. Compare them in UTC only: Python compares two times of one zone by their
    wall times, and a repeated wall time is never equal to a time of another zone.
    """

    schedule: Schedule
    zone: ZoneInfo
    excluded: frozenset[int] = frozenset()
    duration: timedelta | None = None

    def fires(self, after: datetime, until: datetime | None = None) -> Iterator[datetime]:
        """Yields all fires in (after, until], in order. Both limits are aware datetimes."""
        return fires(self.schedule, self.zone, after, self.excluded, until)

    def next(self, after: datetime, until: datetime | None = None) -> datetime | None:
        """Returns the first fire strictly after an aware datetime, or None if it is later than `until`."""
        return next(self.fires(after, until), None)

    def at_or_after(self, at: datetime, until: datetime | None = None) -> datetime | None:
        """Returns the first fire at or after an aware datetime, or None if it is later than `until`."""
        return self.next(at.astimezone(UTC) - timedelta.resolution, until)

    def previous(self, at: datetime, since: datetime | None = None) -> datetime | None:
        """Returns the latest fire in (since, at], or None. Without `since` it looks back nine years."""
        return previous_fire(self.schedule, self.zone, at, self.excluded, since)

    def count(self, after: datetime, until: datetime) -> int:
        """Returns the number of fires in (after, until]."""
        return count_fires(self.schedule, self.zone, after, until, self.excluded)


def elapsed(start: datetime, end: datetime) -> timedelta:
    """Returns the real time between two aware datetimes. Plain subtraction ignores clock changes."""
    return end.astimezone(UTC) - start.astimezone(UTC)


def timetable(rule: CronFederatedHPARule) -> Timetable:
    """Returns the timetable of a rule, suspended or not. Raises InvalidObject if the rule is invalid."""
    days = frozenset(map(parse_excluded_date, rule.exclude_dates))
    duration = None if rule.duration is None else parse_window(rule.duration)
    return Timetable(parse(rule.schedule), load_zone(rule.time_zone), days, duration)


def parse_window(value: str | int) -> timedelta:
    """Returns the length of the windows. Raises InvalidObject, with a message that follows the value."""
    try:
        if isinstance(value, str) and len(value) > _MAX_DURATION_LENGTH:
            raise InvalidObject(f"it is longer than {_MAX_DURATION_LENGTH} characters")
        seconds = parse_duration(value)
    except (InvalidObject, OverflowError) as error:
        raise InvalidObject("is no duration; write one such as 8h or 90m, or seconds") from error
    if seconds < _MIN_WINDOW:
        raise InvalidObject("is shorter than a minute; write 60 or more seconds, or 1m")
    if seconds > _MAX_WINDOW:
        raise InvalidObject("is longer than a year; without it the size holds until another rule fires")
    return timedelta(seconds=seconds)


# Rules mostly exclude the same holidays.
@lru_cache(maxsize=4096)
def parse_excluded_date(text: str) -> int:
    """Returns the ordinal of a YYYY-MM-DD. Raises InvalidObject, with a message that follows the value."""
    # fromisoformat also reads other forms, such as 20261225 and 2026-W52-5.
    if len(text) == 10 and text[4] == text[7] == "-" and text.isascii():
        try:
            return date.fromisoformat(text).toordinal()
        except ValueError:
            pass
    raise InvalidObject("is no date of the calendar; write YYYY-MM-DD, such as 2026-12-25")
