"""autoscaling/v2 as the kinds of this project embed it, without metrics (`fedhpa.metric_types`).

Source: Kubernetes HPA 1.36, object model.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from fedhpa.api.model import (
    MAX_METRICS,
    ApiModel,
    Crd,
    Int32,
    Int64,
    LongText,
    Message,
    Name,
    RawQuantity,
    ScalarType,
    Text,
    Time,
)

POLICY_TYPES: Final = ("Percent", "Pods")
SELECT_POLICIES: Final = ("Disabled", "Max", "Min")
MAX_PERIOD_SECONDS: Final = 1800
MAX_STABILIZATION_WINDOW_SECONDS: Final = 3600

ScalingPolicyType = Annotated[Text, ScalarType("v2.HPAScalingPolicyType")]
ScalingPolicySelect = Annotated[Text, ScalarType("v2.ScalingPolicySelect")]
ConditionType = Annotated[Name, ScalarType("v2.HorizontalPodAutoscalerConditionType")]
ConditionStatus = Annotated[Name, ScalarType("v1.ConditionStatus")]


class V2Model(ApiModel):
    """A part of autoscaling/v2."""

    go_package: ClassVar[str] = "v2"


class CrossVersionObjectReference(V2Model):
    """A reference to one object in the namespace of the autoscaler."""

    required: ClassVar[tuple[str, ...]] = ("kind", "name")

    api_version: LongText = ""
    """API group and version of the object. Example: apps/v1."""
    kind: Annotated[Name, Crd({"minLength": 1})] = ""
    """Kind of the object. Example: Deployment."""
    name: Annotated[Name, Crd({"minLength": 1})] = ""
    """Name of the object, without kind or namespace. Example: web."""


class HPAScalingPolicy(V2Model):
    """A limit on how many replicas one direction may change within a period."""

    required: ClassVar[tuple[str, ...]] = ("periodSeconds", "type", "value")

    type: Annotated[ScalingPolicyType, Crd({"enum": POLICY_TYPES})] = ""
    """Unit of `value`: Pods (replicas) or Percent (of the current replicas). Example: Pods."""
    value: Annotated[Int32, Crd({"minimum": 1})] = 0
    """Largest change within the period, in replicas or percent. Greater than 0. Example: 4."""
    period_seconds: Annotated[Int32, Crd({"minimum": 1, "maximum": MAX_PERIOD_SECONDS})] = 0
    """Length of the period, in seconds. From 1 to 1800. Example: 60."""


class HPAScalingRules(V2Model):
    """Limits of the speed of change in one direction."""

    stabilization_window_seconds: (
        Annotated[Int32, Crd({"minimum": 0, "maximum": MAX_STABILIZATION_WINDOW_SECONDS})] | None
    ) = None
    """Seconds of past recommendations that are considered: scaling up takes the lowest of them, scaling down
    the highest. From 0 to 3600. Default: 0 for scaleUp; for scaleDown the controller's
    --horizontal-pod-autoscaler-downscale-stabilization ({DOWNSCALE_STABILIZATION_SECONDS}). Example: 60."""
    select_policy: Annotated[ScalingPolicySelect, Crd({"enum": SELECT_POLICIES})] | None = None
    """Max applies the policy that allows the largest change, Min the one that allows the smallest; Disabled
    forbids this direction. Default: Max. Example: Disabled."""
    # None means that the field is absent. An empty list was written, and is refused.
    policies: Annotated[
        tuple[HPAScalingPolicy, ...] | None, Crd({"minItems": 1, "maxItems": MAX_METRICS})
    ] = None
    """Limits on the change within a period; at least one if given. Default: for scaleUp 4 pods or 100 percent
    in 15 seconds, for scaleDown 100 percent in 15 seconds. Example: [{type: Pods, value: 4, periodSeconds:
    60}]."""
    tolerance: RawQuantity | None = None
    """Fraction by which a metric may differ from its target before the replicas change. At least 0. Default:
    the controller's --horizontal-pod-autoscaler-tolerance ({TOLERANCE}). Example: 50m (5 percent)."""


class Behavior(V2Model):
    """Limits of the speed of change, up and down."""

    go_name: ClassVar[str] = "HorizontalPodAutoscalerBehavior"

    scale_up: HPAScalingRules | None = None
    """Limits on scaling up. Default: no stabilization window; 4 pods or 100 percent in 15 seconds, whichever
    is more. Example: {stabilizationWindowSeconds: 30}."""
    scale_down: HPAScalingRules | None = None
    """Limits on scaling down. Default: the controller's stabilization window
    ({DOWNSCALE_STABILIZATION_SECONDS} seconds); 100 percent in 15 seconds. Example:
    {stabilizationWindowSeconds: 600}."""


class Condition(V2Model):
    """A condition of the object."""

    go_name: ClassVar[str] = "HorizontalPodAutoscalerCondition"

    required: ClassVar[tuple[str, ...]] = ("status", "type")

    type: ConditionType = ""
    """Type of the condition. Example: AbleToScale."""
    status: ConditionStatus = ""
    """True, False or Unknown."""
    reason: LongText = ""
    """Reason for the status, as one word for programs."""
    message: Message = ""
    """Explanation of the status for people."""
    last_transition_time: Time | None = None
    """When the status changed last."""
    observed_generation: Int64 | None = None
    """metadata.generation of the spec that the condition is about."""
