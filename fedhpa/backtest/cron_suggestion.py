"""Finds ramps of demand that come back every week or day, and that the object meets late.

For each it proposes a window with a larger minReplicas ahead of the ramp. A pattern counts if it came on at
least three of four weeks, and the windows stay only if the recorded weeks would have been better with them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import chain
from statistics import median
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from msgspec import Struct

from fedhpa.api.errors import ConfigError
from fedhpa.api.federatedhpa import API_VERSION, KIND
from fedhpa.backtest.comparison import (
    PRESENT,
    Candidate,
    compare,
    options_for,
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
QUARTERS: Final = 3
# More replica-hours than this part are no good bargain. The estimate before a run aims below.
MAX_MORE: Final = 0.03
AIMED: Final = 0.9
# Windows must take away this part of the minutes over target.
LEAST_GAIN: Final = 0.25
# Runs until the windows are cheap enough. Each lowers the minima.
MAX_TRIES: Final = 3
MAX_RULES: Final = 16
WITH_WINDOWS: Final = "with windows"
_DAYS: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")


class Window(NamedTuple):
    """A window that opens on weekdays (0 is Monday) at a quarter of the day, with a minimum of replicas."""

    weekdays: tuple[int, ...]
    quarter: int
    minimum: int

    def rule(self, name: str, zone: ZoneInfo) -> dict[str, Any]:
        """Returns the rule of a CronFederatedHPA."""
        hour, minute = divmod(self.quarter * 15, 60)
        days = "*" if len(self.weekdays) == WEEK_DAYS else ",".join(_DAYS[day] for day in self.weekdays)
        return {
            "name": name,
            "schedule": f"{minute} {hour} * * {days}",
            "timeZone": zone.key,
            "duration": f"{QUARTERS * 15}m",
            "targetMinReplicas": self.minimum,
        }


class CronSuggestion(Struct, frozen=True):
    """The result. `manifest` is a CronFederatedHPA, None if there is nothing to propose.

    `before` and `after` are the figures of the object without and with its windows. `quietDays` are the
    dates on which a window opened and no ramp came: holidays, perhaps.
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


async def suggest_windows(
    recording: Recording,
    raw: Mapping[str, Any],
    options: Options,
    zone: ZoneInfo,
    crons: Sequence[Mapping[str, Any]] = (),
) -> CronSuggestion:
    """Returns windows for an object, by the weeks of a recording. `crons` are the rules that it has.

    Raises ConfigError if the recording has too few weeks.
    """
    weeks = (recording.end - recording.start) / (WEEK_DAYS * DAY_SECONDS)
    if weeks < MIN_WEEKS - 0.01:
        raise ConfigError(
            f"the recording has {weeks:.1f} weeks, and patterns need {MIN_WEEKS}: record more with fedhpa "
            "record --days 28"
        )
    hpa = scaling_object(raw)
    model, _ = model_of(recording, hpa.spec, options_for(raw, options))

    async def with_rules(name: str, more: Sequence[Mapping[str, Any]]) -> Candidate:
        bounds, _ = await rules_of([*crons, *more], raw, recording)
        return Candidate(name, raw, tuple(bounds))

    present = await with_rules(PRESENT, ())
    before = run_of(recording, present, options)
    ramps = list(_late_ramps(recording, before, model, zone))
    wanted = _windows(ramps, recording, model, zone)
    least, most = hpa.spec.min_replicas, hpa.spec.max_replicas
    part = _affordable(wanted, recording, before, zone, least, most)
    reason = "nothing to propose: no ramp that the object meets late comes back on three of four weeks"
    for attempt in range(MAX_TRIES):
        windows = _lowered(wanted, part * AIMED**attempt, least, most)
        if not windows:
            break
        reason = "nothing to propose: the windows that were tried cost more than they bring"
        manifest = _manifest(windows, raw, zone)
        candidate = await with_rules(WITH_WINDOWS, [manifest])
        after = run_of(recording, candidate, options)
        price = before.figures.price
        more = after.figures.price / price - 1 if price else 0.0
        minutes = before.figures.minutesOverTarget, after.figures.minutesOverTarget
        if minutes[1] > minutes[0] * (1 - LEAST_GAIN):
            break
        if more <= MAX_MORE:
            _, marks = await rules_of([*crons, manifest], raw, recording)
            return CronSuggestion(
                reason=f"{len(windows)} {'window' if len(windows) == 1 else 'windows'}: "
                f"{1 - minutes[1] / minutes[0]:.0%} fewer minutes over target "
                f"({minutes[0]:.0f} -> {minutes[1]:.0f}) for {more:+.1%} "
                f"{'replica-hours' if after.figures.cost is None else 'cost'}",
                manifest=manifest,
                before=before.figures,
                after=after.figures,
                quietDays=_quiet_days(windows, ramps, recording, zone),
                report=compare(recording, [present, candidate], options, marks=marks, known=[before, after]),
            )
    report = compare(recording, [present], options, known=[before])
    return CronSuggestion(reason, None, before.figures, before.figures, [], report)


