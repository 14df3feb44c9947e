"""Searches for an object that serves the recorded demand with fewer replica-hours, or at a lower cost.

Every other day is for fitting, and the days between are held out. The choice is made on the fitting days, and
the held-out days only confirm or refuse it, each by itself. A choice keeps a reserve of the bound, because
the worst day to come is often worse than all recorded ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from fedhpa.api.errors import ConfigError
from fedhpa.api.quantity import format_milli, parse_milli
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
from fedhpa.backtest.model import Options, model_of, primary_metric
from fedhpa.backtest.recorded import censored_part
from fedhpa.backtest.recording import DAY_SECONDS, Recording
from fedhpa.backtest.result import CENSORED, Day, Figures, Report, Run
from fedhpa.backtest.variants import FIELDS, Variant, variant_name, varied

# Runs of a search, with those that explain its result.
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
# Targets far apart: per cents of a utilization, and factors of a quantity.
COARSE: Final = ("40", "50", "60", "70", "80", "90")
FACTORS: Final = (0.5, 0.7, 1.2, 1.5, 2.0, 3.0)
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
        old, new = self.without.price, self.figures.price
        part = 1 - new / old if old else 0.0
        what = "replica-hours" if self.figures.cost is None else "cost"
        word = "less" if self.figures.cost is not None else "fewer"
        saved = f"{part:.1%} {word} {what}" if part >= 0 else f"{-part:.1%} more {what}"
        return (
            f"{self.field} {self.before} -> {self.after}: {saved}, unserved {self.without.unserved:.2%} -> "
            f"{self.figures.unserved:.2%}"
        )


class Suggestion(Struct, frozen=True):
    """The result of a search. Without `claims` the object stays as it is.

    `reason` is a sentence for people. `manifest` is the object to apply. `gain` is the part that the held-out
    days save, 0 to 1. `worstDay` is the day that leaves most unserved with the object to apply, and `higher`
    what it would be at worst if every day were a tenth higher.
    """

    reason: str
    claims: list[Claim]
    manifest: dict[str, Any]
    gain: float
    worstDay: Day
    higher: float
    tried: int
    report: Report


class _Search:
    """The runs so far, and the choice among them."""

    def __init__(
        self,
        recording: Recording,
        raw: Mapping[str, Any],
        options: Options,
        unserved: float,
        complete: Complete,
        progress: Progress | None,
    ) -> None:
        self.recording, self.raw, self.options = recording, raw, options
        self.unserved, self.complete, self._progress = unserved, complete, progress
        self.reserved = unserved * RESERVE
        self.runs: dict[Variant, Run] = {}
        self.least: float = 0.0

    def run(self, variants: Iterable[Variant]) -> None:
        """Runs the variants that were not run yet, as far as the limit allows."""
        new = [one for one in dict.fromkeys(variants) if one not in self.runs]
        new = new[: max(MAX_RUNS - len(self.runs), 0)]
        candidates = [Candidate(variant_name(one) or PRESENT, varied(self.raw, one)) for one in new]
        done = len(self.runs)

        def report(part: float) -> None:
            if self._progress is not None:
                self._progress((done + part * len(new)) / MAX_RUNS)

        found = runs_of(self.recording, self.complete(candidates), self.options, report)
        self.runs |= dict(zip(new, found, strict=True))

    def days(self, variant: Variant, held_out: bool) -> list[Day]:
        """Returns the whole days of a run that are for fitting, or those that are held out."""
        return whole_days(self.recording, self.runs[variant])[int(held_out) :: 2]

    def price(self, variant: Variant, held_out: bool = False) -> float:
        """Returns the price of the fitting days, or of those held out."""
        return sum(day.figures.price for day in self.days(variant, held_out))

    def bound(self, variant: Variant) -> float:
        """Returns what a day may leave unserved, 0 to 1. The object as it is needs no reserve."""
        return self.reserved if variant else self.unserved

    def keeps(self, variant: Variant, held_out: bool = False) -> bool:
        """True if every day of one half keeps the bound."""
        return all(day.figures.unserved <= self.bound(variant) for day in self.days(variant, held_out))

    def best(self) -> Variant:
        """Returns the cheapest variant that keeps the bound on the fitting days, else the nearest."""

        def rank(variant: Variant) -> tuple[bool, float, float, int]:
            worst = max(day.figures.unserved for day in self.days(variant, False))
            broken = worst > self.bound(variant)
            return broken, worst if broken else 0.0, self.price(variant), len(variant)

        able = [one for one in self.runs if self.price(one) >= self.least or not one]
        return min(able, key=rank)


def whole_days(recording: Recording, run: Run) -> list[Day]:
    """Returns the days of a run that the recording has to their end."""
    return [day for day in run.days if day.at + DAY_SECONDS <= recording.end + recording.step / 2]


def suggest(
    recording: Recording,
    raw: Mapping[str, Any],
    options: Options,
    *,
    unserved: float,
    complete: Complete = lambda candidates: candidates,
    progress: Progress | None = None,
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
    search = _Search(recording, raw, options, unserved, complete, progress)
    search.run([()])
    hpa = scaling_object(raw)
    model, _ = model_of(recording, hpa.spec, options_for(raw, options))
    is_censored = censored_part(recording, hpa.spec, model) > CENSORED
    if is_censored:
        # Nobody knows what less capacity would leave unserved.
        search.least = search.price(())
    spec = raw["spec"]
    search.run(_coarse(spec))
    for widen in (_windows, _near, _near):
        search.run(widen(spec, search.best()))
    chosen = _pruned(search)
    reason, chosen = _judged(search, chosen, is_censored=is_censored)
    claims = _claims(search, chosen)
    final = search.runs[chosen]
    more = complete([Candidate("higher", varied(raw, chosen))])
    [higher] = runs_of(recording.times(HIGHER), more, options)
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
        manifest=varied(raw, chosen),
        gain=1 - after / before if before else 0.0,
        worstDay=max(whole_days(recording, final), key=lambda day: day.figures.unserved),
        higher=max(day.figures.unserved for day in whole_days(recording, higher)),
        tried=len(search.runs),
        report=report,
    )


def _judged(search: _Search, chosen: Variant, *, is_censored: bool) -> tuple[str, Variant]:
    """Returns the verdict of the held-out days, and the variant to take: none keeps the object."""
    hidden = (
        "; the recording hides demand, so nothing that lowers capacity was considered" if is_censored else ""
    )
    if not search.keeps(chosen) or not chosen:
        what = "is cheaper and " if search.keeps(()) else ""
        reserve = f"{search.reserved:.3%} unserved, a tenth of the bound"
        return f"keep it: nothing that was tried {what}keeps every fitting day within {reserve}{hidden}", ()
    name = variant_name(chosen)
    broken = [day for day in search.days(chosen, True) if day.figures.unserved > search.bound(chosen)]
    if broken:
        worst = max(broken, key=lambda day: day.figures.unserved)
        day = f"the held-out day from {format_time(worst.at)} leaves {worst.figures.unserved:.3%} unserved"
        return f"keep it: {name} was best on the fitting days, but {day}{hidden}", ()
    before, after = search.price((), held_out=True), search.price(chosen, held_out=True)
    gain = 1 - after / before if before else 0.0
    if search.keeps(()) and gain < WORTH:
        saves = f"saves {gain:.1%} on the held-out days, less than {WORTH:.0%}"
        return f"keep it: {name} was best on the fitting days, and {saves}{hidden}", ()
    if gain >= 0:
        return f"take {name}: the held-out days save {gain:.1%}{hidden}", chosen
    costs = f"the held-out days keep the bound, which the object breaks, for {-gain:.1%} more"
    return f"take {name}: {costs}{hidden}", chosen


def _pruned(search: _Search) -> Variant:
    """Returns the best variant without the fields that bring nothing."""
    chosen = search.best()
    for field in [name for name, _ in chosen]:
        shorter = tuple(one for one in chosen if one[0] != field)
        search.run([shorter])
        if shorter not in search.runs:
            break
        is_able = search.keeps(shorter) and search.price(shorter) >= search.least
        if is_able and search.price(shorter) <= search.price(chosen) * (1 + WORTH_A_FIELD):
            chosen = shorter
    return chosen


def _claims(search: _Search, chosen: Variant) -> list[Claim]:
    claims = []
    for count, (field, value) in enumerate(chosen):
        before, after = chosen[:count], chosen[: count + 1]
        search.run([before, after])
        if before in search.runs and after in search.runs:
            old, new = search.runs[before].figures, search.runs[after].figures
            claims.append(Claim(field, present_value(search.raw["spec"], field), value, old, new))
    return claims


def present_value(spec: Mapping[str, Any], field: str) -> str:
    """Returns the value that a field of a variant has in an object, for people."""
    hpa = scaling_object({"metadata": {"name": "x"}, "spec": spec}).spec
    metric = hpa.metrics[primary_metric(hpa)]
    if field == "target":
        if metric.average_value is None and metric.average_utilization is not None:
            return str(metric.average_utilization)
        milli = metric.value if metric.average_value is None else metric.average_value
        return format_milli(milli or 0)
    if field == "minReplicas":
        return str(hpa.min_replicas)
    if field == "maxReplicas":
        return str(hpa.max_replicas)
    direction, _, name = field.partition(".")
    rules = ((spec.get("behavior") or {}).get(direction)) or {}
    if name == "window":
        return str(rules.get("stabilizationWindowSeconds", "default"))
    policies = rules.get("policies")
    return "default" if not policies else ", ".join(f"{one['value']} {one['type']}" for one in policies)


def _set(variant: Variant, field: str, value: str, spec: Mapping[str, Any]) -> Variant:
    """Returns the variant with one field set. A value that the object has already is no change."""
    fields = dict(variant) | {field: value}
    if value == present_value(spec, field):
        del fields[field]
    order = list(FIELDS)
    return tuple(sorted(fields.items(), key=lambda one: order.index(one[0])))


def _targets(spec: Mapping[str, Any], value: str, factors: Sequence[float]) -> list[str]:
    """Returns targets near a value: whole per cents, or quantities."""
    is_utilization = value.isdecimal() and _is_utilization(spec)
    if is_utilization:
        return [str(min(max(round(int(value) * factor), 1), 100)) for factor in factors]
    return [format_milli(max(round(parse_milli(value) * factor), 1)) for factor in factors]


def _is_utilization(spec: Mapping[str, Any]) -> bool:
    hpa = scaling_object({"metadata": {"name": "x"}, "spec": spec}).spec
    metric = hpa.metrics[primary_metric(hpa)]
    return metric.average_value is None and metric.average_utilization is not None


def _coarse(spec: Mapping[str, Any]) -> list[Variant]:
    """Returns targets and minima far apart."""
    target, least, most = (present_value(spec, field) for field in ("target", "minReplicas", "maxReplicas"))
    minima = {int(least), math.ceil(int(least) / 2), min(math.ceil(int(least) * 1.5), int(most))}
    # The whole range of a utilization, so that a poor object is not only brought nearer to a good one.
    wide = COARSE if _is_utilization(spec) else _targets(spec, target, FACTORS)
    targets = dict.fromkeys((target, *wide))
    return [
        _set(_set((), "target", one, spec), "minReplicas", str(max(minimum, 1)), spec)
        for one in targets
        for minimum in sorted(minima)
    ]


def _windows(spec: Mapping[str, Any], best: Variant) -> list[Variant]:
    """Returns the best one with other windows and rates."""
    found = [_set(best, "scaleDown.window", value, spec) for value in ("60", "180", "600")]
    found += [_set(best, "scaleUp.percent", value, spec) for value in ("50", "300")]
    found += [_set(best, "scaleDown.percent", value, spec) for value in ("10", "50")]
    return [*found, _set(best, "scaleUp.window", "60", spec)]


def _near(spec: Mapping[str, Any], best: Variant) -> list[Variant]:
    """Returns targets and minima near the best one."""
    fields = dict(best)
    target = fields.get("target", present_value(spec, "target"))
    least = int(fields.get("minReplicas", present_value(spec, "minReplicas")))
    found = [_set(best, "target", one, spec) for one in _targets(spec, target, (0.92, 0.96, 1.04, 1.08))]
    found += [
        _set(best, "minReplicas", str(minimum), spec)
        for minimum in sorted({math.ceil(least * 0.7), least - 1, least + 1})
        if minimum >= 1
    ]
    return found
