"""Whose the series of a store's answer are: by cluster, with what had to be left out and why.

A store is believed as little as a member: a series counts only under the name of a cluster that is
registered, and only for what was asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.quantity import Quantity
from metrics_adapter.prometheus.answer import Answer, amount_of, shown

# Why a series is left out; the values of a label of telemetry.
NO_CLUSTER, UNREGISTERED, NOT_ASKED, NO_NUMBER = "no_cluster", "unregistered", "not_asked", "no_number"
# Clusters named in one warning.
NAMED = 5


class Measured(msgspec.Struct, frozen=True, gc=False):
    """One series of one cluster that can be used."""

    labels: Mapping[str, str]
    amount: Quantity
    at: float


@dataclass
class Sorted:
    """The series of an answer by cluster; `spoiled` says of a cluster what is wrong with some of them.

    `strangers` are some of the clusters that are not registered.
    """

    found: dict[str, list[Measured]] = field(default_factory=dict)
    spoiled: dict[str, str] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    strangers: set[str] = field(default_factory=set)

    def notes(self, label: str) -> Iterable[str]:
        """What is to be said of series that no cluster can be told from; `label` should have told."""
        if self.dropped[NO_CLUSTER]:
            yield (
                f"{self.dropped[NO_CLUSTER]} series of the metrics store have no label {label}: left out"
                " (see defaultCluster in the rules)"
            )
        if self.strangers:
            names = ", ".join(repr(shown(name)[:64]) for name in sorted(self.strangers))
            yield f"series of the metrics store name clusters that are not registered: {names}: left out"
        if self.dropped[NOT_ASKED]:
            yield f"{self.dropped[NOT_ASKED]} series of the metrics store were not asked for: left out"


def by_cluster(
    answer: Answer,
    *,
    label: str,
    default: str | None,
    registered: Collection[str],
    asked: Callable[[Mapping[str, str]], bool],
) -> Sorted:
    """The series of each registered cluster; `label` names it, `default` where there is none."""
    result = Sorted()
    for series in answer.series:
        labels = series.labels()
        cluster = labels.pop(label, "") or default
        if not cluster:
            result.dropped[NO_CLUSTER] += 1
        elif cluster not in registered:
            result.dropped[UNREGISTERED] += 1
            if len(result.strangers) < NAMED:
                result.strangers.add(cluster)
        elif not asked(labels):
            result.dropped[NOT_ASKED] += 1
        else:
            try:
                measured = Measured(labels, amount_of(series, answer.asked_at), series.value[0])  # type: ignore[index]  # without a value there is no amount
            except MetricsUnavailable as error:
                result.dropped[NO_NUMBER] += 1
                result.spoiled.setdefault(cluster, f"the metrics store has a value of it that {_is(error)}")
            else:
                result.found.setdefault(cluster, []).append(measured)
    return result


def _is(error: MetricsUnavailable) -> str:
    return f"cannot be used: {error}"
