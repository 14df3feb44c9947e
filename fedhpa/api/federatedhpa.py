"""FederatedHPA, `autoscaling.karmada.io/v1alpha1`: one object scales a workload over many clusters.

A superset of Karmada v1.19's kind: Karmada's fields keep their meaning, and all other fields are optional
(docs/reference/federatedhpa.md; docs/explanation/placement.md explains the assignment).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, Field

from fedhpa.api.assignment_policies import ASSIGNMENT_POLICIES, EQUAL, AssignmentPolicy
from fedhpa.api.autoscaling import Behavior, CrossVersionObjectReference
from fedhpa.api.cluster_affinity import ClusterAffinity, ClusterSelection, PlacementPublication
from fedhpa.api.federatedhpa_status import FederatedHPAStatus
from fedhpa.api.meta import TypedObject
from fedhpa.api.model import (
    MAX_CLUSTERS,
    MAX_METRICS,
    WRITTEN_WHOLE,
    ApiModel,
    Bool,
    Checked,
    Crd,
    Int32,
    Int64,
    Item,
    Name,
    Number,
    Text,
)
from fedhpa.api.taints import EFFECTS, OPERATORS
from fedhpa.metric_types.entries import MetricSpec
from fedhpa.metric_types.table import metric_type

GROUP: Final = "autoscaling.karmada.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "FederatedHPA"

MODES: Final = ("Centralized", "Distributed")
PARTIAL_METRICS_POLICIES: Final = ("ScaleUpOnly", "Hold", "Fallback", "Proceed")
MINIMUM_POLICIES: Final = ("AtLeastOne", "Exact")
REBALANCES: Final = ("WhenQuiet", "Never")

Minimum = Annotated[Int32, Crd({"minimum": 0})]
Maximum = Annotated[Int32, Crd({"minimum": 1})]
Share = Annotated[Number, Checked({"minimum": 0, "exclusiveMinimum": True, "maximum": 1})]
Natural = Annotated[Int32, Checked({"minimum": 0})]


def _one_or_list(value: Any) -> Any:
    return (value,) if isinstance(value, dict) else value


class PartialMetrics(ApiModel):
    """Policy for the time while a cluster, or its metrics, cannot be read."""

    policy: Annotated[Text, Checked({"enum": PARTIAL_METRICS_POLICIES})] | None = None
    """Policy while a cluster is missing. ScaleUpOnly permits growth only. Hold keeps the size. Fallback sets
    fallbackReplicas. Proceed decides on the clusters that answered. Default: ScaleUpOnly. Example: Hold."""
    lost_after_seconds: Annotated[Int32, Checked({"minimum": 1})] | None = None
    """Seconds after which a missing cluster is given up, so that it no longer blocks scaling down. Default:
    the controller's --cluster-lost-timeout ({CLUSTER_LOST_TIMEOUT_SECONDS}). Example: 600."""
    fallback_replicas: Natural | None = None
    """Replicas that policy Fallback sets, within minReplicas and maxReplicas. Required with Fallback.
    Default: none. Example: 10."""


class ClusterPreference(ApiModel):
    """Weight, priority and bounds for some of the clusters."""

    target_cluster: ClusterAffinity | None = None
    """The clusters that this preference is for. The first preference that selects a cluster applies to it.
    Default: all clusters. Example: {clusterNames: [member1]}."""
    static_weight: Annotated[Int32, Checked({"minimum": 1})] | None = None
    """Weight of each of these clusters under StaticWeighted. At least 1. Default: 1. Example: 3."""
    priority: Int32 | None = None
    """Priority of each of these clusters under Prioritized; the largest number is filled first. Default: 0.
    Example: 10."""
    autoscaling_min_threshold: Natural | None = None
    """Fewest replicas for each of these clusters. Default: no limit. Example: 2."""
    autoscaling_max_threshold: Natural | None = None
    """Most replicas for each of these clusters. Default: no limit. Example: 20."""


