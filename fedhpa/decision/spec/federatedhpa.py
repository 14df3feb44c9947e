"""What a FederatedHPA asks for, once: defaults applied, quantities parsed, frozen.

Sources: Kubernetes HPA 1.36 section "object model and defaulting", Karmada v1.19 mutation, and
docs/reference/federatedhpa.md for the added fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from fedhpa.api import default_values
from fedhpa.api.errors import InvalidObject, InvalidQuantity
from fedhpa.api.metric_types import CONTAINER_RESOURCE, RESOURCE, USAGE_API, MetricType, metric_type
from fedhpa.api.quantity import Quantity, RawQuantity
from fedhpa.decision.absence import Absence, decode_absences
from fedhpa.decision.spec.placement import Placement, placement
from fedhpa.decision.spec.wire import (
    RawBehavior,
    RawCondition,
    RawFederatedHPA,
    RawMetric,
    RawMetricTarget,
    RawRules,
    RawSource,
    RawSpec,
    RawStatus,
)
from fedhpa.scaling.rules import ScalingPolicy, ScalingRules

JSON = object

SCALE_UP_ONLY: Final = "ScaleUpOnly"
HOLD: Final = "Hold"
FALLBACK: Final = "Fallback"
PROCEED: Final = "Proceed"

CENTRALIZED: Final = "Centralized"

# status.clusters[].state of the clusters that answered.
ANSWERED: Final = "Answered"
METRICS_MISSING: Final = "MetricsMissing"
METRICS_LOST: Final = "MetricsLost"
LOST: Final = "Lost"
ANSWERED_STATES: Final = frozenset((ANSWERED, METRICS_MISSING, METRICS_LOST))
LOST_STATES: Final = frozenset((METRICS_LOST, LOST))


class MetricSpec(msgspec.Struct, frozen=True):
    """One entry of spec.metrics. Values are milli-units, utilization is per cent of requests.

    `name` is the resource's or the metric's. `target` is the target as JSON with canonical quantities.
    `selector` and `described_object` are as written. `present` is False where the type's own field is
    missing.
    """

    type: str
    name: str = ""
    container: str = ""
    target_type: str = ""
    value: int | None = None
    average_value: int | None = None
    average_utilization: int | None = None
    selector: Mapping[str, JSON] | None = None
    described_object: Mapping[str, JSON] | None = None
    aggregation: str = default_values.AGGREGATION
    target: Mapping[str, JSON] = {}
    present: bool = True

    @property
    def metric_type(self) -> MetricType:
        """Returns the row of the metric's type."""
        return metric_type(self.type)


class Behavior(msgspec.Struct, frozen=True):
    """spec.behavior with both directions filled."""

    scale_up: ScalingRules
    scale_down: ScalingRules


class ScalingSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The spec, as the arithmetic wants it. `behavior` None keeps the legacy normalisation."""

    target_kind: str
    target_name: str
    min_replicas: int
    max_replicas: int
    metrics: tuple[MetricSpec, ...]
    behavior: Behavior | None
    mode: str = default_values.MODE
    dry_run: bool = False
    partial_policy: str = default_values.PARTIAL_METRICS_POLICY
    lost_after: float | None = None
    fallback_replicas: int | None = None
    assignment: Placement = Placement()


class StoredCondition(msgspec.Struct, frozen=True):
    """A condition as the object's status has it."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str


class StoredCluster(msgspec.Struct, frozen=True):
    """What the object's status remembers of a cluster."""

    name: str
    state: str
    last_scale_time: str | None
    last_seen: str | None


class StoredStatus(msgspec.Struct, frozen=True):
    """The status that the object came with."""

    current_replicas: int = 0
    desired_replicas: int = 0
    last_scale_time: str | None = None
    current_metrics: tuple[Mapping[str, JSON], ...] | None = None
    conditions: tuple[StoredCondition, ...] = ()
    clusters: tuple[StoredCluster, ...] = ()
    absences: Mapping[str, Absence] = {}


class ScalingObject(msgspec.Struct, frozen=True, kw_only=True):
    """A FederatedHPA, ready to be decided on."""

    name: str
    namespace: str
    generation: int | None
    spec: ScalingSpec
    status: StoredStatus


def decode_object(raw: Mapping[str, JSON] | bytes) -> ScalingObject:
    """Reads a FederatedHPA from JSON bytes or from decoded JSON. Raises InvalidObject naming the field."""
    try:
        if isinstance(raw, bytes):
            decoded = msgspec.json.decode(raw, type=RawFederatedHPA)
        else:
            decoded = msgspec.convert(raw, RawFederatedHPA)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise InvalidObject(f"the FederatedHPA cannot be read: {error}") from error
    return scaling_object(decoded)


def scaling_object(raw: RawFederatedHPA, path: str = "") -> ScalingObject:
    """Applies defaults, parses quantities; `path` goes before the field in errors. Raises InvalidObject."""
    return ScalingObject(
        name=raw.metadata.name,
        namespace=raw.metadata.namespace,
        generation=raw.metadata.generation,
        spec=_spec(raw.spec, f"{path}.spec" if path else "spec"),
        status=_status(raw.status or RawStatus()),
    )


