"""Admission warnings about a CronFederatedHPA.

Of what is refused: what is wrong with a schedule or zone in detail, and what to write instead, because the
refusal itself stays Karmada's to the byte. Of what is admitted: what the rules are going to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.model import MAX_RULES
from fedhpa.cron.crossings import TargetBounds
from fedhpa.cron.grammar import InvalidSchedule, parse
from fedhpa.cron.simulation import absent_zones, simulate
from fedhpa.cron.zones import UnknownZone, load_zone

# More remedies than these say nothing new; the refusal names each rule.
_MAX_REMEDIES = 5


def warn_cronfederatedhpa(
    cron: CronFederatedHPA, now: datetime | None = None, target: TargetBounds | None = None
) -> Iterator[str]:
    """Warnings about an object, whether it is admitted or not; at most five that simulate, the worst first.

    Nothing is simulated without `now`, nor where there is a remedy to tell. `target` are the present bounds
    of the FederatedHPA that is the target, if they are known.
    """
    refused = False
    for remedy in remedies(cron):
        refused = True
        yield remedy
    if now is not None and not refused:
        yield from simulate(cron.spec, now, target)
    else:
        yield from absent_zones(cron.spec)


def remedies(cron: CronFederatedHPA) -> Iterator[str]:
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
