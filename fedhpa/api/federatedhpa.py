"""FederatedHPA, `autoscaling.karmada.io/v1alpha1`: one object scales a workload over many clusters.

A superset of Karmada v1.19's kind: every field of Karmada's means the same, the others are optional
(docs/reference/federatedhpa.md; docs/explanation/placement.md says what the assignment does with its fields).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, Field

from fedhpa.api.autoscaling import (
    ATOMIC,
    Behavior,
    Condition,
    CrossVersionObjectReference,
    MetricSpec,
    MetricStatus,
)
from fedhpa.api.meta import LabelSelector, LabelSelectorRequirement, TypedObject
from fedhpa.api.model import (
    MAX_CLUSTERS,
    MAX_METRICS,
    ApiModel,
    Bool,
    Checked,
    Crd,
    Int32,
    Int64,
    Item,
    LongText,
    Message,
    Name,
    Number,
    Text,
    Time,
)

GROUP: Final = "autoscaling.karmada.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "FederatedHPA"

MODES: Final = ("Centralized", "Distributed")
PARTIAL_METRICS_POLICIES: Final = ("ScaleUpOnly", "Hold", "Fallback", "Proceed")
ASSIGNMENT_TYPES: Final = (
    "Duplicated",
    "Aggregated",
    "StaticWeighted",
    "DynamicWeighted",
    "Prioritized",
    "LoadWeighted",
)
MINIMUM_POLICIES: Final = ("AtLeastOne", "Exact")

Share = Annotated[Number, Checked({"minimum": 0, "exclusiveMinimum": True, "maximum": 1})]
Natural = Annotated[Int32, Checked({"minimum": 0})]
ClusterName = Annotated[Item, Crd({"minLength": 1})]
ClusterNames = Annotated[tuple[ClusterName, ...], Checked({"maxItems": MAX_CLUSTERS}), Crd(ATOMIC)]


def _one_or_list(value: Any) -> Any:
    return (value,) if isinstance(value, dict) else value


class PartialMetrics(ApiModel):
    """What to do while an expected cluster does not answer."""

    policy: Annotated[Text, Checked({"enum": PARTIAL_METRICS_POLICIES})] | None = Field(
        None,
        description="ScaleUpOnly (default), Hold, Fallback (to fallbackReplicas) or Proceed as if complete.",
    )
    lost_after_seconds: Annotated[Int32, Checked({"minimum": 1})] | None = Field(
        None, description="When a silent cluster is no longer expected; the controller's default is 300."
    )
    fallback_replicas: Natural | None = Field(None, description="The size policy Fallback goes to.")


class FieldSelector(ApiModel):
    """Selects clusters by their fields (provider, region, zone)."""

    match_expressions: Annotated[
        tuple[LabelSelectorRequirement, ...], Checked({"maxItems": 64}), Crd(ATOMIC)
    ] = Field((), description="Requirements; all must hold.")


class ClusterAffinity(ApiModel):
    """Which clusters take part. Its shape is that of Karmada's policy.karmada.io ClusterAffinity."""

    label_selector: LabelSelector | None = Field(None, description="Selects clusters by their labels.")
    field_selector: FieldSelector | None = Field(None, description="Selects clusters by their fields.")
    cluster_names: ClusterNames = Field((), description="The clusters, by name; empty selects all.")
    exclude: ClusterNames = Field((), description="Clusters that never take part.")


class ClusterPreference(ApiModel):
    """What holds for some clusters when min and max are divided among all."""

    target_cluster: ClusterAffinity | None = Field(None, description="The clusters this is about.")
    static_weight: Annotated[Int32, Checked({"minimum": 1})] | None = Field(
        None, description="The weight under StaticWeighted, above zero."
    )
    priority: Int32 | None = Field(
        None, description="The rank under Prioritized; the larger number goes first."
    )
    autoscaling_min_threshold: Natural | None = Field(None, description="The share is never below this.")
    autoscaling_max_threshold: Natural | None = Field(None, description="The share is never above this.")


class FederatedHPAAssignment(ApiModel):
    """How min and max (mode Distributed), or the replicas, are divided among the clusters."""

    federated_hpa_assignment_type: Annotated[Text, Checked({"enum": ASSIGNMENT_TYPES})] | None = Field(
        None, alias="federatedHPAAssignmentType", description="The policy; see docs/explanation/placement.md."
    )
    minimum_policy: Annotated[Text, Checked({"enum": MINIMUM_POLICIES})] | None = Field(
        None, description="AtLeastOne (default) raises a share of min below 1 to 1; Exact keeps the sum."
    )
    cluster_autoscaling_preference: Annotated[
        tuple[ClusterPreference, ...], Checked({"maxItems": MAX_CLUSTERS}), Crd(ATOMIC)
    ] = Field((), description="Weights, priorities and bounds of clusters.")


