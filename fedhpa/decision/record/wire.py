"""The JSON of a scenario, as msgspec structs.

The format's own keys are checked: an unknown one is an error. An empty `error` beside data counts as absent,
as in Go. Kubernetes objects inside are decoded leniently.
"""

from __future__ import annotations

from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from fedhpa.api import wire
from fedhpa.api.member_hpas import MemberHpa
from fedhpa.api.taints import Taint
from fedhpa.decision.record.memory import RawHistory
from fedhpa.decision.settings import RawController
from fedhpa.decision.snapshot import Blocked, Failure, PlacementInput

T = TypeVar("T")


class _Checked(msgspec.Struct, forbid_unknown_fields=True):
    """A part of the format itself: an unknown key is an error."""


class RawTarget(_Checked):
    """target: the scale of the workload's template, or why it could not be read."""

    replicas: int = 0
    generation: int | None = None
    scheduling: Literal["Duplicated", "Divided"] | None = None
    error: str | None = None


class RawScale(_Checked, rename="camel"):
    """clusters[].scale."""

    spec_replicas: int = 0
    status_replicas: int = 0
    selector: str = ""
    error: str | None = None


class RawAnswers(_Checked, Generic[T], rename="camel"):
    """customMetrics or externalMetrics: one answer for each metric, by index in spec.metrics.

    `error` is one reason for all.
    """

    error: str | None = None
    by_metric: dict[str, list[T] | Failure] | None = None


class RawMemberHpa(MemberHpa, frozen=True):
    """clusters[].hpa: an HPA, or why it could not be read."""

    error: str = ""


class RawScenarioCluster(_Checked, rename="camel"):
    """One entry of clusters."""

    name: str
    ready: bool
    scale: RawScale
    error: str | None = None
    pods: list[wire.Pod] | None = None
    pod_metrics: list[wire.PodMetrics] | Failure | None = None
    custom_metrics: list[wire.MetricValue] | RawAnswers[wire.MetricValue] | None = None
    external_metrics: list[wire.ExternalMetricValue] | RawAnswers[wire.ExternalMetricValue] | None = None
    available_replicas: int | None = None
    most_replicas: int | None = None
    last_replicas: int | None = None
    hpa: RawMemberHpa | None = None
    pending_replicas: int | None = None
    labels: dict[str, str] | None = None
    provider: str = ""
    region: str = ""
    zones: list[str] | None = None
    taints: list[Taint] | None = None
    deleted: bool = False
    selected: bool = True
    held: bool = False
    overflow: int = 0
    replaced: bool = False
    missing_since: str = ""
    bridged_seconds: float | None = None
    bridged_reason: str = ""
    implausible_seconds: float | None = None
    clock_ahead: float = 0.0
    gone: str | None = None
    membership: Literal["Member", "Cordoned", "Leaving", "Stuck", "Out"] | None = None
    ready_replicas: int | None = None


class RawHubMetrics(_Checked, rename="camel"):
    """hubMetrics."""

    custom_metrics: list[wire.MetricValue] | None = None
    external_metrics: list[wire.ExternalMetricValue] | None = None


class RawHold(_Checked):
    """One entry of holds: the annotations of a namespace."""

    namespace: str
    hold: str
    until: str = ""


_KEYS: Final = {
    "federated_hpa": "federatedHPA",
    "hub_metrics": "hubMetrics",
    "ambiguous_with": "ambiguousWith",
    "competitors": "contestedBy",
}


class RawScenario(_Checked, rename=_KEYS):
    """The whole scenario."""

    now: str
    federated_hpa: dict[str, Any]  # read with the model of the kind
    name: str = ""
    controller: RawController | None = None
    target: RawTarget | None = None
    clusters: list[RawScenarioCluster] | None = None
    hub_metrics: RawHubMetrics | None = None
    history: RawHistory | None = None
    record: dict[str, Any] | None = None  # `memory` checks it
    ambiguous_with: list[str] | None = None
    competitors: list[str] | None = None
    blocked: Blocked | None = None
    selection: str = ""
    evictions: dict[str, str] = {}
    holds: list[RawHold] | None = None
    placement: PlacementInput | None = None
    unfollowed: str | None = None
