"""Picks a metric's samples out of what a metrics API answered.

An answer that is a mapping has one entry for each query (`ScalingMetric.query_key`): the server has picked
the samples. A sequence holds all samples, and they are picked here.
"""

from __future__ import annotations

from collections.abc import Mapping

from fedhpa.api.errors import InvalidObject
from fedhpa.api.metric_types import PODS
from fedhpa.api.selectors import Selector, selector_of
from fedhpa.decision.snapshot import CustomMetrics, ExternalMetrics, Failure
from fedhpa.decision.spec.metrics import ScalingMetric
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
    if spec.type == PODS:
        return sample.kind in ("Pod", "") and in_namespace
    described = spec.described_object or {}
    kind = described.get("kind", "")
    if sample.kind and sample.kind != kind:
        return False
    # A metric of a Namespace is that of the autoscaler's own namespace, whatever name the spec has.
    return kind == "Namespace" or (sample.name == described.get("name", "") and in_namespace)
