"""spec.behavior with its defaults. Source: Kubernetes HPA 1.36, section "object model and defaulting"."""

from __future__ import annotations

import re

import msgspec

from fedhpa.api import default_values
from fedhpa.api.errors import InvalidObject, InvalidQuantity
from fedhpa.api.quantity import Quantity, RawQuantity
from fedhpa.decision.spec.wire import RawBehavior, RawRules
from fedhpa.scaling import ScalingPolicy, ScalingRules


class ScalingBehavior(msgspec.Struct, frozen=True):
    """spec.behavior with both directions filled."""

    scale_up: ScalingRules
    scale_down: ScalingRules


def behavior_with_defaults(raw: RawBehavior, path: str = "behavior") -> ScalingBehavior:
    """Returns both directions with defaults. A list of policies replaces the default list.

    Without a value the scale-down window stays None: the controller's flag applies. Raises InvalidObject.
    """
    return ScalingBehavior(
        scale_up=_rules(
            raw.scaleUp or RawRules(),
            default_values.SCALE_UP_POLICIES,
            default_values.SCALE_UP_STABILIZATION_SECONDS,
            f"{path}.scaleUp",
        ),
        scale_down=_rules(
            raw.scaleDown or RawRules(), default_values.SCALE_DOWN_POLICIES, None, f"{path}.scaleDown"
        ),
    )


def _rules(
    raw: RawRules, policies: tuple[default_values.ScalingPolicyDefault, ...], window: int | None, path: str
) -> ScalingRules:
    given = raw.policies
    return ScalingRules(
        policies=tuple(ScalingPolicy(p.type, p.value, p.period_seconds) for p in policies)
        if given is None
        else tuple(ScalingPolicy(p.type, p.value, p.periodSeconds) for p in given),
        select_policy=raw.selectPolicy or default_values.SELECT_POLICY,
        stabilization_seconds=window
        if raw.stabilizationWindowSeconds is None
        else raw.stabilizationWindowSeconds,
        tolerance=None if raw.tolerance is None else _fraction(raw.tolerance, f"{path}.tolerance"),
    )


def _fraction(raw: RawQuantity, path: str) -> float:
    """Returns the float that Go makes of the quantity: the mantissa as written, times a power of ten."""
    try:
        exact = Quantity.parse(raw)
    except InvalidQuantity as error:
        raise InvalidObject(f"{path}: {error}") from error
    match = re.fullmatch(r"\+?([0-9]*)\.?([0-9]*)(m?)", str(raw).strip())
    if match is None:
        return float(exact)
    scale = len(match[2]) + (3 if match[3] else 0)
    return float(int(match[1] + match[2] or "0")) * float(f"1e-{scale}")
