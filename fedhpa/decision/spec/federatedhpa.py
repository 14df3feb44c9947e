"""A FederatedHPA as a decision reads it: defaults applied, quantities parsed, frozen.

Sources: Kubernetes HPA 1.36, section "object model and defaulting"; Karmada v1.19 mutation;
docs/reference/federatedhpa.md for the added fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fedhpa.api import default_values
from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import InvalidJson, convert_json, decode_json
from fedhpa.api.rebalance import REBALANCE_ANNOTATION
from fedhpa.decision.record.status import RawStatus, StoredStatus, stored_status
from fedhpa.decision.spec.behavior import ScalingBehavior, behavior_with_defaults
from fedhpa.decision.spec.metrics import ScalingMetric, default_metric, metric_spec
from fedhpa.decision.spec.placement import PlacementSpec, placement_spec
from fedhpa.decision.spec.wire import RawFederatedHPA, RawSpec

JSON = object

SCALE_UP_ONLY: Final = "ScaleUpOnly"
HOLD: Final = "Hold"
FALLBACK: Final = "Fallback"
PROCEED: Final = "Proceed"

CENTRALIZED: Final = "Centralized"
DISTRIBUTED: Final = "Distributed"


class ScalingSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The spec with defaults. `behavior` None means the limits that Kubernetes applies without it."""

    target_kind: str
    target_name: str
    min_replicas: int
    max_replicas: int
    metrics: tuple[ScalingMetric, ...]
    behavior: ScalingBehavior | None
    mode: str = default_values.MODE
    dry_run: bool = False
    partial_policy: str = default_values.PARTIAL_METRICS_POLICY
    lost_after: float | None = None
    fallback_replicas: int | None = None
    assignment: PlacementSpec = PlacementSpec()


class ScalingObject(msgspec.Struct, frozen=True, kw_only=True):
    """A FederatedHPA: its spec with defaults and its stored status."""

    name: str
    namespace: str
    generation: int | None
    spec: ScalingSpec
    status: StoredStatus
    uid: str = ""
    rebalance: str = ""


def decode_object(raw: Mapping[str, JSON] | bytes) -> ScalingObject:
    """Returns the FederatedHPA of JSON bytes or decoded JSON. Raises InvalidObject naming the field."""
    try:
        if isinstance(raw, bytes):
            decoded = decode_json(raw, RawFederatedHPA)
        else:
            decoded = convert_json(raw, RawFederatedHPA)
    except InvalidJson as error:
        raise InvalidObject(f"the FederatedHPA cannot be read: {error}") from error
    return scaling_object(decoded)


def scaling_object(raw: RawFederatedHPA, path: str = "") -> ScalingObject:
    """Returns the object with defaults. Raises InvalidObject; `path` goes in front of the field."""
    return ScalingObject(
        name=raw.metadata.name,
        namespace=raw.metadata.namespace,
        generation=raw.metadata.generation,
        spec=_spec(raw.spec, f"{path}.spec" if path else "spec"),
        status=stored_status(raw.status or RawStatus()),
        uid=raw.metadata.uid,
        rebalance=_rebalance(raw.metadata.annotations),
    )


def _rebalance(annotations: JSON) -> str:
    found = annotations.get(REBALANCE_ANNOTATION) if isinstance(annotations, Mapping) else None
    return found if isinstance(found, str) else ""


def _spec(raw: RawSpec, path: str) -> ScalingSpec:
    maximum = raw.maxReplicas if raw.maxReplicas is not None else raw.federatedMaxReplicas
    if maximum is None:
        raise InvalidObject(f"{path}.maxReplicas: required (or federatedMaxReplicas)")
    minimum = raw.minReplicas if raw.minReplicas is not None else raw.federatedMinReplicas
    metrics = [
        metric_spec(metric, f"{path}.metrics[{index}]") for index, metric in enumerate(raw.metrics or ())
    ]
    partial = raw.partialMetrics
    least, most = _bounds(default_values.MIN_REPLICAS if minimum is None else minimum, maximum)
    return ScalingSpec(
        target_kind=raw.scaleTargetRef.kind,
        target_name=raw.scaleTargetRef.name,
        min_replicas=least,
        max_replicas=most,
        metrics=tuple(metrics) or (default_metric(),),
        behavior=None if raw.behavior is None else behavior_with_defaults(raw.behavior, f"{path}.behavior"),
        mode=raw.mode or default_values.MODE,
        dry_run=bool(raw.dryRun),
        partial_policy=(partial and partial.policy) or default_values.PARTIAL_METRICS_POLICY,
        lost_after=partial.lostAfterSeconds if partial else None,
        fallback_replicas=partial.fallbackReplicas if partial else None,
        assignment=placement_spec(raw, f"{path}.federatedHPAAssignment"),
    )


def _bounds(minimum: int, maximum: int) -> tuple[int, int]:
    """Returns bounds that do not contradict each other, also for an object that bypassed admission.

    maxReplicas wins: with minReplicas above it, the size would otherwise go back and forth at each reconcile.
    """
    most = max(maximum, 0)
    return min(default_values.MIN_REPLICAS if minimum < 0 else minimum, most), most
