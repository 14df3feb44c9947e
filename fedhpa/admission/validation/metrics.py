"""Validation of one metric of a FederatedHPA: its type, its one source, and the rules of the type.

Messages and order: Karmada v1.19, which are Kubernetes 1.27's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fedhpa.admission.metrics.table import RULES
from fedhpa.api.autoscaling import MetricSpec
from fedhpa.api.fielderror import FieldError, TypedText, forbidden, required, unsupported
from fedhpa.api.metric_types import METRIC_TYPES, MetricType, metric_type

_ATTRIBUTES: Final = tuple((row.attribute, row) for row in METRIC_TYPES.values())


def validate_metric(metric: MetricSpec, path: str) -> Iterator[FieldError]:
    """Yields the errors of a metric. Karmada checks the inside of the first source only."""
    if not metric.type:
        yield required(f"{path}.type", "must specify a metric source type")
    if metric.type not in METRIC_TYPES:
        yield unsupported(f"{path}.type", TypedText(metric.type), METRIC_TYPES)
    present = sources_of(metric)
    for row, source in present[:1]:
        yield from RULES[row.name].validate(source, f"{path}.{row.field}")
    expected = metric_type(metric.type).field
    if len(present) == 1 and present[0][0].field == expected:
        return
    fields = [row.field for row, _ in present]
    if expected and expected not in fields:
        yield required(f"{path}.{expected}", "must populate information for the given metric source")
    if len(fields) > 1:
        for field in fields:
            if field != expected:
                yield forbidden(f"{path}.{field}", "must populate the given metric source only")


def sources_of(metric: MetricSpec) -> list[tuple[MetricType, Any]]:
    """Returns the sources that a metric has, in the order of the table. A correct metric has one."""
    # Faster than reading the attributes of a pydantic model.
    values = vars(metric)
    return [(row, values[attribute]) for attribute, row in _ATTRIBUTES if values[attribute] is not None]
