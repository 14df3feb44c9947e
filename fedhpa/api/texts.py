"""What others say, made fit to be passed on: one line, of bounded length, that nothing can be hidden in."""

from __future__ import annotations

import re
from typing import AnyStr, Final

MAX_TEXT: Final = 512
# By so much of it a credential is known in a text, which may have been cut within it; what follows goes too.
CREDENTIAL_START: Final = 12
CREDENTIAL_REST: Final = r"[\w.~+/=-]*"


def one_line(text: str, most: int = MAX_TEXT) -> str:
    """`text` in one line of at most `most` characters; what cannot be printed is a question mark."""
    line = _printable(text, most)
    return line if len(line) <= most and len(text) <= 2 * most else line[: most - 3] + "..."


def cut_line(text: str, most: int) -> str:
    """The same without the dots that say that it goes on."""
    return _printable(text, most)[:most]


def ascii_line(text: str, most: int = MAX_TEXT) -> str:
    """`one_line` in ASCII, as headers have it."""
    return one_line(text, most).encode("ascii", "replace").decode()


def redacted(text: AnyStr, authorization: str) -> AnyStr:
    """`text` without the credential of that header ("Bearer x"), which servers and proxies may quote."""
    start = authorization.partition(" ")[2][:CREDENTIAL_START]
    if len(start) < CREDENTIAL_START:
        return text
    pattern = re.escape(start) + CREDENTIAL_REST
    if isinstance(text, bytes):
        return re.sub(pattern.encode(), b"(redacted)", text)
    return re.sub(pattern, "(redacted)", text)


def _printable(text: str, most: int) -> str:
    # Cut first: a text may be megabytes.
    line = " ".join(text[: 2 * most].split())
    return line if line.isprintable() else "".join(c if c.isprintable() else "?" for c in line)
