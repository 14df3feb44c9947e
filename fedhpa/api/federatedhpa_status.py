"""The status of a FederatedHPA as a model: the source of its CRD schema and descriptions."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedhpa.api.autoscaling import ATOMIC, Condition, MetricStatus
from fedhpa.api.model import (
    MAX_CLUSTERS,
    MAX_METRICS,
    ApiModel,
    Bool,
    Crd,
    Int32,
    Int64,
    LongText,
    Message,
    Name,
    Time,
)


class ReportedCondition(ApiModel):
    """A condition of a member HPA."""

    type: LongText = Field("", description="Type of the condition.")
    status: LongText = Field("", description="True, False or Unknown.")
    reason: LongText = Field("", description="Reason of the condition.")


class FullCluster(ApiModel):
    """The remembered size of a cluster whose nodes were full."""

    replicas: Int32 | None = Field(None, description="Replicas that the nodes could run.")
    since: Time | None = Field(None, description="When pods became pending.")
    until: Time | None = Field(None, description="When the size is forgotten; absent while pods are pending.")
    minutes: Int32 | None = Field(None, description="How long the size is remembered: 1, 2, 4, ... 30.")
    room_seen: Int32 | None = Field(None, description="Passes in which the cluster reported room.")
    ended_early: Bool | None = Field(None, description="True once room ended the memory early.")


class ClusterAtZero(ApiModel):
    """A cluster whose scale was set to 0."""

    since: Time | None = Field(None, description="When its scale was set to 0.")


class ClusterStatus(ApiModel):
    """One cluster at the last decision. The fields from `given` on are for mode Distributed only."""

    required: ClassVar[tuple[str, ...]] = ("name",)

    name: Name = Field("", description="Name of the cluster.")
    state: LongText = Field(
        "",
        description="Answered; Missing (does not answer) or MetricsMissing (its metrics cannot be read) "
        "while partialMetrics applies; Lost or MetricsLost after lostAfterSeconds.",
    )
    current_replicas: Int32 | None = Field(None, description="Replicas that the cluster had.")
    desired_replicas: Int32 | None = Field(None, description="Replicas that the cluster should have.")
    ready_replicas: Int32 | None = Field(None, description="Pods that were ready.")
    min_replicas: Int32 | None = Field(
        None, description="Mode Distributed: the cluster's share of minReplicas, without help and hold."
    )
    max_replicas: Int32 | None = Field(
        None, description="Mode Distributed: the cluster's share of maxReplicas."
    )
    last_scale_time: Time | None = Field(None, description="When the cluster's replicas changed last.")
    last_seen: Time | None = Field(None, description="When the cluster answered last.")
    message: Message = Field("", description="Error of the cluster, if there is one.")
    given: Int32 | None = Field(
        None, description="Replicas by which minReplicas of its HPA is higher, to help other clusters."
    )
    given_share: Int32 | None = Field(None, description="The part of `given` for the present deficit.")
    given_since: Time | None = Field(None, description="When the help began.")
    ready_since: Time | None = Field(None, description="Since when all pods of the help have been ready.")
    deficit_before: Int32 | None = Field(
        None, description="Replicas that the cluster lacked when others began to help."
    )
    ineffective_since: Time | None = Field(
        None, description="When the help of others turned out to change nothing."
    )
    held: Int32 | None = Field(
        None, description="minReplicas of its HPA until clusters of lower priority have scaled down."
    )
    held_since: Time | None = Field(None, description="Since when the hold has kept replicas.")
    lower_replicas: Int32 | None = Field(
        None, description="Replicas of the lower priorities at their last change."
    )
    cap: FullCluster | None = Field(None, description="The size at which its nodes were full.")
    zero: ClusterAtZero | None = Field(None, description="Set while the cluster runs no replica.")
    at_min_since: Time | None = Field(None, description="Since when its replicas could go to 0.")
    lost: Bool | None = Field(None, description="True if its share went to other clusters.")
    over_since: Time | None = Field(None, description="When it came back after it was lost.")
    away: Bool | None = Field(
        None, description="True if it is lost, but keeps its share after a short return."
    )
    starting: Bool | None = Field(None, description="True until its first replicas run.")
    spare: Bool | None = Field(None, description="True if it has an HPA only because the others are full.")
    idle_since: Time | None = Field(None, description="Since when such a cluster has not been needed.")
    conditions: Annotated[tuple[ReportedCondition, ...], Crd({"maxItems": 4, **ATOMIC})] = Field(
        (), description="Conditions of the cluster's HPA, without messages."
    )
    current_metrics: Annotated[
        tuple[Annotated[dict[str, Any], Crd({"x-kubernetes-preserve-unknown-fields": True})], ...],
        Crd({"maxItems": 4, **ATOMIC}),
    ] = Field((), description="status.currentMetrics of the cluster's HPA.")


class Summary(ApiModel):
    """Texts that `kubectl get` shows as columns, because a column cannot compute them."""

    targets: LongText = Field(
        "", description="Current and target values of the metrics, as `kubectl get hpa` prints them."
    )
    clusters: LongText = Field("", description="Clusters that answered, and clusters that were expected.")
    min: LongText = Field("", description="minReplicas, under whichever of its names it was given.")
    max: LongText = Field("", description="maxReplicas, under whichever of its names it was given.")
    reason: LongText = Field("", description="Why the workload has its size, or why it cannot be scaled.")
    propagation: LongText = Field("", description="--propagation of the controller: karmada or direct.")


class FederatedHPAStatus(ApiModel):
    """The last decision and what it was based on."""

    go_package: ClassVar[str] = "v2"
    go_name: ClassVar[str] = "HorizontalPodAutoscalerStatus"
    required: ClassVar[tuple[str, ...]] = ("desiredReplicas",)

    observed_generation: Int64 | None = Field(
        None, description="metadata.generation of the spec that the decision is for."
    )
    last_scale_time: Time | None = Field(None, description="When the autoscaler changed the replicas last.")
    current_replicas: Int32 = Field(0, description="Replicas of the workload at the last decision.")
    desired_replicas: Int32 = Field(0, description="Replicas that the last decision asks for.")
    current_metrics: Annotated[tuple[MetricStatus, ...], Crd({"maxItems": MAX_METRICS, **ATOMIC})] = Field(
        (), description="Values of the metrics at the last decision, in the order of spec.metrics."
    )
    conditions: Annotated[
        tuple[Condition, ...],
        Crd({"maxItems": 64, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = Field(
        (),
        description="Ready, AbleToScale, ScalingActive, ScalingLimited, ScaledToZero, MetricsComplete, "
        "SurvivesClusterLoss where capacity is known, Rebalanced once a rebalance was asked for, and "
        "SoleOwner or HubCompatible where there is something to report.",
    )
    clusters: Annotated[
        tuple[ClusterStatus, ...],
        Crd(
            {
                "maxItems": MAX_CLUSTERS,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            }
        ),
    ] = Field((), description="The clusters at the last decision.")
    assigned_for: LongText = Field(
        "",
        description="Mode Distributed: hash of what minReplicas was divided for, and maxReplicas.",
    )
    summary: Summary | None = Field(
        None, description="Texts for the columns of `kubectl get`, as old as the status."
    )
    decision: Annotated[dict[str, Any], Crd({"x-kubernetes-preserve-unknown-fields": True})] | None = Field(
        None,
        description="Record of the last decision, and the history that the controller needs after a restart. "
        "`fedhpa explain` renders it.",
    )
