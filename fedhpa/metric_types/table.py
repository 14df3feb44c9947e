"""All metric types. A new one is a module beside this one, and a name in the list.

Source of the types: Kubernetes HPA 1.36, metric sources 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NoReturn

from fedhpa.api.autoscaling import V2Model
from fedhpa.metric_types.container_resource import CONTAINER_RESOURCE
from fedhpa.metric_types.external import EXTERNAL
from fedhpa.metric_types.metric import MeasuredFleet, MetricError, MetricIdentity, MetricType, ScalingMetric
from fedhpa.metric_types.object import OBJECT
from fedhpa.metric_types.pods import PODS
from fedhpa.metric_types.resource import RESOURCE
from fedhpa.scaling import CurrentSize, Readiness

# In the order in which Karmada's webhook checks the fields.
METRIC_TYPES: Final[Mapping[str, MetricType]] = {
    row.name: row for row in (OBJECT, EXTERNAL, PODS, RESOURCE, CONTAINER_RESOURCE)
}


def _unknown(_: MeasuredFleet, __: CurrentSize, ___: Readiness, spec: ScalingMetric) -> NoReturn:
    raise MetricError(f'unknown metric source type "{spec.type}"')


_UNKNOWN: Final = MetricType(
    "",
    description="",
    source=V2Model,
    status=V2Model,
    api="",
    per_pod=False,
    failure_source="",
    validate=lambda *_: iter(()),
    identity=lambda _: MetricIdentity(""),
    propose=_unknown,
    display_name=lambda spec: spec.type,
    status_fields=lambda _: {},
)


def metric_type(name: str) -> MetricType:
    """Returns the row of a type. For a name that is no metric type, returns a row without a field."""
    return METRIC_TYPES.get(name) or replace(_UNKNOWN, name=name)
