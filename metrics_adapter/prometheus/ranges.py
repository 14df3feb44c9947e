"""Reads values over days from a metrics store, by cluster and in pieces that the store accepts."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from typing import Final

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.names import dns_subdomain
from metrics_adapter.prometheus.access import StoreAccess, StoreUnavailable
from metrics_adapter.prometheus.client import StoreCall
from metrics_adapter.prometheus.results import RangeSeries, number_of

# Prometheus refuses a query with more points in one series.
MAX_POINTS: Final = 11_000
# Clusters in one answer. A label with other values, such as those of pods, would make thousands.
MAX_CLUSTERS: Final = 1_000

# By cluster the value of each step; None is a gap.
ClusterValues = Mapping[str, list[float | None]]


class RangeReader:
    """Reads from one store. `start` is in Unix seconds, and step i is at `start` + i * `step`.

    Each query has `deadline` seconds. `default` is the cluster of a series without a label that names one.
    `on_query` is called before each query.
    """

    def __init__(
        self,
        access: StoreAccess,
        *,
        start: float,
        step: float,
        steps: int,
        default: str | None,
        deadline: float,
        wall: Callable[[], float],
        on_query: Callable[[], None] = lambda: None,
    ) -> None:
        self._access, self._deadline, self._wall = access, deadline, wall
        self._start, self._step, self._steps = start, step, steps
        self._default = default
        self._on_query = on_query
        self.warnings: list[str] = []

    @property
    def pieces(self) -> int:
        """The number of queries for one call of `read`."""
        return math.ceil(self._steps / MAX_POINTS)

    def read(self, query: str, label: str) -> ClusterValues:
        """Returns the values of a query with one series for each cluster, which `label` names.

        A value that is no usable number is a gap. Raises MetricsUnavailable, and StoreUnavailable, which is
        one, if the store fails.
        """
        found: dict[str, list[float | None]] = {}
        for first in range(0, self._steps, MAX_POINTS):
            last = min(first + MAX_POINTS, self._steps) - 1
            filled: set[str] = set()
            for series in self._ask(query, first, last):
                cluster = series.metric.get(label, "") or self._default
                # Series of no cluster are those of the store itself, or of a cluster that has no name yet.
                if not cluster or dns_subdomain(cluster):
                    continue
                if cluster in filled:
                    raise MetricsUnavailable(
                        f"the query has more than one series of cluster {cluster}: let it aggregate by "
                        f"{label}"
                    )
                filled.add(cluster)
                values = found.setdefault(cluster, [None] * self._steps)
                if len(found) > MAX_CLUSTERS:
                    raise MetricsUnavailable(f"the label {label} has more than {MAX_CLUSTERS} values")
                self._fill(values, series, first, last)
        return found

    def _fill(self, values: list[float | None], series: RangeSeries, first: int, last: int) -> None:
        for at, text in series.values:
            index = round((at - self._start) / self._step) if math.isfinite(at) else -1
            if first <= index <= last:
                values[index] = number_of(text)

    def _ask(self, query: str, first: int, last: int) -> tuple[RangeSeries, ...]:
        self._on_query()
        call = StoreCall(self._access, self._wall)
        # The library has a timeout for each read only.
        timer = threading.Timer(self._deadline, call.abort)
        timer.daemon = True
        began = self._wall()
        timer.start()
        try:
            start, end = (self._start + index * self._step for index in (first, last))
            result = call.run_range(query, start, end, self._step, self._deadline)
        except StoreUnavailable as error:
            if self._wall() - began >= self._deadline * 0.99:
                raise StoreUnavailable(f"no answer within {self._deadline:g} s") from error
            raise
        finally:
            timer.cancel()
        self.warnings += [text for text in result.warnings if text not in self.warnings]
        return result.series
