"""The rules of the metric type Resource."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fedhpa.admission.metrics.parts import validate_usage_target
from fedhpa.admission.metrics.rules import MetricRules
from fedhpa.api.fielderror import FieldError, required
from fedhpa.api.metrics.resource import ResourceMetricSource


def _validate(source: ResourceMetricSource, path: str) -> Iterator[FieldError]:
    if not source.name:
        yield required(f"{path}.name", "must specify a resource name")
    yield from validate_usage_target(source.target, f"{path}.target")


def _identity(source: ResourceMetricSource) -> tuple[object, ...]:
    return (source.name,)


RULES: Final = MetricRules(_validate, _identity)
