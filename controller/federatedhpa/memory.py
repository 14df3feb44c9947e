"""What the controller remembers of each object between two looks, and how it survives a restart.

Everything here can be had again from the object's status: the history travels in `status.decision`, the
clusters' last shares and when each was last seen in `status.clusters`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import structlog

from controller.federatedhpa.cluster_reader import ClusterReading
from controller.federatedhpa.status import STILL_SECONDS
from fedhpa.api.errors import InvalidObject
from fedhpa.api.selectors import Selector
from fedhpa.api.times import parse_time
from fedhpa.decision.absence import Absence, decode_absences
from fedhpa.decision.history import History, Recommendation
from fedhpa.decision.model import Assignment, Decision
from fedhpa.decision.normalize import remember_scale
from fedhpa.decision.record.status import history_of
from fedhpa.decision.snapshot import ClusterScale, Failure, Snapshot
from fedhpa.decision.spec.federatedhpa import ANSWERED_STATES

# Long enough for others to take over, short enough for a right that was given to be noticed.
REFUSED_SECONDS: Final = 60.0

log = structlog.get_logger(__name__)


class _Cluster(msgspec.Struct, frozen=True):
    name: str = ""
    state: str = ""
    currentReplicas: int | None = None
    desiredReplicas: int | None = None
    lastSeen: str | None = None


class _Status(msgspec.Struct, frozen=True):
    currentReplicas: int | None = None
    desiredReplicas: int | None = None
    decision: dict[str, Any] | None = None
    clusters: list[_Cluster] | None = None


@dataclass
class ObjectMemory:
    """One FederatedHPA; times are POSIX seconds.

    `selectors` are the workload's, by cluster; `absences` are the clocks of losses, each counted from
    the first loss. `without_workload` are the clusters that, when last they answered,
    said that they have no such workload. `told_size` is the size that a former leader's status tells, until
    it was compared. `missing` are the clusters without usable data in the last decision.
    `refused` says when a cluster last did not take its share. `rivals` are the autoscalers that select the
    same pods, `rivals_basis` is what that was found from.
    `looked` says that it was looked at since this leader leads, `complaint` why it could not be read then.
    """

    uid: str
    target: str = ""
    history: History = field(default_factory=History)
    absences: dict[str, Absence] = field(default_factory=dict)
    last_replicas: dict[str, int] = field(default_factory=dict)
    selectors: dict[str, Selector] = field(default_factory=dict)
    without_workload: set[str] = field(default_factory=set)
    told_size: int | None = None
    missing: frozenset[str] = frozenset()
    refused: dict[str, float] = field(default_factory=dict)
    status_written_at: float = float("-inf")
    rivals: tuple[str, ...] = ()
    rivals_basis: object = None
    looked: bool = False
    complaint: str = ""

    @classmethod
    def restore(cls, raw: Mapping[str, Any], now: float) -> ObjectMemory:
        """The memory that the object's own status holds; an empty one if it holds none that can be read."""
        metadata = raw["metadata"]
        memory = cls(uid=str(metadata.get("uid", "")))
        try:
            status = msgspec.convert(raw.get("status") or {}, _Status)
            memory.history = history_of(status.decision)
            memory._recall(status)
            memory.history = _prolonged(memory.history, memory.status_written_at, now)
        except (InvalidObject, msgspec.ValidationError) as error:
            # Somebody wrote into our status: the present size becomes the first recommendation.
            log.warning(
                "memory lost",
                namespace=metadata.get("namespace"),
                name=metadata.get("name"),
                error=str(error),
            )
        return memory

    def _recall(self, status: _Status) -> None:
        decision = status.decision or {}
        if isinstance(time := decision.get("time"), str):
            self.status_written_at = parse_time(time) or self.status_written_at
        wrote = decision.get("rescale") is True or decision.get("moved") is True
        self.told_size = status.desiredReplicas if wrote else status.currentReplicas
        self.absences = decode_absences(decision.get("absences"))
        for cluster in status.clusters or ():
            # A status that tells of a write shows what was read before it beside what was written by it.
            written = cluster.desiredReplicas if wrote else None
            last = cluster.currentReplicas if written is None else written
            if last is not None:
                self.last_replicas[cluster.name] = last
            seen = parse_time(cluster.lastSeen)
            if cluster.state not in ANSWERED_STATES and seen is not None:
                self.absences.setdefault(cluster.name, Absence(seen))

    def refuses(self, cluster: str, now: float) -> bool:
        """Whether the cluster did not take its share a short while ago: others are asked meanwhile."""
        return 0 <= now - self.refused.get(cluster, float("-inf")) < REFUSED_SECONDS

    def aim_at(self, path: str) -> None:
        """Forget what was known of another workload; `path` is the target's."""
        if self.target not in ("", path):
            self.last_replicas.clear()
            self.refused.clear()
            self.without_workload.clear()
        self.target = path

    def note_absences(self, readings: Mapping[str, ClusterReading]) -> None:
        """Take over which clusters have no such workload; the word of one that went away still counts."""
        self.without_workload &= set(readings)
        for name, reading in readings.items():
            if reading.absent:
                self.without_workload.add(name)
            elif reading.scale is not None:
                self.without_workload.discard(name)

    def account(self, snapshot: Snapshot, now: float) -> None:
        """Count as ours what was scaled since a former leader's last status, at the first look that shows it.

        It may have been killed before it could say so, and policies must not allow the same step twice.
        """
        if self.told_size is None or isinstance(snapshot.target, Failure) or not snapshot.clusters:
            return
        if snapshot.target is not None:
            change = snapshot.target.replicas - self.told_size
        else:
            change = sum(
                cluster.scale.spec_replicas - self.last_replicas[cluster.name]
                for cluster in snapshot.clusters
                if isinstance(cluster.scale, ClusterScale) and cluster.name in self.last_replicas
            )
        self.told_size = None
        self.history = remember_scale(snapshot.hpa.spec, self.history, change, now)

    def observe(self, snapshot: Snapshot, decision: Decision) -> None:
        """Take over what a decision learned about the clusters (not the history: that needs the write)."""
        if not snapshot.clusters:
            return  # the hub was in the way: nothing was learned
        for cluster in snapshot.clusters:
            if isinstance(cluster.scale, ClusterScale):
                self.last_replicas[cluster.name] = cluster.scale.spec_replicas
        self.absences = dict(decision.absences)
        known = {cluster.name for cluster in snapshot.clusters}
        for table in (self.last_replicas, self.selectors, self.refused):
            for name in [name for name in table if name not in known]:
                del table[name]

    def wrote(self, assignment: Sequence[Assignment]) -> None:
        """Take over what was written: a cluster that is lost right after it still runs its new share."""
        self.last_replicas |= {share.cluster: share.replicas for share in assignment}


def _prolonged(history: History, written_at: float, now: float) -> History:
    """The history with its last recommendation, as if made when a quiet world would have written it again.

    As long as nothing but the time changes, status is up to STILL_SECONDS old. What was
    recommended since then is lost, but it was not different: the window would end too early without it.
    """
    known = history.recommendations
    if not known or written_at == float("-inf"):
        return history
    last = max(known, key=lambda entry: entry.time)
    until = min(written_at + STILL_SECONDS, now)
    if until <= last.time:
        return history
    return msgspec.structs.replace(history, recommendations=(*known, Recommendation(until, last.replicas)))
