"""The controller's settings as scenarios and stored decisions carry them."""

from __future__ import annotations

from collections.abc import Mapping

from fedhpa.api.errors import InvalidObject
from fedhpa.api.times import format_duration, parse_duration
from fedhpa.decision.snapshot import ControllerSettings

JSON = object

# Key on the wire -> field; durations are Go strings there.
_DURATIONS = {
    "downscaleStabilization": "downscale_stabilization",
    "cpuInitializationPeriod": "cpu_initialization_period",
    "initialReadinessDelay": "initial_readiness_delay",
    "clusterLostTimeout": "cluster_lost_timeout",
}
_NUMBERS = {
    "tolerance": "tolerance",
    "scaleUpLimitFactor": "scale_up_limit_factor",
    "scaleUpLimitMinimum": "scale_up_limit_minimum",
}


def encode_settings(settings: ControllerSettings, *, changed_only: bool = False) -> Mapping[str, JSON]:
    """All settings, or those that differ from the defaults."""
    usual = ControllerSettings()
    found: dict[str, JSON] = {}
    for key, name in (_NUMBERS | _DURATIONS).items():
        value = getattr(settings, name)
        if not changed_only or value != getattr(usual, name):
            found[key] = format_duration(value) if key in _DURATIONS else value
    return found


def decode_settings(raw: JSON) -> ControllerSettings:
    """The settings that were stored; what is absent or cannot be read has its default."""
    fields = raw if isinstance(raw, Mapping) else {}
    found: dict[str, float] = {}
    for key, name in (_NUMBERS | _DURATIONS).items():
        value = fields.get(key)
        if key in _DURATIONS and isinstance(value, str):
            try:
                found[name] = parse_duration(value)
            except InvalidObject:
                continue
        elif key in _NUMBERS and isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = value
    return ControllerSettings(**found)  # type: ignore[arg-type]  # names and types are of the tables above