class FederatedHPAAssignment(ApiModel):
    """The division of the replicas among the clusters."""

    federated_hpa_assignment_type: Annotated[Text, Checked({"enum": ASSIGNMENT_POLICIES})] | None = None
    """Duplicated gives every cluster the full number. StaticWeighted divides by staticWeight, DynamicWeighted
    by capacity, LoadWeighted by present load. Aggregated fills the clusters with the most free capacity
    first, Prioritized those with the highest priority. In mode Distributed the limits are divided, and
    LoadWeighted is not allowed. Default: equal weights; in mode Distributed Duplicated. Example:
    StaticWeighted."""
    minimum_policy: Annotated[Text, Checked({"enum": MINIMUM_POLICIES})] | None = None
    """AtLeastOne gives every cluster at least 1 replica where the total suffices. Exact may leave clusters
    without replicas, and in mode Distributed without an HPA. Default: AtLeastOne. Example: Exact."""
    rebalance: Annotated[Text, Checked({"enum": REBALANCES})] | None = None
    """WhenQuiet moves replicas back to the division of the policy once nothing has changed for ten minutes.
    Mode Centralized needs --propagation=direct for it. Never leaves them there. Default: WhenQuiet for
    Prioritized, Never for the others. Example: WhenQuiet."""
    cluster_autoscaling_preference: Annotated[
        tuple[ClusterPreference, ...], Checked({"maxItems": MAX_CLUSTERS})
    ] = ()
    """Weights, priorities and bounds of single clusters. Default: none. Example: [{targetCluster:
    {clusterNames: [member1]}, staticWeight: 3}]."""

    @property
    def policy(self) -> AssignmentPolicy:
        """The policy of the given type; EQUAL without one."""
        return AssignmentPolicy.of(self.federated_hpa_assignment_type)


class ClusterToleration(ApiModel):
    """Tolerates taints of clusters, as a toleration of a pod does with taints of nodes."""

    go_package: ClassVar[str] = "v1"
    go_name: ClassVar[str] = "Toleration"

    key: Item = ""
    """Key of the taint. Default: any key, with operator Exists. Example: maintenance."""
    operator: Annotated[Text, Checked({"enum": OPERATORS})] | None = None
    """Exists tolerates every value. Default: Equal. Example: Exists."""
    value: Item = ""
    """Value of the taint, with operator Equal. Example: network."""
    effect: Annotated[Text, Checked({"enum": EFFECTS})] | None = None
    """Effect of the taint. Default: every effect. Example: NoExecute."""
    toleration_seconds: Int64 | None = None
    """Seconds for which a taint NoExecute is tolerated, from its timeAdded on. Default: no limit. Example:
    3600."""


class ClusterHPAPreference(ApiModel):
    """Limits what the workload may request of one cluster."""

    cluster_name: Name = ""
    """Name of the cluster. Example: member1."""
    max_resource_usage: Share | None = None
    """Largest fraction of the cluster's allocatable resources that the workload may request. Greater than 0,
    at most 1. Example: 0.25."""


