"""autoscaling/v2 as FederatedHPA embeds it: metrics, behavior and their status.

Source: Kubernetes HPA 1.36, object model. `aggregation` of object and external metrics is ours.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import Field

from fedhpa.api import metric_types
from fedhpa.api.meta import LabelSelector
from fedhpa.api.model import (
    MAX_METRICS,
    ApiModel,
    Checked,
    Crd,
    Int32,
    Kind,
    LongText,
    Message,
    Name,
    RawQuantity,
    Text,
    Time,
)

AGGREGATIONS: Final = ("Sum", "Average", "Max", "Min")
POLICY_TYPES: Final = ("Percent", "Pods")
SELECT_POLICIES: Final = ("Disabled", "Max", "Min")

ATOMIC: Final = {"x-kubernetes-list-type": "atomic"}

MetricSourceType = Annotated[Text, Kind("v2.MetricSourceType", {"type": "string"})]
MetricTargetType = Annotated[Text, Kind("v2.MetricTargetType", {"type": "string"})]
ScalingPolicyType = Annotated[Text, Kind("v2.HPAScalingPolicyType", {"type": "string"})]
ScalingPolicySelect = Annotated[Text, Kind("v2.ScalingPolicySelect", {"type": "string"})]
ConditionType = Annotated[Name, Kind("v2.HorizontalPodAutoscalerConditionType", {"type": "string"})]
ConditionStatus = Annotated[Name, Kind("v1.ConditionStatus", {"type": "string"})]
Aggregation = Annotated[Text, Checked({"enum": AGGREGATIONS})]


class V2Model(ApiModel):
    """A part of autoscaling/v2."""

    go_package: ClassVar[str] = "v2"


class CrossVersionObjectReference(V2Model):
    """The object to scale, or the one a metric describes."""

    required: ClassVar[tuple[str, ...]] = ("kind", "name")

    api_version: LongText = Field("", description="The API version of the object, such as apps/v1.")
    kind: Name = Field("", description="The kind of the object, such as Deployment.")
    name: Name = Field("", description="The name of the object.")


class MetricIdentifier(V2Model):
    """The name of a metric, and which series of it."""

    required: ClassVar[tuple[str, ...]] = ("name",)

    name: LongText = Field("", description="The name of the metric.")
    selector: LabelSelector | None = Field(
        None, description="Narrows the series of the metric; passed to the metrics API."
    )


class MetricTarget(V2Model):
    """The value to hold a metric at."""

    required: ClassVar[tuple[str, ...]] = ("type",)

    type: MetricTargetType = Field("", description="Utilization, Value or AverageValue.")
    value: RawQuantity | None = Field(None, description="The value to hold the metric at.")
    average_value: RawQuantity | None = Field(None, description="The average over all pods to hold.")
    average_utilization: Int32 | None = Field(
        None, description="The average to hold in percent of the pods' requests."
    )


class ResourceMetricSource(V2Model):
    """A resource of whole pods, such as cpu."""

    required: ClassVar[tuple[str, ...]] = ("name", "target")

    name: LongText = Field("", description="The name of the resource.")
    target: MetricTarget = Field(default_factory=MetricTarget, description="The value to hold.")


class ContainerResourceMetricSource(V2Model):
    """A resource of one container of each pod."""

    required: ClassVar[tuple[str, ...]] = ("container", "name", "target")

    name: LongText = Field("", description="The name of the resource.")
    container: LongText = Field("", description="The name of the container in the pods.")
    target: MetricTarget = Field(default_factory=MetricTarget, description="The value to hold.")


class PodsMetricSource(V2Model):
    """A custom metric of each pod."""

    required: ClassVar[tuple[str, ...]] = ("metric", "target")

    metric: MetricIdentifier = Field(default_factory=MetricIdentifier, description="Which metric.")
    target: MetricTarget = Field(default_factory=MetricTarget, description="The average to hold.")


class ObjectMetricSource(V2Model):
    """A custom metric of one object."""

    required: ClassVar[tuple[str, ...]] = ("describedObject", "metric", "target")

    described_object: CrossVersionObjectReference = Field(
        default_factory=CrossVersionObjectReference, description="The object the metric describes."
    )
    metric: MetricIdentifier = Field(default_factory=MetricIdentifier, description="Which metric.")
    target: MetricTarget = Field(default_factory=MetricTarget, description="The value to hold.")
    aggregation: Aggregation | None = Field(
        None, description="How the values of several clusters become one: Sum (default), Average, Max or Min."
    )


class ExternalMetricSource(V2Model):
    """A metric of no Kubernetes object, such as the length of a queue."""

    required: ClassVar[tuple[str, ...]] = ("metric", "target")

    metric: MetricIdentifier = Field(default_factory=MetricIdentifier, description="Which metric.")
    target: MetricTarget = Field(default_factory=MetricTarget, description="The value to hold.")
    aggregation: Aggregation | None = Field(
        None, description="How the values of several clusters become one: Sum (default), Average, Max or Min."
    )


class MetricSpec(V2Model):
    """One metric to scale by: `type` and the one field of its name."""

    required: ClassVar[tuple[str, ...]] = ("type",)

    type: Annotated[MetricSourceType, Crd({"enum": tuple(sorted(metric_types.BY_NAME))})] = Field(
        "", description="Resource, ContainerResource, Pods, Object or External."
    )
    object: ObjectMetricSource | None = Field(None, description="A custom metric of one object.")
    external: ExternalMetricSource | None = Field(None, description="A metric of no Kubernetes object.")
    pods: PodsMetricSource | None = Field(None, description="A custom metric of each pod.")
    resource: ResourceMetricSource | None = Field(None, description="A resource of whole pods.")
    container_resource: ContainerResourceMetricSource | None = Field(
        None, description="A resource of one container of each pod."
    )


class HPAScalingPolicy(V2Model):
    """How much may change within a period."""

    required: ClassVar[tuple[str, ...]] = ("periodSeconds", "type", "value")

    type: Annotated[ScalingPolicyType, Crd({"enum": POLICY_TYPES})] = Field(
        "", description="Pods or Percent."
    )
    value: Int32 = Field(0, description="How many pods, or how many percent; greater than zero.")
    period_seconds: Int32 = Field(0, description="The length of the period in seconds, 1 to 1800.")


class HPAScalingRules(V2Model):
    """How fast one direction may go. `policies` None is not given; an empty one is given, and refused."""

    stabilization_window_seconds: Int32 | None = Field(
        None, description="How far back recommendations are remembered, in seconds, 0 to 3600."
    )
    select_policy: Annotated[ScalingPolicySelect, Crd({"enum": SELECT_POLICIES})] | None = Field(
        None, description="Max, Min or Disabled."
    )
    policies: Annotated[tuple[HPAScalingPolicy, ...] | None, Crd({"maxItems": MAX_METRICS, **ATOMIC})] = (
        Field(None, description="What may change within a period; at least one.")
    )
    tolerance: RawQuantity | None = Field(
        None, description="How far the ratio of metric and target may be off 1 before anything is done."
    )


class Behavior(V2Model):
    """HorizontalPodAutoscalerBehavior: how fast either direction may go."""

    go_name: ClassVar[str] = "HorizontalPodAutoscalerBehavior"

    scale_up: HPAScalingRules | None = Field(None, description="How fast to scale up.")
    scale_down: HPAScalingRules | None = Field(None, description="How fast to scale down.")


class MetricValueStatus(V2Model):
    """The present value of a metric."""

    value: RawQuantity | None = None
    average_value: RawQuantity | None = None
    average_utilization: Int32 | None = None


class ResourceMetricStatus(V2Model):
    """The present value of a resource metric."""

    required: ClassVar[tuple[str, ...]] = ("current", "name")

    name: LongText = ""
    current: MetricValueStatus = Field(default_factory=MetricValueStatus)


class ContainerResourceMetricStatus(V2Model):
    """The present value of a container's resource metric."""

    required: ClassVar[tuple[str, ...]] = ("container", "current", "name")

    name: LongText = ""
    container: LongText = ""
    current: MetricValueStatus = Field(default_factory=MetricValueStatus)


