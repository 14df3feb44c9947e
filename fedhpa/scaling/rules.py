"""The scaling rules of one direction, with defaults."""

from __future__ import annotations

from typing import Final

import msgspec

MAX: Final = "Max"
MIN: Final = "Min"
DISABLED: Final = "Disabled"
PODS: Final = "Pods"
PERCENT: Final = "Percent"


class ScalingPolicy(msgspec.Struct, frozen=True):
    """At most `value` pods, or per cent of the present size, within `period_seconds`."""

    type: str
    value: int
    period_seconds: int


class ScalingRules(msgspec.Struct, frozen=True):
    """One direction of spec.behavior. `stabilization_seconds` None means the controller's flag."""

    policies: tuple[ScalingPolicy, ...]
    select_policy: str = MAX
    stabilization_seconds: float | None = None
    tolerance: float | None = None


class Tolerances(msgspec.Struct, frozen=True):
    """The distances of usage from the target that cause no change, as fractions; both ends are included."""

    scale_up: float
    scale_down: float

    def within(self, ratio: float) -> bool:
        """True if the usage ratio calls for no change."""
        return 1.0 - self.scale_down <= ratio <= 1.0 + self.scale_up
