"""Schedules: one grammar for admission and for running, and when they fire (docs/reference/schedules.md).

Pure: times come in, nothing reads a clock. `parse` makes a `Schedule` of a text, `load_zone` a zone of a
name, `next_fires` and `previous_fire` the instants; `timetable` puts a rule's fields together and knows its
windows; `simulate` says what the rules of an object will do.
"""

from fedhpa.cron.forecast.bounds import TargetBounds
from fedhpa.cron.fires import fires, next_fire, next_fires, previous_fire
from fedhpa.cron.grammar import InvalidSchedule, Schedule, parse
from fedhpa.cron.interval import shortest_interval
from fedhpa.cron.forecast.warnings import simulate
from fedhpa.cron.timetable import Timetable, Window, timetable
from fedhpa.cron.zones import UnknownZone, load_zone

__all__ = [
    "InvalidSchedule",
    "Schedule",
    "TargetBounds",
    "Timetable",
    "UnknownZone",
    "Window",
    "fires",
    "load_zone",
    "next_fire",
    "next_fires",
    "parse",
    "previous_fire",
    "shortest_interval",
    "simulate",
    "timetable",
]
