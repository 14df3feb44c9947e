"""A FederatedHPA as a decision reads it: defaults applied, quantities parsed, frozen.

Sources: Kubernetes HPA 1.36, section "object model and defaulting"; Karmada v1.19 mutation;
docs/reference/federatedhpa.md for the added fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final

import msgspec

from fedhpa.api import default_values
from fedhpa.api.affinity import Selection
from fedhpa.api.assignment_policies import EQUAL, PRIORITY, AssignmentPolicy
from fedhpa.api.autoscaling import Behavior, HPAScalingRules
from fedhpa.api.decode import WrongType, decode
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import (
    ClusterHPAPreference,
    ClusterPreference,
    ClusterToleration,
    FederatedHPA,
    FederatedHPAAssignment,
    FederatedHPASpec,
)
from fedhpa.api.fielderror import required
from fedhpa.api.gate import Judgement, judge
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.quantity import Quantity, RawQuantity
from fedhpa.api.taints import Toleration
from fedhpa.metric_types.entries import DEFAULT_METRICS, scaling_metric
from fedhpa.metric_types.metric import ScalingMetric
from fedhpa.scaling import ScalingPolicy, ScalingRules

EXACT: Final = "Exact"
WHEN_QUIET: Final = "WhenQuiet"
PREFERENCES: Final = "spec.federatedHPAAssignment.clusterAutoscalingPreference"


class PlacementPreference(msgspec.Struct, frozen=True, gc=False):
    """The preference for the clusters that `selection` selects; None selects all."""

    selection: Selection | None = None
    weight: int | None = None
    priority: int | None = None
    low: int | None = None
    high: int | None = None


class PlacementSpec(msgspec.Struct, frozen=True):
    """The division of the replicas among the clusters.

    `policy` EQUAL gives equal weights. `exact` allows clusters without a replica. `delay` is how many seconds
    pods may wait for a node, None for the default; with `assist` they then move to other clusters. `caps` is
    the largest part of each cluster, 0 to 1, that the workload's requests may take. With `scaling_to_zero`
    single clusters may run no replica (mode Distributed only). `rebalance` is the field as it is set; with
    `returns` replicas return to the division of the policy by themselves.
    """

    policy: AssignmentPolicy = EQUAL
    exact: bool = False
    preferences: tuple[PlacementPreference, ...] = ()
    delay: float | None = None
    assist: bool = True
    caps: Mapping[str, Fraction] = {}
    scaling_to_zero: bool = False
    rebalance: str | None = None
    returns: bool = False

    def preferred(self, clusters: Iterable[KnownCluster]) -> dict[str, PlacementPreference]:
        """Returns the first preference that selects each cluster. Clusters without one are left out."""
        if not self.preferences:
            return {}
        left = {cluster.name: cluster for cluster in clusters}
        by_label: dict[tuple[str, str], list[str]] = {}
        for cluster in left.values():
            for pair in cluster.labels.items():
                by_label.setdefault(pair, []).append(cluster.name)
        found: dict[str, PlacementPreference] = {}
        for preference in self.preferences:
            if not left:
                break
            for name in _candidates(preference.selection, left, by_label):
                if preference.selection is None or preference.selection.selects(left[name]):
                    found[name] = preference
                    del left[name]
        return found


def _candidates(
    selection: Selection | None,
    left: Mapping[str, KnownCluster],
    by_label: Mapping[tuple[str, str], Sequence[str]],
) -> list[str]:
    """Returns the clusters among `left` that the selection can select, by its names or one of its labels.

    It keeps a thousand preferences from each being compared with a thousand clusters.
    """
    if selection is None:
        return list(left)
    if selection.named:
        return [name for name in selection.named if name in left]
    if selection.labelled is None:
        return list(left)
    label, values = selection.labelled
    return [name for value in values for name in by_label.get((label, value), ()) if name in left]


def placement_spec(spec: FederatedHPASpec) -> PlacementSpec:
    """Returns the placement of a spec. Raises InvalidObject naming the field."""
    assignment = spec.federated_hpa_assignment or FederatedHPAAssignment()
    policy = assignment.policy
    return PlacementSpec(
        policy=policy,
        exact=assignment.minimum_policy == EXACT,
        preferences=tuple(
            [
                _preference(preference, f"{PREFERENCES}[{index}]")
                for index, preference in enumerate(assignment.cluster_autoscaling_preference)
            ]
        ),
        delay=spec.autoscale_multi_cluster_delay,
        assist=spec.scale_assist is not False,
        caps=_caps(spec.cluster_hpa_preference),
        scaling_to_zero=spec.scaling_to_zero is True,
        rebalance=assignment.rebalance,
        returns=(assignment.rebalance or (WHEN_QUIET if policy.preference == PRIORITY else "")) == WHEN_QUIET,
    )


def _caps(caps: Iterable[ClusterHPAPreference]) -> dict[str, Fraction]:
    """Returns the lowest cap of each named cluster."""
    found: dict[str, Fraction] = {}
    for cap in caps:
        if cap.max_resource_usage is not None:
            # Admission refuses values outside 0 to 1, so the nearest bound stands in. `str` keeps 0.29 exact.
            share = Fraction(str(min(max(cap.max_resource_usage, 0.0), 1.0)))
            found[cap.cluster_name] = min(share, found.get(cap.cluster_name, share))
    return found


def _preference(preference: ClusterPreference, path: str) -> PlacementPreference:
    selection = None
    if preference.target_cluster is not None:
        try:
            selection = Selection(preference.target_cluster)
        except InvalidObject as error:
            raise InvalidObject(f"{path}.targetCluster: {error}") from error
    # Admission refuses negative numbers: 0 stands in.
    low, high = preference.autoscaling_min_threshold, preference.autoscaling_max_threshold
    return PlacementPreference(
        selection,
        None if preference.static_weight is None else max(preference.static_weight, 0),
        preference.priority,
        None if low is None else max(low, 0),
        None if high is None else max(high, 0),
    )


JSON = object

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

    `selects_clusters` is True with a clusterAffinity, and `follows` the name of the PlacementDecision in it.
    With `publish` the clusters are to be published. `judgement` is what the gate says about the spec.
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
    tolerations: tuple[Toleration, ...] = ()
    selects_clusters: bool = False
    follows: str = ""
    publish: bool = False
    judgement: Judgement = Judgement()

    @property
    def metrics_read(self) -> Sequence[ScalingMetric]:
        """The metrics that the controller itself reads.

        In mode Distributed the members' HPAs do that. Only a cluster at zero has no HPA at work.
        """
        if self.mode != DISTRIBUTED:
            return self.metrics
        if not self.assignment.scaling_to_zero:
            return ()
        return [metric for metric in self.metrics if metric.metric_type.scales_from_zero]


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
    partial, affinity = spec.partial_metrics, spec.cluster_affinity
    followed = None if affinity is None else affinity.placement_decision
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
        lost_after=partial.lost_after_seconds if partial else None,
        fallback_replicas=partial.fallback_replicas if partial else None,
        assignment=placement_spec(spec),
        tolerations=tuple([_toleration(one) for one in spec.cluster_tolerations]),
        selects_clusters=affinity is not None,
        follows=followed.name if followed is not None else "",
        publish=spec.publishes,
        judgement=judge(spec),
    )


def _toleration(given: ClusterToleration) -> Toleration:
    return Toleration(
        given.key, given.operator or "", given.value, given.effect or "", given.toleration_seconds
    )


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
