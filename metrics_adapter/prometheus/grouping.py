"""Groups the series of a store's result by cluster, and counts the series that are left out.

The store is trusted as little as a member. A series counts only under the name of a registered cluster, and
only if it matches the request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.quantity import Quantity
from metrics_adapter.prometheus.queries import RuleQuery
from metrics_adapter.prometheus.results import QueryResult, amount_of, shown

# Reasons for leaving out a series: the values of a label of fedhpa_adapter_store_dropped_series_total.
NO_CLUSTER, UNREGISTERED, NOT_ASKED, NO_NUMBER = "no_cluster", "unregistered", "not_asked", "no_number"
# Clusters named in one warning.
MAX_NAMED = 5


class Sample(msgspec.Struct, frozen=True, gc=False):
    """One usable series of one cluster."""

    labels: Mapping[str, str]
    amount: Quantity
    at: float


@dataclass
class GroupedSeries:
    """The samples of a result by cluster, and a reason for each cluster that also has unusable values.

    `dropped` counts the series left out by reason. `unregistered` has some unregistered clusters' names.
    """

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    unregistered: set[str] = field(default_factory=set)

    def notes(self, label: str) -> Iterable[str]:
        """Yields warnings about series that were left out. `label` is the label that names the cluster."""
        if self.dropped[NO_CLUSTER]:
            yield (
                f"{self.dropped[NO_CLUSTER]} series of the metrics store have no label {label}: left out"
                " (see defaultCluster in the rules)"
            )
        if self.unregistered:
            names = ", ".join(repr(shown(name)[:64]) for name in sorted(self.unregistered))
            yield f"series of the metrics store name clusters that are not registered: {names}: left out"
        if self.dropped[NOT_ASKED]:
            yield f"{self.dropped[NOT_ASKED]} series of the metrics store do not match the request: left out"


def by_cluster(result: QueryResult, query: RuleQuery, registered: Collection[str]) -> GroupedSeries:
    """Groups the series that answer a query by the cluster that they name."""
    grouped = GroupedSeries()
    for series in result.series:
        labels = series.labels()
        cluster = labels.pop(query.label, "") or query.default
        if not cluster:
            grouped.dropped[NO_CLUSTER] += 1
        elif cluster not in registered:
            grouped.dropped[UNREGISTERED] += 1
            if len(grouped.unregistered) < MAX_NAMED:
                grouped.unregistered.add(cluster)
        elif not query.matches(labels):
            grouped.dropped[NOT_ASKED] += 1
        else:
            try:
                sample = Sample(labels, amount_of(series, result.asked_at), series.value[0])  # type: ignore[index]  # amount_of raises if there is no value
            except MetricsUnavailable as error:
                grouped.dropped[NO_NUMBER] += 1
                reason = f"the metrics store has a value of it that cannot be used: {error}"
                grouped.unusable.setdefault(cluster, reason)
            else:
                grouped.samples.setdefault(cluster, []).append(sample)
    return grouped
