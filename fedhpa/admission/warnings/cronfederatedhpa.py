"""Admission warnings about a CronFederatedHPA.

What is wrong with a schedule or zone in detail, and what to write instead, because the refusal itself stays
Karmada's to the byte. What the rules of an admitted object are going to do is in `fedhpa.cron.simulation`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.model import MAX_RULES
from fedhpa.cron.grammar import InvalidSchedule, parse
from fedhpa.cron.simulation import absent_zones
from fedhpa.cron.zones import UnknownZone, load_zone

# More of them say nothing new; the refusal names each rule.
_MAX_REMEDIES: Final = 5


def warn_cronfederatedhpa(cron: CronFederatedHPA, *, admitted: bool = False) -> Iterator[str]:
    """Warnings about an object, whatever the time; unless it is known to be admitted, remedies first."""
    if not admitted:
        yield from _remedies(cron)
    yield from absent_zones(cron.spec)


def _remedies(cron: CronFederatedHPA) -> Iterator[str]:
    """What to write instead of the schedules and zones that are refused."""
    told = 0
    for index, rule in enumerate(cron.spec.rules[:MAX_RULES]):
        try:
            parse(rule.schedule)
        except InvalidSchedule as error:
            told += 1
            yield f"spec.rules[{index}].schedule: {str(error).removeprefix('schedule: ')}"
        try:
            load_zone(rule.time_zone)
        except UnknownZone as error:
            told += 1
            yield f"spec.rules[{index}].timeZone: {error.remedy}"
        if told >= _MAX_REMEDIES:
            return
