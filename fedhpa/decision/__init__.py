"""One decision: scaling, coverage and assignment put together, and its renderings. Pure."""

from fedhpa.decision.history import History, Recommendation, ScaleEvent
from fedhpa.decision.model import (
    Assignment,
    ClusterShare,
    Condition,
    Coverage,
    Decision,
    Event,
    MetricResult,
    PodCounts,
    Step,
)
from fedhpa.decision.snapshot import (
    ClusterScale,
    ClusterSnapshot,
    ControllerSettings,
    Failure,
    MemberHPA,
    Snapshot,
    Target,
)
from fedhpa.decision.spec import ScalingObject, ScalingSpec, decode_object

__all__ = [
    "Assignment",
    "ClusterScale",
    "ClusterShare",
    "ClusterSnapshot",
    "Condition",
    "ControllerSettings",
    "Coverage",
    "Decision",
    "Event",
    "Failure",
    "History",
    "MemberHPA",
    "MetricResult",
    "PodCounts",
    "Recommendation",
    "ScaleEvent",
    "ScalingObject",
    "ScalingSpec",
    "Snapshot",
    "Step",
    "Target",
    "decode_object",
]
