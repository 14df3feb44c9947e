"""Finds ramps of demand that come back every week or day, and that the object meets late.

For each it proposes a window with a larger minReplicas ahead of the ramp. A pattern counts if it came on at
least three of four weeks, and a proposal stays only if the recorded weeks would have been better with it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from statistics import median
from typing import Any, Final, NamedTuple

from msgspec import Struct

from fedhpa.api.errors import ConfigError
from fedhpa.api.federatedhpa import API_VERSION, KIND
from fedhpa.backtest.comparison import (
    PRESENT,
    Candidate,
    compare,
    options_for,
    price_of,
    run_of,
    scaling_object,
)
from fedhpa.backtest.model import Model, Options, model_of
from fedhpa.backtest.recorded import sizes_of
from fedhpa.backtest.recording import DAY_SECONDS, Recording
from fedhpa.backtest.result import Figures, Report, Run
from fedhpa.backtest.rules import rules_of

QUARTER_SECONDS: Final = 900
WEEK_DAYS: Final = 7
# Of four weeks, a pattern must come on three.
RECURS: Final = 0.75
MIN_WEEKS: Final = 3
# Shorter lateness is what every autoscaler has.
LATE_SECONDS: Final = 60.0
# A ramp needs so many times the replicas that there were before.
RAMP: Final = 1.25
# The object follows by itself once a ramp has come. A window ends two quarters after.
AFTER_QUARTERS: Final = 2
# More replica-hours than this part are no good bargain.
MAX_MORE: Final = 0.03
# Windows must take away this part of the minutes over target.
LEAST_GAIN: Final = 0.1
MAX_RULES: Final = 16
WITH_RULES: Final = "with the windows"
_DAYS: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")


class Window(Struct, frozen=True):
    """A window that opens on weekdays (0 is Monday) at a quarter of the day, with a minimum of replicas."""

    weekdays: tuple[int, ...]
    quarter: int
    quarters: int
    minimum: int

    def rule(self, name: str, zone: str) -> dict[str, Any]:
        """Returns the rule of a CronFederatedHPA."""
        hour, minute = divmod(self.quarter * 15, 60)
        minutes = self.quarters * 15
        return {
            "name": name,
            "schedule": f"{minute} {hour} * * {_weekday_text(self.weekdays)}",
            "timeZone": zone,
            "duration": f"{minutes // 60}h{minutes % 60}m" if minutes % 60 else f"{minutes // 60}h",
            "targetMinReplicas": self.minimum,
        }


class CronSuggestion(Struct, frozen=True):
    """The result. `manifest` is a CronFederatedHPA, None if there is nothing to propose.

    `before` and `after` are the figures of the object without and with its windows. `quietDays` are the
    dates on which a ramp did not come: holidays, perhaps.
    """

    reason: str
    manifest: dict[str, Any] | None
    before: Figures
    after: Figures
    quietDays: list[str]
    report: Report


class _Ramp(NamedTuple):
    """A ramp that was met late: when the lateness began, and the replicas that it needed."""

    at: datetime
    needed: int


def _weekday_text(weekdays: Sequence[int]) -> str:
    first, last = weekdays[0], weekdays[-1]
    if len(weekdays) == WEEK_DAYS:
        return "*"
    if len(weekdays) > 2 and last - first + 1 == len(weekdays):
        return f"{_DAYS[first]}-{_DAYS[last]}"
    return ",".join(_DAYS[day] for day in weekdays)


async def suggest_windows(
    recording: Recording,
    raw: Mapping[str, Any],
    options: Options,
    zone: tzinfo,
    zone_name: str,
) -> CronSuggestion:
    """Returns windows for an object, by the weeks of a recording. Raises ConfigError if it has too few."""
    weeks = (recording.end - recording.start) / (WEEK_DAYS * DAY_SECONDS)
    if weeks < MIN_WEEKS - 0.01:
        raise ConfigError(
            f"the recording has {weeks:.1f} weeks, and patterns need {MIN_WEEKS}: record more with fedhpa "
            "record "
            "--days 28"
        )
    hpa = scaling_object(raw)
    model, _ = model_of(recording, hpa.spec, options_for(raw, options))
    before = run_of(recording, Candidate(PRESENT, raw), options)
    ramps = list(_late_ramps(recording, before, model, zone))
    least, most = hpa.spec.min_replicas, hpa.spec.max_replicas
    windows = _windows(ramps, recording, model, least, most, zone)
    chosen, after = await _worthwhile(windows, recording, raw, options, before, zone_name)
    saved = 1 - after.figures.minutesOverTarget / (before.figures.minutesOverTarget or 1.0)
    more = price_of(after) / price_of(before) - 1 if price_of(before) else 0.0
    manifest = None
    reason = "nothing to propose: no ramp that the object meets late comes back on three of four weeks"
    if chosen:
        manifest = _manifest(chosen, raw, zone_name)
        reason = (
            f"{len(chosen)} {'window' if len(chosen) == 1 else 'windows'}: {saved:.0%} fewer minutes over "
            "target "
            f"({before.figures.minutesOverTarget:.0f} -> {after.figures.minutesOverTarget:.0f}) for "
            f"{more:.1%} more "
            "replica-hours"
        )
    elif windows:
        reason = "nothing to propose: the windows that were tried cost more than they bring"
    candidates = [Candidate(PRESENT, raw)]
    marks = []
    if manifest is not None:
        bounds, marks = await rules_of([manifest], raw, recording)
        candidates.append(Candidate(WITH_RULES, raw, tuple(bounds)))
    report = compare(recording, candidates, options, marks=marks)
    return CronSuggestion(
        reason, manifest, before.figures, after.figures, _quiet_days(chosen, ramps, recording, zone), report
    )


def _late_ramps(recording: Recording, run: Run, model: Model, zone: tzinfo) -> Iterator[_Ramp]:
    """Yields the ramps that kept usage above target for more than a minute."""
    over = 1.0 + model.settings.tolerance
    sizes = sizes_of(run)
    late_since: int | None = None
    last_late = -1
    gap = max(round(QUARTER_SECONDS / recording.step), 1)
    for step in range(recording.steps + 1):
        usage = run.usage[step] if step < recording.steps else None
        if usage is not None and usage > over:
            late_since = step if late_since is None else late_since
            last_late = step
        elif late_since is not None and (step - last_late >= gap or step == recording.steps):
            late = (last_late + 1 - late_since) * recording.step
            needed = _needed(run, late_since, min(last_late + gap, recording.steps))
            before = sizes[max(late_since - 1, 0)]
            if late > LATE_SECONDS and before and needed >= before * RAMP:
                at = datetime.fromtimestamp(recording.start + late_since * recording.step, zone)
                yield _Ramp(at, needed)
            late_since = None


def _needed(run: Run, first: int, last: int) -> int:
    """Returns the most replicas that the demand of some steps needs at target."""
    most = 0
    for step in range(first, last):
        demand, capacity = run.demand[step], run.capacity[step]
        ready = sum(one.ready[step] or 0 for one in run.clusters)
        if demand is not None and capacity and ready:
            most = max(most, math.ceil(demand / (capacity / ready) - 1e-9))
    return most


def _windows(
    ramps: Sequence[_Ramp], recording: Recording, model: Model, least: int, most: int, zone: tzinfo
) -> list[Window]:
    """Returns a window for each ramp that recurs, with equal ones of several weekdays as one."""
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for ramp in ramps:
        # The pods must be ready when the ramp begins.
        opens = ramp.at - timedelta(seconds=model.pod_start + model.sync)
        quarter = (opens.hour * 60 + opens.minute) // 15
        found[opens.weekday(), quarter].append(ramp.needed)
    by_time: dict[int, dict[int, list[int]]] = defaultdict(dict)
    for (weekday, quarter), needed in found.items():
        if len(needed) >= RECURS * _weeks_of(weekday, recording, zone):
            by_time[quarter][weekday] = needed
    windows = []
    for quarter, by_day in sorted(by_time.items()):
        minimum = min(round(median([value for values in by_day.values() for value in values])), most)
        if minimum > least:
            windows.append(Window(tuple(sorted(by_day)), quarter, 1 + AFTER_QUARTERS, minimum))
    return windows[:MAX_RULES]


def _weeks_of(weekday: int, recording: Recording, zone: tzinfo) -> int:
    """Returns how often a weekday is in the recording."""
    first = datetime.fromtimestamp(recording.start, zone)
    days = round((recording.end - recording.start) / DAY_SECONDS)
    return sum((first.weekday() + day) % WEEK_DAYS == weekday for day in range(days))


def _manifest(windows: Sequence[Window], raw: Mapping[str, Any], zone_name: str) -> dict[str, Any]:
    name, namespace = str(raw["metadata"]["name"]), str(raw["metadata"].get("namespace", ""))
    return {
        "apiVersion": API_VERSION,
        "kind": "CronFederatedHPA",
        "metadata": {"name": f"{name}-ramps"[:63], **({"namespace": namespace} if namespace else {})},
        "spec": {
            "scaleTargetRef": {"apiVersion": API_VERSION, "kind": KIND, "name": name},
            "rules": [one.rule(f"ramp-{index + 1}", zone_name) for index, one in enumerate(windows)],
        },
    }


async def _worthwhile(
    windows: Sequence[Window],
    recording: Recording,
    raw: Mapping[str, Any],
    options: Options,
    before: Run,
    zone_name: str,
) -> tuple[list[Window], Run]:
    """Returns the windows that stay, and the run with them. The dearest goes first."""
    left = list(windows)
    while left:
        bounds, _ = await rules_of([_manifest(left, raw, zone_name)], raw, recording)
        run = run_of(recording, Candidate(WITH_RULES, raw, tuple(bounds)), options)
        old, new = before.figures, run.figures
        if price_of(run) <= price_of(before) * (1 + MAX_MORE):
            if new.minutesOverTarget <= old.minutesOverTarget * (1 - LEAST_GAIN):
                return left, run
            return [], before
        left.remove(max(left, key=lambda one: one.minimum * one.quarters * len(one.weekdays)))
    return [], before


def _quiet_days(
    windows: Sequence[Window], ramps: Sequence[_Ramp], recording: Recording, zone: tzinfo
) -> list[str]:
    """Returns the dates on which a window opened and no ramp came."""
    came = {ramp.at.date() for ramp in ramps}
    weekdays = {day for window in windows for day in window.weekdays}
    start = datetime.fromtimestamp(recording.start, zone).date()
    days = round((recording.end - recording.start) / DAY_SECONDS)
    dates = [start + timedelta(days=day) for day in range(days)]
    return [date.isoformat() for date in dates if date.weekday() in weekdays and date not in came]
