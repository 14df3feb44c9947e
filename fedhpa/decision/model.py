"""The decision: the one value that status, events, series and explanations render."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from fedhpa.api.placement_decisions import Profile
from fedhpa.api.times import format_time, known_time
from fedhpa.assignment import (
    TEMPLATE,
    Bounds,
    ClusterState,
    Outcome,
    Plan,
    RemoveHpa,
    Result,
    SetBounds,
    Write,
    next_scales,
)
from fedhpa.decision.memory import NO_MEMORY, History, MemoryState
from fedhpa.decision.settings import ControllerSettings
from fedhpa.metric_types.metric import ClusterShare, PodCounts

JSON = object


class StatusCondition(msgspec.Struct, frozen=True, rename="camel"):
    """A status condition; `last_transition_time` is RFC 3339 as stored, "" if unknown.

    `observed_generation` is the object's generation that the condition is about, None if it is not stated.
    """

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = ""
    observed_generation: JSON = None

    @property
    def since(self) -> float | None:
        """When the status changed, in POSIX seconds; None if that cannot be read."""
        return known_time(self.last_transition_time)


class Event(msgspec.Struct, frozen=True):
    """A core/v1 Event to record: `type` is Normal or Warning."""

    type: str
    reason: str
    message: str


class Step(msgspec.Struct, frozen=True, gc=False, rename={"before": "from", "after": "to"}):
    """One step from the present size to the decided one. Steps that change nothing are kept, too."""

    step: str
    before: int
    after: int
    reason: str


class Coverage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The expected, answering and missing clusters, and the partialMetrics policy.

    `missing` maps a cluster to the reason. `applied` is True if the policy was in force because a cluster was
    missing. `lost` maps the clusters that have been missing for lostAfterSeconds, and are therefore no longer
    expected, to the present reason. `bridged` are answering clusters whose last answer stands for a missed
    one, with its age in seconds.
    """

    expected: tuple[str, ...]
    answered: tuple[str, ...]
    missing: Mapping[str, str]
    policy: str
    applied: bool
    lost: Mapping[str, str] = {}
    bridged: Mapping[str, float] = {}

    @property
    def unanswered(self) -> str:
        """An expected cluster that is missing or bridged; "" if there is none."""
        return next(iter((*self.missing, *self.bridged)), "")


class MetricResult(msgspec.Struct, frozen=True, rename={"usage_ratio": "usageRatio"}):
    """The result of one entry of spec.metrics; `status` is its entry of status.currentMetrics.

    `missing` maps the clusters that answered but failed to serve this metric to the reason.
    """

    index: int
    type: str
    name: str
    current: Mapping[str, JSON] | None
    target: Mapping[str, JSON]
    usage_ratio: float | None
    proposal: int | None
    error: str | None
    pods: PodCounts | None = None
    clusters: Mapping[str, ClusterShare] = {}
    status: Mapping[str, JSON] = {}
    missing: Mapping[str, str] = {}


class ClusterMembership(msgspec.Struct, frozen=True, gc=False, rename={"waits_for": "waitsFor"}):
    """The membership of a cluster that is no Member, and what it waits for."""

    membership: str
    waits_for: str = ""


class MemberBounds(msgspec.Struct, frozen=True, gc=False):
    """The HPA of one cluster after a pass of mode Distributed. Without an HPA both bounds are 0.

    `replicas` is a scale that the hub writes itself.

    The other fields are for people. `current` are its replicas, None if unknown. `need` is what a pinned HPA
    asks for, None unless it is pinned. The flags say that the cluster `is_missing` (it does not answer), that
    its bounds count in no sum (`is_lost`), that it runs nothing by scalingToZero (`is_at_zero`), and that its
    HPA is not ours (`is_foreign`). `part` is its part of minReplicas, if minReplicas is another number.
    """

    cluster: str
    min_replicas: int
    max_replicas: int
    replicas: int | None = None
    current: int | None = None
    need: int | None = None
    is_missing: bool = False
    is_lost: bool = False
    is_at_zero: bool = False
    is_foreign: bool = False
    part: int | None = None


