"""The status of a FederatedHPA as a model: the source of its CRD schema and descriptions."""

from __future__ import annotations

from typing import Annotated, ClassVar

from fedhpa.api.autoscaling import Condition
from fedhpa.api.model import (
    MAX_CLUSTERS,
    MAX_METRICS,
    ApiModel,
    Crd,
    Int32,
    Int64,
    LongText,
    Message,
    Name,
    Text,
    Time,
)
from fedhpa.api.texts import MAX_SELECTORS
from fedhpa.metric_types.entries import MetricStatus


class ClusterStatus(ApiModel):
    """One cluster at the last decision."""

    required: ClassVar[tuple[str, ...]] = ("name",)

    name: Name = ""
    """Name of the cluster."""
    state: LongText = ""
    """Missing (does not answer) or MetricsMissing (its metrics cannot be read) while partialMetrics applies;
    Lost or MetricsLost after lostAfterSeconds. Absent means Answered."""
    membership: LongText = ""
    """Cordoned (gets no more replicas), Leaving (its replicas move to the other clusters), Stuck (pods do not
    become ready there, but elsewhere they do) or Awaited (published, and without the workload yet). Absent
    means Member."""
    waits_for: LongText = ""
    """Set if the cluster is no Member: the reason, and what it waits for."""
    current_replicas: Int32 | None = None
    """Replicas that the cluster had."""
    desired_replicas: Int32 | None = None
    """Replicas that the cluster should have. Absent means as many as currentReplicas."""
    ready_replicas: Int32 | None = None
    """Pods that were ready. Absent means as many as currentReplicas, or unknown if the cluster does not
    answer."""
    min_replicas: Int32 | None = None
    """Mode Distributed: minReplicas of the cluster's HPA."""
    max_replicas: Int32 | None = None
    """Mode Distributed: maxReplicas of the cluster's HPA."""
    last_scale_time: Time | None = None
    """When the cluster's replicas changed last. Absent means at the object's lastScaleTime, or not yet."""
    last_seen: Time | None = None
    """When a cluster that does not answer did so last. Absent if it answers."""
    message: Message = ""
    """Error of the cluster, if there is one."""


class Summary(ApiModel):
    """Texts that `kubectl get` shows as columns, because a column cannot compute them."""

    targets: LongText = ""
    """Current and target values of the metrics, as `kubectl get hpa` prints them."""
    clusters: LongText = ""
    """Clusters that answered, and clusters that were expected."""
    min: LongText = ""
    """minReplicas, under whichever of its names it was given."""
    max: LongText = ""
    """maxReplicas, under whichever of its names it was given."""
    reason: LongText = ""
    """Why the workload has its size, or why it cannot be scaled."""
    propagation: LongText = ""
    """--propagation of the controller: karmada or direct."""
    selector: Annotated[Text, Crd({"maxLength": MAX_SELECTORS})] = ""
    """Selector of the workload's pods; different ones of the clusters are joined by `; `. Controllers of
    other shards find objects with the same pods by it."""


class FederatedHPAStatus(ApiModel):
    """The last decision and what it was based on. `fedhpa explain` shows more."""

    go_package: ClassVar[str] = "v2"
    go_name: ClassVar[str] = "HorizontalPodAutoscalerStatus"
    required: ClassVar[tuple[str, ...]] = ("desiredReplicas",)

    observed_generation: Int64 | None = None
    """metadata.generation of the spec that the decision is for."""
    last_scale_time: Time | None = None
    """When the autoscaler changed the replicas last."""
    current_replicas: Int32 = 0
    """Replicas of the workload at the last decision."""
    desired_replicas: Int32 = 0
    """Replicas that the last decision asks for."""
    current_metrics: Annotated[tuple[MetricStatus, ...], Crd({"maxItems": MAX_METRICS})] = ()
    """Values of the metrics at the last decision, in the order of spec.metrics."""
    conditions: Annotated[
        tuple[Condition, ...], Crd({"maxItems": 64, "x-kubernetes-list-map-keys": ["type"]})
    ] = ()
    """Ready, AbleToScale, ScalingActive, ScalingLimited, ScaledToZero, MetricsComplete, SurvivesClusterLoss
    where capacity is known, Rebalanced once a rebalance was asked for, Held once a hold was in force,
    Published where the clusters are published, and SoleOwner, MembersAvailable, PlacementUnreadable or
    HubCompatible where there is something to report."""
    clusters: Annotated[
        tuple[ClusterStatus, ...], Crd({"maxItems": MAX_CLUSTERS, "x-kubernetes-list-map-keys": ["name"]})
    ] = ()
    """The clusters at the last decision."""
    last_seen: Time | None = None
    """When clusters answered last: the time of the status. Absent if none answered."""
    summary: Summary | None = None
    """Texts for the columns of `kubectl get`, as old as the status."""
