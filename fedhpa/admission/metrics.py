"""Admission of the metrics of a FederatedHPA: errors, remedies for them, and metrics that look wrong.

The messages and their order are Karmada v1.19's, which are Kubernetes 1.27's. The rules for the inside of a
source are those of its type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fedhpa.api.autoscaling import CrossVersionObjectReference
from fedhpa.api.errors import InvalidObject
from fedhpa.api.fielderror import FieldError, TypedText, forbidden, quoted, required, unsupported
from fedhpa.api.model import MAX_METRICS, MAX_TEXT
from fedhpa.api.selectors import selector_of
from fedhpa.metric_types.entries import MetricSpec
from fedhpa.metric_types.metric import USAGE_API, MetricType
from fedhpa.metric_types.sources import TARGET_FIELDS, MetricTarget
from fedhpa.metric_types.table import METRIC_TYPES, metric_type

_ATTRIBUTES: Final = tuple((row.attribute, row) for row in METRIC_TYPES.values())


def validate_metric(metric: MetricSpec, path: str) -> Iterator[FieldError]:
    """Yields the errors of a metric. Karmada checks the inside of the first source only."""
    if not metric.type:
        yield required(f"{path}.type", "must specify a metric source type")
    if metric.type not in METRIC_TYPES:
        yield unsupported(f"{path}.type", TypedText(metric.type), METRIC_TYPES)
    present = sources_of(metric)
    for row, source in present[:1]:
        yield from row.validate(source, f"{path}.{row.field}")
    expected = metric_type(metric.type).field
    if len(present) == 1 and present[0][0].field == expected:
        return
    fields = [row.field for row, _ in present]
    if expected and expected not in fields:
        yield required(f"{path}.{expected}", "must populate information for the given metric source")
    if len(fields) > 1:
        for field in fields:
            if field != expected:
                yield forbidden(f"{path}.{field}", "must populate the given metric source only")


def sources_of(metric: MetricSpec) -> list[tuple[MetricType, Any]]:
    """Returns the sources that a metric has, in the order of the table. A correct metric has one."""
    # Faster than reading the attributes of a pydantic model.
    values = vars(metric)
    return [(row, values[attribute]) for attribute, row in _ATTRIBUTES if values[attribute] is not None]


def metric_remedies(metrics: Sequence[MetricSpec], path: str) -> Iterator[str]:
    """Yields how to fix metrics whose type, source or target does not fit."""
    for index, metric in enumerate(metrics[:MAX_METRICS]):
        yield from _metric_remedies(metric, f"{path}[{index}]")


def warn_metrics(metrics: Sequence[MetricSpec], path: str, *, added_up: bool) -> Iterator[str]:
    """Yields warnings about duplicate metrics, target types without their field, and unreadable selectors.

    With `added_up`, the values of several clusters are, so what all of them see counts several times. The
    metric of an object, such as an Ingress, usually has a value of its own in each cluster.
    """
    seen: dict[str, int] = {}
    shared = []
    for index, metric in enumerate(metrics[:MAX_METRICS]):
        at = f"{path}[{index}]"
        sources = sources_of(metric)
        first = seen.setdefault(_identity(metric, sources), index) if len(metrics) > 1 else index
        if first != index:
            yield f"{at}: is the same metric as {path}[{first}]; only the lower target has an effect"
        for row, source in sources:
            if not row.strict_target:
                yield from _mismatch(source.target, f"{at}.{row.field}.target")
        for row, source in sources:
            if row.describes_object:
                yield from _described(source.described_object, f"{at}.{row.field}")
        for row, source in sources:
            selector = row.identity(source).selector
            if selector is not None:
                yield from _selector(selector, f"{at}.{row.field}.metric.selector")
            if not row.per_pod and not row.describes_object and source.aggregation is None:
                shared.append(f"{at}.{row.field}")
    if shared and added_up:
        more = f" (and {len(shared) - 1} more)" if len(shared) > 1 else ""
        meaning = "each cluster reports the metric, and the values are added up"
        instead = "set aggregation: Max if they all see the same queue, or Sum if each has its own"
        yield f"{shared[0]}{more}: {meaning}; {instead}"


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


def _selector(selector: Mapping[str, object], path: str) -> Iterator[str]:
    try:
        selector_of(selector)
    except InvalidObject as error:
        yield f"{path}: {error}"


def _identity(metric: MetricSpec, sources: Sequence[tuple[MetricType, Any]]) -> str:
    """Returns a text that is the same for two metrics that read the same values."""
    return repr((metric.type, [row.identity(source) for row, source in sources]))
