"""Reads the need of a cluster from the status of its own HorizontalPodAutoscaler (autoscaling/v2).

The status comes from the member, so everything in it that cannot be read is unknown. An unknown value never
becomes a number. Source: docs/explanation/distributed.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from fedhpa.api.errors import InvalidObject
from fedhpa.api.free_json import time_at
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


class ReportedUsage(NamedTuple):
    """The `highest` usage / target of the metrics that have a value, None without any.

    It is `complete` if every metric has one.
    """

    highest: Fraction | None
    complete: bool

    def load(self, ready: int, *, known: bool = False) -> Fraction | None:
        """Returns the replicas that would keep the present usage exactly at target; None if unknown.

        It is the `ready` replicas x the highest usage / target: currentReplicas would count pods that only
        start. It is unknown unless every metric has a value, or with `known` one.
        """
        if self.highest is None or not (self.complete or known):
            return None
        return min(ready * self.highest, _MOST)


def usage_of(hpa: JSON) -> ReportedUsage:
    """Returns the usage that an HPA reports."""
    # While the HPA cannot compute, its values are old.
    if _condition(_object(hpa, "status"), "ScalingActive").get("status") == "False":
        return ReportedUsage(None, complete=False)
    ratios = list(_ratios(hpa))
    values = [ratio for ratio in ratios if ratio is not None]
    return ReportedUsage(max(values, default=None), len(values) == len(ratios))


def limited_for(hpa: JSON, now: float) -> float | None:
    """Returns for how many seconds an HPA has asked for more than its maxReplicas; None if it does not.

    ScalingLimited keeps its time between its reasons, so the clock begins with the last scaling at the
    earliest. Without any time it is infinite.
    """
    status = _object(hpa, "status")
    limited = _condition(status, "ScalingLimited")
    if limited.get("status") != "True" or limited.get("reason") != "TooManyReplicas":
        return None
    times = [time_at(limited.get("lastTransitionTime")), time_at(status.get("lastScaleTime"))]
    known = [time for time in times if time is not None]
    return max(now - max(known), 0.0) if known else math.inf


def _ratios(hpa: JSON) -> Iterator[Fraction | None]:
    """Yields usage / target for each metric of the spec, None for a metric without a value."""
    values = _objects(_object(hpa, "status").get("currentMetrics"))
    for metric in _objects(_object(hpa, "spec").get("metrics")):
        same = (value for value in values if _identity(value, "current") == _identity(metric, "target"))
        yield _ratio(metric, next(same, None))


def _ratio(metric: Mapping[str, JSON], value: Mapping[str, JSON] | None) -> Fraction | None:
    target = _object(_source(metric), "target")
    kind = target.get("type")
    name = _VALUES.get(kind) if isinstance(kind, str) else None
    if name is None or value is None:
        return None
    current, wanted = _milli(_object(_source(value), "current").get(name)), _milli(target.get(name))
    if current is None or not wanted:
        return None
    return Fraction(current, wanted)


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
