"""What is said about an object that is admitted, beyond the object itself: what other objects mean for it.

Advice never changes a verdict and never holds one up: whatever goes wrong here, there is less of it.
"""

from __future__ import annotations

import structlog

from webhook.hub import HubReader
from webhook.review import Review

log = structlog.get_logger(__name__)


class Advisor:
    """Adds warnings to reviews. `hub` is None where no hub is read."""

    def __init__(self) -> None:
        self.hub: HubReader | None = None

    async def advised(self, review: Review) -> Review:
        """The review with what there is to say about its object; the weightiest first."""
        if review.subject is None or self.hub is None:
            return review
        try:
            return review.warned(await self.hub.warnings(review.subject))
        except Exception:
            # A warning less; the verdict stands.
            log.exception("no advice about an object because of a defect")
            return review
