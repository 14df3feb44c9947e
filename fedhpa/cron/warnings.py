"""Admission warnings about a CronFederatedHPA: what is wrong with a schedule or zone, and what to write."""

from __future__ import annotations

from collections.abc import Iterator

from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.model import MAX_RULES
from fedhpa.cron.grammar import InvalidSchedule, parse
from fedhpa.cron.zones import UnknownZone, load_zone


def warn_cronfederatedhpa(cron: CronFederatedHPA) -> Iterator[str]:
    """Warnings about an object, whether it is admitted or not."""
    zoneless: list[int] = []
    for index, rule in enumerate(cron.spec.rules[:MAX_RULES]):
        try:
            parse(rule.schedule)
        except InvalidSchedule as error:
            message = str(error).removeprefix("schedule: ")
            yield f"spec.rules[{index}].schedule: {message}"
        try:
            load_zone(rule.time_zone)
        except UnknownZone as error:
            yield f"spec.rules[{index}].timeZone: {error.remedy}"
        if rule.time_zone is None or rule.time_zone == "Local":
            zoneless.append(index)
    if zoneless:
        others = f" (nor of {len(zoneless) - 1} more rules)" if len(zoneless) > 1 else ""
        yield f"spec.rules[{zoneless[0]}].timeZone: no zone is given{others}, so the schedule runs in UTC"
