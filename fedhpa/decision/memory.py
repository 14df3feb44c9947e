"""The memory that one decision leaves to the next: the state in the ScalingRecord of a FederatedHPA.

It has the past recommendations and scale events, the clocks of clusters that are missing, the rebalance and
the shares. `MemoryState` is the struct and its own codec: JSON with times as POSIX seconds and without
defaults. Of a quiet cluster only its share is stored, so that the state of 300 clusters stays below 48 KiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeVar, cast, get_args

import msgspec
from msgspec.structs import fields

from fedhpa.api.taints import LEAVING, MEMBER
from fedhpa.api.times import Seconds
from fedhpa.assignment import NO_COURSE, NO_STATE, ClusterState, Count, Course
from fedhpa.scaling import Recommendation, ScaleEvent

T = TypeVar("T")

# status.clusters[].state. Clusters in the first three states answered.
ANSWERED: Final = "Answered"
METRICS_MISSING: Final = "MetricsMissing"
METRICS_LOST: Final = "MetricsLost"
MISSING: Final = "Missing"
LOST: Final = "Lost"
ANSWERED_STATES: Final = frozenset((ANSWERED, METRICS_MISSING, METRICS_LOST))
LOST_STATES: Final = frozenset((METRICS_LOST, LOST))
# Of each of these an event has told that the cluster, or its data, went missing.
TOLD_STATES: Final = frozenset((MISSING, METRICS_MISSING, *LOST_STATES))

# With a smaller part, a cluster that is missing most of the time would be expected for ever. With the whole
# time, one failure an hour would make a healthy cluster a lost one.
STEADY_SHARE: Final = 0.5


class Absence(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The clock of one cluster.

    `since` is the first loss and `back` the time when data came again, None while the cluster is missing;
    both are POSIX seconds. `answered` is how many seconds the cluster answered between them. `gone` is when
    the present loss began, None if that is the first one.
    """

    since: Seconds
    back: Seconds | None = None
    answered: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    gone: Seconds | None = None

    def unbroken(self, now: float) -> float:
        """Returns for how many seconds the cluster has been missing without a break."""
        return max(now - (self.since if self.gone is None else self.gone), 0.0) if self.back is None else 0.0

    def elapsed(self, now: float) -> float:
        """Returns for how many seconds the cluster has been missing. A time in the future counts as now."""
        until = now if self.back is None else min(self.back, now)
        return max(until - self.since - self.answered, 0.0)


def follow(
    known: Absence | None, usable: bool, now: float, lost_after: float, missed_since: float | None = None
) -> Absence | None:
    """Returns the clock after a reconcile that found the data `usable` or not; None if no clock runs.

    `missed_since` is when the data was missed first, None for now.
    """
    lost_at = now if missed_since is None else min(missed_since, now)
    if known is None:
        return None if usable else Absence(lost_at)
    # The clock of a former leader may have been ahead of ours.
    since, back = min(known.since, now), known.back if known.back is None else min(known.back, now)
    if usable:
        back = now if back is None else back
        forgotten = now - back >= lost_after * STEADY_SHARE
        return None if forgotten else Absence(since, back, known.answered, known.gone)
    if back is None:
        return Absence(since, None, known.answered, known.gone)
    lost_at = max(lost_at, back)
    return Absence(since, None, known.answered + lost_at - back, lost_at)


# The most entries of each kind that are stored.
_MAX_ENTRIES: Final = 120
# Nothing has changed for so long when a return begins, or a condition about free capacity gets better.
QUIET_SECONDS: Final = 600.0
# The largest difference between the clocks of two leaders.
MAX_SKEW_SECONDS: Final = 60.0


