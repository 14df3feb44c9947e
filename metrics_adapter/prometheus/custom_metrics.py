"""Converts samples of a metrics store to values of custom.metrics.k8s.io."""

from __future__ import annotations

from collections.abc import Sequence

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.selectors import EQUALS, EXISTS, IN, NOT_EQUALS, NOT_EXISTS, NOT_IN, Selector
from fedhpa.api.wire import ObjectReference
from metrics_adapter.members.custom_metrics import CustomValue, MetricLabelRequirement, MetricLabelSelector
from metrics_adapter.prometheus.grouping import Sample
from metrics_adapter.prometheus.rules.model import CustomRule

OPERATORS = {
    EQUALS: "In",
    IN: "In",
    NOT_EQUALS: "NotIn",
    NOT_IN: "NotIn",
    EXISTS: "Exists",
    NOT_EXISTS: "DoesNotExist",
}


def object_values(
    samples: Sequence[Sample], rule: CustomRule, namespace_label: str | None, metric: Selector
) -> Sequence[CustomValue]:
    """Returns one cluster's values. Raises MetricsUnavailable if an object has two values."""
    kind, version, object_label = rule.described
    selector = _selector(metric)
    values: dict[tuple[str, ...], CustomValue] = {}
    for sample in samples:
        namespace = "" if namespace_label is None else sample.labels[namespace_label]
        described = ObjectReference(kind, namespace, sample.labels[object_label], version)
        group = version.rpartition("/")[0]
        key = (namespace, kind, group, described.name, rule.metric, str(metric))
        if key in values:
            raise MetricsUnavailable(
                f"{kind} {namespace}/{described.name} has more than one value: let the rule's query"
                " aggregate, as in sum by (<<.GroupBy>>)"
            )
        values[key] = CustomValue(
            key=key,
            described=described,
            metric=rule.metric,
            selector=selector,
            timestamp=sample.at,
            window=rule.window,
            amount=sample.amount,
        )
    return list(values.values())


def _selector(metric: Selector) -> MetricLabelSelector | None:
    if not metric.requirements:
        return None
    return MetricLabelSelector(
        matchExpressions=[
            MetricLabelRequirement(one.key, OPERATORS[one.operator], list(one.values) or None)
            for one in metric.requirements
        ]
    )
