"""The result of a backtest: the runs over one recording, as the table, the picture and `-o json` show them.

All series of a run have one entry a step. Step i begins at `Report.start + i * Report.step` (Unix seconds).
None is a gap: the value is not known there, for example because the cluster was away. A gap is never 0.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

# Above this part of hidden demand nothing can be said about less capacity.
CENSORED: Final = 0.01


def percent(part: float, bound: float = 1.0) -> str:
    """Returns a part, 0 to 1, in percent: "0%", "<0.01%", "0.04%", "12.5%".

    A part above `bound` has so many digits that this is seen.
    """
    if 0 < part < 0.0001 and part <= bound:
        return "<0.01%"
    for digits in range(2 if part < 0.1 else 3, 9):
        text = f"{100 * part:.{digits}g}"
        if part <= bound or float(text) > 100 * bound:
            break
    return f"{text}%"


class ClusterRun(Struct, frozen=True):
    """The size of the workload in one cluster, by step."""

    name: str
    desired: list[int | None]
    ready: list[int | None]


class Change(Struct, frozen=True):
    """One change of the total size, with the reason in the words of `fedhpa explain`."""

    at: float
    before: int
    after: int
    reason: str


class Figures(Struct, frozen=True):
    """The row of a run in the table.

    `unserved` is the part of the demand above what the ready pods could serve, 0 to 1. `cost` is None where
    no cluster has a price.
    """

    replicaHours: float
    unserved: float
    minutesOverTarget: float
    changesPerHour: float
    peak: int
    podsStarted: int
    cost: float | None = None

    @property
    def price(self) -> float:
        """The cost where clusters have prices, else the replica-hours: runs are compared by it."""
        return self.replicaHours if self.cost is None else self.cost


def saving(before: Figures, after: Figures) -> tuple[float, str]:
    """Returns the part of the price that is saved, 0 to 1, and as a text: "11.0% fewer replica-hours"."""
    what, word = ("replica-hours", "fewer") if after.cost is None else ("cost", "less")
    part = 1 - after.price / before.price if before.price else 0.0
    return part, f"{part:.1%} {word} {what}" if part >= 0 else f"{-part:.1%} more {what}"


class Day(Struct, frozen=True):
    """The figures of one day of a run, which begins at `at` (Unix seconds)."""

    at: float
    figures: Figures


class Run(Struct, frozen=True):
    """One row: the recording itself, the object as it is, or a variant.

    `demand`, `capacity` and `unserved` have the unit of the metric, as totals over all clusters. `usage` is
    usage divided by target: 1 is at target. `capacity` is what the ready pods serve at target.
    """

    name: str
    clusters: list[ClusterRun]
    demand: list[float | None]
    capacity: list[float | None]
    usage: list[float | None]
    unserved: list[float | None]
    changes: list[Change]
    figures: Figures
    days: list[Day] = []


class Mark(Struct, frozen=True):
    """Something that happened at one time, for example the execution of a cron rule."""

    at: float
    text: str


class Gap(Struct, frozen=True):
    """A time in which the recording has nothing of a cluster (Unix seconds)."""

    cluster: str
    start: float
    end: float


class Assumption(Struct, frozen=True):
    """One input of the model, with its value and where it is from (a flag, the recording, a default)."""

    name: str
    value: str
    source: str


class Report(Struct, frozen=True):
    """All runs over one recording: `runs[0]` is the recording itself, the others are sorted best first.

    `best` says in a sentence which run to take and why, and `warnings` what may make that wrong. `bound` is
    the part of the demand that may stay unserved, and `censored` the part of the steps whose demand is
    hidden, 0 to 1. `notes` tell the reader more, for example how well the model follows the recording.
    """

    namespace: str
    name: str
    metric: str
    unit: str
    start: float
    step: float
    runs: list[Run]
    best: str
    marks: list[Mark] = []
    gaps: list[Gap] = []
    censored: float = 0.0
    assumptions: list[Assumption] = []
    warnings: list[str] = []
    notes: list[str] = []
    bound: float = 0.001

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.runs[0].demand)

    @property
    def end(self) -> float:
        """The end of the last step, in Unix seconds."""
        return self.start + self.steps * self.step