class ClusterHPAPreference(ApiModel):
    """Caps what the workload's requests may take of one cluster."""

    cluster_name: Name = Field("", description="The cluster.")
    max_resource_usage: Share | None = Field(
        None, description="The largest share of the cluster's allocatable resources, above 0 and at most 1."
    )


class FederatedHPASpec(ApiModel):
    """What is wanted. The aliases of the proposals stand beside min and max; both given must agree."""

    required: ClassVar[tuple[str, ...]] = ("scaleTargetRef",)
    scale_target_ref: CrossVersionObjectReference = Field(
        default_factory=CrossVersionObjectReference, description="The workload to scale."
    )
    min_replicas: Int32 | None = Field(
        None, description="The lower limit, 1 if absent; 0 needs an Object or External metric."
    )
    max_replicas: Int32 | None = Field(None, description="The upper limit.")
    metrics: Annotated[tuple[MetricSpec, ...], Checked({"maxItems": MAX_METRICS}), Crd(ATOMIC)] = Field(
        (),
        description="What to scale by; the metric that wants most decides. Default: cpu at 80 % of requests.",
    )
    behavior: Behavior | None = Field(None, description="How fast to scale.")

    mode: Annotated[Text, Checked({"enum": MODES})] | None = Field(
        None,
        description="Centralized (default): the hub computes one size. Distributed: each cluster has an HPA.",
    )
    dry_run: Bool | None = Field(
        None, description="Compute and publish the decision, write nothing to the target."
    )
    sync_period_seconds: Annotated[Int32, Checked({"minimum": 1, "maximum": 300})] | None = Field(
        None, description="How often to look; the controller's period if absent."
    )
    partial_metrics: PartialMetrics | None = Field(
        None, description="What to do while an expected cluster does not answer."
    )
    cluster_affinity: ClusterAffinity | None = Field(None, description="Which clusters take part.")
    federated_hpa_assignment: FederatedHPAAssignment | None = Field(
        None, alias="federatedHPAAssignment", description="How the clusters share."
    )
    cluster_hpa_preference: Annotated[
        tuple[ClusterHPAPreference, ...],
        BeforeValidator(_one_or_list),
        Checked({"maxItems": MAX_CLUSTERS}),
        # One object or a list of them is accepted; a structural schema has no word for that.
        Crd({"x-kubernetes-preserve-unknown-fields": True}),
    ] = Field((), alias="clusterHPAPreference", description="Caps of clusters: one, or a list.")
    autoscale_multi_cluster_delay: Natural | None = Field(
        None, description="How many seconds a cluster must be short before others help; 0 if absent."
    )
    scale_assist: Bool | None = Field(None, description="Clusters help one another; true if absent.")
    scaling_to_zero: Bool | None = Field(
        None, description="Mode Distributed may leave clusters at zero; false if absent."
    )
    federated_min_replicas: Int32 | None = Field(None, description="Another name of minReplicas.")
    federated_max_replicas: Int32 | None = Field(None, description="Another name of maxReplicas.")


class ClusterStatus(ApiModel):
    """One cluster, as seen at the last decision."""

    required: ClassVar[tuple[str, ...]] = ("name",)

    name: Name = ""
    state: LongText = ""
    current_replicas: Int32 | None = None
    desired_replicas: Int32 | None = None
    ready_replicas: Int32 | None = None
    min_replicas: Int32 | None = None
    max_replicas: Int32 | None = None
    last_scale_time: Time | None = None
    last_seen: Time | None = None
    message: Message = ""


class FederatedHPAStatus(ApiModel):
    """What was seen and decided last."""

    go_package: ClassVar[str] = "v2"
    go_name: ClassVar[str] = "HorizontalPodAutoscalerStatus"
    required: ClassVar[tuple[str, ...]] = ("desiredReplicas",)

    observed_generation: Int64 | None = None
    last_scale_time: Time | None = None
    current_replicas: Int32 = 0
    desired_replicas: Int32 = 0
    current_metrics: Annotated[tuple[MetricStatus, ...], Crd({"maxItems": MAX_METRICS, **ATOMIC})] = ()
    conditions: Annotated[
        tuple[Condition, ...],
        Crd({"maxItems": 64, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = ()
    clusters: Annotated[
        tuple[ClusterStatus, ...],
        Crd(
            {
                "maxItems": MAX_CLUSTERS,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            }
        ),
    ] = ()
    decision: Annotated[dict[str, Any], Crd({"x-kubernetes-preserve-unknown-fields": True})] | None = Field(
        None, description="The last decision, and the history a restart needs; its form is the controller's."
    )


# Immutable, as all models are, so that every object without a status may have the same.
_NO_STATUS: Final = FederatedHPAStatus()


class FederatedHPA(TypedObject):
    """Scales one workload over many clusters by what its pods use everywhere."""

    required: ClassVar[tuple[str, ...]] = ("spec",)

    spec: FederatedHPASpec = Field(default_factory=FederatedHPASpec, description="What is wanted.")
    status: FederatedHPAStatus = Field(
        default_factory=lambda: _NO_STATUS, description="What was seen and decided last."
    )
