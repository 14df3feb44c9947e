"""Admission warnings about metrics that are admitted though they hardly mean well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedhpa.admission.validation.metrics import sources_of
from fedhpa.admission.warnings.remedies import target_fields
from fedhpa.api.affinity import selector_json
from fedhpa.api.autoscaling import MetricSpec, MetricTarget, ObjectMetricSource
from fedhpa.api.errors import InvalidObject
from fedhpa.api.fielderror import quoted
from fedhpa.api.meta import LabelSelector
from fedhpa.api.metric_types import OBJECT, USAGE_API
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
        sources = sources_of(metric)
        for metric_type, source in sources:
            # Validation refuses an Object metric whose target disagrees.
            if metric_type.name != OBJECT:
                yield from _mismatch(source.target, f"{at}.{metric_type.field}.target")
        if metric.object is not None:
            yield from _described(metric.object, at)
        for metric_type, source in sources:
            if metric_type.api != USAGE_API and source.metric.selector is not None:
                yield from _selector(source.metric.selector, f"{at}.{metric_type.field}.metric.selector")


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


def _selector(selector: LabelSelector, path: str) -> Iterator[str]:
    try:
        selector_of(selector_json(selector))
    except InvalidObject as error:
        yield f"{path}: {error}"


def _identity(metric: MetricSpec) -> str:
    """What is measured, whatever its target."""
    parts: list[object] = [metric.type]
    if metric.object is not None:
        parts += [metric.object.described_object.kind, metric.object.described_object.name]
    if metric.container_resource is not None:
        parts.append(metric.container_resource.container)
    for metric_type, source in sources_of(metric):
        if metric_type.api == USAGE_API:
            parts.append(source.name)
        else:
            selector = source.metric.selector
            parts += [source.metric.name, None if selector is None else selector_json(selector)]
    return repr(parts)
