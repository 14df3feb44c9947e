"""What the rules of a CronFederatedHPA are going to do, as admission warnings.

Never a verdict: it depends on the time of day. The work is bounded, whatever the object: the first 256 rules,
as long as they list no more than 4,000 dates; one year; pairs of rules that are compared, fires that are
followed and fires that are played are counted (`fedhpa.cron.forecast.conflicts`, `fedhpa.cron.forecast.bounds`). So what is
said is right, and silence is no promise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from fedhpa.api.cronfederatedhpa import CronFederatedHPASpec
from fedhpa.api.model import MAX_RULES
from fedhpa.api.times import format_duration
from fedhpa.cron.forecast.clock_changes import clock_changes
from fedhpa.cron.forecast.conflicts import collisions
from fedhpa.cron.forecast.bounds import TargetBounds, crossings
from fedhpa.cron.interval import shortest_interval
from fedhpa.cron.forecast.rules import MAX_PLANS, Plan, plans_of, scales_federatedhpa

MAX_WARNINGS: Final = 5
_MAX_LENGTH: Final = 255
_MAX_FORECASTS: Final = 3
_FIRES: Final = 3
_HORIZON: Final = timedelta(days=366)
# A 29 February is eight years away at most, around a century without one.
_FORECAST_HORIZON: Final = timedelta(days=9 * 366)


def simulate(spec: CronFederatedHPASpec, now: datetime, target: TargetBounds | None = None) -> list[str]:
    """At most five warnings, each under 256 characters, the worst first; the last ones tell the next fires.

    `now` is aware; `target` are the present bounds of the FederatedHPA that is changed, if they are known.
    Rules that rest, or that admission refuses, are left out.
    """
    until = now + _HORIZON
    plans = plans_of(spec)
    kinds = (
        map(str, crossings(plans, target, now, until) if scales_federatedhpa(spec) else ()),
        map(str, collisions(plans, now, until)),
        map(str, clock_changes(plans, now, until)),
        absent_zones(spec),
        _overlaps(plans),
        _dates_listed_twice(spec),
    )
    # The next fires are always told of one rule at least.
    warnings = _chosen([list(islice(kind, MAX_WARNINGS)) for kind in kinds], MAX_WARNINGS - 1)
    free = min(MAX_WARNINGS - len(warnings), _MAX_FORECASTS)
    return [text[:_MAX_LENGTH] for text in (*warnings, *islice(_forecasts(plans, now), free))]


def _chosen(kinds: Sequence[Sequence[str]], most: int) -> list[str]:
    """At most so many texts, in the order of their kinds: the first of each kind before the second of any."""
    places = sorted((rank, kind) for kind, texts in enumerate(kinds) for rank in range(len(texts)))
    more = len(places) - most + 1
    shown = places if more <= 1 else places[: most - 1]
    texts = [kinds[kind][rank] for kind, rank in sorted((kind, rank) for rank, kind in shown)]
    return texts if more <= 1 else [*texts, f"and at least {more} more warnings about what the rules will do"]


def absent_zones(spec: CronFederatedHPASpec) -> Iterator[str]:
    """One warning about all rules without a time zone."""
    rules = spec.rules[:MAX_RULES]
    zoneless = [
        index for index, rule in enumerate(rules) if rule.time_zone is None or rule.time_zone == "Local"
    ]
    if zoneless:
        others = f" (nor of {len(zoneless) - 1} more rules)" if len(zoneless) > 1 else ""
        yield f"spec.rules[{zoneless[0]}].timeZone: no zone is given{others}, so the schedule runs in UTC"


def _overlaps(plans: Iterable[Plan]) -> Iterator[str]:
    """Windows that are open for longer than their rule takes to fire again."""
    for plan in plans:
        duration = plan.timetable.duration
        if duration is None:
            continue
        interval = shortest_interval(plan.timetable.schedule)
        if duration.total_seconds() >= interval:
            yield (
                f"{plan}: its window of {format_duration(duration.total_seconds())} can still be open when "
                f"it fires again, {format_duration(interval)} later; then it is renewed, and what was before "
                "does not return"
            )


def _dates_listed_twice(spec: CronFederatedHPASpec) -> Iterator[str]:
    for index, rule in enumerate(spec.rules[:MAX_PLANS]):
        seen: set[str] = set()
        for text in rule.exclude_dates:
            if text in seen:
                yield f"spec.rules[{index}].excludeDates: {text} is listed twice; once is enough"
                break
            seen.add(text)


def _forecasts(plans: Iterable[Plan], now: datetime) -> Iterator[str]:
    """The next fires of each rule."""
    for plan in plans:
        coming = islice(plan.timetable.fires(now, now + _FORECAST_HORIZON), _FIRES)
        times = ", ".join(fire.isoformat() for fire in coming)
        zone = plan.timetable.zone.key
        yield f"{plan} fires next at {times} ({zone})" if times else f"{plan} does not fire for nine years"
