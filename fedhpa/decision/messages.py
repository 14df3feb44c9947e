"""Condition types and texts. Tools match on those of Kubernetes' HPA controller (Kubernetes HPA 1.36)."""

from __future__ import annotations

from typing import Final

from fedhpa.metric_types.metric import ScalingMetric

ABLE_TO_SCALE: Final = "AbleToScale"
SCALING_ACTIVE: Final = "ScalingActive"
SCALING_LIMITED: Final = "ScalingLimited"
SCALED_TO_ZERO: Final = "ScaledToZero"
METRICS_COMPLETE: Final = "MetricsComplete"
ASSIGNED: Final = "Assigned"
SOLE_OWNER: Final = "SoleOwner"
HUB_COMPATIBLE: Final = "HubCompatible"
MEMBERS_AVAILABLE: Final = "MembersAvailable"
REBALANCED: Final = "Rebalanced"
SURVIVES_CLUSTER_LOSS: Final = "SurvivesClusterLoss"
HELD: Final = "Held"
PUBLISHED: Final = "Published"
PLACEMENT_UNREADABLE: Final = "PlacementUnreadable"

# The reason of Ready while the ScalingRecord cannot be read or written.
NO_RECORD: Final = "NoRecord"

GOT_SCALE: Final = "the HPA controller was able to get the target's current scale"
READY_FOR_NEW_SCALE: Final = "recommended size matches current size"
HIGHER_RECOMMENDED: Final = (
    "recent recommendations were higher than current one, applying the highest recent recommendation"
)
LOWER_RECOMMENDED: Final = (
    "recent recommendations were lower than current one, applying the lowest recent recommendation"
)
DISABLED_AT_ZERO: Final = "scaling is disabled since the replica count of the target is zero"
IS_SCALED_TO_ZERO: Final = "the HPA controller scaled the workload to zero"
NOT_SCALED_TO_ZERO: Final = "the HPA controller did not scale the workload to zero"
ABOVE_MAXIMUM: Final = "Current number of replicas above Spec.MaxReplicas"
BELOW_MINIMUM: Final = "Current number of replicas below Spec.MinReplicas"
NO_OTHER_SIZE: Final = "usage calls for no other size"
ALL_BELOW_TARGET: Final = "All metrics below target"
NO_OTHER_AUTOSCALER: Final = "no other autoscaler of the target was found"
NO_MEMBER: Final = (
    "no Member can take more replicas, so cordoned clusters get them: add a cluster, uncordon one, or raise "
    "autoscalingMaxThreshold"
)
MEMBERS_HAVE_ROOM: Final = "Members take all replicas"
HUB_IS_OURS: Final = "the hub keeps all fields, and nobody else was found to act on FederatedHPAs"
NOT_HELD: Final = "no hold is in force"
NO_SELECTOR: Final = "the HPA target's scale is missing a selector"
SELECTOR_REQUIRED: Final = "selector is required"
# Karmada's words: Kubernetes has only one cluster. Instead of its guess at the cause, the reasons follow.
NO_CLUSTER: Final = "failed to get replicas in any of clusters"


def failure_of(spec: ScalingMetric, error: str) -> str:
    """Returns the error of a failed metric, with the name of its source in front."""
    source = spec.metric_type.failure_source.format(name=spec.name, container=spec.container)
    return f"failed to get {source} metric value: {error}" if source else error
