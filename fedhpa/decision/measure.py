"""What each metric proposes: data of all clusters in, one MetricResult out.

Source: Kubernetes HPA 1.36, metric sources 5; errors are worded as there. Everything is in milli-units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from fedhpa.api.errors import InvalidObject, MetricsUnavailable
from fedhpa.api.quantity import MAX_INT64, format_milli
from fedhpa.api.selectors import selector_of
from fedhpa.decision.model import ClusterShare, MetricResult, PodCounts
from fedhpa.decision.snapshot import Failure
from fedhpa.decision.spec import (
    CONTAINER_RESOURCE,
    EXTERNAL,
    OBJECT,
    PODS,
    RESOURCE,
    SOURCE_FIELDS,
    MetricSpec,
)
from fedhpa.decision.wording import FAILURE_REASONS, UNKNOWN_TYPE_REASON, selector_dump
from fedhpa.decision.world import World
from fedhpa.scaling.grouping import ClusterSamples, Groups, Readiness, Sampled, group_pods
from fedhpa.scaling.records import CustomSample, UsageRecord, sum_over
from fedhpa.scaling.replicas import (
    Proposal,
    Scale,
    propose_average,
    propose_per_pod,
    propose_utilization,
    propose_value,
)

JSON = object

_HUB: Final = "hub"


class MetricError(Exception):
    """A metric that has no proposal. `inner` is what event and condition say, `text` what the sync reports."""

    def __init__(self, text: str, inner: str | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.inner = text if inner is None else inner


class Measured(NamedTuple):
    """A metric's result, and if it failed the reason and text of its event."""

    result: MetricResult
    failure_reason: str = ""
    failure_text: str = ""


class _Found(NamedTuple):
    proposal: Proposal
    current: Mapping[str, JSON]
    shares: Mapping[str, ClusterShare]
    pods: PodCounts | None = None


def measure(world: World, scale: Scale, readiness: Readiness, index: int, spec: MetricSpec) -> Measured:
    """Evaluates one entry of spec.metrics; a failure is part of the result, nothing is raised."""
    measurer = _MEASURERS.get(spec.type)
    try:
        if measurer is None:
            raise MetricError(f'unknown metric source type "{spec.type}"')
        if not spec.present:
            raise MetricError(f"invalid metric source: type {spec.type} without {SOURCE_FIELDS[spec.type]}")
        found = measurer(world, scale, readiness, spec)
    except MetricError as error:
        failed = _result(index, spec, None, error.text)
        return Measured(failed, FAILURE_REASONS.get(spec.type, UNKNOWN_TYPE_REASON), error.inner)
    return Measured(_result(index, spec, found, None))


def _result(index: int, spec: MetricSpec, found: _Found | None, error: str | None) -> MetricResult:
    return MetricResult(
        index=index,
        type=spec.type,
        name=spec.name,
        current=found.current if found else None,
        target=spec.target,
        usage_ratio=found.proposal.ratio if found else None,
        # Kubernetes lets negative values wrap around or count as overflow; below nothing there is nothing.
        proposal=max(0, found.proposal.replicas) if found else None,
        error=error,
        pods=found.pods if found else None,
        clusters=found.shares if found else {},
        status=_status_entry(spec, found.current) if found else {"type": ""},
    )


def _status_entry(spec: MetricSpec, current: Mapping[str, JSON]) -> Mapping[str, JSON]:
    body: dict[str, JSON] = {}
    if spec.type in (RESOURCE, CONTAINER_RESOURCE):
        body["name"] = spec.name
        if spec.type == CONTAINER_RESOURCE:
            body["container"] = spec.container
    else:
        metric: dict[str, JSON] = {"name": spec.name}
        if spec.selector is not None:
            metric["selector"] = spec.selector
        body["metric"] = metric
        if spec.type == OBJECT:
            body["describedObject"] = spec.described_object or {}
    body["current"] = current
    return {"type": spec.type, SOURCE_FIELDS[spec.type]: body}


# --- Resource and ContainerResource -------------------------------------------------------------------


def _resource(world: World, scale: Scale, readiness: Readiness, spec: MetricSpec) -> _Found:
    if spec.average_value is None and spec.average_utilization is None:
        raise MetricError(
            "invalid resource metric source: neither an average utilization target nor an average value "
            "(usage) target was set"
        )
    binary = spec.name == "memory"
    by_usage = spec.average_value is not None
    try:
        parts = _usage_parts(world, spec)
        request = None if by_usage else (spec.name, spec.container)
        groups = group_pods(parts, readiness, cpu=spec.name == "cpu", request=request)
        if spec.average_value is not None:
            proposal = propose_average(groups, spec.average_value, scale)
        else:
            proposal = propose_utilization(groups, spec.average_utilization or 0, scale)
    except MetricsUnavailable as error:
        what = "usage" if by_usage else "utilization"
        raise MetricError(f"failed to get {spec.name} {what}: {error}") from error
    current: dict[str, JSON] = {}
    if proposal.utilization is not None:
        current["averageUtilization"] = proposal.utilization
    current["averageValue"] = format_milli(proposal.milli, binary=binary)
    return _Found(proposal, current, _shares(groups, binary=binary), _counts(groups))


