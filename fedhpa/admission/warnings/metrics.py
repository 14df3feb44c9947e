"""Admission warnings about metrics that are admitted though they hardly mean well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedhpa.admission.validation.metrics import source_bodies
from fedhpa.admission.warnings.remedies import target_fields
from fedhpa.api.affinity import selector_json
from fedhpa.api.autoscaling import MetricSpec, MetricTarget, ObjectMetricSource
from fedhpa.api.errors import InvalidObject
from fedhpa.api.fielderror import quoted
from fedhpa.api.meta import LabelSelector
from fedhpa.api.model import MAX_METRICS, MAX_TEXT
from fedhpa.api.selectors import selector_of


def warn_metrics(metrics: Sequence[MetricSpec], path: str) -> Iterator[str]:
    """Metrics given twice, targets whose type and field disagree, selectors nobody can read."""
    seen: dict[str, int] = {}
    for index, metric in enumerate(metrics[:MAX_METRICS]):
        at = f"{path}[{index}]"
        first = seen.setdefault(_identity(metric), index) if len(metrics) > 1 else index
        if first != index:
            yield f"{at}: is the same metric as {path}[{first}]; the lower target decides alone"
        for field, body in source_bodies(metric):
            # An Object metric whose target disagrees is refused.
            if field != "object":
                yield from _mismatch(body.target, f"{at}.{field}.target")
        if metric.object is not None:
            yield from _described(metric.object, at)
        if metric.pods is not None or metric.object is not None or metric.external is not None:
            yield from _selectors(metric, at)


def _mismatch(target: MetricTarget, path: str) -> Iterator[str]:
    fields = target_fields(target)
    for named, _, own in fields:
        if named != target.type or own is not None:
            continue
        for type_, name, value in fields:
            if value is not None:
                yield f"{path}.type: {target.type} does not go with {name}; write {type_}"
                return


def _described(source: ObjectMetricSource, path: str) -> Iterator[str]:
    if source.described_object.api_version.count("/") > 1:
        version = quoted(source.described_object.api_version[:MAX_TEXT])
        instead = "names no API group and version; write one such as apps/v1"
        yield f"{path}.object.describedObject.apiVersion: {version} {instead}"


def _selectors(metric: MetricSpec, path: str) -> Iterator[str]:
    for name, source in (("pods", metric.pods), ("object", metric.object), ("external", metric.external)):
        if source is not None and source.metric.selector is not None:
            yield from _selector(source.metric.selector, f"{path}.{name}.metric.selector")


def _selector(selector: LabelSelector, path: str) -> Iterator[str]:
    try:
        selector_of(selector_json(selector))
    except InvalidObject as error:
        yield f"{path}: {error}"


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
            parts += [source.metric.name, None if selector is None else selector_json(selector)]
    return repr(parts)
