"""Reading a decision back from status.decision, for people who ask later why."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.times import parse_time
from fedhpa.decision.absence import decode_absences
from fedhpa.decision.model import (
    ClusterShare,
    Condition,
    Coverage,
    Decision,
    MetricResult,
    PodCounts,
    Step,
)
from fedhpa.decision.record.status import VERSION, decode_history
from fedhpa.decision.spec.federatedhpa import ANSWERED_STATES, LOST_STATES

JSON = object


class _Coverage(msgspec.Struct):
    expected: int = 0
    answered: int = 0
    missing: dict[str, str] = {}
    policy: str = ""
    applied: bool = False


class _Metric(msgspec.Struct):
    index: int
    type: str
    name: str
    target: dict[str, JSON]
    current: dict[str, JSON] | None = None
    usageRatio: float | None = None
    proposal: int | None = None
    error: str | None = None
    pods: PodCounts | None = None
    clusters: dict[str, ClusterShare] = {}
    missing: dict[str, str] = {}


class _Step(msgspec.Struct, rename={"before": "from", "after": "to"}):
    step: str
    before: int
    after: int
    reason: str


class _Condition(msgspec.Struct):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    lastTransitionTime: str = ""


class _Compact(msgspec.Struct):
    time: str
    currentReplicas: int
    desiredReplicas: int
    rescale: bool
    reason: str
    coverage: _Coverage
    moved: bool = False
    error: str | None = None
    metrics: list[_Metric] = []
    steps: list[_Step] = []
    absences: dict[str, JSON] = {}
    tolerance: tuple[float, float] | None = None
    history: dict[str, JSON] = {}


class _Cluster(msgspec.Struct):
    name: str
    state: str = ""
    message: str = ""


class _Status(msgspec.Struct):
    decision: dict[str, JSON] | None = None
    conditions: list[_Condition] = []
    clusters: list[_Cluster] = []


def stored_decision(status: Mapping[str, JSON] | None) -> Decision | None:
    """The last decision that an object's status shows; None if none was made yet.

    Events and the assignment are not part of it. Raises InvalidObject if it is of another version or cannot
    be read.
    """
    try:
        found = msgspec.convert(status or {}, _Status)
        if found.decision is None:
            return None
        if found.decision.get("version") != VERSION:
            raise InvalidObject(
                f"status.decision is of version {found.decision.get('version')}, not {VERSION}"
            )
        record = msgspec.convert(found.decision, _Compact)
    except msgspec.ValidationError as error:
        raise InvalidObject(f"status.decision cannot be read: {error}") from error
    return Decision(
        now=parse_time(record.time) or 0.0,
        current_replicas=record.currentReplicas,
        desired_replicas=record.desiredReplicas,
        rescale=record.rescale,
        reason=record.reason,
        error=record.error,
        coverage=_coverage(record.coverage, found.clusters),
        metrics=tuple(_metric(metric) for metric in record.metrics),
        steps=tuple(Step(step.step, step.before, step.after, step.reason) for step in record.steps),
        conditions=tuple(
            Condition(entry.type, entry.status, entry.reason, entry.message, entry.lastTransitionTime)
            for entry in found.conditions
        ),
        events=(),
        status=status or {},
        history=decode_history(record.history),
        assignment=(),
        moves=record.moved,
        absences=decode_absences(record.absences),
        tolerance=record.tolerance,
    )


def _coverage(record: _Coverage, clusters: list[_Cluster]) -> Coverage:
    lost = {cluster.name: cluster.message for cluster in clusters if cluster.state in LOST_STATES}
    expected = tuple(cluster.name for cluster in clusters if cluster.name not in lost)
    answered = tuple(
        cluster.name for cluster in clusters if cluster.state in ANSWERED_STATES and cluster.name not in lost
    )
    return Coverage(expected, answered, record.missing, record.policy, record.applied, lost)


def _metric(record: _Metric) -> MetricResult:
    return MetricResult(
        index=record.index,
        type=record.type,
        name=record.name,
        current=record.current,
        target=record.target,
        usage_ratio=record.usageRatio,
        proposal=record.proposal,
        error=record.error,
        pods=record.pods,
        clusters=record.clusters,
        status={},
        missing=record.missing,
    )
