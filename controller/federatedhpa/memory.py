"""The memory of an object between two reconciles, its restoration after a restart, and its clock.

A restarted controller restores it from the ScalingRecord. What a record need not repeat, it takes from the
status: the present shares, and until when the controller before surely worked.

Objects of Kubernetes and the status hold wall times, so the memory does too. After a step of the wall clock
windows would end at once, or never. Therefore the monotonic clock shows each step, and all times move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import structlog

from controller.apply.plan import MemberScales, sizes_of
from controller.failure_log import ObjectHealth
from controller.federatedhpa.pod_index import Look
from controller.federatedhpa.recording import STILL_SECONDS, Recording
from controller.hub_check import Contest
from controller.placement.placed import Placed
from fedhpa.api.errors import InvalidObject
from fedhpa.api.free_json import time_at
from fedhpa.api.json import convert_json
from fedhpa.api.selectors import Selector
from fedhpa.assignment import TEMPLATE
from fedhpa.decision import (
    DISTRIBUTED,
    KNOWN_BEFORE,
    MISSING,
    NO_MEMORY,
    Answer,
    ClusterScale,
    ClusterSnapshot,
    Decision,
    Failure,
    History,
    MemoryState,
    ScalingSpec,
    SeenMembers,
    SizeChange,
    Snapshot,
    StoredStatus,
    WorkloadReading,
    decode_spec,
    history_after_scale,
    moved,
    prolonged_history,
)
from fedhpa.members import Member

log = structlog.get_logger(__name__)

# Long enough for other clusters to take the share, short enough to notice a permission that was granted.
REFUSED_SECONDS: Final = 60.0
# A workload that is deleted and created again, or an etcd that is restored, answers 404 for a moment.
ABSENT_SECONDS: Final = 60.0
# Less is the slewing of a time service, or the time between the reads of the two clocks.
STEP_SECONDS: Final = 1.0
Completed = tuple[ClusterSnapshot, Mapping[str, Any], ClusterSnapshot]


@dataclass
class ObjectMemory:
    """All that this process knows of one FederatedHPA; times are POSIX seconds. It is dropped as a whole.

    `state` is what the last decision left, and `recording` how much of it is stored.
    `target` is the workload's URL path, `last_replicas` each cluster's last known share.
    `workloads` are the workload in each cluster as it was read last, with its pods' `selectors`. `scales` are
    those that writes depend on.
    `without_workload` names the clusters that have no such workload. A cluster that had it counts as having
    it for the first minute of such answers; `absent_since` is when they began.
    `reported_size` is the size in a former leader's status, until it is compared with the real one.
    `refused` maps a cluster to the time when it last refused a write of its share.
    `implausible_since` maps a cluster to the time since which each of its answers was implausible.
    `answers` are the last complete answers of the clusters, and `missed_since` maps a cluster to the time of
    the first miss since then.
    `left` are the sizes that the last decision left, by cluster, or TEMPLATE.
    `size` is the size of the last decision, None on a fresh start. `published` is the last status that was
    written, and as the hub stored it; `published_over` is the version of the object that it replaced, and
    `unpublished` the status that is still to be written.
    `ambiguous_with` are the autoscalers that select the same pods; `ambiguity_basis` is what they were
    computed from. `reconciled` is True after the first reconcile of this leader.
    `spec` is the generation whose spec was read last, and that spec.
    `looks` are what the readings of the clusters were made of last.
    `uids` are the short UIDs of the clusters when the reconcile began, "" for unknown. A UID that is read
    meanwhile must not get the memory of the cluster before. `placed` is what is known of its placement.
    `leaving_since` is since when member HPAs are to be removed. `clock_offset` is the difference of the wall
    clock and the monotonic one to which the times belong.

    Mode Distributed: `status` is that of the last decision, because the hub may not have stored it yet.
    `drift` are the changed fields of each cluster's HPA, with what they were computed from.
    `completed` has each cluster's reading, the other fields, and the snapshot of both; so `seen_members`.
    `hpa_fields` are those of all HPAs, and `steady` are all snapshots, each with all that it follows from.
    """

    uid: str
    recording: Recording
    state: MemoryState = NO_MEMORY
    target: str = ""
    history: History = field(default_factory=History)
    last_replicas: dict[str, int] = field(default_factory=dict)
    workloads: dict[str, WorkloadReading] = field(default_factory=dict)
    selectors: dict[str, Selector] = field(default_factory=dict)
    scales: MemberScales = field(default_factory=MemberScales)
    without_workload: set[str] = field(default_factory=set)
    absent_since: dict[str, float] = field(default_factory=dict)
    reported_size: int | None = None
    refused: dict[str, float] = field(default_factory=dict)
    implausible_since: dict[str, float] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    missed_since: dict[str, float] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    size: int | None = None
    published: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None
    published_over: object = None
    unpublished: Mapping[str, Any] | None = None
    status_written_at: float = float("-inf")
    ambiguous_with: tuple[str, ...] = ()
    ambiguity_basis: tuple[int, object, object] | None = None
    reconciled: bool = False
    status: Mapping[str, Any] | None = None
    drift: dict[str, tuple[object, tuple[str, ...]]] = field(default_factory=dict)
    completed: dict[str, Completed] = field(default_factory=dict)
    hpa_fields: tuple[object, Mapping[str, Mapping[str, Any]]] | None = None
    steady: tuple[object, tuple[ClusterSnapshot, ...]] | None = None
    seen_members: SeenMembers = field(default_factory=SeenMembers)
    placed: Placed = field(default_factory=Placed)
    spec: tuple[object, ScalingSpec] | None = None
    uids: dict[str, str] = field(default_factory=dict)
    looks: dict[str, Look] = field(default_factory=dict)
    health: ObjectHealth = field(default_factory=lambda: ObjectHealth(("", "")))
    contest: Contest = field(default_factory=Contest)
    leaving_since: float | None = None
    clock_offset: float | None = None

    def restore(self, raw: Mapping[str, Any], wall: float) -> None:
        """Take over what the record holds, with what the status of the object shows since.

        The times are those of another process. If its clock and ours, `wall`, differ, as that of the hub
        shows, the times move.
        """
        state, skew = self.recording.stored, self.recording.skew(wall)
        shares, seen = shown_shares(raw.get("status"))
        if state is not None:
            at = max(self.recording.at, seen)
            self.status_written_at = at
            # While nothing but times changes, the status is up to STILL_SECONDS old.
            until = min(at + STILL_SECONDS, wall - skew)
            self.state, self.history = state, prolonged_history(state.history, until)
            self.reported_size = self.size = state.size
            self.target = state.target
            # In mode Distributed the members change the shares, and the record need not follow.
            shares = {**state.shares, **shares} if state.assigned_for else {**shares, **state.shares}
        self.last_replicas = shares
        if skew:
            self.redate(skew)
            log.warning("record of a process with another clock", seconds=round(skew), uid=self.uid)

    def redate(self, seconds: float) -> None:
        """Move all times by so many seconds."""
        self.state, self.history = moved(self.state, seconds), moved(self.history, seconds)
        self.answers = {name: (one, at + seconds) for name, (one, at) in self.answers.items()}
        for table in (self.refused, self.implausible_since, self.missed_since, self.absent_since):
            table.update({name: at + seconds for name, at in table.items()})
        if self.leaving_since is not None:
            self.leaving_since += seconds
        self.placed.asked_since += seconds
        self.status_written_at += seconds
        self.recording.at += seconds

    def spec_of(self, raw: Mapping[str, Any]) -> ScalingSpec:
        """The spec of the object, read once for each generation. Raises InvalidObject."""
        generation = raw["metadata"].get("generation")
        if generation is None or self.spec is None or self.spec[0] != generation:
            spec = decode_spec(raw.get("spec"))
            if self.spec is not None and self.spec[1].metrics != spec.metrics:
                self.answers.clear()  # they answered other questions
            self.spec = generation, spec
        return self.spec[1]

    def running(self, path: str) -> frozenset[str]:
        """The clusters that may run replicas of the workload at the URL path, by the last decision.

        In mode Centralized a cluster that was lost may come back with its replicas, also after the others
        have taken them. It is forgotten only once it answers that nothing runs there.
        """
        if self.target not in ("", path):
            return frozenset()
        found = {name for name, replicas in self.last_replicas.items() if replicas}
        if self.spec is not None and self.spec[1].mode != DISTRIBUTED:
            found |= set(filter(self.was_seen, self.state.clusters))
        return frozenset(found)

    def was_seen(self, cluster: str) -> bool:
        """True if the cluster has answered at some time."""
        known = self.state.clusters.get(cluster)
        return known is not None and (known.state != MISSING or known.seen is not None)

    def refuses(self, cluster: str, now: float) -> bool:
        """True if the cluster refused a write within the last minute: other clusters take its share."""
        return 0 <= now - self.refused.get(cluster, float("-inf")) < REFUSED_SECONDS

    def implausible_for(self, cluster: str, now: float) -> float:
        """For how many seconds the cluster's answer has been implausible; 0 if it is not, or only now."""
        return max(now - self.implausible_since.get(cluster, now), 0.0)

    def decided_size(self, readings: Mapping[str, ClusterSnapshot]) -> int | None:
        """The size of the last decision, None on a fresh start.

        A former leader may have stopped between a write and its status. Clusters that all have the same
        number then show the size.
        """
        if self.reported_size is not None:
            scales = (reading.workload.scale for reading in readings.values())
            present = {scale.spec.replicas for scale in scales if scale is not None}
            if len(present) == 1:
                return present.pop()
        return self.size

    def set_target(self, path: str) -> None:
        """Forget what was known of another workload; `path` is the URL path of the present one."""
        if self.target not in ("", path):
            for table in self._tables:
                table.clear()
            self.size = self.reported_size = None
            self.history = History()
            self.state = msgspec.structs.replace(self.state, size=None, history=History(), resets=None)
            self.without_workload.clear()
            self.absent_since.clear()
        if self.target != path:
            self.target = path
            self.state = msgspec.structs.replace(self.state, target=path)

    def forget_replaced(self, members: Mapping[str, Member]) -> list[str]:
        """Forget clusters that are others than before under the same name. Returns these names."""
        # Of a name that nobody registers, a memory that only says that it was known is dropped.
        known = self.state.clusters
        if known.keys() - members.keys():
            known = {name: one for name, one in known.items() if name in members or one != KNOWN_BEFORE}
        self.uids = {name: member.short_uid for name, member in members.items()}
        if len(known) < len(self.state.clusters):
            self.state = msgspec.structs.replace(self.state, clusters=known)
        uids = self.uids.items()
        replaced = [name for name, uid in uids if uid and name in known and known[name].uid not in ("", uid)]
        if replaced:
            self.state = msgspec.structs.replace(
                self.state,
                clusters={**known, **dict.fromkeys(replaced, KNOWN_BEFORE)},
                absences={name: one for name, one in self.state.absences.items() if name not in replaced},
            )
            self.without_workload.difference_update(replaced)
            for table in (*self._tables, self.workloads, self.selectors, self.drift):
                _drop(table, replaced)
        return replaced

    @property
    def _tables(self) -> tuple[dict[str, Any], ...]:
        """The tables by cluster of what is known of the workload."""
        known = self.refused, self.implausible_since, self.answers, self.missed_since
        return self.last_replicas, self.left, *known

    def note_workloads(self, readings: Mapping[str, ClusterSnapshot], now: float) -> None:
        """Note which clusters have no such workload. For a cluster that is away, its last answer counts."""
        self.without_workload &= set(readings)
        absent = {name for name, reading in readings.items() if reading.workload.is_absent}
        self.absent_since = {name: min(self.absent_since.get(name, now), now) for name in absent}
        for name, reading in readings.items() if absent or self.without_workload else ():
            if name in absent:
                self.answers.pop(name, None)  # that it has none is an answer
                if name not in self.last_replicas or not self.briefly_absent(name, now):
                    self.without_workload.add(name)
            elif name in self.without_workload and reading.workload.scale is not None:
                self.without_workload.discard(name)

    def briefly_absent(self, cluster: str, now: float) -> bool:
        """True in the first minute in which the cluster answers that it has no such workload."""
        return now - self.absent_since.get(cluster, float("-inf")) < ABSENT_SECONDS

    def count_unreported_scale(self, snapshot: Snapshot, now: float) -> None:
        """Count what a former leader scaled after its last status, once the first snapshot shows the size.

        That leader may have stopped before it wrote its status, and no policy may allow the same step twice.
        """
        if self.reported_size is None or isinstance(snapshot.target, Failure) or not snapshot.clusters:
            return
        if snapshot.target is not None:
            change = snapshot.target.replicas - self.reported_size
        else:
            present, known = snapshot.replicas, self.last_replicas
            change = sum(present[name] - known[name] for name in present.keys() & known.keys())
        self.reported_size = None
        self.history = history_after_scale(snapshot.hpa.spec, self.history, change, now)

    def note_decision(self, snapshot: Snapshot, decision: Decision) -> None:
        """Keep what a decision learned about the clusters. Its history is kept only after the write."""
        if not snapshot.clusters:
            return  # the hub did not answer: nothing was learned
        if decision.memory is self.state:  # a decision at rest
            self.answers = {cluster.name: (cluster, decision.now) for cluster in snapshot.clusters}
            return
        for cluster in snapshot.clusters:
            if type(cluster.scale) is ClusterScale:
                self.last_replicas[cluster.name] = cluster.scale.spec_replicas
        self.last_replicas |= dict.fromkeys(decision.failed_over, 0)
        self.state = decision.memory
        self.implausible_since = {
            name: min(self.implausible_since.get(name, decision.now), decision.now)
            for name in decision.implausible
        }
        self.missed_since = {
            name: min(self.missed_since.get(name, decision.now), decision.now) for name in decision.missed
        }
        # An answer that is not plausible yet stands for no other one.
        doubtful = decision.missed | decision.implausible
        self.answers = {
            cluster.name: self.answers[cluster.name] if cluster.name in doubtful else (cluster, decision.now)
            for cluster in snapshot.clusters
            if cluster.name not in doubtful or cluster.name in self.answers
        }
        if decision.error is None:
            self.size = decision.desired_replicas if decision.writes else decision.current_replicas
        known = {cluster.name for cluster in snapshot.clusters}
        for table in (self.last_replicas, self.selectors, self.refused):
            _drop(table, table.keys() - known)

    def size_change(self, snapshot: Snapshot) -> SizeChange | None:
        """A size that others have changed since the last decision; None if nobody has, as far as known.

        A write that failed leaves sizes that nobody knows. In a dry run others are meant to scale the
        workload, and another autoscaler that is known explains all changes.
        """
        if snapshot.hpa.spec.dry_run or snapshot.competitors:
            return None
        sizes = sizes_of(snapshot)
        if sizes == self.left:
            return None
        changed = ((name, self.left.get(name, size), size) for name, size in sizes.items())
        return next((SizeChange(max(a, 0), max(b, 0), name) for name, a, b in changed if a != b), None)

    def note_left(self, snapshot: Snapshot, decision: Decision, written: Iterable[str]) -> None:
        """Note the sizes that a decision left after its writes to the clusters `written`.

        A cluster that is away keeps its last size.
        """
        _drop(self.left, self.left.keys() - {cluster.name for cluster in snapshot.clusters} - {TEMPLATE})
        self.left |= sizes_of(snapshot)
        if decision.writes and snapshot.target is not None:
            self.left[TEMPLATE] = decision.desired_replicas
        elif decision.writes:
            shares = decision.assignment
            self.left |= {name: shares[name] for name in written if name in shares}

    def leave_distributed(self) -> None:
        """Forget the sizes of mode Distributed, so that the change of the mode changes no replicas."""
        self.size = self.reported_size = self.status = None
        self.drift.clear()
        self.left.clear()


