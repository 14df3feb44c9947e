"""The best run of a report as a chart of plain characters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from fedhpa.api.texts import one_line
from fedhpa.backtest.report.texts import BEST, amount, moment, name
from fedhpa.backtest.result import Report, Run

# Returns a text in a style, an SGR code. `fedhpa.cli.colours.painted` does so where the terminal shows it.
Painter = Callable[[str, str], str]
BOLD, RED = "1", "31"
SERVED, FREE, ABOVE, AWAY = "█", "░", "▓", "×"
BARS: Final = "▁▂▃▄▅▆▇█"
ROWS: Final = 8
LEAST_WIDTH, MOST_WIDTH = 40, 400
LABEL: Final = 9
MAX_EVENTS: Final = 4
TWO_DAYS: Final = 172_800
WEEK: Final = 604_800


def _plain(text: str, _style: str) -> str:
    return text


def terminal(report: Report, width: int, painted: Painter = _plain) -> str:
    """Returns a chart of the best run in lines of at most `width` characters (at least 40).

    It has the demand against the capacity, the sizes, and the first rules and gaps.
    """
    width = max(LEAST_WIDTH, min(width, MOST_WIDTH))
    lines = _chart(report, report.runs[BEST], report.steps, width, painted)
    return "\n".join(line.rstrip() for line in lines)


def _chart(report: Report, run: Run, steps: int, width: int, painted: Painter) -> Iterator[str]:
    """Yields the demand against the capacity, and the size below it.

    A column is the step with its highest demand. Values of different steps would show a lack that never was.
    """
    columns = min(width - LABEL, steps)
    peaks = [_peak(run.demand, i * steps // columns, (i + 1) * steps // columns) for i in range(columns)]
    demand, capacity = ([series[i] for i in peaks] for series in (run.demand, run.capacity))
    sizes = [[one.desired[i] for i in peaks] for one in run.clusters]
    totals = [None if None in each else sum(filter(None, each)) for each in zip(*sizes, strict=True)]
    top = max((value for value in (*demand, *capacity) if value is not None), default=0.0)
    unit = name(report.unit or report.metric)
    yield painted(one_line(f"{run.name}: demand against capacity at the target ({unit})", width), BOLD)
    legend = f"{SERVED} demand  {FREE} free capacity  {ABOVE} demand above it"
    yield one_line(f"{legend}; each column at its highest demand", width)
    for row in range(ROWS, 0, -1):
        label = amount(top * row / ROWS) if row % 2 == 0 else ""
        cells = [_cell(one, other, top, row) for one, other in zip(demand, capacity, strict=True)]
        yield f"{label:>{LABEL - 2}} {'┤' if label else '│'}{_painted(cells, painted)}"
    yield f"{'replicas':>{LABEL - 1}} {_bars(totals)}"
    most = max((total for total in totals if total is not None), default=None)
    yield f"{f'to {amount(most)}':>{LABEL - 1}} {_scale(report, steps, columns)}"
    yield from _events(report, width)


def _peak(series: Sequence[float | None], first: int, end: int) -> int:
    """Returns the step with the highest known value, the first one if there is none."""
    return max(range(first, end), key=lambda i: -math.inf if (value := series[i]) is None else value)


def _cell(demand: float | None, capacity: float | None, top: float, row: int) -> str:
    """Returns what a column shows in a row, 1 at the bottom: the middle of the row decides."""
    at = top * (row - 0.5) / ROWS
    if demand is None:
        return AWAY if row == 1 else " "
    if at <= demand:
        return SERVED if capacity is None or at <= capacity else ABOVE
    return FREE if capacity is not None and at <= capacity else " "


def _painted(cells: Sequence[str], painted: Painter) -> str:
    """Returns the cells of a row, with those above the capacity in red."""
    text, run = "", ""
    for cell in (*cells, ""):
        if run and cell != run[-1]:
            text += painted(run, RED if run[-1] == ABOVE else "")
            run = ""
        run += cell
    return text


def _bars(sizes: Sequence[float | None]) -> str:
    most = max((size for size in sizes if size is not None), default=0) or 1
    return "".join(
        AWAY if size is None else BARS[min(max(0, round(size / most * len(BARS)) - 1), len(BARS) - 1)]
        for size in sizes
    )


def _scale(report: Report, steps: int, columns: int) -> str:
    """Returns the times below the chart: where it begins, and each quarter if there is room."""
    line, parts = "", 4 if columns >= 60 else 1
    seconds = steps * report.step
    form = "%a %H:%M" if seconds <= TWO_DAYS else "%a %d %H:%M" if seconds <= WEEK else "%a %d %b"
    for part in range(parts):
        at = report.start + steps * report.step * part / parts
        line = f"{line:<{columns * part // parts}}{datetime.fromtimestamp(at, UTC):{form}}"
    return line[:columns]


def _events(report: Report, width: int) -> Iterator[str]:
    """Yields the first marks and gaps as sentences: a character of the chart is an hour or more."""
    end = report.end
    marks = [mark for mark in report.marks if report.start <= mark.at <= end]
    texts = [f"{moment(mark.at)} {mark.text}" for mark in marks]
    texts += [
        f"{moment(max(gap.start, report.start))} to {moment(min(gap.end, end))} no data of {gap.cluster}"
        for gap in report.gaps
        if gap.start < end and gap.end > report.start
    ]
    for text in texts[:MAX_EVENTS]:
        yield one_line(text, width)
    if len(texts) > MAX_EVENTS:
        yield f"and {len(texts) - MAX_EVENTS} more rules and gaps"
