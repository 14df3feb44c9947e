"""Series of a metrics store as values of objects, custom.metrics.k8s.io."""

from __future__ import annotations

from collections.abc import Sequence

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.selectors import EQUALS, EXISTS, IN, NOT_EQUALS, NOT_EXISTS, NOT_IN, Selector
from fedhpa.api.wire import ObjectReference
from metrics_adapter.members.values import Expression, LabelSelector, Value
from metrics_adapter.prometheus.rules import CustomRule
from metrics_adapter.prometheus.series import Measured

OPERATORS = {
    EQUALS: "In",
    IN: "In",
    NOT_EQUALS: "NotIn",
    NOT_IN: "NotIn",
    EXISTS: "Exists",
    NOT_EXISTS: "DoesNotExist",
}


def object_values(
    found: Sequence[Measured], rule: CustomRule, namespace_label: str | None, metric: Selector
) -> Sequence[Value]:
    """One cluster's values. Raises MetricsUnavailable where an object has two."""
    kind, version, object_label = rule.described
    selector = _selector(metric)
    values: dict[tuple[str, ...], Value] = {}
    for one in found:
        namespace = "" if namespace_label is None else one.labels[namespace_label]
        described = ObjectReference(kind, namespace, one.labels[object_label], version)
        group = version.rpartition("/")[0]
        key = (namespace, kind, group, described.name, rule.metric, str(metric))
        if key in values:
            raise MetricsUnavailable(
                f"{kind} {namespace}/{described.name} has more than one value: let the rule's query"
                " aggregate, as in sum by (<<.GroupBy>>)"
            )
        values[key] = Value(key, described, rule.metric, selector, one.at, rule.window, one.amount)
    return list(values.values())


def _selector(metric: Selector) -> LabelSelector | None:
    if not metric.requirements:
        return None
    return LabelSelector(
        matchExpressions=[
            Expression(one.key, OPERATORS[one.operator], list(one.values) or None)
            for one in metric.requirements
        ]
    )
