"""The clock of a server, as the Date headers of its answers show it.

Servers of one hub agree within moments. A node without time synchronization may be minutes off, and the times
in its objects with it.
"""

from __future__ import annotations

import math
from email.utils import parsedate_to_datetime
from typing import Final

# A header has whole seconds, and its answer takes a while. A smaller difference is no wrong clock.
MIN_AHEAD_SECONDS: Final = 10.0
# A larger one is no clock, and would move times out of their range.
MAX_AHEAD_SECONDS: Final = 366 * 86_400.0


class ServerClock:
    """Knows how far the server's clock is ahead of ours.

    `seen` is the Date header of the last answer, "" without one, and when it came, in monotonic seconds.
    """

    def __init__(self) -> None:
        self.seen = "", 0.0
        # The header that was read last, and its time. Every object asks for it in every reconcile.
        self._read = "", 0.0

    def ahead(self, wall: float, at: float) -> float:
        """Returns how many seconds the server is ahead of our time `wall`; negative if it is behind.

        `at` is the same time in monotonic seconds.
        0 if that is unknown, less than MIN_AHEAD_SECONDS or more than MAX_AHEAD_SECONDS.
        """
        header, seen_at = self.seen
        if not header:
            return 0.0
        if header is not self._read[0]:
            try:
                self._read = header, parsedate_to_datetime(header).timestamp()
            except (ValueError, TypeError, IndexError, ArithmeticError, OSError):
                self._read = header, math.inf  # any server may send any text
        date = self._read[1]
        # On average, half a second of the header is cut off.
        ahead = date + 0.5 + (at - seen_at) - wall
        return ahead if MIN_AHEAD_SECONDS <= abs(ahead) <= MAX_AHEAD_SECONDS else 0.0
