"""The wire form of a recorded scenario. Format: docs/reference/decision-record.md.

Our own keys are checked: an unknown one is a mistake. An empty `error` beside data is none, as in Go. The
Kubernetes objects inside are decoded leniently.
"""

from __future__ import annotations

import msgspec

from fedhpa.api import default_values, wire
from fedhpa.decision.spec.wire import RawFederatedHPA


class _Ours(msgspec.Struct, forbid_unknown_fields=True):
    """A part of the format that is ours: unknown keys are mistakes."""


class Failure(_Ours):
    """What could not be had, and why."""

    error: str


class Controller(_Ours, rename="camel"):
    """controller: durations are Go strings or seconds."""

    tolerance: float = default_values.TOLERANCE
    downscale_stabilization: str | float = default_values.DOWNSCALE_STABILIZATION_SECONDS
    cpu_initialization_period: str | float = default_values.CPU_INITIALIZATION_PERIOD_SECONDS
    initial_readiness_delay: str | float = default_values.INITIAL_READINESS_DELAY_SECONDS
    cluster_lost_timeout: str | float = default_values.CLUSTER_LOST_TIMEOUT_SECONDS
    scale_up_limit_factor: float = default_values.SCALE_UP_LIMIT_FACTOR
    scale_up_limit_minimum: float = default_values.SCALE_UP_LIMIT_MINIMUM


class Target(_Ours):
    """target: the scale of the workload's template, or why it could not be read."""

    replicas: int = 0
    generation: int | None = None
    error: str | None = None


class Scale(_Ours, rename="camel"):
    """clusters[].scale."""

    spec_replicas: int = 0
    status_replicas: int = 0
    selector: str = ""
    error: str | None = None


class HPA(_Ours, rename="camel"):
    """clusters[].hpa."""

    min_replicas: int = 1
    max_replicas: int = 0
    current_replicas: int = 0
    desired_replicas: int = 0


class CustomAnswers(_Ours, rename="camel"):
    """customMetrics as answers to single questions, by index in spec.metrics; or why there is none at all."""

    error: str | None = None
    by_metric: dict[str, list[wire.MetricValue] | Failure] | None = None


class ExternalAnswers(_Ours, rename="camel"):
    """externalMetrics, likewise."""

    error: str | None = None
    by_metric: dict[str, list[wire.ExternalMetricValue] | Failure] | None = None


class Cluster(_Ours, rename="camel"):
    """One entry of clusters."""

    name: str
    ready: bool
    scale: Scale
    error: str | None = None
    pods: list[wire.Pod] | None = None
    pod_metrics: list[wire.PodMetrics] | Failure | None = None
    custom_metrics: list[wire.MetricValue] | CustomAnswers | None = None
    external_metrics: list[wire.ExternalMetricValue] | ExternalAnswers | None = None
    available_replicas: int | None = None
    most_replicas: int | None = None
    last_replicas: int | None = None
    hpa: HPA | None = None
    labels: dict[str, str] | None = None
    provider: str = ""
    region: str = ""
    zones: list[str] | None = None
    held: bool = False


class HubMetrics(_Ours, rename="camel"):
    """hubMetrics."""

    custom_metrics: list[wire.MetricValue] | None = None
    external_metrics: list[wire.ExternalMetricValue] | None = None


class Recommendation(_Ours):
    """One entry of history.recommendations."""

    time: str
    replicas: int


class ScaleEvent(_Ours):
    """One entry of history.scaleUps or history.scaleDowns."""

    time: str
    change: int


class History(_Ours, rename="camel"):
    """history; absent recommendations are not an empty list."""

    recommendations: list[Recommendation] | None = None
    scale_ups: list[ScaleEvent] | None = None
    scale_downs: list[ScaleEvent] | None = None


class Blocked(_Ours):
    """blocked: why the world was not looked at."""

    reason: str
    message: str
    event: str = ""
    condition: str = "AbleToScale"


_NAMES = {
    "federated_hpa": "federatedHPA",
    "hub_metrics": "hubMetrics",
    "ambiguous_with": "ambiguousWith",
    "contested_by": "contestedBy",
}


class Scenario(_Ours, rename=_NAMES):
    """The whole scenario."""

    now: str
    federated_hpa: RawFederatedHPA
    name: str = ""
    controller: Controller | None = None
    target: Target | None = None
    clusters: list[Cluster] | None = None
    hub_metrics: HubMetrics | None = None
    history: History | None = None
    ambiguous_with: list[str] | None = None
    contested_by: list[str] | None = None
    blocked: Blocked | None = None
