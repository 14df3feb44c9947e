"""status.decision: the compact form of a decision, and the memory that outlives a restart.

The form is versioned and bounded: whatever is decided, it stays small beside the object. Times are RFC 3339.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.times import format_time, parse_time
from fedhpa.decision.absence import encode_absences
from fedhpa.decision.history import History, Recommendation, ScaleEvent
from fedhpa.decision.model import Decision, MetricResult

JSON = object

VERSION: Final = 1

_MAX_TEXT: Final = 256
_MAX_CLUSTERS: Final = 32
_MAX_METRICS: Final = 64
# Metrics whose values are shown by cluster and pod; a status is no place for all of 64.
_MAX_SHARED: Final = 8
_MAX_ENTRIES: Final = 120


def compact(decision: Decision) -> Mapping[str, JSON]:
    """The decision as status.decision carries it."""
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
        "reason": _short(decision.reason),
        "error": None if decision.error is None else _short(decision.error),
        "coverage": coverage,
        "metrics": [
            _metric(metric, shares=index < _MAX_SHARED)
            for index, metric in enumerate(decision.metrics[:_MAX_METRICS])
        ],
        "steps": [
            {"step": step.step, "from": step.before, "to": step.after, "reason": _short(step.reason)}
            for step in decision.steps
        ],
        **({"propagation": decision.propagation} if decision.propagation else {}),
        **({"controller": decision.settings} if decision.settings else {}),
        **({"absences": encode_absences(decision.absences)} if decision.absences else {}),
        **({"tolerance": list(decision.tolerance)} if decision.metrics and decision.tolerance else {}),
        "history": encode_history(bounded(decision.history)),
    }


def history_of(decision: Mapping[str, JSON] | None) -> History:
    """The memory that a stored status.decision carries; a fresh start where there is none or it is of another
    version. Raises InvalidObject for one that cannot be read.
    """
    if not decision or decision.get("version") != VERSION:
        return History()
    return decode_history(decision.get("history"))


def encode_history(history: History) -> Mapping[str, JSON]:
    """History as JSON; a fresh start has no `recommendations`."""
    encoded: dict[str, JSON] = {}
    if history.recommendations is not None:
        encoded["recommendations"] = [
            {"time": format_time(entry.time), "replicas": entry.replicas} for entry in history.recommendations
        ]
    encoded["scaleUps"] = _events(history.scale_ups)
    encoded["scaleDowns"] = _events(history.scale_downs)
    return encoded


def decode_history(raw: JSON) -> History:
    """History from decoded JSON. Raises InvalidObject naming the field."""
    fields = raw if isinstance(raw, Mapping) else {}
    recommendations = fields.get("recommendations")
    return History(
        None
        if recommendations is None
        else tuple(
            Recommendation(time, count)
            for time, count in _entries(recommendations, "recommendations", "replicas")
        ),
        tuple(
            ScaleEvent(time, count) for time, count in _entries(fields.get("scaleUps"), "scaleUps", "change")
        ),
        tuple(
            ScaleEvent(time, count)
            for time, count in _entries(fields.get("scaleDowns"), "scaleDowns", "change")
        ),
    )


def bounded(history: History) -> History:
    """The part of a history that later decisions can notice, and never more than a fixed number of entries.

    A recommendation matters only if no later one is at least as high, or none at least as low. Should there
    still be too many, the newest are kept; scale events that are too many are added to the oldest one kept,
    which counts them for longer and so limits no less.
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


def metric_fields(metric: MetricResult) -> dict[str, JSON]:
    """What every rendering of a metric's outcome begins with, in the order of the decision record."""
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
    """Each cluster's share of a metric."""
    return {name: {"pods": share.pods, "value": share.value} for name, share in metric.clusters.items()}


def _metric(metric: MetricResult, *, shares: bool) -> Mapping[str, JSON]:
    entry = metric_fields(metric)
    if metric.error is not None:
        entry["error"] = _short(metric.error)
    if shares and metric.pods is not None:
        entry["pods"] = msgspec.to_builtins(metric.pods)
    if shares and metric.clusters:
        entry["clusters"] = dict(list(share_fields(metric).items())[:_MAX_CLUSTERS])
    if shares and metric.missing:
        told = list(metric.missing.items())[:_MAX_CLUSTERS]
        entry["missing"] = {cluster: _short(reason) for cluster, reason in told}
    return entry


def _events(events: Sequence[ScaleEvent]) -> list[Mapping[str, JSON]]:
    return [{"time": format_time(event.time), "change": event.change} for event in events]


def _entries(raw: JSON, field: str, count: str) -> list[tuple[float, int]]:
    found: list[tuple[float, int]] = []
    for index, entry in enumerate(raw if isinstance(raw, list) else []):
        fields = entry if isinstance(entry, Mapping) else {}
        time, number = fields.get("time"), fields.get(count)
        if not isinstance(time, str) or not isinstance(number, int) or isinstance(number, bool):
            raise InvalidObject(f"history.{field}[{index}]: an entry has a time and a number {count!r}")
        moment = parse_time(time)
        found.append((moment or 0.0, number))
    return found


def _short(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."
