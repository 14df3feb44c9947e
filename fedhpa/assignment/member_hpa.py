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
from fedhpa.api.free_json import time_at
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
    sent: JSON = hpa.status
    status = sent if isinstance(sent, Mapping) else {}
    active, limited = (_condition(status, kind) for kind in ("ScalingActive", "ScalingLimited"))
    scaled, since = time_at(status.get("lastScaleTime")), None
    if limited.get("status") == "True" and limited.get("reason") == "TooManyReplicas":
        # The condition keeps its time between its reasons, so the clock begins with the last scaling.
        times = [time_at(limited.get("lastTransitionTime")), scaled]
        since = max((time for time in times if time is not None), default=-math.inf)
    reported = _objects(status.get("currentMetrics"))
    values, ratios = [], []
    for metric in _objects(hpa.spec.metrics):
        same = (value for value in reported if _identity(value, "current") == _identity(metric, "target"))
        current, target = _object(_source(next(same, {})), "current"), _object(_source(metric), "target")
        found = {name: _milli(current[name]) for name in _VALUES.values() if name in current}
        values.append({name: milli for name, milli in found.items() if milli is not None})
        kind = target.get("type")
        name = _VALUES.get(kind, "") if isinstance(kind, str) else ""
        value, wanted = values[-1].get(name), _milli(target.get(name))
        if value is not None and wanted:
            ratios.append(Fraction(value, wanted))
    failure = ""
    if active.get("status") == "False":
        # While the HPA cannot compute, its values are old.
        ratios = []
        # It rests while its cluster runs no replica.
        if active.get("reason") != "ScalingDisabled":
            failure = f"{active.get('reason') or 'unknown'}: {active.get('message') or 'no message'}"
    return HpaReport(
        highest=max(ratios, default=None),
        complete=len(ratios) == len(values),
        values=tuple(values),
        limited_since=since,
        current=_count(status.get("currentReplicas")),
        desired=_count(status.get("desiredReplicas")),
        scaled_at=scaled,
        failure=failure,
    )


def _identity(metric: Mapping[str, JSON], value: str) -> tuple[JSON, Mapping[str, JSON]] | None:
    source = _source(metric)
    return (
        (metric.get("type"), {key: part for key, part in source.items() if key != value}) if source else None
    )


def _source(metric: Mapping[str, JSON]) -> Mapping[str, JSON]:
    kind = metric.get("type")
    return _object(metric, metric_type(kind).field) if isinstance(kind, str) else {}


def _condition(status: Mapping[str, JSON], kind: str) -> Mapping[str, JSON]:
    found = (one for one in _objects(status.get("conditions")) if one.get("type") == kind)
    return next(found, {})


def _count(value: JSON) -> int | None:
    """Returns a number of replicas; None if it cannot be one."""
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
    return value if known else None  # type: ignore[return-value]  # a number


def _object(value: JSON, key: str) -> Mapping[str, JSON]:
    inner = value.get(key) if isinstance(value, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


def _objects(value: JSON) -> list[Mapping[str, JSON]]:
    return (
        [one for one in value[:_MAX_METRICS] if isinstance(one, Mapping)] if isinstance(value, list) else []
    )


def _milli(value: JSON) -> int | None:
    """Returns a quantity or a whole number in milli-units; None if it is neither, or negative."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    try:
        milli = parse_milli(value)
    except InvalidObject:
        return None
    return milli if milli >= 0 else None