class FederatedHPASpec(ApiModel):
    """The workload to scale, its limits and its metrics."""

    required: ClassVar[tuple[str, ...]] = ("scaleTargetRef",)
    scale_target_ref: CrossVersionObjectReference = Field(default_factory=CrossVersionObjectReference)
    """The workload to scale, in the namespace of this object. It must have a scale subresource. Example:
    {apiVersion: apps/v1, kind: Deployment, name: web}."""
    min_replicas: Minimum | None = None
    """Fewest replicas over all clusters together. 0 requires an Object or External metric, and in mode
    Distributed also scalingToZero. Default: 1. Example: 2."""
    max_replicas: Maximum | None = None
    """Most replicas over all clusters together. Required, here or as federatedMaxReplicas. Example: 30."""
    metrics: Annotated[tuple[MetricSpec, ...], Checked({"maxItems": MAX_METRICS})] = ()
    """Metrics to scale by, over the pods of all clusters. The metric that asks for the most replicas decides.
    Default: cpu at 80 percent of the requests. Example: [{type: Resource, resource: {name: cpu, target:
    {type: Utilization, averageUtilization: 60}}}]."""
    behavior: Behavior | None = None
    """How fast to scale up and down. Default: doubles the replicas at most, or raises them to 4, in one
    period; scales down to the highest recommendation of the last {DOWNSCALE_STABILIZATION_SECONDS} seconds.
    Example: {scaleDown: {stabilizationWindowSeconds: 600}}."""

    mode: Annotated[Text, Checked({"enum": MODES})] | None = None
    """Centralized: the controller computes one size for all clusters together. Distributed: an HPA in each
    cluster scales the workload there, and the controller divides minReplicas and maxReplicas among these
    HPAs. Default: Centralized. Example: Distributed."""
    dry_run: Bool | None = None
    """If true, the controller computes and publishes decisions but never changes the workload. Default:
    false. Example: true."""
    sync_period_seconds: Annotated[Int32, Checked({"minimum": 1, "maximum": 300})] | None = None
    """Seconds between two decisions, from 1 to 300. Default: the controller's
    --horizontal-pod-autoscaler-sync-period ({SYNC_PERIOD_SECONDS}). Example: 30."""
    partial_metrics: PartialMetrics | None = None
    """Policy while a cluster, or its metrics, cannot be read. Default: scale up only, and give the cluster up
    after {CLUSTER_LOST_TIMEOUT_SECONDS} seconds. Example: {policy: Hold, lostAfterSeconds: 600}."""
    cluster_affinity: ClusterSelection | None = None
    """The clusters that take part, with --propagation=direct. With --propagation=karmada, mode Distributed
    takes those of them that the PropagationPolicy selects, and mode Centralized does not scale an object with
    this field. Default: all registered clusters. Example: {clusterNames: [member1, member2]}."""
    cluster_tolerations: Annotated[tuple[ClusterToleration, ...], Checked({"maxItems": MAX_METRICS})] = ()
    """Tolerations of the taints of Cluster objects, where the controller runs with --propagation=direct. With
    --propagation=karmada those of the PropagationPolicy count. Default: no taint is tolerated. Example:
    [{key: maintenance, operator: Exists, effect: NoSchedule}]."""
    placement: PlacementPublication | None = None
    """Whether the clusters that should have the workload are published, with --propagation=direct. Default:
    nothing is published. Example: {publish: true}."""
    federated_hpa_assignment: FederatedHPAAssignment | None = None
    """The division of the replicas among the clusters, with --propagation=direct or in mode Distributed.
    Default: equal weights; in mode Distributed Duplicated, or with --propagation=karmada as in the
    PropagationPolicy. Example: {federatedHPAAssignmentType: Aggregated}."""
    cluster_hpa_preference: Annotated[
        tuple[ClusterHPAPreference, ...],
        BeforeValidator(_one_or_list),
        Checked({"maxItems": MAX_CLUSTERS}),
        # Accepts one object or a list of them. A structural schema cannot express that.
        Crd({"x-kubernetes-preserve-unknown-fields": True}),
    ] = ()
    """Limits what the workload may request of single clusters, with --propagation=direct or in mode
    Distributed. One object or a list. maxResourceUsage is a fraction of the cluster's allocatable resources.
    Default: no limit. Example: [{clusterName: member1, maxResourceUsage: 0.25}]."""
    autoscale_multi_cluster_delay: Natural | None = None
    """Seconds that pods may wait for a node before replicas move to other clusters (mode Centralized with
    --propagation=direct; default: 180, because new nodes often take two minutes), or in mode Distributed
    before other clusters help (default: 0). Example: 300."""
    scale_assist: Bool | None = None
    """If false, replicas whose pods stay pending do not move to other clusters. In mode Distributed the
    limits of the clusters are then divided once and left alone. Default: true. Example: false."""
    scaling_to_zero: Bool | None = None
    """Mode Distributed only: if true, single clusters may run no replicas while the others can run the load.
    No effect if scaleAssist is false. In mode Centralized write minReplicas: 0. Default: false. Example:
    true."""
    federated_min_replicas: Minimum | None = None
    """Another name of minReplicas. Give one of the two. Default: unset. Example: 2."""
    federated_max_replicas: Maximum | None = None
    """Another name of maxReplicas. Give one of the two. Default: unset. Example: 30."""

    @property
    def minimum(self) -> int | None:
        """The lower limit, under whichever of its names it is given."""
        return self.federated_min_replicas if self.min_replicas is None else self.min_replicas

    @property
    def maximum(self) -> int | None:
        """The upper limit, under whichever of its names it is given."""
        return self.federated_max_replicas if self.max_replicas is None else self.max_replicas

    @property
    def policy(self) -> AssignmentPolicy:
        """The assignment policy; EQUAL where the object names none."""
        return EQUAL if self.federated_hpa_assignment is None else self.federated_hpa_assignment.policy

    @property
    def publishes(self) -> bool:
        """True if the clusters that should have the workload are to be published."""
        return self.placement is not None and self.placement.publish is True

    @property
    def scales_from_zero(self) -> bool:
        """True if a metric has a value while no pod runs."""
        return any(metric_type(metric.type).scales_from_zero for metric in self.metrics)


# Models are immutable, so all objects without a status share this one.
_NO_STATUS: Final = FederatedHPAStatus()


class FederatedHPA(TypedObject):
    """Scales one workload over many clusters by metrics of its pods in all of them."""

    required: ClassVar[tuple[str, ...]] = ("spec",)

    spec: FederatedHPASpec = Field(default_factory=FederatedHPASpec)
    """The workload to scale, its limits and its metrics."""
    status: Annotated[FederatedHPAStatus, WRITTEN_WHOLE] = Field(default_factory=lambda: _NO_STATUS)
    """The last decision and what it was based on."""
