"""The rules of the metric type ContainerResource."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fedhpa.admission.metrics.parts import validate_usage_target
from fedhpa.admission.metrics.rules import MetricRules
from fedhpa.api.fielderror import FieldError, invalid, required
from fedhpa.api.metrics.container_resource import ContainerResourceMetricSource
from fedhpa.api.names import container_resource, dns_label


def _validate(source: ContainerResourceMetricSource, path: str) -> Iterator[FieldError]:
    if not source.name:
        yield required(f"{path}.name", "must specify a resource name")
    for message in container_resource(source.name) if source.name else ():
        yield invalid(f"{path}.name", source.name, message)
    if not source.container:
        yield required(f"{path}.container", "must specify a container")
    for message in dns_label(source.container) if source.container else ():
        yield invalid(f"{path}.container", source.container, message)
    yield from validate_usage_target(source.target, f"{path}.target")


def _identity(source: ContainerResourceMetricSource) -> tuple[object, ...]:
    return source.container, source.name


RULES: Final = MetricRules(_validate, _identity)