class History(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The history of one autoscaler. `recommendations` None is a fresh start: the present size is the first.

    The order of the entries is part of the state: Kubernetes replaces outdated entries in place.
    """

    recommendations: tuple[Recommendation, ...] | None = None
    scale_ups: tuple[ScaleEvent, ...] = ()
    scale_downs: tuple[ScaleEvent, ...] = ()


def history_at(history: History, now: float) -> History:
    """Returns the history as it counts at `now`: times from a leader whose clock was ahead count as now.

    A scale event more than a minute ahead is dropped: it would use up a policy that is not its own. A
    recommendation holds the size for one window at most, so it counts as now however far ahead it is.
    """
    recommendations = history.recommendations
    if recommendations and any(entry.time > now for entry in recommendations):
        recommendations = tuple(
            Recommendation(min(entry.time, now), entry.replicas) for entry in recommendations
        )
    ups, downs = _events_at(history.scale_ups, now), _events_at(history.scale_downs, now)
    return History(recommendations, ups, downs)


def _events_at(events: tuple[ScaleEvent, ...], now: float) -> tuple[ScaleEvent, ...]:
    if not any(event.time > now for event in events):
        return events
    return tuple(
        ScaleEvent(min(event.time, now), event.change)
        for event in events
        if event.time <= now + MAX_SKEW_SECONDS
    )


def bounded_history(history: History) -> History:
    """Returns the entries that can change a later decision: at most 120 of each kind.

    A recommendation counts only if every later one is lower, or every later one is higher. If too many
    remain, the newest are kept. Scale events above the limit are added to the oldest one that is kept: it
    then counts for longer, so the rate limit gets no looser.
    """
    return History(
        None if history.recommendations is None else _extremes(history.recommendations),
        _merged(history.scale_ups),
        _merged(history.scale_downs),
    )


def _extremes(entries: Sequence[Recommendation]) -> tuple[Recommendation, ...]:
    kept: list[Recommendation] = []
    highest: int | None = None
    lowest: int | None = None
    for entry in sorted(entries, key=lambda entry: entry.time, reverse=True):
        if highest is None or lowest is None or entry.replicas > highest or entry.replicas < lowest:
            kept.append(entry)
            highest = entry.replicas if highest is None else max(highest, entry.replicas)
            lowest = entry.replicas if lowest is None else min(lowest, entry.replicas)
    return tuple(reversed(kept[:_MAX_ENTRIES]))


def _merged(events: Sequence[ScaleEvent]) -> tuple[ScaleEvent, ...]:
    if len(events) <= _MAX_ENTRIES:
        return tuple(events)
    ordered = sorted(events, key=lambda event: event.time)
    cut = len(ordered) - _MAX_ENTRIES
    oldest = ScaleEvent(ordered[cut].time, sum(event.change for event in ordered[: cut + 1]))
    return (oldest, *ordered[cut + 1 :])


def prolonged_history(history: History, until: float) -> History:
    """Returns the history with its last recommendation repeated at the latest time at which it surely held.

    The recommendations made since the record was written are lost but were the same, or it would have been
    written again. Without them the stabilization window would end too early.
    """
    known = history.recommendations
    last = max(known or (), key=lambda entry: entry.time, default=None)
    if known is None or last is None or until <= last.time:
        return history
    return msgspec.structs.replace(history, recommendations=(*known, Recommendation(until, last.replicas)))


# A state of another version is neither read nor overwritten. Fields that are only added do not raise it.
VERSION: Final = 1


class Rebalance(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The last rebalance: one that an annotation asked for, or a return to the division of the policy.

    `requested` is the annotation's value, "" without one. It began at `since`, in POSIX seconds. `ended` is
    why it ended, "" while it goes on. While it does, `goal` are the shares that it moves to.
    A return began with the shares `before` in the clusters that are to grow. No cluster can give a replica
    since `blocked_since`. After a return that served nothing, none begins until `rests_until`.
    """

    requested: str
    since: Seconds
    ended: str = ""
    goal: dict[str, Count] = {}
    is_return: bool = False
    before: dict[str, Count] = {}
    blocked_since: Seconds | None = None
    rests_until: Seconds | None = None

    def ends(self, why: str) -> Rebalance:
        """Returns the rebalance after it ended."""
        return msgspec.structs.replace(self, ended=why, goal={}, before={}, blocked_since=None)


class Standing(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The membership of one cluster, and the one that affinity and taints ask for; times are POSIX seconds.

    `membership` began at `since`, and `own` is True if a taint of `fedhpa cordon` or `fedhpa drain` asks for
    it. `asked` is what is asked for, since `asked_since` if that differs. `warned` is True once a leave took
    too long. Its pods have not become ready since `stuck_since`, None if they do. A `new` cluster began to
    host the workload, and its pods have served since `serves_since`, None if they do not.
    """

    membership: str = MEMBER
    since: Seconds | None = None
    own: bool = False
    asked: str = MEMBER
    asked_since: Seconds | None = None
    warned: bool = False
    stuck_since: Seconds | None = None
    new: bool = False
    serves_since: Seconds | None = None


NEW_MEMBER: Final = Standing()


class Awaited(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A selected cluster without the workload `since` a time in POSIX seconds; `warned` once that is long."""

    since: Seconds
    warned: bool = False


# So many changes by others within this time are a conflict. It is over once nothing has changed for as long.
# One change by a person is none: the controller simply decides anew.
CHANGES: Final = 3
WITHIN_SECONDS: Final = 600.0


class SizeChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A size that is not the one that the controller `left`, because another client set it: `found`.

    `by` is the field manager that set it, "" if unknown. `cluster` is "" for the template on the hub.
    """

    left: Count
    found: Count
    cluster: str = ""
    by: str = ""


class Resets(msgspec.Struct, frozen=True, omit_defaults=True):
    """The `times` of the last changes by others in POSIX seconds, at most CHANGES, and the `last` of them."""

    times: tuple[Seconds, ...]
    last: SizeChange

    @property
    def is_conflict(self) -> bool:
        """True if another client keeps changing the size."""
        return len(self.times) >= CHANGES


def resets_after(known: Resets | None, change: SizeChange | None, now: float) -> Resets | None:
    """Returns the changes after a reconcile at `now` that found one, or found none; None if all are old."""
    # The clock of a former leader may have been ahead of ours.
    times = () if known is None else tuple(min(at, now) for at in known.times)
    recent = tuple(at for at in times if now - at < WITHIN_SECONDS)
    if known is None or not known.is_conflict or not recent:
        times = recent
    if change is not None:
        return Resets((*times, now // 1)[-CHANGES:], change)
    return Resets(times, known.last) if known is not None and times else None


# With gc=False the garbage collection does not search the records of each object and cluster: that took half
# of the time of an object with 100 clusters. None of them can be part of a cycle.
class ClusterMemory(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel", kw_only=True):
    """One cluster after a decision; times are POSIX seconds.

    `replicas` is its share, None if unknown. `state` is that of status.clusters. `seen` is when it answered
    last, None if it did at the decision. `scaled` is when its share changed last. `holds_hpa` is True if our
    HPA may be in the cluster although `assignment` has no maximum: it was about to be written.
    `lacking_since` is since when it has fewer pods than replicas. `answered_since` is when its data came back
    after a gap, None once that is long ago, and where replicas do not return. `uid` is a hash of that of the
    cluster, "" if unknown.
    """

    replicas: Count | None = None
    state: str = ANSWERED
    seen: Seconds | None = None
    scaled: Seconds | None = None
    assignment: ClusterState = NO_STATE
    holds_hpa: bool = False
    standing: Standing = NEW_MEMBER
    lacking_since: Seconds | None = None
    answered_since: Seconds | None = None
    uid: str = ""

    def with_assignment(self, assignment: ClusterState, *, holds_hpa: bool) -> ClusterMemory:
        """Returns the cluster with these; the same one if it has them already."""
        if self.holds_hpa is holds_hpa and self.assignment is assignment:
            return self
        return msgspec.structs.replace(self, assignment=assignment, holds_hpa=holds_hpa)

    @property
    def has_moved(self) -> bool:
        """True if more replicas than the size may run because of the cluster."""
        standing = self.standing
        if standing is NEW_MEMBER or not self.replicas:
            return False
        return standing.stuck_since is not None or standing.membership == LEAVING


# A cluster that the object knew at some time, and of which nothing is remembered.
KNOWN_BEFORE: Final = ClusterMemory(state=MISSING)


class MemoryState(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    """The memory of one FederatedHPA; the default is a fresh start.

    `size` is that of the workload after the decision, None if unknown. `absences` are the clocks of lost
    clusters. `assigned_for` is what the bounds of mode Distributed were divided for, and `course` what its
    next pass needs besides. `resets` are changes of
    the size by other clients. `target` is the URL path of the workload, "" if unknown. `awaited` are selected
    clusters without the workload. `followed` are the clusters that a PlacementDecision of another scheduler
    has selected.
    """

    size: Count | None = None
    history: History = History()
    absences: dict[str, Absence] = {}
    rebalance: Rebalance | None = None
    clusters: dict[str, ClusterMemory] = {}
    assigned_for: str = ""
    course: Course = NO_COURSE
    resets: Resets | None = None
    target: str = ""
    awaited: dict[str, Awaited] = {}
    followed: tuple[str, ...] = ()

    @property
    def shares(self) -> dict[str, int]:
        """The clusters' replicas after the decision, as far as known."""
        return {name: one.replicas for name, one in self.clusters.items() if one.replicas is not None}

    @property
    def states(self) -> dict[str, str]:
        """The state of each cluster that the decision knew."""
        return {name: one.state for name, one in self.clusters.items()}

    @property
    def unable(self) -> list[str]:
        """The clusters that were lost or leaving at the decision, so that they take no replicas."""
        return [
            name
            for name, one in self.clusters.items()
            if one.state == LOST or one.standing.membership == LEAVING
        ]

    def standing(self, cluster: str) -> Standing | None:
        """Returns the membership of a cluster after the decision; None if it did not know the cluster."""
        known = self.clusters.get(cluster)
        return None if known is None else known.standing

    @property
    def clusters_with_hpas(self) -> set[str]:
        """The clusters that may have an HPA of ours."""
        return {name for name, one in self.clusters.items() if one.holds_hpa or one.assignment.maximum}

    def assignment(self, cluster: str) -> ClusterState:
        """Returns what mode Distributed remembers of a cluster."""
        known = self.clusters.get(cluster)
        return NO_STATE if known is None else known.assignment


NO_MEMORY: Final = MemoryState()


def moved(known: T, seconds: float, kind: object = None) -> T:
    """Returns a struct with all its times moved, also those within it; the same one if it has none.

    `kind` is the type that the value is declared with. Times are those that are declared as Seconds.
    """
    found: Any = known
    parts = get_args(kind)
    if isinstance(known, float) and Seconds in (kind, *parts):
        found = max(known + seconds, 0.0)
    elif isinstance(known, msgspec.Struct):
        before = {each.name: (getattr(known, each.name), each.type) for each in fields(known)}
        after = {name: moved(value, seconds, declared) for name, (value, declared) in before.items()}
        if any(after[name] is not value for name, (value, _) in before.items()):
            found = msgspec.structs.replace(known, **after)
    elif isinstance(known, dict):
        found = {name: moved(one, seconds) for name, one in known.items()}
    elif isinstance(known, tuple):
        found = tuple([moved(one, seconds, parts[0] if parts else None) for one in known])
    return cast(T, found)
