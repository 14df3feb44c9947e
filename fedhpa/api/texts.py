"""Texts for people, bounded: text from other systems in one printable line, and lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import AnyStr, Final

MAX_TEXT: Final = 512
# People read lists in conditions, events and steps, so they have only so many parts.
MAX_NAMED: Final = 8
# The selectors of a workload in a status.
MAX_SELECTORS: Final = 4096
# A credential is recognised by its first characters, because the text may be truncated within it. The rest
# of the token is removed, too.
CREDENTIAL_START: Final = 12
CREDENTIAL_REST: Final = r"[\w.~+/=-]*"


def one_line(text: str, most: int = MAX_TEXT) -> str:
    """Returns `text` as one line of at most `most` characters, with ? for unprintable characters."""
    line = _printable(text, most)
    return line if len(line) <= most and len(text) <= 2 * most else line[: most - 3] + "..."


def cut_line(text: str, most: int) -> str:
    """Returns `text` as one line, cut at `most` characters without an ellipsis."""
    return _printable(text, most)[:most]


def ascii_line(text: str, most: int = MAX_TEXT) -> str:
    """Returns `one_line` in ASCII, for HTTP headers."""
    return one_line(text, most).encode("ascii", "replace").decode()


def redacted(text: AnyStr, authorization: str) -> AnyStr:
    """Removes the credential of an Authorization header ("Bearer x"), which servers and proxies may quote."""
    start = authorization.partition(" ")[2][:CREDENTIAL_START]
    if len(start) < CREDENTIAL_START:
        return text
    pattern = re.escape(start) + CREDENTIAL_REST
    if isinstance(text, bytes):
        return re.sub(pattern.encode(), b"(redacted)", text)
    return re.sub(pattern, "(redacted)", text)


def counted(number: int, noun: str) -> str:
    """Returns a number of things: "1 replica", "2 replicas"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(parts: Sequence[str], most: int = MAX_NAMED, more: str = "more") -> str:
    """Returns at most `most` parts as a list, and how many others there are: "a, b and 3 more"."""
    others = f" and {len(parts) - most} {more}" if len(parts) > most else ""
    return ", ".join(parts[:most]) + others


def for_terminal(text: str) -> str:
    """Returns the lines of a text with ? for unprintable characters, which may control a terminal."""
    return "\n".join(map(_visible, text.split("\n")))


def _printable(text: str, most: int) -> str:
    # Truncated first, because the text may have megabytes.
    return _visible(" ".join(text[: 2 * most].split()))


def _visible(line: str) -> str:
    return line if line.isprintable() else "".join(c if c.isprintable() else "?" for c in line)
