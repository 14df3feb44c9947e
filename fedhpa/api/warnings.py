"""Admission warnings about a FederatedHPA: remedies, and what is admitted though it hardly means well.

Messages of refusals stay Karmada's to the byte; what to do about them is said here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from fedhpa.api.autoscaling import MetricSpec, MetricTarget
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import FederatedHPA
from fedhpa.api.fielderror import quoted
from fedhpa.api.meta import LabelSelector
from fedhpa.api.model import MAX_METRICS
from fedhpa.api.selectors import selector_of

# API servers truncate a warning beyond this, and all of a response beyond 4 KiB.
MAX_LENGTH: Final = 256
MAX_COUNT: Final = 16


def presentable(warnings: Iterable[str]) -> list[str]:
    """At most as many warnings as a client shows, each of them whole, without control characters."""
    texts = list(dict.fromkeys(warnings))
    shown = ["".join(c if c.isprintable() else "?" for c in text)[:MAX_LENGTH] for text in texts[:MAX_COUNT]]
    if len(texts) > MAX_COUNT:
        shown[-1] = f"and {len(texts) - MAX_COUNT + 1} more warnings"
    return shown


def warn_federatedhpa(fhpa: FederatedHPA) -> Iterator[str]:
    """Warnings about an object, whether it is admitted or not."""
    spec = fhpa.spec
    yield from _api_version(spec.scale_target_ref.api_version, spec.scale_target_ref.kind)
    minimum = spec.min_replicas if spec.min_replicas is not None else spec.federated_min_replicas
    if minimum == 0 and not any(metric.type in ("Object", "External") for metric in spec.metrics):
        yield "spec.minReplicas: 0 needs an Object or External metric, because no pod is left to measure"
    seen: dict[str, int] = {}
    for index, metric in enumerate(spec.metrics[:MAX_METRICS]):
        path = f"spec.metrics[{index}]"
        first = seen.setdefault(_identity(metric), index)
        if first != index:
            yield f"{path}: is the same metric as spec.metrics[{first}]; the lower target decides alone"
        yield from _target_type(metric, path)
        yield from _selectors(metric, path)


def _api_version(api_version: str, kind: str) -> Iterator[str]:
    path = "spec.scaleTargetRef.apiVersion"
    group, slash, version = api_version.partition("/")
    if kind == "ReplicationController" and api_version == "v1":
        return
    if not (slash and group and version) or "/" in version:
        yield f"{path}: {quoted(api_version)} names no API group and version; write one such as apps/v1"


def _target_type(metric: MetricSpec, path: str) -> Iterator[str]:
    """The type of a target should name the field that is set; only Object metrics are refused for it."""
    if metric.resource is not None:
        yield from _mismatch(metric.resource.target, f"{path}.resource.target")
    if metric.container_resource is not None:
        yield from _mismatch(metric.container_resource.target, f"{path}.containerResource.target")
    if metric.pods is not None:
        yield from _mismatch(metric.pods.target, f"{path}.pods.target")
    if metric.external is not None:
        yield from _mismatch(metric.external.target, f"{path}.external.target")


def _mismatch(target: MetricTarget, path: str) -> Iterator[str]:
    fields = {
        "Utilization": ("averageUtilization", target.average_utilization),
        "Value": ("value", target.value),
        "AverageValue": ("averageValue", target.average_value),
    }
    if target.type not in fields or fields[target.type][1] is not None:
        return
    given = [type_ for type_, (_, value) in fields.items() if value is not None]
    if given:
        yield f"{path}.type: {target.type} does not go with {fields[given[0]][0]}; write {given[0]}"


def _selectors(metric: MetricSpec, path: str) -> Iterator[str]:
    for name, source in (("pods", metric.pods), ("object", metric.object), ("external", metric.external)):
        if source is not None and source.metric.selector is not None:
            yield from _selector(source.metric.selector, f"{path}.{name}.metric.selector")


def _selector(selector: LabelSelector, path: str) -> Iterator[str]:
    try:
        selector_of(_selector_json(selector))
    except InvalidObject as error:
        yield f"{path}: {error}"


def _selector_json(selector: LabelSelector) -> dict[str, object]:
    return {
        "matchLabels": selector.match_labels,
        "matchExpressions": [
            {"key": expression.key, "operator": expression.operator, "values": list(expression.values)}
            for expression in selector.match_expressions
        ],
    }


def _identity(metric: MetricSpec) -> str:
    """What is measured, whatever its target."""
    parts: list[object] = [metric.type]
    if metric.resource is not None:
        parts.append(metric.resource.name)
    if metric.container_resource is not None:
        parts += [metric.container_resource.name, metric.container_resource.container]
    if metric.object is not None:
        parts += [metric.object.described_object.kind, metric.object.described_object.name]
    for source in (metric.pods, metric.object, metric.external):
        if source is not None:
            selector = source.metric.selector
            parts += [source.metric.name, None if selector is None else _selector_json(selector)]
    return repr(parts)
