"""Picks a metric's samples out of what a metrics API answered.

An answer that is a mapping has one entry for each query (`ScalingMetric.query_key`): the server has picked
the samples. A sequence holds all samples, and they are picked here.
`METRICS_APIS` is the one table of metrics APIs of a decision: a metric type names its API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fedhpa.api.errors import InvalidObject
from fedhpa.api.selectors import Selector, selector_of
from fedhpa.decision.snapshot import ClusterSnapshot, CustomMetrics, ExternalMetrics, Failure, Snapshot
from fedhpa.metric_types.metric import CUSTOM_API, EXTERNAL_API, USAGE_API, ScalingMetric
from fedhpa.scaling import CustomSample, ExternalSample


def external_samples(answer: ExternalMetrics, spec: ScalingMetric) -> list[ExternalSample]:
    """Returns the samples of an External metric: by name, and by labels if the sample has any."""
    if isinstance(answer, Mapping):
        answer = answer.get(spec.query_key, ())
        return [] if isinstance(answer, Failure) else list(answer)
    if isinstance(answer, Failure):
        return []
    try:
        selector = selector_of(spec.selector) if spec.selector is not None else Selector()
    except InvalidObject:
        return []  # the evaluation of the metric fails with the message
    return [
        sample
        for sample in answer
        if sample.metric == spec.name and (not sample.labels or selector.matches(sample.labels))
    ]


def custom_samples(answer: CustomMetrics, spec: ScalingMetric, namespace: str) -> list[CustomSample]:
    """Returns the samples of a Pods or Object metric: by metric and described object.

    One metric name may have several series. Samples with the metric's own selector are preferred.
    """
    if isinstance(answer, Mapping):
        answer = answer.get(spec.query_key, ())
        return [] if isinstance(answer, Failure) else list(answer)
    if isinstance(answer, Failure):
        return []
    found = [
        sample
        for sample in answer
        if sample.metric == spec.name and _describes_target(sample, spec, namespace)
    ]
    exact = [sample for sample in found if (sample.selector or None) == (spec.selector or None)]
    return exact or [sample for sample in found if not sample.selector or not spec.selector]


def _describes_target(sample: CustomSample, spec: ScalingMetric, namespace: str) -> bool:
    in_namespace = not sample.namespace or not namespace or sample.namespace == namespace
    if spec.metric_type.per_pod:
        return sample.kind in ("Pod", "") and in_namespace
    described = spec.described_object or {}
    kind = described.get("kind", "")
    if sample.kind and sample.kind != kind:
        return False
    # A metric of a Namespace is that of the autoscaler's own namespace, whatever name the spec has.
    return kind == "Namespace" or (sample.name == described.get("name", "") and in_namespace)


class MetricsApi(NamedTuple):
    """The answers of one metrics API in a snapshot, and the choice of the samples of a metric.

    `of_cluster` and `of_hub` return the answer for all metrics. `pick` returns the samples of one metric, by
    answer, metric and namespace.
    """

    of_cluster: Callable[[ClusterSnapshot], object]
    of_hub: Callable[[Snapshot], object]
    pick: Callable[[Any, ScalingMetric, str], Sequence[CustomSample | ExternalSample]]


METRICS_APIS: Final[Mapping[str, MetricsApi]] = {
    # The usage of a pod belongs to a cluster, so the hub never serves it alone.
    USAGE_API: MetricsApi(lambda cluster: cluster.usage, lambda _: (), lambda *_: ()),
    CUSTOM_API: MetricsApi(
        lambda cluster: cluster.custom_metrics, lambda snapshot: snapshot.hub_custom_metrics, custom_samples
    ),
    EXTERNAL_API: MetricsApi(
        lambda cluster: cluster.external_metrics,
        lambda snapshot: snapshot.hub_external_metrics,
        lambda answer, spec, _: external_samples(answer, spec),
    ),
}
# A type of a later version: no API is known, so nothing answers and nothing fails.
_NO_API: Final = MetricsApi(lambda _: (), lambda _: (), lambda *_: ())


def metrics_api(spec: ScalingMetric) -> MetricsApi:
    """Returns the API that serves a metric. For an unknown type, returns one that has nothing."""
    return METRICS_APIS.get(spec.metric_type.api, _NO_API)
