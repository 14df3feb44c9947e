"""The FederatedHPA status that a decision writes: sizes, the condition Ready, clusters, and a summary.

The first line of `fedhpa explain`, the message of Ready and status.summary have the reason from `why`. They
therefore answer in the same words. Source: Kubernetes HPA 1.36, reconcile 4.12 (which fields stay if nothing
was computed); docs/reference/decision-record.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fedhpa.api.quantity import in_unit_of
from fedhpa.api.texts import MAX_SELECTORS
from fedhpa.decision.fleet import FleetView
from fedhpa.decision.memory import (
    ANSWERED,
    ClusterMemory,
    MemoryState,
)
from fedhpa.decision.messages import (
    ABLE_TO_SCALE,
    ASSIGNED,
    HELD,
    HUB_COMPATIBLE,
    METRICS_COMPLETE,
    NO_RECORD,
    SCALING_ACTIVE,
    SOLE_OWNER,
)
from fedhpa.decision.model import (
    READY,
    Decision,
    StatusCondition,
    Step,
    api_time,
    condition_json,
    shortened,
)
from fedhpa.decision.snapshot import ClusterScale, Snapshot
from fedhpa.metric_types.metric import USAGE_API, ScalingMetric

JSON = object

# There may be a thousand clusters, each with a reason.
_MAX_MESSAGE: Final = 512


def status_of(
    decision: Decision,
    snapshot: Snapshot,
    fleet: FleetView,
    entries: Sequence[dict[str, JSON]],
    values: Sequence[Mapping[str, JSON]] | None,
) -> Mapping[str, JSON]:
    """Returns the status with these entries of status.clusters and of status.currentMetrics."""
    stored = snapshot.hpa.status
    status: dict[str, JSON] = {}
    if snapshot.hpa.generation:
        status["observedGeneration"] = snapshot.hpa.generation
    if scaled := _last_scale_time(decision, entries) or stored.last_scale_time:
        status["lastScaleTime"] = scaled
    # People count pods, and the size does not include the surge of a move.
    status["currentReplicas"] = fleet.running if fleet.moving else decision.current_replicas
    status["desiredReplicas"] = decision.desired_replicas
    # As the hub gives it back: a tuple would differ from the stored list each time.
    status["currentMetrics"] = None if values is None else list(values)
    conditions = (_ready(decision, snapshot), *decision.conditions)
    status["conditions"] = [condition_json(condition) for condition in conditions]
    status["summary"] = summary(decision, snapshot, values)
    if fleet.answered:
        status["lastSeen"] = api_time(decision.now)
    status["clusters"] = [_without_defaults(entry, scaled) for entry in entries]
    return status


def _last_scale_time(decision: Decision, entries: Sequence[Mapping[str, JSON]]) -> str:
    """Returns when this decision, or in mode Distributed a member, changed the replicas; "" if none did."""
    if decision.distributed:
        times = [time for entry in entries if isinstance(time := entry.get("lastScaleTime"), str)]
        return max(times, default="")
    return api_time(decision.now) if decision.rescale else ""


def _ready(decision: Decision, snapshot: Snapshot) -> StatusCondition:
    """Returns the condition Ready: False with the worst of the others that is False, else True.

    Its transition time stays while the status does. It is False also if no other condition shows the failure,
    or the memory cannot be stored.
    """
    before = next((one for one in snapshot.hpa.status.conditions if one.type == READY), None)
    found = {condition.type: condition for condition in decision.conditions if condition.status == "False"}
    worst = next((found[kind] for kind in WORST_FIRST if kind in found), None)
    status, message = "False", sentence(decision)
    if worst is not None:
        reason, message = worst.reason, worst.message
    elif snapshot.record_problem:
        reason, message = NO_RECORD, snapshot.record_problem
    elif decision.error is not None:
        reason = "NoDecision"
    else:
        status, reason = "True", HELD if held_text(decision) else "Reconciled"
        if snapshot.hpa.spec.dry_run:
            reason = "DryRun"
    kept = before is not None and before.status == status and before.last_transition_time
    since = kept or api_time(decision.now)
    return StatusCondition(READY, status, reason, shortened(message), since, snapshot.hpa.generation)


def cluster_entries(
    decision: Decision, snapshot: Snapshot, fleet: FleetView, memory: MemoryState
) -> list[dict[str, JSON]]:
    """Returns status.clusters, without the bounds of mode Distributed."""
    shares, entries = decision.assignment, list[dict[str, JSON]]()
    members, missing = decision.memberships, {**decision.coverage.lost, **decision.coverage.missing}
    for cluster in snapshot.clusters:
        name = cluster.name
        if fleet.memberships and fleet.is_out(cluster) and name not in shares:
            continue
        # A call for each cluster costs, so no `get` here.
        view = fleet.views[name] if name in fleet.views else None  # noqa: SIM401
        known = memory.clusters[name]
        entry: dict[str, JSON] = {"name": name, "state": known.state}
        if name in members:
            entry |= {"membership": members[name].membership, "waitsFor": members[name].waits_for}
        present = 0 if name in decision.failed_over else fleet.shares[name]
        if present is not None:
            entry["currentReplicas"] = present
        if name in shares:
            entry["desiredReplicas"] = shares[name]
        if view is not None:
            entry["readyReplicas"] = view.ready_pods
        if known.scaled is not None:
            entry["lastScaleTime"] = api_time(known.scaled)
        if known.seen is not None:
            entry["lastSeen"] = api_time(known.seen)
        message = missing.get(name) if missing else None
        if cluster.bridge is not None:
            message = f"represented by its answer of {cluster.bridge.age:.0f} s ago: {cluster.bridge.reason}"
        if message:
            entry["message"] = shortened(message, _MAX_MESSAGE)
        entries.append(entry)
    names = {cluster.name for cluster in snapshot.clusters}
    # One that is no candidate any more may still run the workload.
    entries += [
        {"name": name, "membership": one.membership, "waitsFor": one.waits_for}
        for name, one in decision.memberships.items()
        if name not in names
    ]
    return entries


def _without_defaults(entry: dict[str, JSON], scaled: str | None) -> Mapping[str, JSON]:
    """Takes the fields that say nothing new out of an entry of status.clusters, and returns it.

    People read the status: `kubectl describe` has a line for each field. A cluster whose replicas are as
    wanted and ready has one number. `scaled` is the object's lastScaleTime.
    """
    present = entry["currentReplicas"] if "currentReplicas" in entry else None  # noqa: SIM401  # for each cluster
    if "state" in entry and entry["state"] == ANSWERED:
        del entry["state"]
    if "lastScaleTime" in entry and entry["lastScaleTime"] == scaled:
        del entry["lastScaleTime"]
    if "desiredReplicas" in entry and entry["desiredReplicas"] == present:
        del entry["desiredReplicas"]
    if "readyReplicas" in entry and entry["readyReplicas"] == present:
        del entry["readyReplicas"]
    return entry


def bounds_entry(memory: MemoryState, cluster: str) -> dict[str, JSON]:
    """Returns the bounds of a cluster's HPA as status.clusters has them."""
    bounds = memory.assignment(cluster).bounds
    return {} if bounds is None else {"minReplicas": bounds.minimum, "maxReplicas": bounds.maximum}