def _usage_parts(world: World, spec: MetricSpec) -> list[ClusterSamples]:
    if not any(member.usage for member in world.members):
        failures = [
            (m.name, m.snapshot.usage) for m in world.members if isinstance(m.snapshot.usage, Failure)
        ]
        cause = (
            f"unable to fetch metrics from resource metrics API: {_joined(failures)}"
            if failures
            else "no metrics returned from resource metrics API"
        )
        raise MetricsUnavailable(f"unable to get metrics for resource {spec.name}: {cause}")
    return [
        ClusterSamples(member.name, member.pods, _values(member.usage, spec), _finder(member.usage))
        for member in world.members
    ]


def _values(usage: Sequence[UsageRecord], spec: MetricSpec) -> dict[str, int]:
    if spec.container:
        return {
            record.name: container.milli[spec.name]
            for record in usage
            for container in record.containers
            if container.name == spec.container and spec.name in container.milli
        }
    if spec.name == "cpu":
        return {record.name: record.cpu for record in usage if record.cpu is not None}
    if spec.name == "memory":
        return {record.name: record.memory for record in usage if record.memory is not None}
    sums = {record.name: sum_over(record.containers, spec.name) for record in usage}
    return {name: milli for name, milli in sums.items() if milli is not None}


def _finder(records: Sequence[UsageRecord] | Sequence[CustomSample]) -> Callable[[str], Sampled]:
    """Finds a pod's record by name; the index is made when the first young pod asks."""
    by_name: dict[str, Sampled] = {}

    def find(name: str) -> Sampled:
        if not by_name:
            by_name.update((record.name, record) for record in records)
        return by_name[name]

    return find


# --- Pods ---------------------------------------------------------------------------------------------


def _pods(world: World, scale: Scale, readiness: Readiness, spec: MetricSpec) -> _Found:
    try:
        _check_selector(spec)
        parts = _custom_parts(world, spec)
        groups = group_pods(parts, readiness, cpu=False)
        proposal = propose_average(groups, spec.average_value or 0, scale)
    except (MetricsUnavailable, InvalidObject) as error:
        raise MetricError(f"failed to get pods metric value: {error}", str(error)) from error
    current: dict[str, JSON] = {"averageValue": format_milli(proposal.milli)}
    return _Found(proposal, current, _shares(groups), _counts(groups))


def _custom_parts(world: World, spec: MetricSpec) -> list[ClusterSamples]:
    samples = {member.name: world.custom(member.snapshot.custom_metrics, spec) for member in world.members}
    if not any(samples.values()):
        return _hub_parts(world, spec)
    parts = []
    for member in world.members:
        own = [sample for sample in samples[member.name] if not member.is_foreign(sample.name)]
        values = {sample.name: sample.milli for sample in own}
        parts.append(ClusterSamples(member.name, member.pods, values, _finder(own)))
    return parts


def _hub_parts(world: World, spec: MetricSpec) -> list[ClusterSamples]:
    # A store on the hub knows pods by name alone, so a value counts in every cluster that has such a pod.
    found = world.custom(world.hub_custom, spec)
    if not found:
        failures = _custom_failures(world)
        cause = (
            f"unable to fetch metrics from custom metrics API: {_joined(failures)}"
            if failures
            else "no metrics returned from custom metrics API"
        )
        raise MetricsUnavailable(f"unable to get metric {spec.name}: {cause}")
    left = {sample.name: sample.milli for sample in found}
    parts = []
    listed: set[str] = set()
    for member in world.members:
        own = {pod.name for pod in member.pods}
        values = {name: milli for name, milli in left.items() if name in own}
        listed |= own | {name for name in left if member.is_foreign(name)}
        parts.append(ClusterSamples(member.name, member.pods, values, _finder(found)))
    unlisted = {name: milli for name, milli in left.items() if name not in listed}
    if unlisted:
        parts.append(ClusterSamples(_HUB, (), unlisted, _finder(found)))
    return parts


# --- Object and External ------------------------------------------------------------------------------


def _object(world: World, scale: Scale, _: Readiness, spec: MetricSpec) -> _Found:
    by_value = spec.target_type == "Value" and spec.value is not None
    try:
        _check_selector(spec)
        if not by_value and not (spec.target_type == "AverageValue" and spec.average_value is not None):
            raise MetricsUnavailable(
                "invalid object metric source: neither a value target nor an average value target was set"
            )
        values = _object_values(world, spec)
        found = _from_values(world, scale, spec, values, by_value=by_value)
    except (MetricsUnavailable, InvalidObject) as error:
        text = str(error)
        if not by_value and not text.startswith("invalid object metric source"):
            text = f"failed to get {spec.name} object metric: {text}"
        raise MetricError(f"failed to get object metric value: {text}", str(error)) from error
    return found


