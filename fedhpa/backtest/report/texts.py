"""Texts and numbers of a report. Texts are from outside, so each is bounded."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from fedhpa.api.texts import one_line

MAX_NAME: Final = 48
MAX_REASON: Final = 300
MAX_SENTENCE: Final = 600
UNKNOWN: Final = "–"
# The run to look at first: the best one stands behind the recording.
BEST: Final = 1


def name(text: str) -> str:
    """Returns a name of at most 48 characters, - for an empty one."""
    return one_line(text, MAX_NAME) or "-"


def sentence(text: str) -> str:
    """Returns one line of at most 600 characters that begins with a capital."""
    line = one_line(text, MAX_SENTENCE)
    return line[:1].upper() + line[1:]


def amount(value: float | None) -> str:
    """Returns a number in three digits, or all before the point, with , between thousands."""
    if value is None:
        return UNKNOWN
    if abs(value) >= 1e15:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def against(value: float, base: float) -> str:
    """Returns the difference to a base in percent, "" without a base: "−11%", "+3%", "±0%"."""
    if base <= 0:
        return ""
    change = round(100 * (value / base - 1))
    return (f"{change:+,d}%" if change else "±0%").replace("-", "−")


def moment(at: float) -> str:
    """Returns a time as "2026-03-09 14:05" in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
