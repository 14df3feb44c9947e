"""The stored status of a FederatedHPA, decoded once.

A decision, `fedhpa explain` and a restarted controller all read the status through `StoredStatus`. Another
program may have written it, so each part is decoded by itself: an unreadable part spoils no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import InvalidJson, convert_json
from fedhpa.api.times import format_time, parse_time
from fedhpa.assignment import Bounds, ClusterState, read_state
from fedhpa.decision.absence import Absence
from fedhpa.decision.history import History
from fedhpa.decision.model import (
    ANSWERED_STATES,
    LOST_STATES,
    Coverage,
    Decision,
    MemberBounds,
    MetricResult,
    StatusCondition,
    Step,
)
from fedhpa.decision.record.compact import (
    VERSION,
    CompactCoverage,
    CompactMetric,
    decode_absences,
    decode_compact,
)
from fedhpa.decision.record.fields import read_at
from fedhpa.decision.record.history import decode_history
from fedhpa.decision.record.rebalance import Rebalance, decode_rebalance
from fedhpa.decision.record.settings import stored_settings
from fedhpa.decision.settings import ControllerSettings

JSON = object


class RawCondition(msgspec.Struct):
    """One entry of status.conditions."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    lastTransitionTime: str | None = None
    observedGeneration: JSON = None


class RawClusterStatus(msgspec.Struct):
    """One entry of status.clusters."""

    name: str = ""
    state: str | None = None
    currentReplicas: JSON = None
    desiredReplicas: JSON = None
    lastScaleTime: str | None = None
    lastSeen: str | None = None
    message: JSON = None
    # The assignment of mode Distributed, as `fedhpa.assignment.state` writes it.
    minReplicas: JSON = None
    maxReplicas: JSON = None
    given: JSON = None
    givenShare: JSON = None
    givenSince: JSON = None
    readySince: JSON = None
    deficitBefore: JSON = None
    ineffectiveSince: JSON = None
    held: JSON = None
    heldSince: JSON = None
    lowerReplicas: JSON = None
    cap: JSON = None
    zero: JSON = None
    atMinSince: JSON = None
    lost: JSON = None
    overSince: JSON = None
    away: JSON = None
    starting: JSON = None
    spare: JSON = None
    idleSince: JSON = None


ASSIGNMENT_FIELDS: Final = RawClusterStatus.__struct_fields__[
    RawClusterStatus.__struct_fields__.index("minReplicas") :
]


class RawStatus(msgspec.Struct):
    """status as stored. The fields of type JSON may hold anything: they do not stop a decision."""

    currentReplicas: int | None = None
    desiredReplicas: int | None = None
    lastScaleTime: str | None = None
    currentMetrics: list[dict[str, JSON]] | None = None
    conditions: list[RawCondition] | None = None
    clusters: list[RawClusterStatus] | None = None
    assignedFor: JSON = None
    observedGeneration: JSON = None
    decision: JSON = None


class StoredCluster(msgspec.Struct, frozen=True):
    """One entry of status.clusters. Times are RFC 3339 as stored.

    `assignment` are the stored fields that `fedhpa.assignment.state` reads; empty in mode Centralized.
    """

    name: str
    state: str = ""
    current_replicas: int | None = None
    desired_replicas: int | None = None
    last_scale_time: str | None = None
    last_seen: str | None = None
    message: str = ""
    assignment: Mapping[str, JSON] = {}


