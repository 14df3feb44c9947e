"""Every module that works per metric type covers the whole table of metric types."""

from __future__ import annotations

import msgspec
import pytest

from fedhpa.admission.validation.metrics import validate_metric
from fedhpa.api.autoscaling import MetricSpec, MetricStatus
from fedhpa.api.metric_types import BY_NAME, METRIC_TYPES, MetricType, metric_type
from fedhpa.decision.spec.wire import RawMetric

EACH = pytest.mark.parametrize("row", METRIC_TYPES, ids=lambda row: row.name)


@EACH
def test_the_models_of_spec_and_status_have_a_field_for_each_type(row: MetricType) -> None:
    """The attribute and JSON field of the row are those of both models, and of the lenient decoder."""
    for model in (MetricSpec, MetricStatus):
        assert model.model_fields[row.attribute].alias == row.field
    assert row.field in {field.encode_name for field in msgspec.structs.fields(RawMetric)}


@EACH
def test_each_type_has_a_validator(row: MetricType) -> None:
    """An empty source of each type is refused inside the source's own field."""
    metric = MetricSpec.model_validate({"type": row.name, row.field: {}})

    paths = {error.path for error in validate_metric(metric, "metric")}

    assert paths
    assert all(path.startswith(f"metric.{row.field}.") for path in paths)


@EACH
def test_the_failure_reason_follows_kubernetes(row: MetricType) -> None:
    """Kubernetes' HPA builds the reason from the name of the type."""
    assert row.failure_reason == f"FailedGet{row.name}Metric"


def test_no_type_is_left_out() -> None:
    """A field of MetricSpec that is no row of the table would be admitted without validation."""
    assert {row.attribute for row in METRIC_TYPES} | {"type"} == set(MetricSpec.model_fields)
    assert len(BY_NAME) == len(METRIC_TYPES)


def test_an_unknown_type_has_a_row_that_nothing_serves() -> None:
    """An object with a type of a later version is still decided on: the metric fails by itself."""
    row = metric_type("Later")

    assert (row.name, row.api, row.per_pod, row.scales_from_zero) == ("", "", False, False)
    assert row.failure_reason == "InvalidMetricSourceType"
