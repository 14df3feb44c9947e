"""The controller's flags that a decision depends on."""

from __future__ import annotations

import msgspec

from fedhpa.api import default_values


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The controller's flags that the arithmetic reads; durations are seconds."""

    tolerance: float = default_values.TOLERANCE
    downscale_stabilization: float = default_values.DOWNSCALE_STABILIZATION_SECONDS
    cpu_initialization_period: float = default_values.CPU_INITIALIZATION_PERIOD_SECONDS
    initial_readiness_delay: float = default_values.INITIAL_READINESS_DELAY_SECONDS
    scale_up_limit_factor: float = default_values.SCALE_UP_LIMIT_FACTOR
    scale_up_limit_minimum: int = default_values.SCALE_UP_LIMIT_MINIMUM
    cluster_lost_timeout: float = default_values.CLUSTER_LOST_TIMEOUT_SECONDS