class StoredDecision(msgspec.Struct, frozen=True):
    """status.decision. `fields` is the JSON object as stored, empty if there is none."""

    fields: Mapping[str, JSON] = {}

    @property
    def wrote_scale(self) -> bool:
        """True if the decision wrote the scale of the target or moved replicas between clusters."""
        return self.fields.get("rescale") is True or self.fields.get("moved") is True

    @property
    def propagation(self) -> str:
        """The controller's --propagation, "" if unknown."""
        return str(self.fields.get("propagation") or "")

    @property
    def absences(self) -> dict[str, Absence]:
        """The clocks of lost clusters. Unreadable ones are left out."""
        return decode_absences(self.fields.get("absences"))

    @property
    def rebalance(self) -> Rebalance | None:
        """The last rebalance that an annotation asked for; None without one, or if it is unreadable."""
        return decode_rebalance(self.fields.get("rebalance"))

    @property
    def settings(self) -> ControllerSettings:
        """The controller's settings. One that is absent or unreadable has its default."""
        return stored_settings(self.fields.get("controller"))

    def time(self) -> float | None:
        """Returns when the decision was made, in POSIX seconds. Raises InvalidObject."""
        text = self.fields.get("time")
        return parse_time(text) if isinstance(text, str) else None

    def history(self) -> History:
        """Returns the history; a fresh start if there is none or if the version is another one.

        Raises InvalidObject if it cannot be read.
        """
        if self.fields.get("version") != VERSION:
            return History()
        return decode_history(self.fields.get("history"))


class StoredStatus(msgspec.Struct, frozen=True):
    """The status that a FederatedHPA came with. `assigned_for` is for mode Distributed."""

    current_replicas: int | None = None
    desired_replicas: int | None = None
    last_scale_time: str | None = None
    current_metrics: tuple[Mapping[str, JSON], ...] | None = None
    conditions: tuple[StatusCondition, ...] = ()
    clusters: tuple[StoredCluster, ...] = ()
    assigned_for: str = ""
    observed_generation: int | None = None
    decision: StoredDecision = StoredDecision()

    @property
    def size(self) -> int | None:
        """The size after the last decision: the desired one only if it was written; None if unknown.

        The numbers of the decision come first. If the hub drops it, its record may be older than the status.
        """
        wrote, fields = self.decision.wrote_scale, self.decision.fields
        decided = _number(fields.get("desiredReplicas" if wrote else "currentReplicas"))
        return (self.desired_replicas if wrote else self.current_replicas) if decided is None else decided

    def shares(self) -> dict[str, int]:
        """Returns the clusters' replicas after the last decision, as far as known."""
        wrote = self.decision.wrote_scale
        found: dict[str, int] = {}
        for cluster in self.clusters:
            # After a write, currentReplicas is the share before it and desiredReplicas the share after it.
            written = cluster.desired_replicas if wrote else None
            replicas = cluster.current_replicas if written is None else written
            if replicas is not None:
                found[cluster.name] = replicas
        return found

    def absence_clocks(self, path: str = "status") -> dict[str, Absence]:
        """Returns the clocks of lost clusters. One that the decision has no clock for is lost since lastSeen.

        Raises InvalidObject for an unreadable lastSeen; `path` is where the status is.
        """
        found = self.decision.absences
        for index, cluster in enumerate(self.clusters):
            seen = read_at(f"{path}.clusters[{index}].lastSeen", parse_time, cluster.last_seen)
            if seen is not None and cluster.state not in ANSWERED_STATES:
                found.setdefault(cluster.name, Absence(seen))
        return found

    def last_decision(self) -> Decision | None:
        """Returns the decision that status.decision holds, without status, events and assignment.

        None if no decision was made yet. Raises InvalidObject if it has another version or cannot be read.
        """
        if not self.decision.fields:
            return None
        compact = decode_compact(self.decision.fields)
        return Decision(
            now=parse_time(compact.time) or 0.0,
            current_replicas=compact.currentReplicas,
            desired_replicas=compact.desiredReplicas,
            rescale=compact.rescale,
            reason=compact.reason,
            error=compact.error,
            coverage=_coverage(compact.coverage, self.clusters),
            metrics=tuple(_metric(metric) for metric in compact.metrics),
            steps=tuple(Step(step.step, step.before, step.after, step.reason) for step in compact.steps),
            conditions=self.conditions,
            events=(),
            status={},
            history=self.decision.history(),
            assignment=(),
            moves=compact.moved,
            absences=self.decision.absences,
            rebalance=self.decision.rebalance,
            tolerance=compact.tolerance,
            distributed=compact.distributed,
            bounds=self._bounds(parse_time(compact.time) or 0.0) if compact.distributed else (),
        )

    def _bounds(self, now: float) -> tuple[MemberBounds, ...]:
        found = []
        for cluster in sorted(self.clusters, key=lambda each: each.name):
            state = read_state(cluster.assignment, now)
            bounds = member_bounds(cluster.name, None if state.lost else state.bounds, state, now)
            found.append(
                msgspec.structs.replace(
                    bounds,
                    current=cluster.current_replicas,
                    is_missing=cluster.state not in ANSWERED_STATES,
                )
            )
        return tuple(found)


