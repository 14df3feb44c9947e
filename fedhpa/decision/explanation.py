"""The decision as text for people: the result, its data, and the changes that would alter it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from fedhpa.api.quantity import in_one_unit, in_unit_of
from fedhpa.api.texts import counted
from fedhpa.api.times import format_time
from fedhpa.decision.conditions import absent_text
from fedhpa.decision.messages import REBALANCED, SURVIVES_CLUSTER_LOSS
from fedhpa.decision.model import Decision, MemberBounds, MetricResult
from fedhpa.decision.status import held_text, sentence

# The sums over all clusters that the steps of mode Distributed are about; the others are about replicas.
_SUMS: Final = {
    "initial": "maxReplicas ",
    "distribute": "maxReplicas ",
    "assist": "minReplicas ",
    "hold": "minReplicas ",
    "zero": "replicas ",
}

_END_OF_HOLD: Final = "the end of the hold; `fedhpa release` ends it"


def to_text(decision: Decision, name: str = "") -> str:
    """Returns a readable explanation of several lines, with a newline at the end."""
    return "\n".join(_lines(decision, name)) + "\n"


def _lines(decision: Decision, name: str) -> Iterator[str]:
    title = f"{name}: " if name else ""
    yield f"{title}{sentence(decision)}"
    yield f"  at {format_time(decision.now)}"
    for metric in decision.metrics:
        yield from _metric_lines(metric)
    yield from _coverage_lines(decision)
    if decision.steps:
        yield "  steps:"
        sums = _SUMS if decision.distributed else {}
        yield from (
            f"    {step.step}: {sums.get(step.step, '')}{step.before} -> {step.after} ({step.reason})"
            for step in decision.steps
        )
    if decision.assignment:
        yield "  assignment: " + ", ".join(
            f"{cluster} {share}" for cluster, share in decision.assignment.items()
        )
    yield from (
        f"  {cluster} is {one.membership}: {one.waits_for}" for cluster, one in decision.memberships.items()
    )
    if decision.placement is not None and decision.placement.clusters:
        listed = (f"{one.cluster} ({one.reason})" for one in decision.placement.clusters)
        yield f"  published: {', '.join(listed)}"
    if decision.distributed:
        yield "  member HPAs:"
        yield from (f"    {one.cluster}: {', '.join(_bounds_parts(one))}" for one in decision.bounds)
    if decision.changes:
        yield "  writes:"
        yield from (f"    {text}" for text in decision.changes)
    if held := held_text(decision):
        yield f"  hold: {held}"
    for condition in decision.conditions:
        if condition.type == SURVIVES_CLUSTER_LOSS:
            yield f"  outlook: {condition.message}"
        elif condition.type == REBALANCED and condition.status == "False":
            yield f"  rebalance: {condition.message}"
    yield from (f"  event: {event.type} {event.reason}: {event.message}" for event in decision.events)
    yield f"  to move it: {_what_would_move(decision)}"


def _bounds_parts(share: MemberBounds) -> Iterator[str]:
    """Yields the bounds of a cluster, what keeps it from its replicas, and what the hub does besides."""
    if share.is_lost:
        yield "lost, so the others have its share; its HPA keeps its last bounds"
        return
    if not share.max_replicas:
        yield "no HPA"
    elif share.min_replicas == share.max_replicas:
        yield f"exactly {counted(share.max_replicas, 'replica')}"
    else:
        yield f"{share.min_replicas} to {share.max_replicas} replicas"
    if share.current is not None:
        verb = "runs" if share.current == 1 else "run"
        yield f"{share.current} {'last known' if share.is_missing else verb}"
    if share.is_missing:
        yield "the cluster cannot be read, so nothing is written there"
    if share.is_foreign:
        yield "its HPA is not ours and is never written"
    if share.need is not None:
        yield f"its HPA is at maxReplicas and needs {counted(share.need, 'replica')}"
    if share.part is not None:
        yield f"{share.part} of minReplicas are its own part"
    if share.is_at_zero:
        yield "scaled to 0 by scalingToZero"
    if share.replicas is not None:
        yield f"the hub sets {counted(share.replicas, 'replica')}"


def _metric_lines(metric: MetricResult) -> Iterator[str]:
    head = f"  metric {metric.index}: {metric.type} {metric.name}".rstrip()
    if metric.error is not None:
        yield f"{head}: failed: {metric.error}"
        yield from (f"    {cluster}: no data: {reason}" for cluster, reason in metric.missing.items())
        return
    wanted = {key: value for key, value in metric.target.items() if key != "type"}
    current, target = _pairs(metric.current, wanted), _pairs(wanted, {})
    ratio = "" if metric.usage_ratio is None else f", {metric.usage_ratio:.4g} of the target"
    yield f"{head}: {current} (target {target}{ratio}) proposes {metric.proposal}"
    if metric.pods is not None:
        pods = metric.pods
        yield (
            f"    pods: {pods.ready} ready, {pods.unready} unready, {pods.missing} without metrics, "
            f"{pods.ignored} ignored"
        )
    unit = next((value for value in wanted.values() if isinstance(value, str)), "")
    values = in_one_unit([share.value for share in metric.clusters.values()], unit)
    for (cluster, share), value in zip(metric.clusters.items(), values, strict=True):
        samples = f" from {counted(share.pods, 'pod')}" if metric.pods is not None else ""
        yield f"    {cluster}: {value}{samples}"
    yield from (f"    {cluster}: no data: {reason}" for cluster, reason in metric.missing.items())


def _pairs(values: object, wanted: Mapping[str, object]) -> str:
    """Returns keys and values, each in the unit in which the target has it."""
    if not isinstance(values, dict):
        return "none"
    texts = {
        key: in_unit_of(value, model) if isinstance(value, str) and isinstance(model, str) else value
        for key, value, model in ((key, value, wanted.get(key)) for key, value in values.items())
    }
    return ", ".join(f"{key} {value}" for key, value in texts.items())


def _coverage_lines(decision: Decision) -> Iterator[str]:
    coverage = decision.coverage
    yield f"  coverage: {len(coverage.answered)} of {len(coverage.expected)} expected clusters answered"
    for cluster, age in coverage.bridged.items():
        yield f"    {cluster} is represented by its answer of {age:.0f} s ago"
    for cluster in coverage.missing:
        yield f"    {absent_text(coverage, cluster)}"
    for cluster, reason in coverage.lost.items():
        yield f"    {cluster} is no longer expected: {reason}"
    if coverage.missing and not decision.distributed:
        yield f"    policy: {coverage.policy}"


def _what_would_move(decision: Decision) -> str:
    if decision.error is not None:
        return "fix the error named above; nothing is scaled on missing data"
    if decision.distributed and held_text(decision):
        return _END_OF_HOLD
    if decision.distributed:
        return (
            "usage further from the target of a member's HPA; new bounds follow when a cluster is full, "
            "asks for more than its maxReplicas, is lost or comes back"
        )
    held = [step for step in decision.steps if step.after != step.before and step.step != "metrics"]
    if decision.moves:
        return "nothing, replicas are being moved"
    if decision.desired_replicas != decision.current_replicas:
        return "nothing, it is being scaled" if decision.rescale else "remove spec.dryRun"
    if held:
        return _release(held[-1].step, decision)
    ratios = [metric.usage_ratio for metric in decision.metrics if metric.usage_ratio]
    if not ratios:
        return "a target above 0 replicas, or bounds that exclude the present size"
    gaps = max(
        (metric.pods.missing + metric.pods.unready for metric in decision.metrics if metric.pods), default=0
    )
    if gaps:
        return f"metrics of the {gaps} pods that do not count yet, or other usage of the rest"
    if decision.tolerance is None:
        return f"usage further from a target (now at most {max(ratios):.4g} of it)"
    up, down = decision.tolerance
    return (
        f"usage above {1 + up:.4g} of some target, or below {1 - down:.4g} of all "
        f"(now at most {max(ratios):.4g})"
    )


def _release(step: str, decision: Decision) -> str:
    return {
        "coverage": f"an answer of {', '.join(decision.coverage.missing)}, or another partialMetrics policy",
        "failover": "room in the other clusters, or the return of the lost ones",
        "stabilization": "time: older recommendations must leave the stabilization window",
        "rateLimit": "time, or a policy in spec.behavior that allows larger steps",
        "bounds": "other minReplicas or maxReplicas",
        "hold": _END_OF_HOLD,
        "assignment": "other thresholds in clusterAutoscalingPreference, or an answer of the absent clusters",
    }[step]
