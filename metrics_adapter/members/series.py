"""Values of external metrics: read from members, put side by side or together over clusters, written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import msgspec

from fedhpa.api.quantity import Quantity
from fedhpa.api.times import parse_time
from fedhpa.members.metrics import EXTERNAL_VERSION, external_values
from metrics_adapter.members.values import AGGREGATIONS, time_json, whole_seconds

CLUSTER_LABEL = "cluster"
# Where a member's own label of that name goes, as Prometheus does with labels that it overrides.
EXPORTED_LABEL = "exported_cluster"


@dataclass(frozen=True)
class Series:
    """One value of a metric, as a member told it."""

    metric: str
    labels: Mapping[str, str]
    timestamp: float | None
    window: int | None
    amount: Quantity


@dataclass(frozen=True)
class Told:
    """What one member said; None: it serves external metrics and does not know this one."""

    cluster: str
    series: Sequence[Series] | None


def decode_series(body: bytes) -> tuple[Series, ...]:
    """The items of a member's ExternalMetricValueList; ValueError or InvalidObject for unusable ones."""
    return tuple(
        Series(
            item.metricName,
            item.metricLabels or {},
            parse_time(item.timestamp),
            whole_seconds(item.window, f"items[{index}].window"),
            Quantity.parse(item.value),
        )
        for index, item in enumerate(external_values(body))
    )


def list_json(told: Sequence[Told], metric: str, aggregation: str = "") -> bytes:
    """The ExternalMetricValueList of what members said, in their order; each one's sorted by labels.

    With an `aggregation` the values of equal labels become one over clusters, which has no cluster.
    """
    found = _merged(told, aggregation) if aggregation else _side_by_side(told)
    items = [_item(series, labels, metric) for labels, series in found]
    return msgspec.json.encode(
        {"kind": "ExternalMetricValueList", "apiVersion": EXTERNAL_VERSION, "metadata": {}, "items": items}
    )


def _side_by_side(told: Sequence[Told]) -> list[tuple[Mapping[str, str], Series]]:
    return [
        pair
        for answer in told
        for pair in sorted(
            ((_labels(series, answer.cluster), series) for series in answer.series or ()),
            key=lambda pair: sorted(pair[0].items()),
        )
    ]


def _merged(told: Sequence[Told], aggregation: str) -> list[tuple[Mapping[str, str], Series]]:
    """As custom metrics are: the oldest timestamp, an unknown one before all, and the longest window."""
    pairs = [
        (sorted(item for item in labels.items() if item[0] != CLUSTER_LABEL), series)
        for labels, series in _side_by_side(told)
    ]
    found: list[tuple[Mapping[str, str], Series]] = []
    for labels, group in groupby(sorted(pairs, key=lambda pair: pair[0]), key=lambda pair: pair[0]):
        series = [one for _, one in group]
        times = [one.timestamp for one in series if one.timestamp is not None]
        whole = replace(
            series[0],
            timestamp=min(times) if len(times) == len(series) else None,
            window=max((one.window for one in series if one.window is not None), default=None),
            amount=AGGREGATIONS[aggregation]([one.amount for one in series]),
        )
        found.append((dict(labels), whole))
    return found


def _labels(series: Series, cluster: str) -> dict[str, str]:
    labels = dict(series.labels)
    if CLUSTER_LABEL in labels:
        labels.setdefault(EXPORTED_LABEL, labels[CLUSTER_LABEL])
    # Whatever a member says, its values are its own.
    labels[CLUSTER_LABEL] = cluster
    return labels


def _item(series: Series, labels: Mapping[str, str], metric: str) -> dict[str, object]:
    window = {} if series.window is None else {"window": series.window}
    return {
        "metricName": series.metric or metric,
        "metricLabels": labels,
        "timestamp": time_json(series.timestamp),
        **window,
        "value": str(series.amount),
    }
