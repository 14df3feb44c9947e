"""Admission warnings about metrics: remedies for refused metrics, and admitted metrics that look wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fedhpa.admission.metrics.table import RULES
from fedhpa.admission.validation.metrics import sources_of
from fedhpa.api.affinity import selector_json
from fedhpa.api.autoscaling import MetricSpec
from fedhpa.api.errors import InvalidObject
from fedhpa.api.fielderror import quoted
from fedhpa.api.meta import LabelSelector
from fedhpa.api.metric_types import USAGE_API, MetricType, metric_type
from fedhpa.api.metrics.parts import TARGET_FIELDS, CrossVersionObjectReference, MetricTarget
from fedhpa.api.model import MAX_METRICS, MAX_TEXT
from fedhpa.api.selectors import selector_of


def metric_remedies(metrics: Sequence[MetricSpec], path: str) -> Iterator[str]:
    """Yields how to fix metrics whose type, source or target does not fit."""
    for index, metric in enumerate(metrics[:MAX_METRICS]):
        yield from _metric_remedies(metric, f"{path}[{index}]")


def warn_metrics(metrics: Sequence[MetricSpec], path: str) -> Iterator[str]:
    """Yields warnings about duplicate metrics, target types without their field, and unreadable selectors."""
    seen: dict[str, int] = {}
    for index, metric in enumerate(metrics[:MAX_METRICS]):
        at = f"{path}[{index}]"
        sources = sources_of(metric)
        first = seen.setdefault(_identity(metric, sources), index) if len(metrics) > 1 else index
        if first != index:
            yield f"{at}: is the same metric as {path}[{first}]; only the lower target has an effect"
        for row, source in sources:
            if not RULES[row.name].strict_target:
                yield from _mismatch(source.target, f"{at}.{row.field}.target")
        for row, source in sources:
            if row.describes_object:
                yield from _described(source.described_object, f"{at}.{row.field}")
        for row, source in sources:
            selector = RULES[row.name].selector(source)
            if selector is not None:
                yield from _selector(selector, f"{at}.{row.field}.metric.selector")


def _metric_remedies(metric: MetricSpec, path: str) -> Iterator[str]:
    sources = sources_of(metric)
    expected = metric_type(metric.type).field
    if len(sources) > 1:
        fields = ", ".join(row.field for row, _ in sources)
        yield f"{path}: {fields} are separate metrics; write each as an item of the list"
    elif not sources and expected:
        yield f"{path}: type {metric.type} has the field {expected}, which is missing"
    for row, source in sources[:1]:
        if len(sources) == 1 and not expected:
            yield f"{path}.type: write {row.name}, which has the field {row.field}"
        elif len(sources) == 1 and row.field != expected:
            found = f"type {metric.type} has the field {expected}, but {row.field} is given"
            yield f"{path}: {found}; write type {row.name}, or {expected}"
        yield from _target_remedies(source.target, f"{path}.{row.field}.target", usage=row.api == USAGE_API)


def _target_remedies(target: MetricTarget, path: str, *, usage: bool) -> Iterator[str]:
    if usage and target.average_utilization is not None and target.average_value is not None:
        yield f"{path}: keep averageUtilization (percent of the requests) or averageValue, not both"
    if target.type not in TARGET_FIELDS:
        for type_, field in TARGET_FIELDS.items():
            if _value(target, field) is not None:
                yield f"{path}.type: write {type_}, which goes with {field}"
                return


def _mismatch(target: MetricTarget, path: str) -> Iterator[str]:
    if target.type not in TARGET_FIELDS or _value(target, TARGET_FIELDS[target.type]) is not None:
        return
    for type_, field in TARGET_FIELDS.items():
        if _value(target, field) is not None:
            yield f"{path}.type: {target.type} does not go with {field}; write {type_}"
            return


def _value(target: MetricTarget, field: str) -> object:
    if field == "averageUtilization":
        return target.average_utilization
    return target.value if field == "value" else target.average_value


def _described(reference: CrossVersionObjectReference, path: str) -> Iterator[str]:
    if reference.api_version.count("/") > 1:
        version = quoted(reference.api_version[:MAX_TEXT])
        instead = "names no API group and version; write one such as apps/v1"
        yield f"{path}.describedObject.apiVersion: {version} {instead}"


def _selector(selector: LabelSelector, path: str) -> Iterator[str]:
    try:
        selector_of(selector_json(selector))
    except InvalidObject as error:
        yield f"{path}: {error}"


def _identity(metric: MetricSpec, sources: Sequence[tuple[MetricType, Any]]) -> str:
    """Returns a text that is the same for two metrics that read the same values."""
    return repr((metric.type, [RULES[row.name].identity(source) for row, source in sources]))
