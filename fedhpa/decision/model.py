"""The decision: one value that status, events, series and explanations are renderings of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fedhpa.decision.absence import Absence
from fedhpa.decision.history import History

JSON = object

# status.clusters[].state. Clusters in the first three states answered.
ANSWERED: Final = "Answered"
METRICS_MISSING: Final = "MetricsMissing"
METRICS_LOST: Final = "MetricsLost"
MISSING: Final = "Missing"
LOST: Final = "Lost"
ANSWERED_STATES: Final = frozenset((ANSWERED, METRICS_MISSING, METRICS_LOST))
LOST_STATES: Final = frozenset((METRICS_LOST, LOST))


class Condition(msgspec.Struct, frozen=True):
    """A status condition; `last_transition_time` is RFC 3339 as stored, "" if unknown."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str = ""


class Event(msgspec.Struct, frozen=True):
    """A core/v1 Event to record: `type` is Normal or Warning."""

    type: str
    reason: str
    message: str


class Step(msgspec.Struct, frozen=True):
    """One step from the present size to the decided one, also when it changed nothing."""

    step: str
    before: int
    after: int
    reason: str


class Coverage(msgspec.Struct, frozen=True):
    """Which clusters were expected, which answered, what was missing with its reason, and the policy.

    `applied` says that something was missing, so that the policy was in force. `lost` clusters went
    missing longer than lostAfterSeconds ago and are no longer expected; the reason is what is wrong now.
    """

    expected: tuple[str, ...]
    answered: tuple[str, ...]
    missing: Mapping[str, str]
    policy: str
    applied: bool
    lost: Mapping[str, str] = {}


class PodCounts(msgspec.Struct, frozen=True):
    """How the pods were classified for a metric."""

    ready: int = 0
    unready: int = 0
    missing: int = 0
    ignored: int = 0


class ClusterShare(msgspec.Struct, frozen=True):
    """What one cluster contributed to a metric: pods, and the sum of their values as a quantity."""

    pods: int
    value: str


class MetricResult(msgspec.Struct, frozen=True):
    """The outcome of one entry of spec.metrics; `status` is its entry of status.currentMetrics.

    `missing` are the clusters that answered but for this metric's data, with the reason.
    """

    index: int
    type: str
    name: str
    current: Mapping[str, JSON] | None
    target: Mapping[str, JSON]
    usage_ratio: float | None
    proposal: int | None
    error: str | None
    pods: PodCounts | None
    clusters: Mapping[str, ClusterShare]
    status: Mapping[str, JSON]
    missing: Mapping[str, str] = {}


class Assignment(msgspec.Struct, frozen=True):
    """What one cluster is given. The bounds are those of a member HPA, None without one."""

    cluster: str
    replicas: int
    min_replicas: int | None = None
    max_replicas: int | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What to do, and why. `error` is None if a decision could be made.

    `conditions`, `status`, `events` and `history` assume that the scale write, if `rescale` asks for one,
    succeeds. `assignment` is empty unless the members' scales are to be written (direct propagation).
    `moves` says that it is to be written although the size stays: replicas go from one cluster to another.
    `absences` are the clocks of losses as they go on from here. `tolerance` is how far usage may be above
    and below a target before anything moves. `propagation` ("" if unknown) and `settings`
    (those that are not the default) are what the controller was told, for who decides again.
    """

    now: float
    current_replicas: int
    desired_replicas: int
    rescale: bool
    reason: str
    error: str | None
    coverage: Coverage
    metrics: tuple[MetricResult, ...]
    steps: tuple[Step, ...]
    conditions: tuple[Condition, ...]
    events: tuple[Event, ...]
    status: Mapping[str, JSON]
    history: History
    assignment: tuple[Assignment, ...]
    moves: bool = False
    absences: Mapping[str, Absence] = {}
    propagation: str = ""
    tolerance: tuple[float, float] | None = None
    settings: Mapping[str, JSON] = {}

    @property
    def writes(self) -> bool:
        """Whether the target's scale is to be written."""
        return self.rescale or self.moves
