"""Cron schedules, the rules of a CronFederatedHPA, and a forecast of their effects.

`parse` returns the `Schedule` of a text, and `load_zone` the time zone of a name. `timetable` combines the
fields of a rule into a `Timetable` with its times and windows. `forecast_warnings` says what the rules of an
object will do.

`fedhpa.cron.execution` plans what the rules of a target do now.

Everything here is pure: the time is an argument. Other packages import from here. Source:
docs/reference/schedules.md.
"""

from fedhpa.cron.dates import Dates as Dates
from fedhpa.cron.dates import allowed_dates as allowed_dates
from fedhpa.cron.dates import parse_date as parse_date
from fedhpa.cron.dates import parse_excluded as parse_excluded
from fedhpa.cron.forecast.clock_changes import affected_times as affected_times
from fedhpa.cron.forecast.warnings import forecast_warnings as forecast_warnings
from fedhpa.cron.forecast.warnings import warn_missing_time_zones as warn_missing_time_zones
from fedhpa.cron.grammar import InvalidSchedule as InvalidSchedule
from fedhpa.cron.grammar import Schedule as Schedule
from fedhpa.cron.grammar import parse as parse
from fedhpa.cron.timetables import SHORTEST_INTERVAL as SHORTEST_INTERVAL
from fedhpa.cron.timetables import Timetable as Timetable
from fedhpa.cron.timetables import parse_window as parse_window
from fedhpa.cron.timetables import shortest_interval as shortest_interval
from fedhpa.cron.timetables import timetable as timetable
from fedhpa.cron.zones import UnknownZone as UnknownZone
from fedhpa.cron.zones import load_zone as load_zone
