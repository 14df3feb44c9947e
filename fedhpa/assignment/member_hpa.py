"""Reads what a pass needs from the status of its own HorizontalPodAutoscaler (autoscaling/v2).

The status comes from the member, so everything in it that cannot be read is unknown. An unknown value never
becomes a number. Source: docs/explanation/distributed.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from fedhpa.api.errors import InvalidObject
from fedhpa.api.free_json import Json, at, condition, entries, text_at, time_at
from fedhpa.api.member_hpas import MemberHpa
from fedhpa.api.quantity import parse_milli
from fedhpa.metric_types.table import metric_type

JSON = object

_MOST: Final = Fraction(2**31 - 1)
# A status has one value for each metric; more are of no use.
_MAX_METRICS: Final = 64
_VALUES: Final = {
    "Utilization": "averageUtilization",
    "AverageValue": "averageValue",
    "Value": "value",
}


class HpaReport(NamedTuple):
    """The status of an HPA, as far as a pass reads it. An unreadable part is unknown: None, or missing.

    `highest` is the highest usage / target of the metrics that have a value; it is `complete` if every metric
    has one. `values` has those of each metric in milli-units, by the API's names, such as averageUtilization.
    `limited_since` is since when it asks for more than its maxReplicas, infinitely long ago without a time.
    `failure` says why it cannot compute; "" if it can.
    """

    highest: Fraction | None = None
    complete: bool = False
    values: tuple[Mapping[str, int], ...] = ()
    limited_since: float | None = None
    current: int | None = None
    desired: int | None = None
    scaled_at: float | None = None
    failure: str = ""

    def load(self, ready: int) -> Fraction | None:
        """Returns the `ready` replicas x the highest usage / target; None if that is unknown.

        currentReplicas would count pods that only start.
        """
        return None if self.highest is None else min(ready * self.highest, _MOST)


def report_of(hpa: MemberHpa) -> HpaReport:
    """Returns what an HPA reports."""
    sent = {"status": hpa.status}
    active, limited = condition(sent, "ScalingActive"), condition(sent, "ScalingLimited")
    scaled, since = time_at(sent, "status", "lastScaleTime"), None
    if limited.get("status") == "True" and limited.get("reason") == "TooManyReplicas":
        # The condition keeps its time between its reasons, so the clock begins with the last scaling.
        times = [time_at(limited, "lastTransitionTime"), scaled]
        since = max((time for time in times if time is not None), default=-math.inf)
    reported = [_source(one) for one in entries(sent, "status", "currentMetrics")[:_MAX_METRICS]]
    values, ratios = [], []
    for metric in entries(hpa.spec.metrics)[:_MAX_METRICS]:
        wanted = _source(metric)
        same = (one for one in reported if wanted and _without(one, "current") == _without(wanted, "target"))
        current = at(next(same, {}), "current")
        found = {name: _milli(at(current, name)) for name in _VALUES.values()}
        values.append({name: milli for name, milli in found.items() if milli is not None})
        name = _VALUES.get(text_at(wanted, "target", "type"), "")
        value, goal = values[-1].get(name), _milli(at(wanted, "target", name))
        if value is not None and goal:
            ratios.append(Fraction(value, goal))
    failure = ""
    if active.get("status") == "False":
        # While the HPA cannot compute, its values are old.
        ratios = []
        # It rests while its cluster runs no replica.
        if active.get("reason") != "ScalingDisabled":
            failure = f"{active.get('reason') or 'unknown'}: {active.get('message') or 'no message'}"
    current, desired = (_count(at(sent, "status", f"{which}Replicas")) for which in ("current", "desired"))
    return HpaReport(
        highest=max(ratios, default=None),
        complete=len(ratios) == len(values),
        values=tuple(values),
        limited_since=since,
        current=current,
        desired=desired,
        scaled_at=scaled,
        failure=failure,
    )


def _source(metric: Json) -> Json:
    """Returns the source of a metric with its type, which has no such field; {} without a readable one."""
    kind = text_at(metric, "type")
    source = at(metric, metric_type(kind).field)
    return {"type": kind, **source} if source and isinstance(source, dict) else {}


def _without(source: Json, field: str) -> Json:
    return {name: part for name, part in source.items() if name != field}


def _count(value: JSON) -> int | None:
    """Returns a number of replicas; None if it cannot be one."""
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
    return value if known else None  # type: ignore[return-value]  # a number


def _milli(value: JSON) -> int | None:
    """Returns a quantity or a whole number in milli-units; None if it is neither, or negative."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    try:
        milli = parse_milli(value)
    except InvalidObject:
        return None
    return milli if milli >= 0 else None
