"""Texts and numbers of a report. All are from outside: each is bounded, and none is NaN or infinite."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from fedhpa.api.errors import InvalidObject
from fedhpa.api.texts import one_line
from fedhpa.backtest.result import Report, Run

MAX_NAME: Final = 48
MAX_REASON: Final = 300
MAX_SENTENCE: Final = 600
UNKNOWN: Final = "–"
# The times that `datetime` can show, with a year to spare on both sides.
EARLIEST, LATEST = datetime(2, 1, 1, tzinfo=UTC).timestamp(), datetime(9998, 1, 1, tzinfo=UTC).timestamp()


def finite(value: float | None) -> float | None:
    """Returns the value, or None for NaN, an infinity and an integer beyond what a float holds."""
    try:
        return value if value is not None and math.isfinite(value) else None
    except OverflowError:
        return None


def finite_series(series: Sequence[float | None], steps: int) -> list[float | None]:
    """Returns a series of `steps` entries, in which every value that is not finite is None."""
    try:
        clean = math.isfinite(sum(value for value in series if value is not None))
    except OverflowError:
        clean = False
    found = list(series) if clean else [finite(value) for value in series]
    return [*found, *[None] * (steps - len(found))]


def length(report: Report) -> int:
    """Returns the number of steps of the longest series.

    Raises InvalidObject if `start` and `step` give no times.
    """
    start, step = finite(report.start), finite(report.step)
    if step is None or step <= 0:
        raise InvalidObject(f"report: step is {report.step}; it must be a number of seconds above 0")
    steps = max((len(series) for run in report.runs for series in _series(run)), default=0)
    if start is None or not EARLIEST < start <= start + steps * step < LATEST:
        raise InvalidObject(f"report: start is {report.start}; it must be a time in Unix seconds")
    return steps


def _series(run: Run) -> Iterator[Sequence[float | None]]:
    yield from (run.demand, run.capacity, run.usage, run.unserved)
    for cluster in run.clusters:
        yield from (cluster.desired, cluster.ready)


def name(text: str) -> str:
    """Returns a name of at most 48 characters, - for an empty one."""
    return one_line(text, MAX_NAME) or "-"


def sentence(text: str) -> str:
    """Returns one line of at most 600 characters."""
    return one_line(text, MAX_SENTENCE)


def amount(value: float | None) -> str:
    """Returns a number in three digits, or all before the point, with , between thousands."""
    known = finite(value)
    if known is None:
        return UNKNOWN
    if abs(known) >= 1e15:
        return f"{known:.3g}"
    return f"{known:,.0f}" if abs(known) >= 100 or known == int(known) else f"{known:.3g}"


def percent(part: float | None) -> str:
    """Returns a part, 0 to 1, in percent: "0 %", "< 0.01 %", "0.04 %", "12.5 %"."""
    known = finite(part)
    if known is None:
        return UNKNOWN
    if 0 < known < 0.0001:
        return "< 0.01 %"
    if known < 0.1:
        return f"{100 * known:.2g} %"
    return f"{100 * known:.3g} %" if known < 10 else f"{100 * known:,.0f} %"


def against(value: float, base: float) -> str:
    """Returns the difference to a base in percent, "" without a base: "−11 %", "+3 %", "±0 %"."""
    one, other = finite(value), finite(base)
    if one is None or other is None or other <= 0:
        return ""
    change = round(100 * (one / other - 1))
    # The sign must not be left alone at the end of a line.
    return (f"{change:+,d} %" if change else "±0 %").replace("-", "−").replace(" ", "\N{NO-BREAK SPACE}")


def moment(at: float) -> str:
    """Returns a time as "2026-03-09 14:05" in UTC, – for one that has no date."""
    known = finite(at)
    if known is None or not EARLIEST < known < LATEST:
        return UNKNOWN
    return datetime.fromtimestamp(known, UTC).strftime("%Y-%m-%d %H:%M")