class PodsMetricStatus(V2Model):
    """The present value of a pods metric."""

    required: ClassVar[tuple[str, ...]] = ("current", "metric")

    metric: MetricIdentifier = Field(default_factory=MetricIdentifier)
    current: MetricValueStatus = Field(default_factory=MetricValueStatus)


class ObjectMetricStatus(V2Model):
    """The present value of an object metric."""

    required: ClassVar[tuple[str, ...]] = ("current", "describedObject", "metric")

    described_object: CrossVersionObjectReference = Field(default_factory=CrossVersionObjectReference)
    metric: MetricIdentifier = Field(default_factory=MetricIdentifier)
    current: MetricValueStatus = Field(default_factory=MetricValueStatus)


class ExternalMetricStatus(V2Model):
    """The present value of an external metric."""

    required: ClassVar[tuple[str, ...]] = ("current", "metric")

    metric: MetricIdentifier = Field(default_factory=MetricIdentifier)
    current: MetricValueStatus = Field(default_factory=MetricValueStatus)


class MetricStatus(V2Model):
    """The present value of one metric: `type` and the one field of its name."""

    required: ClassVar[tuple[str, ...]] = ("type",)

    type: MetricSourceType = ""
    object: ObjectMetricStatus | None = None
    external: ExternalMetricStatus | None = None
    pods: PodsMetricStatus | None = None
    resource: ResourceMetricStatus | None = None
    container_resource: ContainerResourceMetricStatus | None = None


class Condition(V2Model):
    """HorizontalPodAutoscalerCondition."""

    go_name: ClassVar[str] = "HorizontalPodAutoscalerCondition"

    required: ClassVar[tuple[str, ...]] = ("status", "type")

    type: ConditionType = ""
    status: ConditionStatus = ""
    reason: LongText = ""
    message: Message = ""
    last_transition_time: Time | None = None
