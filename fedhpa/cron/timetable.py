"""The timetable of one rule: its schedule in its zone, without the excluded dates, with its window.

What holds at an instant follows from the timetable alone, so a restart or a change of leader loses nothing.
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
from fedhpa.cron.fires import fires, previous_fire
from fedhpa.cron.grammar import Schedule, parse
from fedhpa.cron.zones import load_zone

# A window must hold at least one minute of a schedule, and end within what people plan by.
_SHORTEST: Final = 60
_LONGEST: Final = 366 * 86400
_LONGEST_TEXT: Final = 64
_NO_TIME: Final = timedelta(0)
# How many overlapping windows are followed back to where the first of them opened.
_MAX_OVERLAPPING: Final = 100


class Window(msgspec.Struct, frozen=True):
    """The window that is open at an instant; its times are aware, in the zone of the rule.

    `fired` is the newest fire. `opened` is the fire since which windows have followed one another without a
    gap: a fire while a window is open (or at its very end) renews it, and nothing returns in between.
    `closes` is when the window of the newest fire ends; a fire until then renews it again. Durations are real
    time: over a clock change a window of 8 h is 8 h long.
    """

    opened: datetime
    fired: datetime
    closes: datetime


class Timetable(msgspec.Struct, frozen=True):
    """When a rule fires. `excluded` are the ordinals of the dates (in the zone) on which it does not.

    Times come out in the zone. Whoever compares them does so in UTC: Python compares times of one zone by
    what the clock shows, and takes a repeated time for unequal to every time of another zone.
    """

    schedule: Schedule
    zone: ZoneInfo
    excluded: frozenset[int] = frozenset()
    duration: timedelta | None = None

    def fires(self, after: datetime, until: datetime | None = None) -> Iterator[datetime]:
        """All fires strictly after an aware instant, in order; beyond `until` nothing is searched for."""
        return fires(self.schedule, self.zone, after, self.excluded, until)

    def next(self, after: datetime, until: datetime | None = None) -> datetime | None:
        """The first fire strictly after an aware instant; None where there is none until `until`."""
        fire = next(self.fires(after, until), None)
        return None if fire is None or (until is not None and elapsed(until, fire) > _NO_TIME) else fire

    def at_or_after(self, at: datetime, until: datetime | None = None) -> datetime | None:
        """The first fire at or after an aware instant; None where there is none until `until`."""
        return self.next(at.astimezone(UTC) - timedelta.resolution, until)

    def previous(self, at: datetime) -> datetime | None:
        """The latest fire at or before an aware instant; None only at the beginning of the calendar."""
        return previous_fire(self.schedule, self.zone, at, self.excluded)

    def window(self, at: datetime) -> Window | None:
        """The window that is open at an aware instant, or None; a rule without duration has none."""
        if self.duration is None:
            return None
        fired = self.previous(at)
        if fired is None or elapsed(fired, at) >= self.duration:
            return None
        return Window(self._opened(fired, self.duration), fired, later(fired, self.duration))

    def _opened(self, fired: datetime, duration: timedelta) -> datetime:
        """Follows windows that touch back, so many at most: some have no beginning."""
        opened = fired
        for _ in range(_MAX_OVERLAPPING):
            earlier = self.previous(opened.astimezone(UTC) - timedelta(seconds=1))
            if earlier is None or elapsed(earlier, opened) > duration:
                break
            opened = earlier
        return opened


def later(moment: datetime, duration: timedelta) -> datetime:
    """The aware time a duration of real time after another, in its zone."""
    return (moment.astimezone(UTC) + duration).astimezone(moment.tzinfo)


def elapsed(start: datetime, end: datetime) -> timedelta:
    """The real time between two aware datetimes; of one zone, Python would subtract what the clock shows."""
    return end.astimezone(UTC) - start.astimezone(UTC)


def timetable(rule: CronFederatedHPARule) -> Timetable:
    """The timetable of a rule. Raises InvalidObject where admission would have refused it.

    `suspend` is not looked at: a suspended rule has a timetable, and rests.
    """
    days = frozenset(map(day_of, rule.exclude_dates))
    duration = None if rule.duration is None else window_duration(rule.duration)
    return Timetable(parse(rule.schedule), load_zone(rule.time_zone), days, duration)


def window_duration(value: str | int) -> timedelta:
    """How long the windows of `duration` are. Raises InvalidObject, whose message follows the value."""
    try:
        if isinstance(value, str) and len(value) > _LONGEST_TEXT:
            raise InvalidObject(f"it is longer than {_LONGEST_TEXT} characters")
        seconds = parse_duration(value)
    except (InvalidObject, OverflowError) as error:
        raise InvalidObject("is no duration; write one such as 8h or 90m, or seconds") from error
    if seconds < _SHORTEST:
        raise InvalidObject("is shorter than a minute; schedules have minutes")
    if seconds > _LONGEST:
        raise InvalidObject("is longer than a year; without it the size holds until another rule fires")
    return timedelta(seconds=seconds)


# Rules mostly exclude the same holidays.
@lru_cache(maxsize=4096)
def day_of(text: str) -> int:
    """The ordinal of an item of `excludeDates`. Raises InvalidObject, whose message follows the value."""
    # fromisoformat reads other forms too, such as 20261225 and 2026-W52-5.
    if len(text) == 10 and text[4] == text[7] == "-" and text.isascii():
        try:
            return date.fromisoformat(text).toordinal()
        except ValueError:
            pass
    raise InvalidObject("is no date of the calendar; write YYYY-MM-DD, such as 2026-12-25")
