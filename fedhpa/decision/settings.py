"""The flags of the controller that a decision depends on, and their JSON in scenarios and ScalingRecords."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from fedhpa.api import default_values
from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import convert_json
from fedhpa.api.times import format_duration, parse_duration
from fedhpa.decision.record.fields import read_at


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
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
    defaults = msgspec.to_builtins(ControllerSettings())
    return {
        key: format_duration(value) if key in _DURATIONS else value
        for key, value in msgspec.to_builtins(settings).items()
        if not changed_only or value != defaults[key]
    }


def decode_settings(raw: RawController) -> ControllerSettings:
    """Returns the settings of a scenario. Raises InvalidObject naming the field."""
    durations = {
        field: read_at(f"controller.{key}", parse_duration, getattr(raw, field))
        for key, field in _DURATIONS.items()
    }
    minimum = {"scale_up_limit_minimum": int(raw.scale_up_limit_minimum)}
    return ControllerSettings(**{**msgspec.structs.asdict(raw), **durations, **minimum})


def stored_settings(raw: JSON) -> ControllerSettings:
    """Returns the settings of a stored decision. A setting that is absent or unreadable has its default."""
    kept: dict[str, JSON] = {}
    for key, value in raw.items() if isinstance(raw, Mapping) else ():
        with contextlib.suppress(InvalidObject):
            decode_settings(convert_json({key: value}, RawController))
            kept[key] = value
    return decode_settings(convert_json(kept, RawController))
