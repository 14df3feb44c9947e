"""What is said about an object that is admitted, beyond the object itself: other objects, and the calendar.

Advice never changes a verdict and never holds one up: whatever goes wrong here, there is less of it. It comes
in the order of weight: who else changes the target, a target that is missing, what the rules are going to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import structlog

from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.cron import TargetBounds, forecast_warnings
from webhook.handlers import Review, Subject
from webhook.hub import HubReader

log = structlog.get_logger(__name__)

# Rules beyond this take milliseconds to play through: others need not wait for it.
MANY_RULES: Final = 20


def utc_now() -> datetime:
    """The time of the machine."""
    return datetime.now(UTC)


class Advisor:
    """Adds warnings to reviews. `hub` is None where no hub is read; `now` gives an aware time."""

    def __init__(self, now: Callable[[], datetime] = utc_now) -> None:
        self.hub: HubReader | None = None
        self._now = now

    async def advised(self, review: Review) -> Review:
        """The review with what there is to say about its object."""
        subject = review.subject
        if subject is None:
            return review
        found = [] if self.hub is None else await self._about_others(subject, self.hub)
        # Not isinstance, which asks a pydantic class for its opinion, for microseconds.
        if type(subject) is CronFederatedHPA:
            found += await self._about_times(subject)
        return review.warned(found) if found else review

    async def _about_others(self, subject: Subject, hub: HubReader) -> list[str]:
        try:
            return await hub.warnings(subject)
        except Exception:
            # A warning less; the verdict stands.
            log.exception("no advice about other objects because of a defect")
            return []

    async def _about_times(self, cron: CronFederatedHPA) -> list[str]:
        try:
            target = self._target_bounds(cron)
            if len(cron.spec.rules) > MANY_RULES:
                return await asyncio.to_thread(forecast_warnings, cron.spec, self._now(), target)
            return forecast_warnings(cron.spec, self._now(), target)
        except Exception:
            log.exception("no advice about times because of a defect")
            return []

    def _target_bounds(self, cron: CronFederatedHPA) -> TargetBounds | None:
        target = None if self.hub is None else self.hub.stored_target(cron)
        return None if target is None else TargetBounds(target.minimum, target.maximum)
