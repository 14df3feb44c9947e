"""The status of a FederatedHPA as a model: the source of its CRD schema and descriptions."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from fedhpa.api.autoscaling import ATOMIC, Condition
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

    name: Name = Field("", description="Name of the cluster.")
    state: LongText = Field(
        "",
        description="Missing (does not answer) or MetricsMissing (its metrics cannot be read) while "
        "partialMetrics applies; Lost or MetricsLost after lostAfterSeconds. Absent means Answered.",
    )
    membership: LongText = Field(
        "",
        description="Cordoned (gets no more replicas), Leaving (its replicas move to the other clusters), "
        "Stuck (pods do not become ready there, but elsewhere they do) or Awaited (published, and without "
        "the workload yet). Absent means Member.",
    )
    waits_for: LongText = Field(
        "", description="What a cluster that is not a Member waits for, and why it is not one."
    )
    current_replicas: Int32 | None = Field(None, description="Replicas that the cluster had.")
    desired_replicas: Int32 | None = Field(
        None, description="Replicas that the cluster should have. Absent means as many as currentReplicas."
    )
    ready_replicas: Int32 | None = Field(
        None,
        description="Pods that were ready. Absent means as many as currentReplicas, or unknown if the "
        "cluster does not answer.",
    )
    min_replicas: Int32 | None = Field(
        None, description="Mode Distributed: minReplicas of the cluster's HPA."
    )
    max_replicas: Int32 | None = Field(
        None, description="Mode Distributed: maxReplicas of the cluster's HPA."
    )
    last_scale_time: Time | None = Field(
        None,
        description="When the cluster's replicas changed last. Absent means at the object's lastScaleTime, "
        "or not yet.",
    )
    last_seen: Time | None = Field(
        None, description="When a cluster that does not answer did so last. Absent if it answers."
    )
    message: Message = Field("", description="Error of the cluster, if there is one.")


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
    selector: Annotated[Text, Crd({"maxLength": MAX_SELECTORS})] = Field(
        "",
        description="Selector of the workload's pods; different ones of the clusters are joined by `; `. "
        "Controllers of other shards find objects with the same pods by it.",
    )


class FederatedHPAStatus(ApiModel):
    """The last decision and what it was based on. `fedhpa explain` shows more."""

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
        "SurvivesClusterLoss where capacity is known, Rebalanced once a rebalance was asked for, Held once a "
        "hold was in force, Published where the clusters are published, and SoleOwner, MembersAvailable, "
        "PlacementUnreadable or HubCompatible where there is something to report.",
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
    last_seen: Time | None = Field(
        None, description="When clusters answered last: the time of the status. Absent if none answered."
    )
    summary: Summary | None = Field(
        None, description="Texts for the columns of `kubectl get`, as old as the status."
    )
