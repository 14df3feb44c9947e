"""Warnings about an admitted object that need more than the object: other objects on the hub, and the time.

They never change a verdict, and the time they may take is bounded. If an error occurs here, the answer has
fewer warnings. The order is: competing autoscalers, a missing target, the forecast of the rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Final

import structlog

from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.cron import forecast_warnings
from fedhpa.cron.execution.model import MAXIMUM, MINIMUM, Values
from webhook.handlers import Review, Subject
from webhook.hub_reader import HubReader

log = structlog.get_logger(__name__)

# The forecast of more rules takes milliseconds, so a thread computes it and other requests need not wait.
# No small request has so many: its object would wait in memory until a thread is free.
MANY_RULES: Final = 300


class AdmissionWarnings:
    """Adds warnings to reviews. `hub` is None if no hub is read. `now` returns an aware datetime."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.hub: HubReader | None = None
        self._now = now

    async def added_to(self, review: Review) -> Review:
        """Returns the review with the warnings about its object."""
        subject = review.subject
        if subject is None:
            return review
        found = [] if self.hub is None else await self._of_hub(subject, self.hub)
        # isinstance would take microseconds on a pydantic class.
        if type(subject) is CronFederatedHPA:
            found += await self._of_forecast(subject)
        return review.warned(found) if found else review

    async def _of_hub(self, subject: Subject, hub: HubReader) -> list[str]:
        try:
            return await hub.warnings(subject)
        except Exception:
            log.exception("no warnings about other objects because of an internal error")
            return []

    async def _of_forecast(self, cron: CronFederatedHPA) -> list[str]:
        try:
            alone = self.hub is None or not self.hub.shares_target(cron)
            forecast = partial(
                forecast_warnings, cron.spec, self._now(), self._target_bounds(cron), alone=alone
            )
            return await asyncio.to_thread(forecast) if len(cron.spec.rules) > MANY_RULES else forecast()
        except Exception:
            log.exception("no forecast of the rules because of an internal error")
            return []

    def _target_bounds(self, cron: CronFederatedHPA) -> Values | None:
        target = None if self.hub is None else self.hub.stored_target(cron)
        return None if target is None else {MINIMUM: target.minimum, MAXIMUM: target.maximum}
