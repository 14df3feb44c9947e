"""The flags of the controller that a decision depends on, and their JSON in scenarios and ScalingRecords."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from fedhpa.api import default_values
from fedhpa.api.errors import InvalidObject
from fedhpa.api.times import format_duration, parse_duration
from fedhpa.decision.record.fields import read_at


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The controller's flags that the arithmetic reads; durations are seconds.

    `new_hosts` is GROW or CORDON of `fedhpa.api.default_values`.
    """

    tolerance: float = default_values.TOLERANCE
    downscale_stabilization: float = default_values.DOWNSCALE_STABILIZATION_SECONDS
    cpu_initialization_period: float = default_values.CPU_INITIALIZATION_PERIOD_SECONDS
    initial_readiness_delay: float = default_values.INITIAL_READINESS_DELAY_SECONDS
    scale_up_limit_factor: float = default_values.SCALE_UP_LIMIT_FACTOR
    scale_up_limit_minimum: int = default_values.SCALE_UP_LIMIT_MINIMUM
    cluster_lost_timeout: float = default_values.CLUSTER_LOST_TIMEOUT_SECONDS
    new_hosts: str = default_values.NEW_HOSTS


JSON = object

# JSON key -> field.
_NUMBERS: Final = {
    "tolerance": "tolerance",
    "scaleUpLimitFactor": "scale_up_limit_factor",
    "scaleUpLimitMinimum": "scale_up_limit_minimum",
}
# JSON key -> field of a text, with the values that it may have.
_TEXTS: Final = {"newHosts": ("new_hosts", (default_values.GROW, default_values.CORDON))}
# JSON key -> field of a duration, which is written as a Go duration.
_DURATIONS: Final = {
    "downscaleStabilization": "downscale_stabilization",
    "cpuInitializationPeriod": "cpu_initialization_period",
    "initialReadinessDelay": "initial_readiness_delay",
    "clusterLostTimeout": "cluster_lost_timeout",
}


class RawController(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """`controller` of a scenario: durations are Go durations or seconds."""

    tolerance: float = default_values.TOLERANCE
    downscale_stabilization: str | float = default_values.DOWNSCALE_STABILIZATION_SECONDS
    cpu_initialization_period: str | float = default_values.CPU_INITIALIZATION_PERIOD_SECONDS
    initial_readiness_delay: str | float = default_values.INITIAL_READINESS_DELAY_SECONDS
    cluster_lost_timeout: str | float = default_values.CLUSTER_LOST_TIMEOUT_SECONDS
    scale_up_limit_factor: float = default_values.SCALE_UP_LIMIT_FACTOR
    scale_up_limit_minimum: float = default_values.SCALE_UP_LIMIT_MINIMUM
    new_hosts: Literal["grow", "cordon"] = "grow"


def encode_settings(settings: ControllerSettings, *, changed_only: bool = False) -> Mapping[str, JSON]:
    """Returns all settings, or only those that differ from the defaults."""
    defaults = ControllerSettings()
    found: dict[str, JSON] = {}
    for key, field in (_NUMBERS | _DURATIONS).items():
        value = getattr(settings, field)
        if not changed_only or value != getattr(defaults, field):
            found[key] = format_duration(value) if key in _DURATIONS else value
    for key, (field, _) in _TEXTS.items():
        value = getattr(settings, field)
        if not changed_only or value != getattr(defaults, field):
            found[key] = value
    return found


def decode_settings(raw: RawController) -> ControllerSettings:
    """Returns the settings of a scenario. Raises InvalidObject naming the field."""
    durations = {
        field: read_at(f"controller.{key}", parse_duration, getattr(raw, field))
        for key, field in _DURATIONS.items()
    }
    return ControllerSettings(
        tolerance=raw.tolerance,
        scale_up_limit_factor=raw.scale_up_limit_factor,
        scale_up_limit_minimum=int(raw.scale_up_limit_minimum),
        new_hosts=raw.new_hosts,
        **durations,
    )


def stored_settings(raw: JSON) -> ControllerSettings:
    """Returns the settings of a stored decision. A setting that is absent or unreadable has its default."""
    fields = raw if isinstance(raw, Mapping) else {}
    found: dict[str, float | str] = {
        field: str(fields[key]) for key, (field, allowed) in _TEXTS.items() if fields.get(key) in allowed
    }
    for key, field in (_NUMBERS | _DURATIONS).items():
        value = fields.get(key)
        if key in _DURATIONS and isinstance(value, str):
            try:
                found[field] = parse_duration(value)
            except InvalidObject:
                continue
        elif key in _NUMBERS and isinstance(value, int | float) and not isinstance(value, bool):
            found[field] = value
    return ControllerSettings(**found)  # type: ignore[arg-type]  # names and types are of the tables above