def member_bounds(cluster: str, bounds: Bounds | None, state: ClusterState, now: float) -> MemberBounds:
    """Returns the bounds of one cluster with what its state says about them."""
    cap = state.cap if state.cap is not None and state.cap.holds(now) else None
    return MemberBounds(
        cluster=cluster,
        min_replicas=0 if bounds is None else bounds.minimum,
        max_replicas=0 if bounds is None else bounds.maximum,
        assist=state.given,
        held=state.held,
        capped_at=None if cap is None else cap.replicas,
        capped_until=None if cap is None or cap.until is None else format_time(cap.until),
        is_lost=state.lost,
        is_at_zero=state.zero_since is not None,
    )


def read_status(raw: JSON) -> StoredStatus:
    """Returns the status of decoded JSON; an empty one for None. Raises InvalidObject."""
    try:
        return stored_status(convert_json(raw or {}, RawStatus))
    except InvalidJson as error:
        raise InvalidObject(f"status cannot be read: {error}") from error


def stored_status(raw: RawStatus) -> StoredStatus:
    """Returns the status of its decoded JSON."""
    return StoredStatus(
        current_replicas=raw.currentReplicas,
        desired_replicas=raw.desiredReplicas,
        last_scale_time=raw.lastScaleTime,
        current_metrics=None if raw.currentMetrics is None else tuple(raw.currentMetrics),
        conditions=tuple([_condition(condition) for condition in raw.conditions or ()]),
        clusters=tuple([_cluster(cluster) for cluster in raw.clusters or ()]),
        assigned_for=raw.assignedFor if isinstance(raw.assignedFor, str) else "",
        observed_generation=_number(raw.observedGeneration),
        decision=StoredDecision(raw.decision if isinstance(raw.decision, dict) else {}),
    )


def _metric(compact: CompactMetric) -> MetricResult:
    return MetricResult(
        index=compact.index,
        type=compact.type,
        name=compact.name,
        current=compact.current,
        target=compact.target,
        usage_ratio=compact.usageRatio,
        proposal=compact.proposal,
        error=compact.error,
        pods=compact.pods,
        clusters=compact.clusters,
        status={},
        missing=compact.missing,
    )


def _coverage(compact: CompactCoverage, clusters: tuple[StoredCluster, ...]) -> Coverage:
    lost = {cluster.name: cluster.message for cluster in clusters if cluster.state in LOST_STATES}
    expected = tuple(cluster.name for cluster in clusters if cluster.name not in lost)
    answered = tuple(
        cluster.name for cluster in clusters if cluster.state in ANSWERED_STATES and cluster.name not in lost
    )
    return Coverage(expected, answered, compact.missing, compact.policy, compact.applied, lost)


def _condition(raw: RawCondition) -> StatusCondition:
    return StatusCondition(
        raw.type,
        raw.status,
        raw.reason or "",
        raw.message or "",
        raw.lastTransitionTime or "",
        _number(raw.observedGeneration),
    )


def _cluster(raw: RawClusterStatus) -> StoredCluster:
    return StoredCluster(
        raw.name,
        raw.state or "",
        _number(raw.currentReplicas),
        _number(raw.desiredReplicas),
        raw.lastScaleTime,
        raw.lastSeen,
        raw.message if isinstance(raw.message, str) else "",
        _assignment(raw),
    )


def _assignment(raw: RawClusterStatus) -> Mapping[str, JSON]:
    found = {name: getattr(raw, name) for name in ASSIGNMENT_FIELDS}
    return {name: value for name, value in found.items() if value is not None}


def _number(value: JSON) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
