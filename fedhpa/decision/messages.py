"""Condition types, and texts of both modes. Tools match on those of Kubernetes' HPA controller (1.36)."""

from __future__ import annotations

from typing import Final

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
IS_SCALED_TO_ZERO: Final = "the HPA controller scaled the workload to zero"
NOT_SCALED_TO_ZERO: Final = "the HPA controller did not scale the workload to zero"