def _late_ramps(recording: Recording, run: Run, model: Model, zone: ZoneInfo) -> Iterator[_Ramp]:
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


def _windows(ramps: Sequence[_Ramp], recording: Recording, model: Model, zone: ZoneInfo) -> list[Window]:
    """Returns a window for each ramp that recurs, with the replicas that it needs; equal times as one."""
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for ramp in ramps:
        # The pods must be ready when the ramp begins.
        opens = ramp.at - timedelta(seconds=model.pod_start + model.sync)
        found[(opens.hour * 60 + opens.minute) // 15, opens.weekday()].append(ramp.needed)
    dates = _dates(recording, zone)
    by_time: dict[int, dict[int, list[int]]] = defaultdict(dict)
    for (quarter, weekday), needed in found.items():
        if len(needed) >= RECURS * sum(one.weekday() == weekday for one in dates):
            by_time[quarter][weekday] = needed
    return [
        Window(tuple(sorted(by_day)), quarter, round(median(chain(*by_day.values()))))
        for quarter, by_day in sorted(by_time.items())
    ][:MAX_RULES]


def _dates(recording: Recording, zone: ZoneInfo) -> list[date]:
    """Returns the dates of the recording."""
    first = datetime.fromtimestamp(recording.start, zone).date()
    days = round((recording.end - recording.start) / DAY_SECONDS)
    return [first + timedelta(days=day) for day in range(days)]


def _lowered(windows: Sequence[Window], part: float, least: int, most: int) -> list[Window]:
    """Returns windows with a part of their minima, as far as these are above minReplicas."""
    lower = [one._replace(minimum=min(round(one.minimum * part), most)) for one in windows]
    return [one for one in lower if one.minimum > least]


def _affordable(
    windows: Sequence[Window], recording: Recording, run: Run, zone: ZoneInfo, least: int, most: int
) -> float:
    """Returns the part of the minima, 0 to 1, that costs no more than MAX_MORE, by the sizes of a run."""
    sizes = sizes_of(run)
    allowed = sum(size or 0 for size in sizes) * MAX_MORE * AIMED
    opens: dict[tuple[int, int], int] = {}
    for step in range(recording.steps):
        at = datetime.fromtimestamp(recording.start + step * recording.step, zone)
        opens.setdefault((at.toordinal(), (at.hour * 60 + at.minute) // 15), step)
    length = round(QUARTERS * QUARTER_SECONDS / recording.step)
    for percent in range(100, 0, -5):
        extra = 0
        for window in _lowered(windows, percent / 100, least, most):
            for (day, quarter), first in opens.items():
                if quarter == window.quarter and (day - 1) % WEEK_DAYS in window.weekdays:
                    here = sizes[first : first + length]
                    extra += sum(max(window.minimum - size, 0) for size in here if size is not None)
        if extra <= allowed:
            return percent / 100
    return 0.0


def _manifest(windows: Sequence[Window], raw: Mapping[str, Any], zone: ZoneInfo) -> dict[str, Any]:
    name, namespace = str(raw["metadata"]["name"]), str(raw["metadata"].get("namespace", ""))
    return {
        "apiVersion": API_VERSION,
        "kind": "CronFederatedHPA",
        "metadata": {"name": f"{name[:57]}-ramps", **({"namespace": namespace} if namespace else {})},
        "spec": {
            "scaleTargetRef": {"apiVersion": API_VERSION, "kind": KIND, "name": name},
            "rules": [one.rule(f"ramp-{index + 1}", zone) for index, one in enumerate(windows)],
        },
    }


def _quiet_days(
    windows: Sequence[Window], ramps: Sequence[_Ramp], recording: Recording, zone: ZoneInfo
) -> list[str]:
    """Returns the dates on which a window opened and no ramp came."""
    came = {ramp.at.date() for ramp in ramps}
    weekdays = {day for window in windows for day in window.weekdays}
    return [
        one.isoformat() for one in _dates(recording, zone) if one.weekday() in weekdays and one not in came
    ]
