"""One metric evaluated: data of all clusters in, one MetricResult out.

Source: Kubernetes HPA 1.36, metric sources 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from fedhpa.api.metric_types import CONTAINER_RESOURCE, EXTERNAL, OBJECT, PODS, RESOURCE, USAGE_API
from fedhpa.decision.fleet import FleetView
from fedhpa.decision.messages import failure_of
from fedhpa.decision.metrics.pods import measure_pods, measure_resource
from fedhpa.decision.metrics.proposal import Found, MetricError
from fedhpa.decision.metrics.values import measure_external, measure_object
from fedhpa.decision.model import MetricResult
from fedhpa.decision.spec.federatedhpa import MetricSpec
from fedhpa.scaling.grouping import Readiness
from fedhpa.scaling.replicas import Scale

JSON = object

_MEASURERS: Final = {
    RESOURCE: measure_resource,
    CONTAINER_RESOURCE: measure_resource,
    PODS: measure_pods,
    OBJECT: measure_object,
    EXTERNAL: measure_external,
}


class Measured(NamedTuple):
    """A metric's result, and if it failed the reason and text of its event."""

    result: MetricResult
    failure_reason: str = ""
    failure_text: str = ""


def measure(world: FleetView, scale: Scale, readiness: Readiness, index: int, spec: MetricSpec) -> Measured:
    """Evaluates one entry of spec.metrics; a failure is part of the result, nothing is raised."""
    measurer = _MEASURERS.get(spec.type)
    try:
        if measurer is None:
            raise MetricError(f'unknown metric source type "{spec.type}"')
        if not spec.present:
            raise MetricError(f"invalid metric source: type {spec.type} without {spec.metric_type.field}")
        found = measurer(world, scale, readiness, spec)
    except MetricError as error:
        failed = _result(world, index, spec, None, failure_of(spec, error.text))
        return Measured(failed, spec.metric_type.failure_reason, error.inner)
    return Measured(_result(world, index, spec, found, None))


def _result(
    world: FleetView, index: int, spec: MetricSpec, found: Found | None, error: str | None
) -> MetricResult:
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
        missing={cluster: failure.error for cluster, failure in world.failures(spec)},
    )


def _status_entry(spec: MetricSpec, current: Mapping[str, JSON]) -> Mapping[str, JSON]:
    body: dict[str, JSON] = {}
    if spec.metric_type.api == USAGE_API:
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
    return {"type": spec.type, spec.metric_type.field: body}
