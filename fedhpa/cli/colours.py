"""Colours and columns of lines. In a pipe, with NO_COLOR and on a dumb terminal there are no colours."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from fedhpa.api.texts import one_line

BOLD, RED, GREEN, YELLOW = "1", "31", "32", "33"
_END: Final = "\x1b[0m"


def painted(text: str, style: str) -> str:
    """Returns a text in a style if standard output shows it; the text alone without a style.

    https://no-color.org: any value of NO_COLOR but the empty one counts.
    """
    shows = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[{style}m{text}{_END}" if style and shows else text


def columns(rows: Sequence[Sequence[str]], width: int = 0, *, right: bool = False) -> list[str]:
    """Returns a line for each row of a table, none wider than `width` characters; 0 cuts nothing.

    The last cell of a row is cut first. With `right` all columns but the first are aligned to the right.
    """
    *widths, _ = sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = max(width - sum(widths) - 2 * len(widths), 4) if width else 0
    lines = []
    for row in rows:
        cells = [*row[:-1], one_line(row[-1], room) if room else row[-1]]
        aligned = [
            cell.rjust(size) if right and place else cell.ljust(size)
            for place, (cell, size) in enumerate(zip(cells, sizes, strict=True))
        ]
        lines.append("  ".join(aligned)[: width or None].rstrip())
    return lines
