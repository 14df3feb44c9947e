"""One decision: what a FederatedHPA should do now, and why. Pure: no I/O and no clock.

`decide(snapshot, history, now, settings)` returns a `Decision`. Status, events, series, `fedhpa explain` and
`fedhpa replay` all render that one value. Other packages import from here.
"""

from fedhpa.decision.absence import Absence
from fedhpa.decision.decide import decide
from fedhpa.decision.explanation import to_text
from fedhpa.decision.history import History, Recommendation, ScaleEvent
from fedhpa.decision.model import (
    ANSWERED_STATES,
    LOST,
    Assignment,
    ClusterShare,
    Coverage,
    Decision,
    Event,
    MetricResult,
    PodCounts,
    StatusCondition,
    Step,
)
from fedhpa.decision.normalize import history_after_scale
from fedhpa.decision.record.annotation import is_shortened, record_text, with_record
from fedhpa.decision.record.compact import compact_decision
from fedhpa.decision.record.decision import to_json, to_line
from fedhpa.decision.record.rebalance import Rebalance
from fedhpa.decision.record.scenario import Scenario, decode_scenario, encode_scenario, scenario_name
from fedhpa.decision.record.status import StoredDecision, StoredStatus, read_status
from fedhpa.decision.settings import ControllerSettings
from fedhpa.decision.snapshot import (
    Blocked,
    ClusterScale,
    ClusterSnapshot,
    Failure,
    Finding,
    Snapshot,
    TemplateScale,
)
from fedhpa.decision.spec.federatedhpa import ScalingObject, ScalingSpec, decode_object
from fedhpa.decision.spec.metrics import ScalingMetric
from fedhpa.decision.spec.placement import PlacementSpec
from fedhpa.decision.summary import targets
from fedhpa.decision.whereabouts import (
    Search,
    forbidden_in_member,
    forbidden_on_hub,
    missing_in_members,
    missing_on_hub,
    no_candidates,
)

__all__ = [
    "ANSWERED_STATES",
    "LOST",
    "Absence",
    "Assignment",
    "Blocked",
    "ClusterScale",
    "ClusterShare",
    "ClusterSnapshot",
    "ControllerSettings",
    "Coverage",
    "Decision",
    "Event",
    "Failure",
    "Finding",
    "History",
    "MetricResult",
    "PlacementSpec",
    "PodCounts",
    "Rebalance",
    "Recommendation",
    "ScaleEvent",
    "ScalingMetric",
    "ScalingObject",
    "ScalingSpec",
    "Scenario",
    "Search",
    "Snapshot",
    "StatusCondition",
    "Step",
    "StoredDecision",
    "StoredStatus",
    "TemplateScale",
    "compact_decision",
    "decide",
    "decode_object",
    "decode_scenario",
    "encode_scenario",
    "forbidden_in_member",
    "forbidden_on_hub",
    "history_after_scale",
    "is_shortened",
    "missing_in_members",
    "missing_on_hub",
    "no_candidates",
    "read_status",
    "record_text",
    "scenario_name",
    "targets",
    "to_json",
    "to_line",
    "to_text",
    "with_record",
]
