"""Cluster, `cluster.karmada.io/v1alpha1`: a member cluster and how to reach it.

On a Karmada hub, Karmada serves this API. For a plain hub, `fedhpa crds --with-clusters` prints a CRD of the
same shape. Fields that the product does not read are kept unchanged. Source: Karmada v1.19, Cluster API.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedhpa.api.autoscaling import ATOMIC, Condition
from fedhpa.api.meta import ObjectReference, TypedObject
from fedhpa.api.model import (
    MAX_METRICS,
    ApiModel,
    Bool,
    Crd,
    Item,
    LongText,
    Name,
    RawQuantity,
    Text,
    Time,
)
from fedhpa.api.taints import MAX_TAINTS


class Taint(ApiModel):
    """A taint, as nodes have it."""

    go_package: ClassVar[str] = "v1"
    required: ClassVar[tuple[str, ...]] = ("key", "effect")
    preserve_unknown: ClassVar[bool] = True

    key: LongText = Field("", description="Key of the taint. Example: maintenance.")
    value: LongText = Field("", description="Value of the taint. Default: empty. Example: network.")
    effect: LongText = Field(
        "", description="NoSchedule, PreferNoSchedule or NoExecute. Example: NoSchedule."
    )
    time_added: Time | None = Field(
        None, description="When the taint was added. Default: unset. Example: 2030-01-01T00:00:00Z."
    )


class ClusterSpec(ApiModel):
    """The address and credentials of the cluster, and its location."""

    required: ClassVar[tuple[str, ...]] = ("syncMode",)
    preserve_unknown: ClassVar[bool] = True

    id: Name = Field(
        "",
        description="Identity of the cluster: the UID of its kube-system namespace. Default: unset. "
        "Example: 6f0a4a0e-6b5c-4c58-9c0e-3f5a3d2b7c11.",
    )
    sync_mode: Annotated[Text, Crd({"enum": ("Push", "Pull"), "default": "Push"})] = Field(
        "",
        description="Push or Pull. The autoscaler treats both alike: it connects to apiEndpoint. "
        "Default: Push. Example: Push.",
    )
    api_endpoint: LongText = Field(
        "", description="URL of the cluster's API server. Example: https://10.0.0.5:6443."
    )
    secret_ref: ObjectReference | None = Field(
        None,
        description="The Secret with the keys token (bearer token) and caBundle (PEM certificates). "
        "Example: {namespace: karmada-cluster, name: member1}.",
    )
    impersonator_secret_ref: ObjectReference | None = Field(
        None,
        description="Kept for Karmada; the autoscaler does not use it. Default: unset. "
        "Example: {namespace: karmada-cluster, name: member1-impersonator}.",
    )
    insecure_skip_tls_verification: Bool | None = Field(
        None,
        alias="insecureSkipTLSVerification",
        description="If true, the certificate of the API server is not verified. For tests only. "
        "Default: false. Example: true.",
    )
    proxy_url: LongText | None = Field(
        None,
        alias="proxyURL",
        description="URL of the HTTP proxy for requests to the cluster. Default: no proxy. "
        "Example: http://proxy.example.com:3128.",
    )
    proxy_header: Annotated[dict[str, Item], Crd({"maxProperties": 64})] | None = Field(
        None,
        description="HTTP headers for the proxy. Commas separate several values of one header. "
        "Default: none. Example: {Proxy-Authorization: Basic abc}.",
    )
    provider: LongText = Field(
        "", description="Cloud provider, for cluster selection. Default: unset. Example: aws."
    )
    region: LongText = Field(
        "", description="Region, for cluster selection. Default: unset. Example: eu-west-1."
    )
    zone: LongText = Field(
        "", description="Zone, for cluster selection; superseded by zones. Default: unset. Example: a."
    )
    zones: Annotated[tuple[Item, ...], Crd({"maxItems": MAX_METRICS, **ATOMIC})] = Field(
        (), description="Zones, for cluster selection. Default: the value of zone. Example: [a, b]."
    )
    taints: Annotated[tuple[Taint, ...], Crd({"maxItems": MAX_TAINTS, **ATOMIC})] = Field(
        (),
        description="Taints. NoSchedule keeps replicas from being added, NoExecute moves them away, unless "
        "spec.clusterTolerations of the FederatedHPA tolerates the taint. Default: none. "
        "Example: [{key: maintenance, effect: NoSchedule}].",
    )


class ClusterCondition(Condition):
    """A condition of the cluster."""

    go_package: ClassVar[str] = "v1"
    go_name: ClassVar[str] = "Condition"


class ResourceSummary(ApiModel):
    """The resources of the cluster's nodes, and the part that is taken."""

    preserve_unknown: ClassVar[bool] = True

    allocatable: Annotated[dict[str, RawQuantity], Crd({"maxProperties": 64})] = Field(
        default_factory=dict, description="Resources that pods may use on all nodes together."
    )
    allocating: Annotated[dict[str, RawQuantity], Crd({"maxProperties": 64})] = Field(
        default_factory=dict, description="Requests of the pods that wait for a node."
    )
    allocated: Annotated[dict[str, RawQuantity], Crd({"maxProperties": 64})] = Field(
        default_factory=dict, description="Requests of the scheduled pods."
    )


class ClusterObjectStatus(ApiModel):
    """The observed state of the cluster."""

    preserve_unknown: ClassVar[bool] = True

    kubernetes_version: LongText = Field("", description="Version of the cluster's API server.")
    conditions: Annotated[
        tuple[ClusterCondition, ...],
        Crd({"maxItems": 64, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = Field((), description="Conditions of the cluster. Ready is True while its API server answers.")
    resource_summary: ResourceSummary | None = Field(
        None, description="Resources of the cluster; limits and free capacity are computed from them."
    )
    node_summary: Annotated[dict[str, Any], Crd({"x-kubernetes-preserve-unknown-fields": True})] | None = (
        Field(None, description="Number of nodes, in Karmada's form.")
    )


class Cluster(TypedObject):
    """A member cluster: how to reach it, and its observed state."""

    required: ClassVar[tuple[str, ...]] = ("spec",)

    spec: ClusterSpec = Field(
        default_factory=ClusterSpec, description="How to reach the cluster, and where it runs."
    )
    status: ClusterObjectStatus = Field(
        default_factory=ClusterObjectStatus, description="The observed state of the cluster."
    )
