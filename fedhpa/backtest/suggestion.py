"""Searches for an object that serves the recorded demand with fewer replica-hours, or at a lower cost.

Every other day is for fitting, and the days between are held out. The choice is made on the fitting days, and
the held-out days only confirm or refuse it, each by itself. A choice keeps a reserve of the bound, because
the worst day to come is often worse than all recorded ones.

Most objects are tried with decisions further apart, which costs a quarter. The best of these are run as they
would be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from fedhpa.api.errors import ConfigError
from fedhpa.api.times import format_time
from fedhpa.backtest.comparison import (
    PRESENT,
    Candidate,
    Progress,
    compare,
    options_for,
    runs_of,
    scaling_object,
)
from fedhpa.backtest.model import Options, model_of
from fedhpa.backtest.recorded import censored_part, hidden_steps
from fedhpa.backtest.recording import DAY_SECONDS, Recording
from fedhpa.backtest.result import CENSORED, Day, Figures, Report, Run, percent, saving
from fedhpa.backtest.variants import Grid, Variant, variant_name, varied

# Objects of a search.
MAX_RUNS: Final = 60
# A smaller gain on the held-out days is no reason to change an object.
WORTH: Final = 0.03
# The part of the bound that a changed object may use up on a recorded day. Choices that use up all often
# break it on the days after (docs/decisions/0058).
RESERVE: Final = 0.1
# A field that brings less than this part is left as it is.
WORTH_A_FIELD: Final = 0.005
# Both halves need days.
MIN_DAYS: Final = 4
HIGHER: Final = 1.1
# Sudden rises that the object to apply is tried with.
RISES: Final = (1.1, 1.25, 1.5, 2.0)
RISE_SECONDS: Final = 900.0
# The time between decisions of the first tries, as a multiple, and how many of the best are run as they are.
SLOWER: Final = 4
FINALISTS: Final = 3
# Replicas, bounds and rules of an object that `with_rules` completes.
Complete = Callable[[list[Candidate]], list[Candidate]]


class Claim(Struct, frozen=True):
    """The effect of one changed field over the whole recording: figures without it, and with it.

    The fields are changed one after another, so each claim is about an object that has all changes before it.
    """

    field: str
    before: str
    after: str
    without: Figures
    figures: Figures

    def __str__(self) -> str:
        _, saved = saving(self.without, self.figures)
        unserved = f"{percent(self.without.unserved)} -> {percent(self.figures.unserved)}"
        return f"{self.field} {self.before} -> {self.after}: {saved}, unserved {unserved}"


class Rise(Struct, frozen=True):
    """The day that leaves most unserved if demand is suddenly `factor` times as high.

    It is so on each day for a quarter of an hour, from the moment at which the pods are used most.
    """

    factor: float
    day: Day


class Suggestion(Struct, frozen=True):
    """The result of a search. Without `claims` the object stays as it is.

    `reason` is a sentence for people. `manifest` is the object to apply. `gain` is the part that the held-out
    days save, 0 to 1. `worstDay` is the day that leaves most unserved with the object to apply, `higher` what
    it would be at worst if every day were a tenth higher, and `rises` are sudden rises, the smallest first.
    """

    reason: str
    claims: list[Claim]
    manifest: dict[str, Any]
    gain: float
    worstDay: Day
    higher: float
    rises: list[Rise]
    tried: int
    report: Report


class _Search:
    """The runs so far, and the choice among them. The first one is that of the object as it is.

    `progress` is called with the part of the `expected` runs that is done.
    """

    def __init__(
        self,
        recording: Recording,
        raw: Mapping[str, Any],
        options: Options,
        unserved: float,
        complete: Complete,
        progress: Progress,
        expected: int,
        *,
        is_censored: bool,
    ) -> None:
        self.recording, self.raw, self.options = recording, raw, options
        self.unserved, self.complete, self._progress = unserved, complete, progress
        self._expected = expected
        self.runs: dict[Variant, Run] = {}
        self.run([()])
        # Where demand is hidden, nobody knows what less capacity would leave unserved.
        self.least = self.price(()) if is_censored else 0.0

    def run(self, variants: Iterable[Variant]) -> None:
        """Runs the variants that were not run yet, as far as the limit allows."""
        new = [one for one in dict.fromkeys(variants) if one not in self.runs]
        new = new[: max(MAX_RUNS - len(self.runs), 0)]
        candidates = [Candidate(variant_name(one) or PRESENT, varied(self.raw, one)) for one in new]
        done = len(self.runs)

        def report(part: float) -> None:
            self._progress(min((done + part * len(new)) / self._expected, 1.0))

        found = runs_of(self.recording, self.complete(candidates), self.options, report)
        self.runs |= dict(zip(new, found, strict=True))

    def days(self, variant: Variant, held_out: bool) -> list[Day]:
        """Returns the whole days of a run that are for fitting, or those that are held out."""
        return whole_days(self.recording, self.runs[variant])[int(held_out) :: 2]

    def price(self, variant: Variant, held_out: bool = False) -> float:
        """Returns the price of the fitting days, or of those held out."""
        return sum(day.figures.price for day in self.days(variant, held_out))

    def bound(self, variant: Variant, reserve: float = RESERVE, held_out: bool = False) -> float:
        """Returns what a day of one half may leave unserved, 0 to 1.

        The object as it is needs no reserve. If it keeps the bound, another one needs no more than it has.
        """
        if not variant:
            return self.unserved
        present = self.worst((), held_out).figures.unserved
        return max(self.unserved * reserve, present if present <= self.unserved else 0.0)

    def worst(self, variant: Variant, held_out: bool = False) -> Day:
        """Returns the day of one half that leaves most unserved."""
        return _worst(self.days(variant, held_out))

    def keeps(self, variant: Variant, held_out: bool = False) -> bool:
        """True if every day of one half keeps the bound."""
        return self.worst(variant, held_out).figures.unserved <= self.bound(variant, held_out=held_out)

    def best(self, reserve: float = RESERVE, count: int = 1) -> list[Variant]:
        """Returns the cheapest variants that keep the bound on the fitting days, then the nearest to it."""

        def rank(variant: Variant) -> tuple[bool, float, float, int]:
            worst = self.worst(variant).figures.unserved
            broken = worst > self.bound(variant, reserve)
            return broken, worst if broken else 0.0, self.price(variant), len(variant)

        able = [one for one in self.runs if self.price(one) >= self.least or not one]
        return sorted(able, key=rank)[:count]


def whole_days(recording: Recording, run: Run) -> list[Day]:
    """Returns the days of a run that the recording has to their end."""
    return [day for day in run.days if day.at + DAY_SECONDS <= recording.end + recording.step / 2]


def _worst(days: Iterable[Day]) -> Day:
    return max(days, key=lambda day: day.figures.unserved)


def suggest(
    recording: Recording,
    raw: Mapping[str, Any],
    options: Options,
    *,
    unserved: float,
    complete: Complete = lambda candidates: candidates,
    progress: Progress = lambda _: None,
) -> Suggestion:
    """Returns the suggestion for an object. `unserved` is the part that a day may leave unserved, 0 to 1.

    `complete` adds the bounds that rules set. Raises ConfigError if the recording is too short.
    """
    if recording.end - recording.start < MIN_DAYS * DAY_SECONDS - recording.step:
        raise ConfigError(
            f"the recording has {(recording.end - recording.start) / DAY_SECONDS:.1f} days, and a "
            "suggestion needs "
            f"{MIN_DAYS}: record more with fedhpa record --days"
        )
    hpa = scaling_object(raw)
    model, _ = model_of(recording, hpa.spec, options_for(raw, options))
    is_censored = censored_part(hidden_steps(recording, hpa.spec, model)) > CENSORED

    def search_of(tried: Mapping[str, Any], first: float, last: float, expected: int) -> _Search:
        def report(part: float) -> None:
            progress(first + (last - first) * part)

        return _Search(
            recording, tried, options, unserved, complete, report, expected, is_censored=is_censored
        )

    grid, slow = Grid(raw["spec"]), _slower(raw, recording, model.sync)
    found = search_of(slow, 0.0, 0.5 if slow is not raw else 1.0, 40)
    for widen in (grid.coarse, grid.windows, grid.near):
        found.run(widen(*found.best()))
    search, tried = found, set(found.runs)
    if slow is not raw:
        search = search_of(raw, 0.5, 1.0, 20)
        # Decisions further apart leave more unserved, so some of the best keep only the whole bound.
        search.run([*found.best(RESERVE, FINALISTS), *found.best(1.0, FINALISTS)])
    search.run(grid.near(*search.best()))
    reason, chosen = _judged(search, _pruned(search), is_censored=is_censored)
    claims = _claims(search, chosen, grid.present)
    final, manifest = search.runs[chosen], varied(raw, chosen)
    steps = _fullest(recording, final)
    tests = [Candidate("higher", manifest, higher=HIGHER)]
    tests += [Candidate("rise", manifest, higher=factor, steps=steps) for factor in RISES]
    higher, *risen = [
        _worst(whole_days(recording, run)) for run in runs_of(recording, complete(tests), options)
    ]
    rises = [Rise(factor, day) for factor, day in zip(RISES, risen, strict=True)]
    shown = [chosen[:count] for count in range(len(chosen) + 1) if chosen[:count] in search.runs]
    report = compare(
        recording,
        complete([Candidate(variant_name(one) or PRESENT, varied(raw, one)) for one in shown]),
        options,
        unserved=unserved,
        known=[search.runs[one] for one in shown],
    )
    before, after = search.price((), held_out=True), search.price(chosen, held_out=True)
    return Suggestion(
        reason=reason,
        claims=claims,
        manifest=manifest,
        gain=1 - after / before if before else 0.0,
        worstDay=_worst(whole_days(recording, final)),
        higher=higher.figures.unserved,
        rises=rises,
        tried=len(tried | set(search.runs)),
        report=msgspec.structs.replace(report, notes=[_room(rises, unserved), *report.notes]),
    )


def _slower(raw: Mapping[str, Any], recording: Recording, sync: float) -> Mapping[str, Any]:
    """Returns the object with decisions further apart, at most a step; itself if that is no gain."""
    period = int(min(recording.step, SLOWER * sync))
    return raw if period < 2 * sync else {**raw, "spec": {**raw["spec"], "syncPeriodSeconds": period}}


def _fullest(recording: Recording, run: Run) -> frozenset[int]:
    """Returns the steps of a quarter of an hour on each day, from the moment at which pods are used most."""
    day, length = (max(round(each / recording.step), 1) for each in (DAY_SECONDS, RISE_SECONDS))
    found: set[int] = set()
    for first in range(0, recording.steps, day):
        steps = range(first, min(first + day, recording.steps))
        most = max(steps, key=lambda step: (run.unserved[step] or 0.0, run.usage[step] or 0.0))
        found |= {*range(most, min(most + length, steps.stop))}
    return frozenset(found)


def _room(rises: Sequence[Rise], unserved: float) -> str:
    """Returns as a sentence which sudden rises the object can meet, and which day breaks the bound first."""
    kept = [rise for rise in rises if rise.day.figures.unserved <= unserved]
    broken = [rise for rise in rises if rise.day.figures.unserved > unserved]
    parts = []
    if kept:
        parts.append(f"with {kept[-1].factor - 1:.0%} more demand each day keeps the bound")
    if broken:
        rise, lost = broken[0], percent(broken[0].day.figures.unserved, unserved)
        parts.append(
            f"with {rise.factor - 1:.0%} more, the day from {format_time(rise.day.at)} leaves {lost}"
        )
    return f"in a sudden rise for 15 minutes, when pods are used most: {', '.join(parts)}"


def _judged(search: _Search, chosen: Variant, *, is_censored: bool) -> tuple[str, Variant]:
    """Returns the verdict of the held-out days, and the variant to take: none keeps the object."""
    hidden = (
        "; the recording hides demand, so nothing that lowers capacity was considered" if is_censored else ""
    )
    if not search.keeps(chosen) or not chosen:
        what = "is cheaper and " if search.keeps(()) else ""
        lowered, own = search.unserved * RESERVE, search.worst(()).figures.unserved
        reserve = f"{percent(lowered)} unserved, a tenth of the bound"
        if lowered < own <= search.unserved:
            reserve = f"{percent(own)} unserved, as it does itself"
        return f"keep it: nothing that was tried {what}keeps every fitting day within {reserve}{hidden}", ()
    name, best = variant_name(chosen), "was best on the fitting days"
    if not search.keeps(chosen, held_out=True):
        worst = search.worst(chosen, held_out=True)
        lost = percent(worst.figures.unserved, search.bound(chosen, held_out=True))
        day = f"the held-out day from {format_time(worst.at)} leaves {lost} unserved"
        return f"keep it: {name} {best}, but {day}{hidden}", ()
    before, after = search.price((), held_out=True), search.price(chosen, held_out=True)
    gain = 1 - after / before if before else 0.0
    if search.keeps(()) and gain < WORTH:
        saves = f"saves {gain:.1%} on the held-out days, less than {WORTH:.0%}"
        return f"keep it: {name} {best}, and {saves}{hidden}", ()
    if gain >= 0:
        return f"take {name}: the held-out days save {gain:.1%}{hidden}", chosen
    costs = f"the held-out days keep the bound, which the object breaks, for {-gain:.1%} more"
    return f"take {name}: {costs}{hidden}", chosen


def _pruned(search: _Search) -> Variant:
    """Returns the best variant without the fields that bring nothing."""
    [chosen] = search.best()
    for field in [name for name, _ in chosen]:
        shorter = tuple(one for one in chosen if one[0] != field)
        search.run([shorter])
        if shorter not in search.runs:
            break
        is_able = search.keeps(shorter) and search.price(shorter) >= search.least
        if is_able and search.price(shorter) <= search.price(chosen) * (1 + WORTH_A_FIELD):
            chosen = shorter
    return chosen


def _claims(search: _Search, chosen: Variant, present: Mapping[str, str]) -> list[Claim]:
    search.run(chosen[: count + 1] for count in range(len(chosen)))
    claims = []
    for count, (field, value) in enumerate(chosen):
        before, after = search.runs.get(chosen[:count]), search.runs.get(chosen[: count + 1])
        if before and after:
            claims.append(Claim(field, present[field], value, before.figures, after.figures))
    return claims
