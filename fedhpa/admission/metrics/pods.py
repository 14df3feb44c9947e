"""The rules of the metric type Pods."""

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
from fedhpa.api.fielderror import FieldError, required
from fedhpa.api.metrics.pods import PodsMetricSource


def _validate(source: PodsMetricSource, path: str) -> Iterator[FieldError]:
    yield from validate_identifier(source.metric, f"{path}.metric")
    yield from validate_target(source.target, f"{path}.target")
    if source.target.average_value is None:
        yield required(f"{path}.target.averageValue", "must specify a positive target averageValue")


RULES: Final = MetricRules(_validate, series_identity, selector_of_series)
