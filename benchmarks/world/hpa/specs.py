"""The part of an HPA's spec that the model reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.world.hpa.behavior import DOWN, UP, Rules, rules_of
from benchmarks.world.hpa.quantities import milli

_SOURCES: Final = {"Resource": "resource", "ContainerResource": "containerResource"}
# The API server gives this metric to a spec without metrics.
_DEFAULT_METRICS: Final = (
    {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    },
)


@dataclass(frozen=True, slots=True)
class CpuMetric:
    """One metric; a target is a number of milli-cores per pod, or per cent of requests."""

    type: str
    container: str | None
    average_value: int | None
    average_utilization: int | None

    @property
    def source(self) -> str:
        """The field of the metric's spec and status."""
        return _SOURCES[self.type]

    @property
    def name(self) -> str:
        """The metric's name in messages."""
        if self.average_value is not None:
            return "cpu resource"
        kind = "cpu resource" if self.container is None else "cpu container resource"
        return f"{kind} utilization (percentage of request)"


@dataclass(frozen=True, slots=True)
class Spec:
    """A spec with the defaults of the API server; `rules` are those up, then those down, or None."""

    minimum: int
    maximum: int
    metrics: tuple[CpuMetric, ...]
    rules: tuple[Rules, Rules] | None


def read_spec(given: Mapping[str, Any]) -> Spec:
    """Returns the spec; raises NotImplementedError for a metric that is not of CPU."""
    minimum, behavior = given.get("minReplicas"), given.get("behavior")
    return Spec(
        minimum=1 if minimum is None else minimum,
        maximum=given["maxReplicas"],
        metrics=tuple(_metric_of(one) for one in given.get("metrics") or _DEFAULT_METRICS),
        # Even an empty behavior takes the path with behavior.
        rules=None
        if behavior is None
        else (rules_of(behavior.get("scaleUp"), UP), rules_of(behavior.get("scaleDown"), DOWN)),
    )


def _metric_of(given: Mapping[str, Any]) -> CpuMetric:
    kind = given["type"]
    if kind not in _SOURCES:
        raise NotImplementedError(f"The model of the HPA has no metrics of type {kind}.")
    source = given[_SOURCES[kind]]
    if source["name"] != "cpu":
        raise NotImplementedError(f"The model of the HPA has no {kind} metric of {source['name']}.")
    target = source["target"]
    value = target.get("averageValue")
    return CpuMetric(
        type=kind,
        container=source["container"] if kind == "ContainerResource" else None,
        average_value=None if value is None else milli(value),
        average_utilization=target.get("averageUtilization"),
    )
