"""autoscaling/v2 as FederatedHPA embeds it: metrics, behavior and their status.

Source: Kubernetes HPA 1.36, object model. `aggregation` of Object and External metrics is an extension.
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
    LongText,
    Message,
    Name,
    RawQuantity,
    ScalarType,
    Text,
    Time,
)

AGGREGATIONS: Final = ("Sum", "Average", "Max", "Min")
POLICY_TYPES: Final = ("Percent", "Pods")
SELECT_POLICIES: Final = ("Disabled", "Max", "Min")

ATOMIC: Final = {"x-kubernetes-list-type": "atomic"}

MetricSourceType = Annotated[Text, ScalarType("v2.MetricSourceType", {"type": "string"})]
MetricTargetType = Annotated[Text, ScalarType("v2.MetricTargetType", {"type": "string"})]
ScalingPolicyType = Annotated[Text, ScalarType("v2.HPAScalingPolicyType", {"type": "string"})]
ScalingPolicySelect = Annotated[Text, ScalarType("v2.ScalingPolicySelect", {"type": "string"})]
ConditionType = Annotated[Name, ScalarType("v2.HorizontalPodAutoscalerConditionType", {"type": "string"})]
ConditionStatus = Annotated[Name, ScalarType("v1.ConditionStatus", {"type": "string"})]
Aggregation = Annotated[Text, Checked({"enum": AGGREGATIONS})]

_AGGREGATION: Final = (
    "How the values of several clusters become one: Sum, Average, Max or Min. Not allowed with mode "
    "Distributed. Default: Sum. Example: Max."
)
_CURRENT: Final = "Current value of the metric."
_METRIC: Final = "Name and selector of the metric."


class V2Model(ApiModel):
    """A part of autoscaling/v2."""

    go_package: ClassVar[str] = "v2"


class CrossVersionObjectReference(V2Model):
    """A reference to one object in the namespace of the autoscaler."""

    required: ClassVar[tuple[str, ...]] = ("kind", "name")

    api_version: LongText = Field("", description="API group and version of the object. Example: apps/v1.")
    kind: Name = Field("", description="Kind of the object. Example: Deployment.")
    name: Name = Field("", description="Name of the object, without kind or namespace. Example: web.")


class MetricIdentifier(V2Model):
    """Name and selector of a metric."""

    required: ClassVar[tuple[str, ...]] = ("name",)

    name: LongText = Field(
        "", description="Name of the metric in the metrics API. Example: http_requests_per_second."
    )
    selector: LabelSelector | None = Field(
        None,
        description="Selects the series of the metric by their labels; the metrics API evaluates it. "
        "Default: all series. Example: {matchLabels: {queue: orders}}.",
    )


class MetricTarget(V2Model):
    """The value at which the autoscaler holds a metric. Set `type` and the field that goes with the type."""

    required: ClassVar[tuple[str, ...]] = ("type",)

    type: MetricTargetType = Field(
        "",
        description="Utilization (with averageUtilization), Value (with value) or AverageValue "
        "(with averageValue). Example: Utilization.",
    )
    value: RawQuantity | None = Field(
        None,
        description="Target of the whole metric, as a quantity in the metric's own unit. For Object and "
        "External metrics. Example: 30 or 10k.",
    )
    average_value: RawQuantity | None = Field(
        None,
        description="Target per pod, as a quantity in the metric's own unit: the average over all pods of "
        "all clusters, or the whole metric divided by their number. Example: 500m (half a core of cpu) "
        "or 200Mi (memory).",
    )
    average_utilization: Int32 | None = Field(
        None,
        description="Target of the average usage, in percent of what the pods request. For Resource and "
        "ContainerResource metrics. At least 1. Example: 80.",
    )


class ResourceMetricSource(V2Model):
    """A resource that metrics.k8s.io reports, summed over the containers of each pod."""

    required: ClassVar[tuple[str, ...]] = ("name", "target")

    name: LongText = Field("", description="Name of the resource. Example: cpu or memory.")
    target: MetricTarget = Field(
        default_factory=MetricTarget,
        description="Target of the resource. Example: {type: Utilization, averageUtilization: 80}.",
    )


class ContainerResourceMetricSource(V2Model):
    """A resource that metrics.k8s.io reports, of one container of each pod."""

    required: ClassVar[tuple[str, ...]] = ("container", "name", "target")

    name: LongText = Field("", description="Name of the resource. Example: cpu or memory.")
    container: LongText = Field("", description="Name of the container in the pods. Example: app.")
    target: MetricTarget = Field(
        default_factory=MetricTarget,
        description="Target of the resource. Example: {type: AverageValue, averageValue: 500m}.",
    )


class PodsMetricSource(V2Model):
    """A metric that custom.metrics.k8s.io reports for each pod."""

    required: ClassVar[tuple[str, ...]] = ("metric", "target")

    metric: MetricIdentifier = Field(
        default_factory=MetricIdentifier,
        description="The metric. Example: {name: http_requests_per_second}.",
    )
    target: MetricTarget = Field(
        default_factory=MetricTarget,
        description="Target of the average over the pods. "
        'Example: {type: AverageValue, averageValue: "100"}.',
    )


class ObjectMetricSource(V2Model):
    """A metric that custom.metrics.k8s.io reports for one object that is no pod."""

    required: ClassVar[tuple[str, ...]] = ("describedObject", "metric", "target")

    described_object: CrossVersionObjectReference = Field(
        default_factory=CrossVersionObjectReference,
        description="The object that the metric describes, in the autoscaler's namespace. "
        "Example: {apiVersion: networking.k8s.io/v1, kind: Ingress, name: web}.",
    )
    metric: MetricIdentifier = Field(
        default_factory=MetricIdentifier, description="The metric. Example: {name: requests_per_second}."
    )
    target: MetricTarget = Field(
        default_factory=MetricTarget,
        description="Target of the metric, as a whole (Value) or for each pod (AverageValue). "
        "Example: {type: Value, value: 10k}.",
    )
    aggregation: Aggregation | None = Field(None, description=_AGGREGATION)


class ExternalMetricSource(V2Model):
    """A metric of something outside Kubernetes, which external.metrics.k8s.io reports."""

    required: ClassVar[tuple[str, ...]] = ("metric", "target")

    metric: MetricIdentifier = Field(
        default_factory=MetricIdentifier,
        description="The metric. Example: {name: queue_depth, selector: {matchLabels: {queue: orders}}}.",
    )
    target: MetricTarget = Field(
        default_factory=MetricTarget,
        description="Target of the metric, as a whole (Value) or for each pod (AverageValue). "
        'Example: {type: AverageValue, averageValue: "30"}.',
    )
    aggregation: Aggregation | None = Field(None, description=_AGGREGATION)


class MetricSpec(V2Model):
    """One metric. Set `type`, and the one source field that belongs to the type."""

    required: ClassVar[tuple[str, ...]] = ("type",)

    type: Annotated[MetricSourceType, Crd({"enum": tuple(sorted(metric_types.BY_NAME))})] = Field(
        "",
        description="Type of the metric: Resource, ContainerResource, Pods, Object or External. "
        "Example: Resource.",
    )
    object: ObjectMetricSource | None = Field(
        None,
        description="Source of type Object: a custom metric of one object, such as the requests of an "
        "Ingress. Can scale from zero.",
    )
    external: ExternalMetricSource | None = Field(
        None,
        description="Source of type External: a metric from outside Kubernetes, such as the length of a "
        "queue. Can scale from zero.",
    )
    pods: PodsMetricSource | None = Field(
        None,
        description="Source of type Pods: a custom metric of each pod, averaged over the pods of all "
        "clusters.",
    )
    resource: ResourceMetricSource | None = Field(
        None,
        description="Source of type Resource: cpu or memory of whole pods, averaged over the pods of all "
        "clusters.",
    )
    container_resource: ContainerResourceMetricSource | None = Field(
        None,
        description="Source of type ContainerResource: cpu or memory of one container in each pod. Use it "
        "where sidecars would distort the average.",
    )


class HPAScalingPolicy(V2Model):
    """A limit on how many replicas one direction may change within a period."""

    required: ClassVar[tuple[str, ...]] = ("periodSeconds", "type", "value")

    type: Annotated[ScalingPolicyType, Crd({"enum": POLICY_TYPES})] = Field(
        "",
        description="Unit of `value`: Pods (replicas) or Percent (of the current replicas). Example: Pods.",
    )
    value: Int32 = Field(
        0,
        description="Largest change within the period, in replicas or percent. Greater than 0. Example: 4.",
    )
    period_seconds: Int32 = Field(
        0, description="Length of the period, in seconds. From 1 to 1800. Example: 60."
    )


class HPAScalingRules(V2Model):
    """How fast the replicas may change in one direction."""

    stabilization_window_seconds: Int32 | None = Field(
        None,
        description="Seconds of past recommendations that are considered: scaling up takes the lowest of "
        "them, scaling down the highest. From 0 to 3600. Default: 0 for scaleUp; for scaleDown the "
        "controller's --horizontal-pod-autoscaler-downscale-stabilization (300). Example: 60.",
    )
    select_policy: Annotated[ScalingPolicySelect, Crd({"enum": SELECT_POLICIES})] | None = Field(
        None,
        description="Max applies the policy that allows the largest change, Min the one that allows the "
        "smallest; Disabled forbids this direction. Default: Max. Example: Disabled.",
    )
    # None means that the field is absent. An empty list was written, and is refused.
    policies: Annotated[tuple[HPAScalingPolicy, ...] | None, Crd({"maxItems": MAX_METRICS, **ATOMIC})] = (
        Field(
            None,
            description="Limits on the change within a period; at least one if given. Default: for scaleUp 4 "
            "pods or 100 percent in 15 seconds, for scaleDown 100 percent in 15 seconds. "
            "Example: [{type: Pods, value: 4, periodSeconds: 60}].",
        )
    )
    tolerance: RawQuantity | None = Field(
        None,
        description="Fraction by which a metric may differ from its target before the replicas change. At "
        "least 0. Default: the controller's --horizontal-pod-autoscaler-tolerance (0.1). Example: 50m "
        "(5 percent).",
    )


class Behavior(V2Model):
    """How fast the replicas may change, up and down."""

    go_name: ClassVar[str] = "HorizontalPodAutoscalerBehavior"

    scale_up: HPAScalingRules | None = Field(
        None,
        description="Limits on scaling up. Default: no stabilization window; 4 pods or 100 percent in 15 "
        "seconds, whichever is more. Example: {stabilizationWindowSeconds: 30}.",
    )
    scale_down: HPAScalingRules | None = Field(
        None,
        description="Limits on scaling down. Default: the controller's stabilization window (300 seconds); "
        "100 percent in 15 seconds. Example: {stabilizationWindowSeconds: 600}.",
    )


class MetricValueStatus(V2Model):
    """Current value of a metric; the field that is set corresponds to the type of the target."""

    value: RawQuantity | None = Field(None, description="Value of the whole metric, as a quantity.")
    average_value: RawQuantity | None = Field(
        None, description="Average over all pods of all clusters, as a quantity."
    )
    average_utilization: Int32 | None = Field(
        None, description="Average usage over all pods, in percent of what they request."
    )


class ResourceMetricStatus(V2Model):
    """Current value of a Resource metric."""

    required: ClassVar[tuple[str, ...]] = ("current", "name")

    name: LongText = Field("", description="Name of the resource.")
    current: MetricValueStatus = Field(default_factory=MetricValueStatus, description=_CURRENT)


class ContainerResourceMetricStatus(V2Model):
    """Current value of a ContainerResource metric."""

    required: ClassVar[tuple[str, ...]] = ("container", "current", "name")

    name: LongText = Field("", description="Name of the resource.")
    container: LongText = Field("", description="Name of the container.")
    current: MetricValueStatus = Field(default_factory=MetricValueStatus, description=_CURRENT)


class PodsMetricStatus(V2Model):
    """Current value of a Pods metric."""

    required: ClassVar[tuple[str, ...]] = ("current", "metric")

    metric: MetricIdentifier = Field(default_factory=MetricIdentifier, description=_METRIC)
    current: MetricValueStatus = Field(default_factory=MetricValueStatus, description=_CURRENT)


class ObjectMetricStatus(V2Model):
    """Current value of an Object metric."""

    required: ClassVar[tuple[str, ...]] = ("current", "describedObject", "metric")

    described_object: CrossVersionObjectReference = Field(
        default_factory=CrossVersionObjectReference, description="The object that the metric describes."
    )
    metric: MetricIdentifier = Field(default_factory=MetricIdentifier, description=_METRIC)
    current: MetricValueStatus = Field(default_factory=MetricValueStatus, description=_CURRENT)


class ExternalMetricStatus(V2Model):
    """Current value of an External metric."""

    required: ClassVar[tuple[str, ...]] = ("current", "metric")

    metric: MetricIdentifier = Field(default_factory=MetricIdentifier, description=_METRIC)
    current: MetricValueStatus = Field(default_factory=MetricValueStatus, description=_CURRENT)


class MetricStatus(V2Model):
    """Current value of one metric: `type`, and the field that belongs to the type."""

    required: ClassVar[tuple[str, ...]] = ("type",)

    type: MetricSourceType = Field("", description="Type of the metric, as in spec.metrics.")
    object: ObjectMetricStatus | None = Field(None, description="Value of type Object.")
    external: ExternalMetricStatus | None = Field(None, description="Value of type External.")
    pods: PodsMetricStatus | None = Field(None, description="Value of type Pods.")
    resource: ResourceMetricStatus | None = Field(None, description="Value of type Resource.")
    container_resource: ContainerResourceMetricStatus | None = Field(
        None, description="Value of type ContainerResource."
    )


class Condition(V2Model):
    """A condition of the object."""

    go_name: ClassVar[str] = "HorizontalPodAutoscalerCondition"

    required: ClassVar[tuple[str, ...]] = ("status", "type")

    type: ConditionType = Field("", description="Type of the condition. Example: AbleToScale.")
    status: ConditionStatus = Field("", description="True, False or Unknown.")
    reason: LongText = Field("", description="Reason for the status, as one word for programs.")
    message: Message = Field("", description="Explanation of the status for people.")
    last_transition_time: Time | None = Field(None, description="When the status changed last.")
