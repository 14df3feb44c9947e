"""The rules of the metric type Object.

One rule is stricter than Karmada's: the target must have the field of its type, because Karmada's controller
dereferences nil without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fedhpa.admission.metrics.parts import (
    selector_of_series,
    series_identity,
    validate_identifier,
    validate_target,
)
from fedhpa.admission.metrics.rules import MetricRules
from fedhpa.api.fielderror import FieldError, invalid, required
from fedhpa.api.metrics.object import ObjectMetricSource
from fedhpa.api.names import path_segment


def _validate(source: ObjectMetricSource, path: str) -> Iterator[FieldError]:
    described = source.described_object
    for name, value in (("kind", described.kind), ("name", described.name)):
        if not value:
            yield required(f"{path}.describedObject.{name}")
        for message in path_segment(value):
            yield invalid(f"{path}.describedObject.{name}", value, message)
    yield from validate_identifier(source.metric, f"{path}.metric")
    yield from validate_target(source.target, f"{path}.target")
    target = source.target
    if target.value is None and target.average_value is None:
        yield required(f"{path}.target.averageValue", "must set either a target value or averageValue")
    elif target.type == "AverageValue" and target.average_value is None:
        yield required(f"{path}.target.averageValue", "must be set when the target type is AverageValue")
    elif target.type == "Value" and target.value is None:
        yield required(f"{path}.target.value", "must be set when the target type is Value")


def _identity(source: ObjectMetricSource) -> tuple[object, ...]:
    described = source.described_object
    return described.kind, described.name, *series_identity(source)


RULES: Final = MetricRules(_validate, _identity, selector_of_series, strict_target=True)
