"""A report of made-up office days: three clusters, six objects, a cluster that is away, two rules by time.

`python -m tests.support.office_day` (`make docs`) draws it for the pages.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

from fedhpa.backtest.result import (
    Assumption,
    Change,
    ClusterRun,
    Day,
    Figures,
    Gap,
    Mark,
    Report,
    Run,
)

# 2026-03-09 is a Monday.
START = 1_773_014_400.0
HOUR, DAY = 3600.0, 86_400.0
POD = 0.25
SHARES = {"dc-frankfurt": 0.5, "cloud-west": 0.3, "edge-north": 0.2}
AWAY = (14.0 * HOUR, 15.0 * HOUR)
READY_AFTER = 120.0
PICTURE = Path(__file__).parents[2] / "docs" / "backtest.svg"
# A picture in a page needs no more, and a tenth of the bytes.
PICTURE_STEP = 300.0


def demand(step: float, days: int) -> list[float]:
    """The demand of an office in cores: ramps at 8 and 17 o'clock, a dip at noon, a batch at 21, noise."""
    noise, values, drift = random.Random(1), list[float](), 0.0
    for i in range(int(days * DAY / step)):
        hour = i * step % DAY / HOUR
        work = 1 / (1 + math.exp(-(hour - 8.2) * 9)) - 1 / (1 + math.exp(-(hour - 17.3) * 2.5))
        batch = 2.2 if 21 <= hour < 21.5 else 0.0
        noon = 1.6 * math.exp(-(((hour - 12.5) / 0.6) ** 2))
        drift = 0.97 * drift + noise.gauss(0, 0.05)
        values.append(max(0.2, 0.9 + (6.5 - noon) * work + batch + drift))
    return values


def run(
    name: str,
    load: list[float],
    step: float,
    target: float,
    minimum: Callable[[float], int] = lambda hour: 2,
    window: float = 300.0,
) -> Run:
    """A run of a simple autoscaler. Pods are ready two minutes after the decision."""
    size, late, back = 4, max(1, int(READY_AFTER / step)), max(1, int(window / step))
    wanted, ready, proposals, changes = list[int](), list[int](), list[int](), list[Change]()
    for i, value in enumerate(load):
        ready.append(min(size, wanted[-late]) if len(wanted) >= late else size)
        busy = min(value / (ready[-1] * POD), 1.0)
        proposals.append(math.ceil(ready[-1] * busy / target) if abs(busy / target - 1) > 0.1 else size)
        floor = minimum(i * step % DAY / HOUR)
        after = max(min(max(proposals[-back:]), size) if proposals[-1] < size else proposals[-1], floor)
        if after != size:
            if after == floor > size:
                why = f"the rule work-hours set minReplicas to {floor}"
            elif after > size:
                why = f"cpu is at {100 * busy:.0f} % of the request, the target is {100 * target:.0f} %"
            else:
                why = f"cpu is at {100 * busy:.0f} %, below the target for {window:.0f} s"
            changes.append(Change(START + i * step, size, after, why))
        size = after
        wanted.append(size)
    used = [value / (pods * POD) / target for value, pods in zip(load, ready, strict=True)]
    lost = [max(0.0, value - pods * POD) for value, pods in zip(load, ready, strict=True)]
    day = int(DAY / step)
    return Run(
        name,
        _clusters(ready, wanted, step),
        list(load),
        [pods * POD * target for pods in ready],
        list(used),
        list(lost),
        changes,
        _figures(load, ready, used, lost, changes, step),
        [
            Day(
                START + at * step,
                _figures(
                    load[at : at + day],
                    ready[at : at + day],
                    used[at : at + day],
                    lost[at : at + day],
                    [one for one in changes if at * step <= one.at - START < at * step + DAY],
                    step,
                ),
            )
            for at in range(0, len(load), day)
        ],
    )


def _clusters(ready: list[int], wanted: list[int], step: float) -> list[ClusterRun]:
    """Divides the sizes by SHARES; the last cluster is away for an hour of every day."""

    def part(total: int, place: int) -> int:
        shares = list(SHARES.values())
        return round(total * sum(shares[: place + 1])) - round(total * sum(shares[:place]))

    def gone(place: int, i: int) -> bool:
        return place == 2 and AWAY[0] <= i * step < AWAY[1]

    return [
        ClusterRun(
            cluster,
            [part(total, place) for total in wanted],
            [None if gone(place, i) else part(total, place) for i, total in enumerate(ready)],
        )
        for place, cluster in enumerate(SHARES)
    ]


def _figures(
    load: list[float],
    ready: list[int],
    used: list[float],
    lost: list[float],
    changes: list[Change],
    step: float,
) -> Figures:
    return Figures(
        replicaHours=sum(ready) * step / HOUR,
        unserved=sum(lost) / sum(load),
        minutesOverTarget=sum(step for one in used if one > 1.1) / 60,
        changesPerHour=len(changes) * HOUR / (len(load) * step),
        peak=max(ready),
        podsStarted=sum(max(0, one.after - one.before) for one in changes),
    )


def office_report(step: float = 30.0, days: int = 1, copies: int = 1) -> Report:
    """The report: the recording, the object, and five variants of it; `copies` repeats these five."""
    load = demand(step, days)

    def early(hour: float) -> int:
        return 24 if 7.5 <= hour < 10 else 2

    recorded = run("as recorded", load, step, 0.6)
    variants = [
        run("target 70, minReplicas 24 from 07:30 to 10:00", load, step, 0.7, early),
        run("target 60 (the object as it is)", load, step, 0.6),
        run("target 70", load, step, 0.7),
        run("target 80", load, step, 0.8),
        run("target 50", load, step, 0.5),
        run("scaleDown.window 900", load, step, 0.6, window=900.0),
    ]
    copied = [variants[i % 5] for i in range(5 * (copies - 1))]
    best, now = variants[0].figures, variants[1].figures
    saved = 100 * (1 - best.replicaHours / now.replicaHours)
    return Report(
        namespace="shop",
        name="web",
        metric="cpu",
        unit="cores",
        start=START,
        step=step,
        runs=[recorded, *variants, *copied],
        best=f"Take target 70 with minReplicas 24 from 07:30 to 10:00: {saved:.0f} % fewer "
        f"replica-hours than today, and {best.minutesOverTarget:.0f} instead of "
        f"{now.minutesOverTarget:.0f} minutes over target.",
        marks=[
            Mark(START + day * DAY + hour * HOUR, text)
            for day in range(days)
            for hour, text in ((7.5, "rule work-hours"), (10.0, "rule after-rush"))
        ],
        gaps=[
            Gap("edge-north", START + day * DAY + AWAY[0], START + day * DAY + AWAY[1]) for day in range(days)
        ],
        censored=0.004,
        assumptions=[
            Assumption("pods become ready after", "120 s", "measured in the recording"),
            Assumption("metrics are old", "30 s", "default"),
            Assumption("limit of a pod", "0.25 cores", "the largest usage seen"),
            Assumption("demand belongs to", "the workload", "default (--traffic shared)"),
        ],
        notes=["The model follows the recording with 21 % of the error of the best constant."],
    )


if __name__ == "__main__":
    from fedhpa.backtest.report import svg

    PICTURE.write_text(svg(office_report(PICTURE_STEP)) + "\n", encoding="utf-8")
