"""The CEL rules of metrics and behavior: Karmada's rules and messages, which are Kubernetes 1.27's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fedhpa.admission.cel.rule import FORBIDDEN, REQUIRED, Cel, given
from fedhpa.admission.metrics.table import RULES
from fedhpa.api.autoscaling import HPAScalingPolicy, HPAScalingRules, MetricSpec
from fedhpa.api.metric_types import METRIC_TYPES
from fedhpa.api.metrics.parts import MetricTarget
from fedhpa.api.model import ApiModel


def _metric() -> tuple[Cel, ...]:
    """Returns the rules that a metric has the source of its type, and no other."""
    alone = f"[{', '.join(given(row.field) for row in METRIC_TYPES.values())}].exists_one(given, given)"
    rules: list[Cel] = []
    for row in METRIC_TYPES.values():
        rules += [
            Cel(
                f"self.type != '{row.name}' || {given(row.field)}",
                "must populate information for the given metric source",
                f".{row.field}",
                REQUIRED,
            ),
            Cel(
                f"!{given(row.field)} || self.type == '{row.name}' || {alone}",
                "must populate the given metric source only",
                f".{row.field}",
                FORBIDDEN,
            ),
        ]
    return tuple(rules)


def _positive(path: str) -> Cel:
    """Returns the rule that a quantity is positive. It checks only the first character, to limit its cost."""
    value = f"self.{path}"
    return Cel(
        f"!{given(path)} || (type({value}) == int ? {value} > 0"
        f" : {value} != '0' && !{value}.startsWith('-'))",
        "must be positive",
        f".{path}",
    )


_TARGET: Final = (
    Cel(
        "self.type in ['Utilization', 'Value', 'AverageValue']",
        "must be either Utilization, Value, or AverageValue",
        ".type",
    ),
    _positive("value"),
    _positive("averageValue"),
    Cel(
        "!has(self.averageUtilization) || self.averageUtilization >= 1",
        "must be greater than 0",
        ".averageUtilization",
    ),
)

_WINDOW: Final = "stabilizationWindowSeconds"
_SCALING_RULES: Final = (
    Cel(f"!{given(_WINDOW)} || self.{_WINDOW} >= 0", "must be greater than or equal to zero", f".{_WINDOW}"),
    Cel(f"!{given(_WINDOW)} || self.{_WINDOW} <= 3600", "must be less than or equal to 3600", f".{_WINDOW}"),
    Cel(
        "!has(self.policies) || self.policies.size() > 0",
        "must specify at least one Policy",
        ".policies",
        REQUIRED,
    ),
    Cel(
        "!has(self.tolerance) || (type(self.tolerance) == int ? self.tolerance >= 0"
        " : !self.tolerance.startsWith('-') || self.tolerance.matches('^-[0.]*[a-zA-Z]*$'))",
        "must be greater than or equal to 0",
        ".tolerance",
    ),
)
_SCALING_POLICY: Final = (
    Cel("self.value > 0", "must be greater than zero", ".value"),
    Cel("self.periodSeconds > 0", "must be greater than zero", ".periodSeconds"),
    Cel("self.periodSeconds <= 1800", "must be less than or equal to 1800", ".periodSeconds"),
)

METRIC_RULES: Final[Mapping[type[ApiModel], tuple[Cel, ...]]] = {
    MetricSpec: _metric(),
    MetricTarget: _TARGET,
    **{row.source: RULES[row.name].cel for row in METRIC_TYPES.values()},
    HPAScalingRules: _SCALING_RULES,
    HPAScalingPolicy: _SCALING_POLICY,
}