def kept_entry(name: str, known: ClusterMemory) -> dict[str, JSON]:
    """Returns the entry of a known cluster for a status of a decision that read no cluster."""
    fields = {
        "name": name,
        "state": known.state or None,
        "currentReplicas": known.replicas,
        "lastScaleTime": None if known.scaled is None else api_time(known.scaled),
        "lastSeen": None if known.seen is None else api_time(known.seen),
    }
    return {name: value for name, value in fields.items() if value is not None}


# Ready takes the reason of the first of these conditions that is False. The worst comes first: nothing can be
# written, no size can be computed, shares are not as decided, another autoscaler interferes, data is missing.
WORST_FIRST: Final = (
    ABLE_TO_SCALE,
    SCALING_ACTIVE,
    ASSIGNED,
    SOLE_OWNER,
    METRICS_COMPLETE,
    HUB_COMPATIBLE,
)

# As many as `kubectl get hpa` shows.
_MAX_TARGETS: Final = 2
# A ScalingRecord keeps as much of a reason, so `fedhpa explain` shows the same text.
_MAX_REASON: Final = 256
# No selector contains it.
SELECTOR_SEPARATOR: Final = "; "
# The CRD allows no longer text in a column.
_MAX_COLUMN: Final = 512


def sentence(decision: Decision) -> str:
    """Returns the decision and its reason as one sentence without a period."""
    reason, held = why(decision), held_text(decision)
    reasons = [f"reason: {reason}" if reason else "", held if held != reason else ""]
    parts = [_verdict(decision), *reasons, decision.unready]
    return "; ".join(part for part in parts if part)


def held_text(decision: Decision) -> str:
    """Returns which hold is in force; "" without one."""
    return next((one.message for one in _held(decision)), "")


def _held(decision: Decision) -> list[StatusCondition]:
    """Returns the condition Held while it is True."""
    return [one for one in decision.conditions if one.type == HELD and one.status == "True"]


def held_since(decision: Decision) -> float | None:
    """Returns since when a hold has been in force without a break, in POSIX seconds; None without one.

    The condition keeps that time over restarts. It is when the hold was first observed.
    """
    return next((one.since for one in _held(decision)), None)


def why(decision: Decision) -> str:
    """Returns why the workload has its size, or why no decision could be made; "" if nothing is known."""
    if decision.error is not None:
        return decision.error
    if decision.moves:
        return decision.reason
    if decision.distributed:
        return decision.reason or (decision.steps[0].reason if decision.steps else "")
    if decision.desired_replicas != decision.current_replicas:
        return reason_of_change(
            decision.reason, decision.steps, decision.current_replicas, decision.desired_replicas
        )
    # The size stays. Usage may ask for another one, and then the last step that changed it holds the size.
    holding = [step for step in decision.steps if step.after != step.before and step.step != "metrics"]
    if holding:
        return holding[-1].reason
    return decision.reason or (decision.steps[0].reason if decision.steps else "")


