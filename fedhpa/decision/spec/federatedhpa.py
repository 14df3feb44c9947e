"""A FederatedHPA as a decision reads it: defaults applied, quantities parsed, frozen.

Sources: Kubernetes HPA 1.36, section "object model and defaulting"; Karmada v1.19 mutation;
docs/reference/federatedhpa.md for the added fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from fedhpa.api import default_values
from fedhpa.api.autoscaling import Behavior, HPAScalingRules
from fedhpa.api.decode import WrongType, decode
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import FederatedHPA
from fedhpa.api.fielderror import required
from fedhpa.api.gate import Judgement, judge
from fedhpa.api.json import InvalidJson, convert_json
from fedhpa.api.quantity import Quantity, RawQuantity
from fedhpa.api.rebalance import REBALANCE_ANNOTATION
from fedhpa.decision.record.status import RawStatus, StoredStatus, stored_status
from fedhpa.decision.spec.placement import PlacementSpec, placement_spec
from fedhpa.metric_types.entries import DEFAULT_METRICS, scaling_metric
from fedhpa.metric_types.metric import ScalingMetric
from fedhpa.scaling import ScalingPolicy, ScalingRules

JSON = object

SCALE_UP_ONLY: Final = "ScaleUpOnly"
HOLD: Final = "Hold"
FALLBACK: Final = "Fallback"
PROCEED: Final = "Proceed"

CENTRALIZED: Final = "Centralized"
DISTRIBUTED: Final = "Distributed"


class ScalingBehavior(msgspec.Struct, frozen=True):
    """spec.behavior with both directions filled."""

    scale_up: ScalingRules
    scale_down: ScalingRules


class ScalingSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The spec with defaults. `behavior` None means the limits that Kubernetes applies without it.

    `judgement` is what the gate says about the spec.
    """

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
    judgement: Judgement = Judgement()


class ScalingObject(msgspec.Struct, frozen=True, kw_only=True):
    """A FederatedHPA: its spec with defaults and its stored status."""

    name: str
    namespace: str
    generation: int | None
    spec: ScalingSpec
    status: StoredStatus
    uid: str = ""
    rebalance: str = ""


class _StoredMeta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int | None = None
    annotations: JSON = None


class _StoredObject(msgspec.Struct):
    """The parts of an object beside its spec. A status of 200 clusters is too large for the model."""

    metadata: _StoredMeta = msgspec.field(default_factory=_StoredMeta)
    status: RawStatus | None = None


def decode_object(raw: Mapping[str, JSON], spec: ScalingSpec | None = None) -> ScalingObject:
    """Returns a stored FederatedHPA; `spec` is its spec if that is known already.

    Raises InvalidObject naming the field. An object that the gate refuses is returned: see `judgement`.
    """
    try:
        stored = convert_json(raw, _StoredObject)
    except InvalidJson as error:
        raise InvalidObject(f"the FederatedHPA cannot be read: {error}") from error
    meta = stored.metadata
    found = meta.annotations.get(REBALANCE_ANNOTATION) if isinstance(meta.annotations, Mapping) else None
    return ScalingObject(
        name=meta.name,
        namespace=meta.namespace,
        generation=meta.generation,
        spec=decode_spec(raw.get("spec")) if spec is None else spec,
        status=stored_status(stored.status or RawStatus()),
        uid=meta.uid,
        rebalance=found if isinstance(found, str) else "",
    )


def decode_spec(raw: JSON) -> ScalingSpec:
    """Returns the spec of its JSON, read with the model of admission and judged by the gate.

    Raises InvalidObject naming the field if a value has another type, or the upper limit is missing.
    """
    try:
        spec = decode(FederatedHPA, {"spec": raw}).spec
    except WrongType as error:
        raise InvalidObject(f"{error.remedy} ({error})") from error
    if spec.maximum is None:
        raise InvalidObject(str(required("spec.maxReplicas", "or federatedMaxReplicas")))
    partial = spec.partial_metrics
    least, most = _bounds(default_values.MIN_REPLICAS if spec.minimum is None else spec.minimum, spec.maximum)
    return ScalingSpec(
        target_kind=spec.scale_target_ref.kind,
        target_name=spec.scale_target_ref.name,
        min_replicas=least,
        max_replicas=most,
        metrics=tuple([scaling_metric(metric) for metric in spec.metrics]) or DEFAULT_METRICS,
        behavior=None if spec.behavior is None else behavior_with_defaults(spec.behavior),
        mode=spec.mode or default_values.MODE,
        dry_run=bool(spec.dry_run),
        partial_policy=(partial and partial.policy) or default_values.PARTIAL_METRICS_POLICY,
        lost_after=_seconds(partial.lost_after_seconds) if partial else None,
        fallback_replicas=partial.fallback_replicas if partial else None,
        assignment=placement_spec(spec),
        judgement=judge(spec),
    )


def _seconds(given: int | None) -> float | None:
    return None if given is None else float(given)


def behavior_with_defaults(behavior: Behavior) -> ScalingBehavior:
    """Returns both directions with defaults. A list of policies replaces the default list.

    Without a value the scale-down window stays None: the controller's flag applies.
    """
    return ScalingBehavior(
        scale_up=_rules(
            behavior.scale_up or HPAScalingRules(),
            default_values.SCALE_UP_POLICIES,
            default_values.SCALE_UP_STABILIZATION_SECONDS,
        ),
        scale_down=_rules(behavior.scale_down or HPAScalingRules(), default_values.SCALE_DOWN_POLICIES, None),
    )


def _rules(
    given: HPAScalingRules, defaults: tuple[default_values.ScalingPolicyDefault, ...], window: int | None
) -> ScalingRules:
    policies = defaults if given.policies is None else given.policies
    own_window = given.stabilization_window_seconds
    return ScalingRules(
        policies=tuple([ScalingPolicy(one.type, one.value, one.period_seconds) for one in policies]),
        select_policy=given.select_policy or default_values.SELECT_POLICY,
        stabilization_seconds=window if own_window is None else own_window,
        tolerance=None if given.tolerance is None else _fraction(given.tolerance),
    )


def _fraction(raw: RawQuantity) -> float:
    """Returns the float that Go makes of the quantity: the mantissa as written, times a power of ten."""
    match = re.fullmatch(r"\+?([0-9]*)\.?([0-9]*)(m?)", str(raw).strip())
    if match is None:
        return float(Quantity.parse(raw))
    scale = len(match[2]) + (3 if match[3] else 0)
    return float(int(match[1] + match[2] or "0")) * float(f"1e-{scale}")


def _bounds(minimum: int, maximum: int) -> tuple[int, int]:
    """Returns bounds that do not contradict each other, also for an object that bypassed admission.

    maxReplicas wins: with minReplicas above it, the size would otherwise go back and forth at each reconcile.
    """
    most = max(maximum, 0)
    return min(default_values.MIN_REPLICAS if minimum < 0 else minimum, most), most