def _spec(raw: RawSpec, path: str) -> ScalingSpec:
    maximum = raw.maxReplicas if raw.maxReplicas is not None else raw.federatedMaxReplicas
    if maximum is None:
        raise InvalidObject(f"{path}.maxReplicas: required (or federatedMaxReplicas)")
    minimum = raw.minReplicas if raw.minReplicas is not None else raw.federatedMinReplicas
    metrics = [_metric(metric, f"{path}.metrics[{index}]") for index, metric in enumerate(raw.metrics or ())]
    partial = raw.partialMetrics
    return ScalingSpec(
        target_kind=raw.scaleTargetRef.kind,
        target_name=raw.scaleTargetRef.name,
        min_replicas=default_values.MIN_REPLICAS if minimum is None else minimum,
        max_replicas=maximum,
        metrics=tuple(metrics) or (_default_metric(),),
        behavior=None if raw.behavior is None else behavior_with_defaults(raw.behavior, f"{path}.behavior"),
        mode=raw.mode or default_values.MODE,
        dry_run=bool(raw.dryRun),
        partial_policy=(partial and partial.policy) or default_values.PARTIAL_METRICS_POLICY,
        lost_after=partial.lostAfterSeconds if partial else None,
        fallback_replicas=partial.fallbackReplicas if partial else None,
        assignment=placement(raw, f"{path}.federatedHPAAssignment"),
    )


def _default_metric() -> MetricSpec:
    utilization = default_values.METRIC_AVERAGE_UTILIZATION
    return MetricSpec(
        RESOURCE,
        name=default_values.METRIC_RESOURCE_NAME,
        target_type="Utilization",
        average_utilization=utilization,
        target={"type": "Utilization", "averageUtilization": utilization},
    )


def _metric(raw: RawMetric, path: str) -> MetricSpec:
    kind = metric_type(raw.type)
    field = kind.field
    source: RawSource | None = getattr(raw, field) if field else None
    if source is None:
        return MetricSpec(raw.type, present=False)
    value, value_text = _quantity(source.target.value, f"{path}.{field}.target.value")
    average, average_text = _quantity(source.target.averageValue, f"{path}.{field}.target.averageValue")
    return MetricSpec(
        raw.type,
        name=source.name if kind.api == USAGE_API else source.metric.name,
        container=source.container if raw.type == CONTAINER_RESOURCE else "",
        target_type=source.target.type,
        value=value,
        average_value=average,
        average_utilization=source.target.averageUtilization,
        selector=source.metric.selector,
        described_object=source.describedObject,
        aggregation=source.aggregation or default_values.AGGREGATION,
        target=_target(source.target, value_text, average_text),
    )


def _target(raw: RawMetricTarget, value: str | None, average: str | None) -> Mapping[str, JSON]:
    fields = {
        "type": raw.type or None,
        "value": value,
        "averageValue": average,
        "averageUtilization": raw.averageUtilization,
    }
    return {key: field for key, field in fields.items() if field is not None}


def _quantity(raw: RawQuantity | None, path: str) -> tuple[int | None, str | None]:
    if raw is None:
        return None, None
    try:
        quantity = Quantity.parse(raw)
    except InvalidQuantity as error:
        raise InvalidObject(f"{path}: {error}") from error
    return quantity.milli, str(quantity)


def behavior_with_defaults(raw: RawBehavior, path: str = "behavior") -> Behavior:
    """Fills both directions; a field that is given wins, a list of policies replaces the default list.

    The scale-down window stays None: the controller's flag stands in. Raises InvalidObject.
    """
    return Behavior(
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
    """A quantity as the float Go makes of it: the mantissa times a power of ten, as written."""
    try:
        exact = Quantity.parse(raw)
    except InvalidQuantity as error:
        raise InvalidObject(f"{path}: {error}") from error
    match = re.fullmatch(r"\+?([0-9]*)\.?([0-9]*)(m?)", str(raw).strip())
    if match is None:
        return float(exact)
    scale = len(match[2]) + (3 if match[3] else 0)
    return float(int(match[1] + match[2] or "0")) * float(f"1e-{scale}")


def _status(raw: RawStatus) -> StoredStatus:
    return StoredStatus(
        current_replicas=raw.currentReplicas or 0,
        desired_replicas=raw.desiredReplicas or 0,
        last_scale_time=raw.lastScaleTime,
        current_metrics=None if raw.currentMetrics is None else tuple(raw.currentMetrics),
        conditions=tuple(_condition(condition) for condition in raw.conditions or ()),
        clusters=tuple(
            StoredCluster(cluster.name, cluster.state or "", cluster.lastScaleTime, cluster.lastSeen)
            for cluster in raw.clusters or ()
        ),
        absences=decode_absences(raw.decision.get("absences")) if isinstance(raw.decision, dict) else {},
    )


def _condition(raw: RawCondition) -> StoredCondition:
    return StoredCondition(
        raw.type, raw.status, raw.reason or "", raw.message or "", raw.lastTransitionTime or ""
    )
