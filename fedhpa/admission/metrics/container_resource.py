"""The rules of the metric type ContainerResource."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fedhpa.admission.cel.rule import REQUIRED, Cel
from fedhpa.admission.metrics.parts import USAGE_TARGET, validate_usage_target
from fedhpa.admission.metrics.rules import MetricRules
from fedhpa.api.fielderror import FieldError, invalid, required
from fedhpa.api.metrics.container_resource import ContainerResourceMetricSource
from fedhpa.api.names import container_resource, dns_label

_CEL: Final = (
    *USAGE_TARGET,
    Cel(
        "self.name == '' || self.name in ['cpu', 'memory', 'ephemeral-storage']"
        " || self.name.startsWith('hugepages-') || self.name.contains('/')",
        "must be a standard resource for containers",
        ".name",
    ),
    Cel("self.container != ''", "must specify a container", ".container", REQUIRED),
    Cel(
        "self.container == '' || self.container.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
        "must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character",
        ".container",
    ),
    Cel("self.container.size() <= 63", "must be no more than 63 characters", ".container"),
)


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


RULES: Final = MetricRules(_validate, _CEL, _identity)
