"""Cron schedules, the rules of a CronFederatedHPA, and a forecast of their effects.

`parse` returns the `Schedule` of a text, and `load_zone` the time zone of a name. `timetable` combines the
fields of a rule into a `Timetable` with its times and windows. `forecast_warnings` says what the rules of an
object will do.

`fedhpa.cron.execution` plans what the rules of a target do now.

Everything here is pure: the time is an argument. Other packages import from here. Source:
docs/reference/schedules.md.
"""

from fedhpa.cron.forecast.warnings import affected_times, forecast_warnings, warn_missing_time_zones
from fedhpa.cron.grammar import InvalidSchedule, Schedule, parse, shortest_interval
from fedhpa.cron.timetables import (
    SHORTEST_INTERVAL,
    Dates,
    Timetable,
    allowed_dates,
    parse_date,
    parse_excluded,
    parse_window,
    timetable,
)
from fedhpa.cron.zones import UnknownZone, load_zone
