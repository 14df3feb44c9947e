"""Colours of lines in a terminal. In a pipe, with NO_COLOR and on a dumb terminal there are none."""

from __future__ import annotations

import os
import sys
from typing import Final

BOLD, RED, GREEN, YELLOW = "1", "31", "32", "33"
_END: Final = "\x1b[0m"


def painted(text: str, style: str) -> str:
    """Returns a text in a style if standard output shows it; the text alone without a style.

    https://no-color.org: any value of NO_COLOR but the empty one counts.
    """
    shows = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[{style}m{text}{_END}" if style and shows else text