def _object_values(world: World, spec: MetricSpec) -> dict[str, int]:
    described = spec.described_object or {}
    where = f"{described.get('kind', '')} on {world.namespace} {described.get('name', '')}"
    context = f"unable to get metric {spec.name}: {where}/unable to fetch metrics from custom metrics API: "
    found = {member.name: world.custom(member.snapshot.custom_metrics, spec) for member in world.members}
    if not any(found.values()):
        found = {_HUB: world.custom(world.hub_custom, spec)}
        if not found[_HUB]:
            failures = _custom_failures(world)
            raise MetricsUnavailable(context + (_joined(failures) if failures else _NOT_ONE.format(0)))
    for samples in found.values():
        if len(samples) > 1:
            raise MetricsUnavailable(context + _NOT_ONE.format(len(samples)))
    return {cluster: samples[0].milli for cluster, samples in found.items() if samples}


_NOT_ONE: Final = "the custom metrics API server returned {} results when we asked for exactly one"


def _external(world: World, scale: Scale, _: Readiness, spec: MetricSpec) -> _Found:
    by_value = spec.average_value is None
    prefix = (
        f"failed to get external metric {spec.name}: "
        if by_value
        else f"failed to get {spec.name} external metric: "
    )
    if by_value and spec.value is None:
        raise MetricError(
            "invalid external metric source: neither a value target nor an average value target was set"
        )
    try:
        values = _external_values(world, spec)
        return _from_values(world, scale, spec, values, by_value=by_value)
    except (MetricsUnavailable, InvalidObject) as error:
        raise MetricError(f"{prefix}{error}", str(error)) from error


def _external_values(world: World, spec: MetricSpec) -> dict[str, int]:
    _check_selector(spec)
    found = {member.name: world.external(member.snapshot.external_metrics, spec) for member in world.members}
    if not any(found.values()):
        found = {_HUB: world.external(world.hub_external, spec)}
        if not found[_HUB]:
            failures = [
                (m.name, m.snapshot.external_metrics)
                for m in world.members
                if isinstance(m.snapshot.external_metrics, Failure)
            ]
            cause = (
                f"unable to fetch metrics from external metrics API: {_joined(failures)}"
                if failures
                else "no metrics returned from external metrics API"
            )
            where = f"{world.namespace}/{spec.name}/{selector_dump(spec.selector)}"
            raise MetricsUnavailable(f"unable to get external metric {where}: {cause}")
    return {
        cluster: min(sum(sample.milli for sample in samples), MAX_INT64)
        for cluster, samples in found.items()
        if samples
    }


def _from_values(
    world: World, scale: Scale, spec: MetricSpec, values: Mapping[str, int], *, by_value: bool
) -> _Found:
    value = _aggregate(spec.aggregation, list(values.values()))
    ready = {member.name: member.ready_pods for member in world.members}
    shares = {
        cluster: ClusterShare(ready.get(cluster, 0), format_milli(milli)) for cluster, milli in values.items()
    }
    if by_value:
        pods = sum(len(member.pods) for member in world.members)
        proposal = propose_value(value, spec.value or 0, pods, sum(ready.values()), scale)
        return _Found(proposal, {"value": format_milli(proposal.milli)}, shares)
    proposal = propose_per_pod(value, spec.average_value or 0, world.status_replicas, scale)
    return _Found(proposal, {"averageValue": format_milli(proposal.milli)}, shares)


def _aggregate(aggregation: str, values: Sequence[int]) -> int:
    if aggregation == "Max":
        return max(values)
    if aggregation == "Min":
        return min(values)
    total = sum(values)
    if aggregation == "Average":
        return total // len(values) if total >= 0 else -(-total // len(values))
    return min(total, MAX_INT64)


# --- Shared -------------------------------------------------------------------------------------------


def _check_selector(spec: MetricSpec) -> None:
    if spec.selector is not None:
        selector_of(spec.selector)


def _custom_failures(world: World) -> list[tuple[str, Failure]]:
    return [
        (member.name, member.snapshot.custom_metrics)
        for member in world.members
        if isinstance(member.snapshot.custom_metrics, Failure)
    ]


def _joined(failures: Sequence[tuple[str, Failure]]) -> str:
    """The causes, with their clusters if there are several."""
    if len(failures) == 1:
        return failures[0][1].error
    return "; ".join(f"{cluster}: {failure.error}" for cluster, failure in failures)


def _shares(groups: Groups, *, binary: bool = False) -> dict[str, ClusterShare]:
    return {
        cluster: ClusterShare(share.pods, format_milli(share.milli, binary=binary))
        for cluster, share in groups.shares.items()
    }


def _counts(groups: Groups) -> PodCounts:
    return PodCounts(groups.ready, groups.unready, groups.missing, groups.ignored)


_MEASURERS: Final = {
    RESOURCE: _resource,
    CONTAINER_RESOURCE: _resource,
    PODS: _pods,
    OBJECT: _object,
    EXTERNAL: _external,
}
