"""Outages of an API server, as its reflectors find them: one log line when it goes, one when it returns.

A process has a reflector for each collection and each Secret that it reads, and all of them fail with the
server. Their own lines would hide everything else in the log.
"""

from __future__ import annotations

import structlog

from fedhpa.api.errors import ApiError
from fedhpa.kube.responses import SERVER_ERRORS, TOO_MANY_REQUESTS, UNAUTHORIZED

log = structlog.get_logger(__name__)

# Reasons of one outage that are logged. An outage seldom has more than a broken connection and its cause.
MAX_REASONS = 8


def is_outage(error: Exception) -> bool:
    """True if the error is of the whole server, and not of one collection."""
    return isinstance(error, ApiError) and (
        error.status in (0, UNAUTHORIZED, TOO_MANY_REQUESTS) or error.status >= SERVER_ERRORS
    )


class Outage:
    """The present outage of one API server, if there is one. Times are in seconds of one monotonic clock."""

    def __init__(self, name: str) -> None:
        self._log = log.bind(api=name)
        self._answered_at = float("-inf")
        self._reasons: set[str] = set()

    def failed(self, reason: str, error: str, *, began: float) -> None:
        """Record a failure of an attempt that began at `began`. `reason` is `error` without the path."""
        # An attempt that began before the server last answered says nothing about now; the next one will.
        if began < self._answered_at or reason in self._reasons or len(self._reasons) >= MAX_REASONS:
            return
        event = "API server fails for another reason" if self._reasons else "API server does not answer"
        self._log.info(event, error=error)
        self._reasons.add(reason)

    def answered(self, now: float) -> None:
        """Record that the server answered a list or a watch."""
        self._answered_at = now
        if self._reasons:
            self._log.info("API server answers again")
            self._reasons.clear()
