"""The log of refusals: each once, on one line, and never so many that a tenant could fill the disk with them.

What is refused again with the same words within ten minutes (a GitOps tool that tries for ever) is not logged
again; each namespace and the whole have a bound a minute, and what was left out is counted in the next line.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import structlog

from webhook.handlers import Review
from webhook.verdict import one_line

log = structlog.get_logger(__name__)

AGAIN_SECONDS: Final = 600.0
MINUTE: Final = 60.0
LINES_A_MINUTE: Final = 120
LINES_A_MINUTE_OF_ONE: Final = 20
MAX_REMEMBERED: Final = 2000
MAX_REASON: Final = 500
MAX_NAME: Final = 253


class RefusalLog:
    """Writes down who was refused what, and why."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: OrderedDict[tuple[str, str, str, str], float] = OrderedDict()
        self._minute = float("-inf")
        self._written: dict[str, int] = {}
        self._lines = 0
        self._left_out = 0

    def add(self, kind: str, review: Review) -> None:
        """Log a refusal, unless it was logged lately or there are too many."""
        namespace, name = _who(review.raw)
        reason = one_line(review.verdict.message, MAX_REASON)
        refusal = (kind, namespace, name, reason)
        now = self._clock()
        if now < self._seen.get(refusal, now):
            return
        if not self._may_write(namespace, now):
            self._left_out += 1
            return
        self._seen[refusal] = now + AGAIN_SECONDS
        self._seen.move_to_end(refusal)
        if len(self._seen) > MAX_REMEMBERED:
            self._seen.popitem(last=False)
        left_out, self._left_out = self._left_out, 0
        more: dict[str, Any] = {"left_out": left_out} if left_out else {}
        code = review.verdict.code
        log.info("refused", kind=kind, namespace=namespace, name=name, code=code, reason=reason, **more)

    def _may_write(self, namespace: str, now: float) -> bool:
        if now - self._minute >= MINUTE:
            self._minute, self._lines, self._written = now, 0, {}
        written = self._written.get(namespace, 0)
        if self._lines >= LINES_A_MINUTE or written >= LINES_A_MINUTE_OF_ONE:
            return False
        self._written[namespace] = written + 1
        self._lines += 1
        return True


def _who(raw: dict[str, Any] | None) -> tuple[str, str]:
    """Namespace and name (or its prefix) as far as they can be read."""
    metadata = None if raw is None else raw.get("metadata")
    if not isinstance(metadata, dict):
        return "", ""
    return _text(metadata.get("namespace")), _text(metadata.get("name") or metadata.get("generateName"))


def _text(value: Any) -> str:
    return one_line(value, MAX_NAME) if isinstance(value, str) else ""