def reason_of_change(reason: str, steps: Sequence[Step], current: int, desired: int) -> str:
    """Returns why the size changes from `current` to `desired`; "" if it stays without a `reason`.

    `reason` is Kubernetes'. It is about present usage, and empty if that calls for no other size. Kubernetes
    gives it also if an earlier recommendation or a threshold moves the size further, or the other way.
    """
    up = desired > current
    moved = [step for step in steps if step.after != step.before and (step.after > step.before) is up]
    if desired == current or not moved:
        return reason
    earlier = next((step for step in moved if step.step == "stabilization"), None)
    if earlier is not None:
        return earlier.reason
    return moved[-1].reason if not reason or moved[0].step == "assignment" else reason


def _verdict(decision: Decision) -> str:
    current, desired = decision.current_replicas, decision.desired_replicas
    if decision.distributed and decision.error is not None:
        return f"{current} replicas run, bounds could not be written"
    if decision.distributed:
        changes = "member HPAs are changed" if decision.rescale else "the members scale on their own"
        return f"{current} replicas run, {changes}"
    if decision.error is not None:
        return f"no decision, {current} replicas stay"
    if decision.moves and current != desired:
        return f"change {current} -> {desired} replicas to move them between clusters"
    if decision.moves:
        return f"stay at {current} replicas, in other clusters"
    if decision.rescale:
        return f"scale {current} -> {desired} replicas"
    if current != desired:
        return f"would scale {current} -> {desired} replicas"
    return f"stay at {current} replicas"


def summary(
    decision: Decision, snapshot: Snapshot, values: Sequence[Mapping[str, JSON]] | None
) -> Mapping[str, JSON]:
    """Returns status.summary, whose texts are columns of `kubectl get`; `values` is status.currentMetrics."""
    coverage, spec, selector = decision.coverage, snapshot.hpa.spec, selectors(snapshot)
    return {
        "targets": shortened(targets(spec.metrics, values or ()), _MAX_COLUMN),
        "clusters": f"{len(coverage.answered)}/{len(coverage.expected)}",
        "min": str(spec.min_replicas),
        "max": str(spec.max_replicas),
        "reason": shortened(why(decision), _MAX_REASON),
        **({"propagation": decision.propagation} if decision.propagation else {}),
        **({"selector": selector} if selector else {}),
    }


def selectors(snapshot: Snapshot) -> str:
    """Returns the pod selector of the workload; several, joined, if the clusters have different ones.

    Controllers of other objects compare it with the labels of their pods. A part of it would select other
    pods, so one that is too long is left out.
    """
    found = {
        cluster.scale.selector
        for cluster in snapshot.clusters
        if type(cluster.scale) is ClusterScale and cluster.selector_error is None
    }
    text = SELECTOR_SEPARATOR.join(sorted(found - {""}))
    return text if len(text) <= MAX_SELECTORS else ""


def targets(metrics: Sequence[ScalingMetric], values: Sequence[Mapping[str, JSON]]) -> str:
    """Returns the current value of each metric in the unit of its target, and the target."""
    shown = [
        _target(metric, values[index] if index < len(values) else {})
        for index, metric in enumerate(metrics[:_MAX_TARGETS])
    ]
    more = f" + {len(metrics) - _MAX_TARGETS} more..." if len(metrics) > _MAX_TARGETS else ""
    return ", ".join(shown) + more


def _target(metric: ScalingMetric, value: Mapping[str, JSON]) -> str:
    kind = metric.metric_type
    if not kind.field or not metric.present:
        return "<unknown type>"
    source = value.get(kind.field)
    found = source.get("current") if isinstance(source, Mapping) else None
    current: Mapping[str, JSON] = found if isinstance(found, Mapping) else {}
    of_pods = kind.api == USAGE_API
    name = f"{metric.name}: " if of_pods else ""
    if "averageValue" in metric.target or (kind.per_pod and not of_pods):
        return f"{name}{_pair('averageValue', current, metric)}{'' if kind.per_pod else ' (avg)'}"
    if not of_pods:
        return _pair("value", current, metric)
    usage, wanted = current.get("averageUtilization"), metric.target.get("averageUtilization")
    return (
        f"{name}{'<unknown>' if usage is None else f'{usage}%'}/"
        f"{'<auto>' if wanted is None else f'{wanted}%'}"
    )


def _pair(field: str, current: Mapping[str, JSON], metric: ScalingMetric) -> str:
    """Returns the field's current value and its target."""
    value, wanted = current.get(field), metric.target.get(field)
    if isinstance(value, str) and isinstance(wanted, str):
        value = in_unit_of(value, wanted)
    return f"{value or '<unknown>'}/{wanted or '<unset>'}"
