"""Values of external metrics: decoded from members, listed side by side or aggregated, and encoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import msgspec

from fedhpa.api.quantity import Quantity
from fedhpa.api.times import parse_time
from fedhpa.members.metrics import EXTERNAL_VERSION, external_values
from metrics_adapter.members.custom_metrics import AGGREGATIONS, encode_time, whole_seconds

CLUSTER_LABEL = "cluster"
# A member's own label "cluster" is renamed to this, as Prometheus does with labels that it overrides.
EXPORTED_LABEL = "exported_cluster"


@dataclass(frozen=True)
class ExternalValue:
    """One value of an external metric, as a member returned it."""

    metric: str
    labels: Mapping[str, str]
    timestamp: float | None
    window: int | None
    amount: Quantity


@dataclass(frozen=True)
class ClusterValues:
    """The values of one cluster. `values` is None if the cluster does not know the metric."""

    cluster: str
    values: Sequence[ExternalValue] | None


def decode_external_values(body: bytes) -> tuple[ExternalValue, ...]:
    """Returns the items of an ExternalMetricValueList. Raises ValueError or InvalidObject for a bad item."""
    return tuple(
        ExternalValue(
            item.metricName,
            item.metricLabels or {},
            parse_time(item.timestamp),
            whole_seconds(item.window, f"items[{index}].window"),
            Quantity.parse(item.value),
        )
        for index, item in enumerate(external_values(body))
    )


def encode_external_values(clusters: Sequence[ClusterValues], metric: str, aggregation: str = "") -> bytes:
    """Returns the JSON of an ExternalMetricValueList, in the order of `clusters`, then by labels.

    With an `aggregation`, values with equal labels are combined over clusters and have no cluster label.
    """
    found = _aggregated(clusters, aggregation) if aggregation else _side_by_side(clusters)
    items = [_item(value, labels, metric) for labels, value in found]
    return msgspec.json.encode(
        {"kind": "ExternalMetricValueList", "apiVersion": EXTERNAL_VERSION, "metadata": {}, "items": items}
    )


def _side_by_side(clusters: Sequence[ClusterValues]) -> list[tuple[Mapping[str, str], ExternalValue]]:
    return [
        pair
        for answer in clusters
        for pair in sorted(
            ((_labels(value, answer.cluster), value) for value in answer.values or ()),
            key=lambda pair: sorted(pair[0].items()),
        )
    ]


def _aggregated(
    clusters: Sequence[ClusterValues], aggregation: str
) -> list[tuple[Mapping[str, str], ExternalValue]]:
    """Combines values as custom metrics are: the oldest timestamp, or none if one is unknown; the longest
    window.
    """
    pairs = [
        (sorted(item for item in labels.items() if item[0] != CLUSTER_LABEL), value)
        for labels, value in _side_by_side(clusters)
    ]
    found: list[tuple[Mapping[str, str], ExternalValue]] = []
    for labels, group in groupby(sorted(pairs, key=lambda pair: pair[0]), key=lambda pair: pair[0]):
        values = [value for _, value in group]
        times = [value.timestamp for value in values if value.timestamp is not None]
        combined = replace(
            values[0],
            timestamp=min(times) if len(times) == len(values) else None,
            window=max((value.window for value in values if value.window is not None), default=None),
            amount=AGGREGATIONS[aggregation]([value.amount for value in values]),
        )
        found.append((dict(labels), combined))
    return found


def _labels(value: ExternalValue, cluster: str) -> dict[str, str]:
    labels = dict(value.labels)
    if CLUSTER_LABEL in labels:
        labels.setdefault(EXPORTED_LABEL, labels[CLUSTER_LABEL])
    # The label names the member that answered, even if the member claims another name.
    labels[CLUSTER_LABEL] = cluster
    return labels


def _item(value: ExternalValue, labels: Mapping[str, str], metric: str) -> dict[str, object]:
    window = {} if value.window is None else {"window": value.window}
    return {
        "metricName": value.metric or metric,
        "metricLabels": labels,
        "timestamp": encode_time(value.timestamp),
        **window,
        "value": str(value.amount),
    }
