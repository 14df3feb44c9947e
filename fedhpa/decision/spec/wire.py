"""The JSON of a stored FederatedHPA, as msgspec structs with only the fields that a decision reads.

Admission has its own strict models. A stored object may have been admitted by another webhook or none, so
unknown fields are skipped here and no admission rule applies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fedhpa.api.metric_types import METRIC_TYPES
from fedhpa.api.wire import RawQuantity
from fedhpa.decision.record.status import RawStatus

RawObject = dict[str, object]


class RawMeta(msgspec.Struct):
    """metadata."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int | None = None
    annotations: object = None


class RawTargetRef(msgspec.Struct):
    """spec.scaleTargetRef."""

    kind: str = ""
    name: str = ""
    apiVersion: str | None = None


class _RawMetric(msgspec.Struct):
    """autoscaling/v2 MetricSpec."""

    type: str = ""


# The struct has a field for each row of the table of metric types, which a static checker cannot know.
if TYPE_CHECKING:
    RawMetric = _RawMetric
else:
    RawMetric = msgspec.defstruct(
        _RawMetric.__name__,
        [(row.field, row.raw | None, None) for row in METRIC_TYPES.values()],
        bases=(_RawMetric,),
    )


class RawPolicy(msgspec.Struct):
    """autoscaling/v2 HPAScalingPolicy."""

    type: str = ""
    value: int = 0
    periodSeconds: int = 0


class RawRules(msgspec.Struct):
    """autoscaling/v2 HPAScalingRules."""

    stabilizationWindowSeconds: int | None = None
    selectPolicy: str | None = None
    policies: list[RawPolicy] | None = None
    tolerance: RawQuantity | None = None


class RawBehavior(msgspec.Struct):
    """autoscaling/v2 HorizontalPodAutoscalerBehavior."""

    scaleUp: RawRules | None = None
    scaleDown: RawRules | None = None


class RawPartialMetrics(msgspec.Struct):
    """spec.partialMetrics."""

    policy: str | None = None
    lostAfterSeconds: float | None = None
    fallbackReplicas: int | None = None


class RawPreference(msgspec.Struct):
    """One entry of spec.federatedHPAAssignment.clusterAutoscalingPreference."""

    targetCluster: RawObject | None = None
    staticWeight: int | None = None
    priority: int | None = None
    autoscalingMinThreshold: int | None = None
    autoscalingMaxThreshold: int | None = None


class RawCap(msgspec.Struct):
    """spec.clusterHPAPreference, or one entry of it."""

    clusterName: str = ""
    maxResourceUsage: float | None = None


class RawAssignment(msgspec.Struct):
    """spec.federatedHPAAssignment."""

    federatedHPAAssignmentType: str | None = None
    minimumPolicy: str | None = None
    clusterAutoscalingPreference: list[RawPreference] | None = None


class RawSpec(msgspec.Struct):
    """spec."""

    scaleTargetRef: RawTargetRef = msgspec.field(default_factory=RawTargetRef)
    minReplicas: int | None = None
    maxReplicas: int | None = None
    federatedMinReplicas: int | None = None
    federatedMaxReplicas: int | None = None
    metrics: list[RawMetric] | None = None
    behavior: RawBehavior | None = None
    mode: str | None = None
    dryRun: bool | None = None
    partialMetrics: RawPartialMetrics | None = None
    federatedHPAAssignment: RawAssignment | None = None
    clusterHPAPreference: RawCap | list[RawCap] | None = None
    autoscaleMultiClusterDelay: float | None = None
    scaleAssist: bool | None = None
    scalingToZero: bool | None = None


class RawFederatedHPA(msgspec.Struct):
    """FederatedHPA."""

    metadata: RawMeta = msgspec.field(default_factory=RawMeta)
    spec: RawSpec = msgspec.field(default_factory=RawSpec)
    status: RawStatus | None = None
