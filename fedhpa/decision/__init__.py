"""One decision: scaling, coverage and assignment put together, and its renderings. Pure."""

from fedhpa.decision.decide import decide
from fedhpa.decision.explanation import to_text
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
from fedhpa.decision.record.decision import to_json, to_line
from fedhpa.decision.record.scenario import Scenario, decode_scenario
from fedhpa.decision.record.status import bounded, compact, decode_history, encode_history, history_of
from fedhpa.decision.snapshot import (
    Blocked,
    ClusterScale,
    ClusterSnapshot,
    ControllerSettings,
    Failure,
    MemberHPA,
    Snapshot,
    Target,
)
from fedhpa.decision.spec.federatedhpa import ScalingObject, ScalingSpec, decode_object

__all__ = [
    "Assignment",
    "Blocked",
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
    "Scenario",
    "Snapshot",
    "Step",
    "Target",
    "bounded",
    "compact",
    "decide",
    "decode_history",
    "decode_object",
    "decode_scenario",
    "encode_history",
    "history_of",
    "to_json",
    "to_line",
    "to_text",
]
