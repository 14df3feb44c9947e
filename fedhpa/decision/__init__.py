"""One decision: scaling, coverage and assignment put together, and its renderings. Pure."""

from fedhpa.decision.decide import decide
from fedhpa.decision.envelope import bounded, compact, decode_history, encode_history, history_of
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
from fedhpa.decision.render_json import to_json, to_line
from fedhpa.decision.render_text import to_text
from fedhpa.decision.scenario import Scenario, decode_scenario
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
from fedhpa.decision.spec import ScalingObject, ScalingSpec, decode_object

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
