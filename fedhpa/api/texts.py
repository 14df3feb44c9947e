"""What others say, made fit to be passed on: one line, of bounded length, that nothing can be hidden in."""

from __future__ import annotations

from typing import Final

MAX_TEXT: Final = 512


def one_line(text: str, most: int = MAX_TEXT) -> str:
    """`text` in one line of at most `most` characters; what cannot be printed is a question mark."""
    # Cut first: a text may be megabytes.
    line = " ".join(text[: 2 * most].split())
    printable = line if line.isprintable() else "".join(c if c.isprintable() else "?" for c in line)
    return printable if len(printable) <= most and len(text) <= 2 * most else printable[: most - 3] + "..."


def ascii_line(text: str, most: int = MAX_TEXT) -> str:
    """The same in ASCII, as headers have it."""
    return one_line(text, most).encode("ascii", "replace").decode()