class SteppedClock:
    """The wall clock. `now` moves the times in an object's memory by the steps since its last call."""

    def __init__(self, wall: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._reported = wall() - monotonic()

    def now(self, memory: ObjectMemory) -> float:
        """The wall time in POSIX seconds; the times in `memory` are comparable with it afterwards."""
        wall = self._wall()
        offset = wall - self._monotonic()
        step = offset - (offset if memory.clock_offset is None else memory.clock_offset)
        if memory.clock_offset is None:
            memory.clock_offset = offset
        elif abs(step) >= STEP_SECONDS:
            memory.clock_offset = offset
            memory.redate(step)
            if abs(offset - self._reported) >= STEP_SECONDS:  # not for each object
                step, self._reported = offset - self._reported, offset
                log.warning("wall clock stepped; windows and clocks of losses go on", seconds=round(step, 1))
        return wall


def _drop(table: MutableMapping[str, Any], names: Iterable[str]) -> None:
    for name in names:
        table.pop(name, None)


def shown_shares(status: Any) -> tuple[dict[str, int], float]:
    """Returns the shares of a status, and when a cluster answered last; -inf if that is not known."""
    try:
        shares = convert_json(status if isinstance(status, Mapping) else {}, StoredStatus).shares
    except InvalidObject:
        return {}, float("-inf")  # another program wrote the status
    seen = time_at(status, "lastSeen")
    return shares, float("-inf") if seen is None else seen