def member_bounds(cluster: str, bounds: Bounds | None, state: ClusterState) -> MemberBounds:
    """Returns the bounds of one cluster with what its state says about them."""
    least = 0 if bounds is None else bounds.minimum
    return MemberBounds(
        cluster=cluster,
        min_replicas=least,
        max_replicas=0 if bounds is None else bounds.maximum,
        is_lost=state.lost,
        is_at_zero=state.zero_since is not None,
        part=state.minimum if bounds is not None and state.minimum and state.minimum != least else None,
    )


class PublishedCluster(msgspec.Struct, frozen=True, gc=False):
    """A cluster that should have the workload, its membership, and its ClusterProfile, None without one."""

    cluster: str
    reason: str
    profile: Profile | None = None


class PublishPlacement(msgspec.Struct, frozen=True):
    """The write of a placement for others to follow, in order of rank.

    Without clusters, what was published before is removed.
    """

    clusters: tuple[PublishedCluster, ...] = ()


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The actions to take, and why. `error` is None if a decision could be made.

    `conditions`, `status`, `events` and `history` assume that the scale write succeeds. `rescale` asks for
    that write. `why` is the reason for people: unlike `reason`, which is Kubernetes', it is never empty if a
    size is written. `split` has the clusters whose share changes with direct propagation, as text.
    `assignment` has each cluster's share to write with direct propagation, and is empty otherwise. `moves`
    asks for the write although the size stays: replicas move between clusters. `missed` are the expected
    clusters without a usable answer now, also where the last one stands for it. `implausible` are the
    clusters with implausible answers. `failed_over` are the lost clusters whose replicas the others have
    after this decision. `tolerance` is how far usage may be above and below a target without a change.
    `propagation` ("" if unknown) and `settings` are the controller's flags. `memberships` are those of the
    clusters that are no Members. `placement` is what is to be published, None to leave that as it is.
    `unready` says that pods become ready in no cluster; "" if some do.

    Mode Distributed: `bounds` are those of all members. `plan` is the pass, and `hpa_writes` are all its
    writes in order if each succeeds. `removals` are clusters that are no longer selected and lose our HPA.
    `changes` names every write of the pass for people, also those that a dry run only shows.
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
    conditions: tuple[StatusCondition, ...]
    events: tuple[Event, ...]
    status: Mapping[str, JSON]
    history: History
    assignment: Mapping[str, int] = {}
    moves: bool = False
    why: str = ""
    split: str = ""
    missed: frozenset[str] = frozenset()
    implausible: frozenset[str] = frozenset()
    failed_over: frozenset[str] = frozenset()
    propagation: str = ""
    tolerance: tuple[float, float] | None = None
    settings: ControllerSettings = ControllerSettings()
    memberships: Mapping[str, ClusterMembership] = {}
    unready: str = ""
    placement: PublishPlacement | None = None
    memory: MemoryState = NO_MEMORY
    distributed: bool = False
    bounds: tuple[MemberBounds, ...] = ()
    plan: Plan | None = None
    hpa_writes: tuple[SetBounds, ...] = ()
    removals: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()

    @property
    def writes(self) -> bool:
        """True if a scale or a member HPA must be written."""
        return self.rescale or self.moves

    def next_writes(self, present: Mapping[str, int], outcomes: Sequence[Outcome] = ()) -> tuple[Write, ...]:
        """Returns the writes that may be sent now, all at once; none when all were tried.

        `present` are the replicas that can be written, by cluster, or TEMPLATE. `outcomes` are those of all
        earlier writes, in order.
        """
        if self.distributed:
            return self._next_of_pass(present, outcomes)
        wanted = {TEMPLATE: self.desired_replicas} if TEMPLATE in present else self.assignment
        return next_scales(wanted, present, outcomes, moves=self.moves)

    def _next_of_pass(self, present: Mapping[str, int], outcomes: Sequence[Outcome]) -> tuple[Write, ...]:
        """The next writes of mode Distributed: what leaves, then bounds and scales."""
        results = {(type(one.write), one.write.cluster): one.result for one in outcomes}
        failed = {one.write.cluster for one in outcomes if one.result is not Result.CONFIRMED}
        batch: tuple[Write, ...] = ()
        if self.plan is not None:
            # The replicas of these clusters go before others may grow. The HPA goes last: a controller that
            # restarts in between knows the cluster by it.
            batch = next_scales(dict.fromkeys(self.removals, 0), present, outcomes) or tuple(
                RemoveHpa(name)
                for name in self.removals
                if name not in failed and (RemoveHpa, name) not in results
            )
            batch = batch or self.plan.next_writes(outcomes)
        if batch or self.plan is None:
            return batch
        # A cluster whose HPA was not written waits for the next pass.
        unwritten = {one.write.cluster for one in outcomes if _left_as_it_was(one)}
        wanted = {name: size for name, size in self.plan.scales.items() if name not in unwritten}
        return next_scales(wanted, present, outcomes)


