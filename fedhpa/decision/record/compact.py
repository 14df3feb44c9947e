"""status.decision: the compact form of a decision, with the history that a restart needs.

The form has a version and a bounded size, whatever was decided. Times are RFC 3339.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import InvalidJson, convert_json
from fedhpa.api.times import format_time, parse_time
from fedhpa.decision.absence import Absence
from fedhpa.decision.model import ClusterShare, Decision, MetricResult, PodCounts
from fedhpa.decision.record.history import bounded_history, encode_history
from fedhpa.decision.record.rebalance import encode_rebalance

JSON = object

VERSION: Final = 1

_MAX_TEXT: Final = 256
_MAX_CLUSTERS: Final = 32
_MAX_METRICS: Final = 64
# Only so many metrics are shown by cluster and pod: 64 would make the status too large.
_MAX_DETAILED: Final = 8
# A thousand years: another program may have written anything.
_MAX_SECONDS: Final = 3.2e10


class CompactCoverage(msgspec.Struct):
    """coverage: numbers of clusters, and the missing ones by name."""

    expected: int = 0
    answered: int = 0
    missing: dict[str, str] = {}
    policy: str = ""
    applied: bool = False


class CompactMetric(msgspec.Struct):
    """One entry of metrics."""

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


class CompactStep(msgspec.Struct, rename={"before": "from", "after": "to"}):
    """One entry of steps."""

    step: str
    before: int
    after: int
    reason: str


class CompactDecision(msgspec.Struct):
    """status.decision, as far as `fedhpa explain` shows it."""

    time: str
    currentReplicas: int
    desiredReplicas: int
    rescale: bool
    reason: str
    coverage: CompactCoverage
    moved: bool = False
    error: str | None = None
    metrics: list[CompactMetric] = []
    steps: list[CompactStep] = []
    tolerance: tuple[float, float] | None = None
    distributed: bool = False


def compact_decision(decision: Decision) -> Mapping[str, JSON]:
    """Returns the decision as status.decision has it: bounded in size, whatever was decided."""
    missing = list(decision.coverage.missing.items())
    coverage: dict[str, JSON] = {
        "expected": len(decision.coverage.expected),
        "answered": len(decision.coverage.answered),
        "missing": {cluster: _short(reason) for cluster, reason in missing[:_MAX_CLUSTERS]},
        "policy": decision.coverage.policy,
        "applied": decision.coverage.applied,
    }
    if len(missing) > _MAX_CLUSTERS:
        coverage["moreMissing"] = len(missing) - _MAX_CLUSTERS
    return {
        "version": VERSION,
        "time": format_time(decision.now),
        "currentReplicas": decision.current_replicas,
        "desiredReplicas": decision.desired_replicas,
        "rescale": decision.rescale,
        **({"moved": True} if decision.moves else {}),
        **({"distributed": True} if decision.distributed else {}),
        "reason": _short(decision.reason),
        "error": None if decision.error is None else _short(decision.error),
        "coverage": coverage,
        "metrics": [
            _compact_metric(metric, detailed=index < _MAX_DETAILED)
            for index, metric in enumerate(decision.metrics[:_MAX_METRICS])
        ],
        "steps": [
            {"step": step.step, "from": step.before, "to": step.after, "reason": _short(step.reason)}
            for step in decision.steps
        ],
        **({"propagation": decision.propagation} if decision.propagation else {}),
        **({"controller": decision.settings} if decision.settings else {}),
        **({"absences": encode_absences(decision.absences)} if decision.absences else {}),
        **({"rebalance": encode_rebalance(decision.rebalance)} if decision.rebalance else {}),
        **({"tolerance": list(decision.tolerance)} if decision.metrics and decision.tolerance else {}),
        "history": encode_history(bounded_history(decision.history)),
    }


def decode_compact(fields: Mapping[str, JSON]) -> CompactDecision:
    """Returns the decision of status.decision. Raises InvalidObject for another version or a bad field."""
    version = fields.get("version")
    if version != VERSION:
        raise InvalidObject(f"status.decision is of version {version}, not {VERSION}")
    try:
        return convert_json(fields, CompactDecision)
    except InvalidJson as error:
        raise InvalidObject(f"status.decision cannot be read: {error}") from error


def encode_absences(absences: Mapping[str, Absence]) -> Mapping[str, JSON]:
    """Returns the clocks of lost clusters as JSON, by cluster."""
    return {
        cluster: {"since": format_time(absence.since)}
        | ({} if absence.back is None else {"back": format_time(absence.back)})
        | ({"answeredSeconds": absence.answered} if absence.answered else {})
        for cluster, absence in absences.items()
    }


def decode_absences(raw: JSON) -> dict[str, Absence]:
    """Returns the clocks of lost clusters, by cluster. Unreadable ones are left out."""
    found: dict[str, Absence] = {}
    for cluster, entry in raw.items() if isinstance(raw, Mapping) else ():
        fields = entry if isinstance(entry, Mapping) else {}
        since = _time_or_none(fields.get("since"))
        if since is not None:
            found[str(cluster)] = Absence(
                since, _time_or_none(fields.get("back")), _seconds(fields.get("answeredSeconds"))
            )
    return found


def _seconds(value: JSON) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MAX_SECONDS
    return float(value) if known else 0.0  # type: ignore[arg-type]  # a number


def metric_fields(metric: MetricResult) -> dict[str, JSON]:
    """Returns the fields that a metric has in a decision and in status.decision, in the record's order."""
    ratio = metric.usage_ratio
    return {
        "index": metric.index,
        "type": metric.type,
        "name": metric.name,
        "current": metric.current,
        "target": metric.target,
        "usageRatio": ratio if ratio is not None and math.isfinite(ratio) else None,
        "proposal": metric.proposal,
        "error": metric.error,
    }


def share_fields(metric: MetricResult) -> dict[str, JSON]:
    """Returns each cluster's share of a metric."""
    return {name: {"pods": share.pods, "value": share.value} for name, share in metric.clusters.items()}


def _compact_metric(metric: MetricResult, *, detailed: bool) -> Mapping[str, JSON]:
    entry = metric_fields(metric)
    if metric.error is not None:
        entry["error"] = _short(metric.error)
    if detailed and metric.pods is not None:
        entry["pods"] = msgspec.to_builtins(metric.pods)
    if detailed and metric.clusters:
        entry["clusters"] = dict(list(share_fields(metric).items())[:_MAX_CLUSTERS])
    if detailed and metric.missing:
        missing = list(metric.missing.items())[:_MAX_CLUSTERS]
        entry["missing"] = {cluster: _short(reason) for cluster, reason in missing}
    return entry


def _time_or_none(value: JSON) -> float | None:
    try:
        return parse_time(value) if isinstance(value, str) else None
    except InvalidObject:
        return None


def _short(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."
