"""Schedules: one grammar for admission and for running, and when they fire (docs/contracts.md section 4).

Pure: times come in, nothing reads a clock. `parse` makes a `Schedule` of a text, `load_zone` a zone of a
name, `next_fires` the instants.
"""

from fedhpa.cron.fires import next_fire, next_fires
from fedhpa.cron.grammar import InvalidSchedule, Schedule, parse
from fedhpa.cron.zones import UnknownZone, load_zone

__all__ = ["InvalidSchedule", "Schedule", "UnknownZone", "load_zone", "next_fire", "next_fires", "parse"]
