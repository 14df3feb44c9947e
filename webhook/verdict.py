"""What is answered about one object, within the bounds of what a person reads and an API server passes on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

# A warning longer than 256 bytes is cut by API servers, and all of a response beyond 4 KiB.
MAX_WARNINGS: Final = 5
MAX_WARNING: Final = 255
# Field errors quote what was written: a name of seven megabytes is not sent back whole.
MAX_MESSAGE: Final = 64 * 1024


class Verdict(msgspec.Struct, frozen=True):
    """The answer about one object; `code` is that of the response's status, not of HTTP."""

    allowed: bool
    code: int = 200
    reason: str = ""
    message: str = ""
    patch: list[dict[str, Any]] = []
    warnings: tuple[str, ...] = ()


class Refused(Exception):
    """Ends the reading of a review early with a verdict."""

    def __init__(self, message: str, *, code: int = 400, warnings: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.verdict = Verdict(False, code, message=message, warnings=tuple(warnings))


def shown_warnings(warnings: Iterable[str]) -> list[str]:
    """At most five warnings in their order, each once and short enough to arrive whole, on one line."""
    texts = list(dict.fromkeys(one_line(text, MAX_WARNING) for text in warnings))
    if len(texts) > MAX_WARNINGS:
        more = len(texts) - MAX_WARNINGS + 1
        texts[MAX_WARNINGS - 1 :] = [f"and {more} more warnings"]
    return texts


def shown_message(message: str) -> str:
    """The message of a refusal, whole up to 64 Ki characters."""
    if len(message) <= MAX_MESSAGE:
        return message
    return f"{message[:MAX_MESSAGE]}... and {len(message) - MAX_MESSAGE} more characters"


def one_line(text: str, limit: int) -> str:
    """The text without control characters, in at most `limit` bytes of UTF-8; dots stand for what is cut."""
    # Far more than is shown: a text of megabytes is not looked at character by character.
    line = "".join(character if character.isprintable() else "?" for character in text[: limit + 1])
    encoded = line.encode()
    if len(encoded) <= limit:
        return line
    return encoded[: limit - 3].decode(errors="ignore") + "..."
