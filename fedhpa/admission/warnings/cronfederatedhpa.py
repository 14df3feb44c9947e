"""Admission warnings about a CronFederatedHPA.

They explain what is wrong with a schedule or time zone and what to write instead, because refusals keep
Karmada's messages byte for byte. `fedhpa.cron.forecast` warns about the effects of admitted rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.model import MAX_RULES
from fedhpa.cron import InvalidSchedule, UnknownZone, load_zone, parse, warn_missing_time_zones

# More remedies would repeat the same. The refusal names every wrong rule.
_MAX_REMEDIES: Final = 5


def warn_cronfederatedhpa(cron: CronFederatedHPA, *, admitted: bool = False) -> Iterator[str]:
    """Yields the warnings that do not depend on the time. Unless `admitted`, the remedies come first."""
    if not admitted:
        yield from _remedies(cron)
    yield from warn_missing_time_zones(cron.spec)


def _remedies(cron: CronFederatedHPA) -> Iterator[str]:
    """Yields what to write instead of refused schedules and time zones."""
    count = 0
    for index, rule in enumerate(cron.spec.rules[:MAX_RULES]):
        try:
            parse(rule.schedule)
        except InvalidSchedule as error:
            count += 1
            yield f"spec.rules[{index}].schedule: {str(error).removeprefix('schedule: ')}"
        try:
            load_zone(rule.time_zone)
        except UnknownZone as error:
            count += 1
            yield f"spec.rules[{index}].timeZone: {error.remedy}"
        if count >= _MAX_REMEDIES:
            return
