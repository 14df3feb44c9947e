"""Logs refused requests with bounded volume, so that no tenant can fill the disk.

A refusal is logged again only after ten minutes, because GitOps tools retry without end. The lines per minute
are limited, for each namespace and in total. The next line counts the refusals that were left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import structlog

from fedhpa.api.free_json import at, text_at
from fedhpa.cache import Recent
from webhook.admission_review import bounded_line
from webhook.handlers import Review

log = structlog.get_logger(__name__)

REPEAT_SECONDS: Final = 600.0
MINUTE: Final = 60.0
LINES_PER_MINUTE: Final = 120
LINES_PER_MINUTE_OF_NAMESPACE: Final = 20
MAX_KNOWN: Final = 2000
MAX_REASON: Final = 500
MAX_NAME: Final = 253


class RefusalLog:
    """Logs refusals with the object and the reason."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._suppressed_until: Recent[tuple[str, str, str, str], float] = Recent(MAX_KNOWN)
        self._minute = float("-inf")
        # The lines of this minute by namespace.
        self._written: Counter[str] = Counter()
        self._left_out = 0

    def add(self, kind: str, review: Review) -> None:
        """Logs a refusal, unless it was logged recently or a limit is reached."""
        metadata = at(review.raw, "metadata")
        name = text_at(metadata, "name") or text_at(metadata, "generateName")
        namespace, name = (bounded_line(each, MAX_NAME) for each in (text_at(metadata, "namespace"), name))
        reason = bounded_line(review.verdict.message, MAX_REASON)
        refusal = (kind, namespace, name, reason)
        now = self._clock()
        if now - self._minute >= MINUTE:
            self._minute, self._written = now, Counter()
        if now < self._suppressed_until.get(refusal, now):
            return
        own = self._written[namespace]
        if own >= LINES_PER_MINUTE_OF_NAMESPACE or self._written.total() >= LINES_PER_MINUTE:
            self._left_out += 1
            return
        self._written[namespace] = own + 1
        self._suppressed_until[refusal] = now + REPEAT_SECONDS
        left_out, self._left_out = self._left_out, 0
        more: dict[str, Any] = {"left_out": left_out} if left_out else {}
        code = review.verdict.code
        log.info("refused", kind=kind, namespace=namespace, name=name, code=code, reason=reason, **more)
