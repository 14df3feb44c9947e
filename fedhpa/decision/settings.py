"""The flags of the controller that a decision depends on, and their JSON in scenarios and ScalingRecords."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from fedhpa.api import default_values
from fedhpa.api.errors import InvalidObject
from fedhpa.api.times import format_duration, parse_duration
from fedhpa.decision.record.fields import convert_at, read_at


class ControllerSettings(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
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
    new_hosts: Literal["grow", "cordon"] = default_values.NEW_HOSTS


JSON = object

# Settings that are written as a Go duration, and may be read as seconds, too.
_DURATIONS: Final = frozenset(
    ("downscaleStabilization", "cpuInitializationPeriod", "initialReadinessDelay", "clusterLostTimeout")
)


def encode_settings(settings: ControllerSettings, *, changed_only: bool = False) -> Mapping[str, JSON]:
    """Returns all settings, or only those that differ from the defaults."""
    defaults = msgspec.to_builtins(ControllerSettings())
    return {
        key: format_duration(value) if key in _DURATIONS else value
        for key, value in msgspec.to_builtins(settings).items()
        if not changed_only or value != defaults[key]
    }


def decode_settings(raw: Mapping[str, JSON]) -> ControllerSettings:
    """Returns the settings of a scenario. Raises InvalidObject naming the field."""
    found = {
        key: read_at(f"controller.{key}", parse_duration, value)
        if key in _DURATIONS and isinstance(value, str | int | float)
        else value
        for key, value in raw.items()
    }
    return convert_at("controller", found, ControllerSettings)


def stored_settings(raw: JSON) -> ControllerSettings:
    """Returns the settings of a stored decision. A setting that is absent or unreadable has its default."""
    kept: dict[str, JSON] = {}
    for key, value in raw.items() if isinstance(raw, Mapping) else ():
        with contextlib.suppress(InvalidObject):
            decode_settings({key: value})
            kept[key] = value
    return decode_settings(kept)
