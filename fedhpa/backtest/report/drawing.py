"""A report made ready to be drawn: its series thinned without losing a peak, with every list bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from fedhpa.api.texts import counted, one_line
from fedhpa.backtest.report.texts import MAX_NAME, MAX_REASON, name
from fedhpa.backtest.result import Change, ClusterRun, Report, Run

# Labels of the legend that are no clusters.
DEMAND, UNSERVED = "demand", "not served"
MAX_RUNS: Final = 12
# A colour-blind reader can tell eight colours apart. Of more clusters, the last colour is that of all others.
MAX_CLUSTERS: Final = 8
MAX_GAPS, MAX_MARKS, MAX_CHANGES = 200, 200, 1500
# A file has at most 6 MB, and the library takes 0.9. A value takes about 6 bytes and a change 30: that makes
# 2.4 MB of values, at most 0.6 of changes and 1.2 of reasons.
MAX_VALUES: Final = 400_000
MAX_POINTS: Final = 3000
MAX_REASON_CHARACTERS: Final = 400_000


class DrawnRun(Struct, frozen=True):
    """One run as columns of equal length by point, under the names that the picture has for them.

    `t` is in milliseconds (Unix). `n0`, `n1` and so on are the ready pods of each drawn cluster, and `ready`
    their sum. A row of `changes` is a time in milliseconds, the size before, the one after, and an index of
    `Drawing.reasons`.
    """

    name: str
    columns: dict[str, list[float | None]]
    changes: list[tuple[int, int, int, int]]


class Drawing(Struct, frozen=True):
    """All that a picture shows. Times are in milliseconds (Unix), `notes` say what was left out."""

    start: int
    end: int
    clusters: list[str]
    runs: list[DrawnRun]
    gaps: list[tuple[int, int, str]]
    marks: list[tuple[int, str]]
    reasons: list[str]
    notes: list[str]


def drawn(report: Report, points: int = MAX_POINTS) -> Drawing:
    """Returns what is drawn of a report, with about `points` points a run at most."""
    start, end = report.start, report.end
    names = list(dict.fromkeys(cluster.name for run in report.runs for cluster in run.clusters))
    alone = names if len(names) <= MAX_CLUSTERS else names[: MAX_CLUSTERS - 1]
    rest = len(names) - len(alone)
    labels = _unique(alone) + ([f"{rest} other clusters"] if rest else [])
    shown = report.runs[:MAX_RUNS]
    points = max(2, min(MAX_VALUES // (len(shown) * (7 + len(labels))), points))
    reasons: dict[str, int] = {}
    each = MAX_REASON_CHARACTERS // len(shown)
    runs = [_run(run, report, points, alone, reasons, each) for run in shown]
    gaps = [
        (_ms(max(gap.start, start)), _ms(min(gap.end, end)), name(gap.cluster))
        for gap in report.gaps
        if gap.start < gap.end and gap.start < end and gap.end > start
    ]
    marks = [
        (_ms(mark.at), one_line(mark.text, MAX_REASON)) for mark in report.marks if start <= mark.at <= end
    ]
    return Drawing(
        _ms(start),
        _ms(end),
        labels,
        runs,
        sorted(gaps)[:MAX_GAPS],
        sorted(marks)[:MAX_MARKS],
        list(reasons),
        list(_left_out(report, runs, len(gaps), len(marks))),
    )


def _left_out(report: Report, runs: Sequence[DrawnRun], gaps: int, marks: int) -> list[str]:
    steps = report.steps
    fewest = min(len(run.columns["t"]) for run in runs)
    notes = []
    if fewest < steps:
        notes.append(
            f"The picture draws at least {fewest:,} of {steps:,} steps of each run. Of each interval it "
            "keeps the lowest and the highest value of every line, so no peak is lost. The table has all."
        )
    dropped = sum(len(run.changes) for run in report.runs[:MAX_RUNS]) - sum(len(run.changes) for run in runs)
    if dropped:
        notes.append(f"{counted(dropped, 'change')} of size, the smallest ones, are not in the picture.")
    for all_of_them, most, what in (
        (len(report.runs), MAX_RUNS, "runs"),
        (gaps, MAX_GAPS, "gaps"),
        (marks, MAX_MARKS, "marks"),
    ):
        if all_of_them > most:
            notes.append(f"The picture has the first {most} of {all_of_them:,} {what}.")
    return notes


def _run(
    run: Run, report: Report, most: int, alone: list[str], reasons: dict[str, int], characters: int
) -> DrawnRun:
    # None where one of the clusters is a gap: a partial sum would look like a change.
    wanted = [_sum(values) for values in zip(*(each.desired for each in run.clusters), strict=True)]
    lines = {
        "demand": run.demand,
        "capacity": run.capacity,
        "usage": run.usage,
        "unserved": run.unserved,
        "desired": wanted,
    }
    points = kept_steps([*lines.values()], report.steps, most)
    sizes = _sizes(run.clusters, alone, points)
    columns: dict[str, list[float | None]] = {
        "t": [_ms(report.start + point * report.step) for point in points],
        **{key: [_short(line[i]) for i in points] for key, line in lines.items()},
        "ready": [_sum(each, partial=True) for each in zip(*sizes, strict=True)],
        **{f"n{i}": size for i, size in enumerate(sizes)},
    }
    return DrawnRun(name(run.name), columns, _changes(run.changes, reasons, characters))


def kept_steps(lines: Sequence[Sequence[float | None]], steps: int, most: int) -> list[int]:
    """Returns about `most` of the steps, at least one; all if they are no more than that.

    The steps are divided into intervals of equal length. Each keeps its first step, and of every line the
    steps of the minimum, of the maximum, and of the first gap. So the drawn line has all peaks.
    """
    if steps <= most:
        return list(range(steps))
    intervals = max(1, most // 3)
    while True:
        kept = set[int]()
        for number in range(intervals):
            kept |= _extremes(lines, number * steps // intervals, (number + 1) * steps // intervals)
        kept.add(steps - 1)
        if len(kept) <= most or intervals <= 1:
            return sorted(kept)
        intervals = max(1, min(intervals - 1, intervals * most // len(kept)))


def _extremes(lines: Sequence[Sequence[float | None]], first: int, end: int) -> set[int]:
    kept = {first}
    for line in lines:
        values = line[first:end]
        known = [value for value in values if value is not None]
        if known:
            kept |= {first + values.index(min(known)), first + values.index(max(known))}
        if len(known) < len(values):
            kept.add(first + values.index(None))
    return kept


def _sum(values: Sequence[float | None], *, partial: bool = False) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and (partial or len(known) == len(values)) else None


def _sizes(
    clusters: Sequence[ClusterRun], alone: list[str], points: Sequence[int]
) -> list[list[float | None]]:
    """Returns the ready pods of each cluster that is drawn alone, then those of all others together."""
    by_name: dict[str, Sequence[float | None]] = {each.name: each.ready for each in clusters}
    sizes = [[by_name[one][i] for i in points] for one in alone]
    others = [ready for one, ready in by_name.items() if one not in alone]
    if others:
        sizes.append([_sum([one[i] for one in others], partial=True) for i in points])
    return sizes


def _changes(
    changes: Sequence[Change], reasons: dict[str, int], characters: int
) -> list[tuple[int, int, int, int]]:
    """Returns the largest changes, in the order of time, as many as the bounds allow."""
    rows = []
    largest = sorted(changes, key=lambda one: -abs(one.after - one.before))
    for change in largest[:MAX_CHANGES]:
        reason = one_line(change.reason, MAX_REASON)
        if reason not in reasons:
            characters -= len(reason)
            if characters < 0:
                break
        index = reasons.setdefault(reason, len(reasons))
        rows.append((_ms(change.at), change.before, change.after, index))
    return sorted(rows)


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _unique(names: Sequence[str]) -> list[str]:
    """Returns a label for each name. Names that differ only after the bound get a number."""
    labels: list[str] = []
    for each in names:
        label, number = name(each), 2
        while label in labels or label in (DEMAND, UNSERVED):
            label, number = f"{one_line(each, MAX_NAME - 6)} ({number})", number + 1
        labels.append(label)
    return labels
