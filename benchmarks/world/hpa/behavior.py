"""Scaling rules of spec.behavior, with the defaults of the API server.

Source: SetDefaults_HorizontalPodAutoscaler of autoscaling/v2 in Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.world.hpa.quantities import approximate


@dataclass(frozen=True, slots=True)
class Policy:
    """The replicas, or per cent of them, that one direction may change within a period of seconds."""

    type: str
    value: int
    period: int


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one direction. Without a window in seconds, the controller's flag counts."""

    policies: tuple[Policy, ...]
    select: str = "Max"
    window: int | None = None
    tolerance: float | None = None

    def longest_period(self) -> int:
        """Returns the seconds after which no policy needs a scale event any more."""
        return max((policy.period for policy in self.policies), default=0)


UP: Final = Rules((Policy("Pods", 4, 15), Policy("Percent", 100, 15)), window=0)
DOWN: Final = Rules((Policy("Percent", 100, 15),))


def rules_of(given: Mapping[str, Any] | None, defaults: Rules) -> Rules:
    """Returns the rules of one direction; given fields win, and given policies replace all others."""
    if not given:
        return defaults
    policies, window = given.get("policies"), given.get("stabilizationWindowSeconds")
    tolerance = given.get("tolerance")
    return Rules(
        policies=defaults.policies
        if policies is None
        else tuple(Policy(one["type"], one["value"], one["periodSeconds"]) for one in policies),
        select=given.get("selectPolicy") or defaults.select,
        window=defaults.window if window is None else window,
        tolerance=None if tolerance is None else approximate(tolerance),
    )