def _left_as_it_was(outcome: Outcome) -> bool:
    return isinstance(outcome.write, SetBounds) and outcome.result is not Result.CONFIRMED


# The condition that follows from all others.
READY: Final = "Ready"
NORMAL: Final = "Normal"
WARNING: Final = "Warning"
# People read conditions. The CRD would allow eight times as much.
MAX_MESSAGE: Final = 4096


class DecisionBuilder:
    """Starts from the stored conditions; a condition that the decision does not set stays as it is.

    Ready is left out, because it follows from the others and is rendered with the status.
    """

    def __init__(self, stored: Iterable[StatusCondition], now: float) -> None:
        self.now = now
        self.events: list[Event] = []
        self.steps: list[Step] = []
        self._conditions = {condition.type: condition for condition in stored if condition.type != READY}

    @property
    def conditions(self) -> tuple[StatusCondition, ...]:
        """All conditions, in the order in which they were first set."""
        return tuple(self._conditions.values())

    def has(self, type: str) -> bool:
        """True if the condition is set and True."""
        found = self._conditions.get(type)
        return found is not None and found.status == "True"

    def message(self, type: str) -> str | None:
        """Returns the condition's message; None if the condition is not set."""
        found = self._conditions.get(type)
        return None if found is None else found.message

    def found(self, type: str) -> StatusCondition | None:
        """Returns the condition; None if it is not set."""
        return self._conditions.get(type)

    def condition(self, type: str, status: bool | None, reason: str, message: str) -> None:
        """Set a condition; status None is Unknown. Its transition time changes only with its status."""
        known = self._conditions.get(type)
        text = "Unknown" if status is None else str(status)
        changed = known is None or known.status != text
        since = api_time(self.now) if known is None or changed else known.last_transition_time
        self._conditions[type] = StatusCondition(type, text, reason, shortened(message), since)

    def forget(self, type: str) -> None:
        """Remove a stored condition."""
        self._conditions.pop(type, None)

    def warn(self, reason: str, message: str) -> None:
        """Add a Warning event."""
        self.events.append(Event(WARNING, reason, message))

    def event(self, reason: str, message: str) -> None:
        """Add a Normal event."""
        self.events.append(Event(NORMAL, reason, message))

    def step(self, step: str, before: int, after: int, reason: str) -> int:
        """Add a step and return `after`."""
        self.steps.append(Step(step, before, after, reason))
        return after


def shortened(message: str, most: int = MAX_MESSAGE) -> str:
    """Returns the message cut to `most` characters: an API server refuses a message that is too long."""
    return message if len(message) <= most else message[: most - 3] + "..."


def api_time(seconds: float) -> str:
    """Returns a time as metav1.Time has it: whole seconds."""
    return _text_of(seconds // 1)


# A decision writes its own time once for each cluster and condition.
@lru_cache(maxsize=64)
def _text_of(seconds: float) -> str:
    return format_time(seconds)


def condition_json(condition: StatusCondition) -> Mapping[str, JSON]:
    """Returns a condition as the status has it."""
    entry: dict[str, JSON] = {"type": condition.type, "status": condition.status}
    if condition.observed_generation is not None:
        entry["observedGeneration"] = condition.observed_generation
    if condition.last_transition_time:
        entry["lastTransitionTime"] = condition.last_transition_time
    return {**entry, "reason": condition.reason, "message": condition.message}
