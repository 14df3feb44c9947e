"""One decision: what a FederatedHPA should do now, and why. Pure: no I/O and no clock.

`decide(snapshot, history, now, settings)` returns a `Decision`. Status, events, series, `fedhpa explain` and
`fedhpa replay` all render that one value. Other packages import from here.
"""

from fedhpa.decision.decide import decide, normalize
from fedhpa.decision.distributed import SeenMembers
from fedhpa.decision.explanation import to_text
from fedhpa.decision.membership import membership_of
from fedhpa.decision.memory import (
    ANSWERED,
    ANSWERED_STATES,
    KNOWN_BEFORE,
    LOST,
    MISSING,
    NO_MEMORY,
    Absence,
    ClusterMemory,
    History,
    MemoryState,
    Rebalance,
    Resets,
    SizeChange,
    moved,
    prolonged_history,
    resets_after,
)
from fedhpa.decision.messages import (
    ABLE_TO_SCALE,
    ASSIGNED,
    NO_RECORD,
    PLACEMENT_UNREADABLE,
    PUBLISHED,
    SCALING_LIMITED,
)
from fedhpa.decision.model import (
    READY,
    Coverage,
    Decision,
    DecisionBuilder,
    Event,
    MetricResult,
    PublishedCluster,
    PublishPlacement,
    StatusCondition,
)
from fedhpa.decision.outcome import history_after_scale
from fedhpa.decision.record.decision import (
    StoredRecord,
    compact_decision,
    decode_stored,
    encode_stored,
    explained_json,
    to_json,
    to_line,
)
from fedhpa.decision.record.scenario import Scenario, decode_scenario, encode_scenario, scenario_name
from fedhpa.decision.settings import ControllerSettings
from fedhpa.decision.snapshot import (
    Answer,
    Answers,
    AwaitedCluster,
    Blocked,
    ClusterScale,
    ClusterSnapshot,
    Failure,
    Finding,
    PlacementInput,
    PublicationOutcome,
    ScalingObject,
    Snapshot,
    StoredStatus,
    TemplateScale,
    WorkloadReading,
    decode_object,
)
from fedhpa.decision.spec import (
    CENTRALIZED,
    DISTRIBUTED,
    PlacementSpec,
    ScalingSpec,
    decode_spec,
)
from fedhpa.decision.status import SELECTOR_SEPARATOR, held_since, targets
from fedhpa.scaling import Recommendation, ScaleEvent
