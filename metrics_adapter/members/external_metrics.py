"""Values of external metrics: decoded from members, listed side by side or aggregated, and encoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import msgspec

from fedhpa.api.quantity import Quantity
from fedhpa.api.times import parse_time
from fedhpa.members.metrics import EXTERNAL_VERSION, external_values
from metrics_adapter.members.custom_metrics import Measured, combined, timed, whole_seconds

CLUSTER_LABEL = "cluster"
# A member's own label "cluster" is renamed to this, as Prometheus does with labels that it overrides.
EXPORTED_LABEL = "exported_cluster"


@dataclass(frozen=True, kw_only=True)
class ExternalValue(Measured):
    """One value of an external metric, as a member returned it."""

    labels: Mapping[str, str]


@dataclass(frozen=True)
class ClusterValues:
    """The values of one cluster. `values` is None if the cluster does not know the metric."""

    cluster: str
    values: Sequence[ExternalValue] | None


def decode_external_values(body: bytes) -> tuple[ExternalValue, ...]:
    """Returns the items of an ExternalMetricValueList. Raises ValueError or InvalidObject for a bad item."""
    return tuple(
        ExternalValue(
            metric=item.metricName,
            labels=item.metricLabels or {},
            timestamp=parse_time(item.timestamp),
            window=whole_seconds(item.window, f"items[{index}].window"),
            amount=Quantity.parse(item.value),
        )
        for index, item in enumerate(external_values(body))
    )


def encode_external_values(clusters: Sequence[ClusterValues], metric: str, aggregation: str = "") -> bytes:
    """Returns the JSON of an ExternalMetricValueList, in the order of `clusters`, then by labels.

    With an `aggregation`, values with equal labels are combined over clusters and have no cluster label.
    """
    found = _side_by_side(clusters)
    if aggregation:
        pairs = [
            (sorted(item for item in labels.items() if item[0] != CLUSTER_LABEL), value)
            for labels, value in found
        ]
        groups = groupby(sorted(pairs, key=itemgetter(0)), key=itemgetter(0))
        found = [
            (dict(labels), combined([value for _, value in group], aggregation)) for labels, group in groups
        ]
    items = [
        {"metricName": value.metric or metric, "metricLabels": labels, **timed(value, "window")}
        for labels, value in found
    ]
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


def _labels(value: ExternalValue, cluster: str) -> dict[str, str]:
    labels = dict(value.labels)
    if CLUSTER_LABEL in labels:
        labels.setdefault(EXPORTED_LABEL, labels[CLUSTER_LABEL])
    # The label names the member that answered, even if the member claims another name.
    labels[CLUSTER_LABEL] = cluster
    return labels
