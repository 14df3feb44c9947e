"""Series of single FederatedHPAs, rendered at a scrape from what their last decisions left.

Scrapes run in a thread, so they read copies and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from fedhpa.decision import MetricResult
from fedhpa.kube import Key
from fedhpa.serving import RowGauge

LABELS: Final = ("namespace", "hpa_name")


@dataclass(slots=True)
class ObjectFigures:
    """The figures of one object. What is None, or not in `metrics`, is not shown.

    `desired` and `current` are the sizes of the last decision without an error. `competitors` are other
    autoscalers of the workload. `held_since` is in POSIX seconds, `succeeded_at` in those of `clock`.
    """

    clock: Callable[[], float]
    desired: int | None = None
    current: int | None = None
    competitors: int | None = None
    dry_run: bool | None = None
    held_since: float | None = None
    minimum: int | None = None
    maximum: int | None = None
    succeeded_at: float | None = None
    metrics: dict[str, MetricResult] = field(default_factory=dict)

    @property
    def success_age(self) -> float | None:
        """Seconds since the last success."""
        return None if self.succeeded_at is None else self.clock() - self.succeeded_at


# The series of an object: name, meaning, and what reads its value.
SERIES: Final[tuple[tuple[str, str, Callable[[ObjectFigures], float | None]], ...]] = (
    (
        "fedhpa_controller_desired_replicas",
        "Desired replicas of the last decision.",
        lambda one: one.desired,
    ),
    ("fedhpa_controller_current_replicas", "Replicas at the last decision.", lambda one: one.current),
    (
        "fedhpa_controller_contested",
        "Other autoscalers found for the same workload, or 1 for a client that keeps changing its size.",
        lambda one: one.competitors,
    ),
    ("fedhpa_controller_dry_run", "1 while spec.dryRun stops the writes.", lambda one: one.dry_run),
    (
        "fedhpa_controller_held_since_timestamp_seconds",
        "Since when a hold has been in force without a break, as POSIX seconds; absent without one.",
        lambda one: one.held_since,
    ),
    ("fedhpa_controller_min_replicas", "minReplicas at the last decision.", lambda one: one.minimum),
    ("fedhpa_controller_max_replicas", "maxReplicas at the last decision.", lambda one: one.maximum),
    (
        "fedhpa_controller_seconds_since_success",
        (
            "Seconds since the last reconcile with a decision and without a failed write; since this process "
            "took the object over if there was none. Absent for objects that this controller must not scale "
            "(NotBuilt, AnotherController)."
        ),
        lambda one: one.success_age,
    ),
)
# The series of a metric of an object, alike.
METRIC_SERIES: Final[tuple[tuple[str, str, Callable[[MetricResult], float | None]], ...]] = (
    (
        "fedhpa_controller_metric_usage_ratio",
        "Ratio of usage to target; the label metric is index:name of spec.metrics.",
        lambda one: one.usage_ratio or 0.0,
    ),
    (
        "fedhpa_controller_metric_proposal",
        "Replicas that a metric proposes, before any limit.",
        lambda one: one.proposal,
    ),
)


class ObjectSeries(Collector):
    """Collects the series of objects. `objects` is a live view."""

    def __init__(self, objects: Mapping[Key, ObjectFigures]) -> None:
        self._objects = objects

    def describe(self) -> Iterator[Metric]:
        """Yields the families, so that a part of the registry can be collected."""
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        """Yields each series with a sample for each object that has a value."""
        objects = sorted(dict(self._objects).items())
        for series, meaning, value_of in SERIES:
            family = RowGauge(series, meaning, LABELS)
            for key, one in objects:
                if (value := value_of(one)) is not None:
                    family.add(key, value)
            yield family
        for series, meaning, metric_value in METRIC_SERIES:
            family = RowGauge(series, meaning, (*LABELS, "metric"))
            for key, one in objects:
                for label, metric in one.metrics.items():
                    if (value := metric_value(metric)) is not None:
                        family.add((*key, label), value)
            yield family
