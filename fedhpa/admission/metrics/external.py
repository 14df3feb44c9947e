"""The rules of the metric type External. Its messages are those of Kubernetes HPA 1.36."""

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
from fedhpa.api.fielderror import FieldError, forbidden, required
from fedhpa.api.metrics.external import ExternalMetricSource


def _validate(source: ExternalMetricSource, path: str) -> Iterator[FieldError]:
    yield from validate_identifier(source.metric, f"{path}.metric")
    yield from validate_target(source.target, f"{path}.target")
    value, average = source.target.value, source.target.average_value
    if value is None and average is None:
        detail = "must set either a target value for metric or a per-pod target"
        yield required(f"{path}.target.averageValue", detail)
    if value is not None and average is not None:
        detail = "may not set both a target value for metric and a per-pod target"
        yield forbidden(f"{path}.target.value", detail)


RULES: Final = MetricRules(_validate, series_identity, selector_of_series)
