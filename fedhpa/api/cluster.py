"""Cluster, `cluster.karmada.io/v1alpha1`: a member cluster and how to reach it.

On a Karmada hub that API is served by Karmada. On a plain hub we install a CRD of the same shape; what we do
not read of it is kept untouched. Source: Karmada v1.19, Cluster API.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

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
)

GROUP: Final = "cluster.karmada.io"
API_VERSION: Final = "cluster.karmada.io/v1alpha1"
KIND: Final = "Cluster"


class ClusterSpec(ApiModel):
    """How to reach a cluster, and where it stands."""

    required: ClassVar[tuple[str, ...]] = ("syncMode",)
    preserve_unknown: ClassVar[bool] = True

    id: Name = Field("", description="The identity of the cluster: the UID of its kube-system namespace.")
    sync_mode: Annotated[Text, Crd({"enum": ("Push", "Pull"), "default": "Push"})] = Field(
        "", description="Push or Pull; a cluster that is reachable is used either way."
    )
    api_endpoint: LongText = Field("", description="The URL of the cluster's API server.")
    secret_ref: ObjectReference | None = Field(None, description="The Secret with keys token and caBundle.")
    impersonator_secret_ref: ObjectReference | None = Field(None, description="Not used here.")
    insecure_skip_tls_verification: Bool | None = Field(
        None,
        alias="insecureSkipTLSVerification",
        description="The server's certificate is not verified; for tests only.",
    )
    proxy_url: LongText | None = Field(None, alias="proxyURL", description="An HTTP proxy on the way.")
    proxy_header: Annotated[dict[str, Item], Crd({"maxProperties": 64})] | None = Field(
        None, description="Headers for the proxy."
    )
    provider: LongText = Field("", description="The cloud provider.")
    region: LongText = Field("", description="The region.")
    zone: LongText = Field("", description="The zone.")
    zones: Annotated[tuple[Item, ...], Crd({"maxItems": MAX_METRICS, **ATOMIC})] = Field(
        (), description="The zones."
    )


class ClusterCondition(Condition):
    """metav1.Condition.

    An autoscaler's condition has the same fields.
    """

    go_package: ClassVar[str] = "v1"
    go_name: ClassVar[str] = "Condition"


class ResourceSummary(ApiModel):
    """What the cluster has and what is taken of it."""

    preserve_unknown: ClassVar[bool] = True

    allocatable: Annotated[dict[str, RawQuantity], Crd({"maxProperties": 64})] = Field(default_factory=dict)
    allocating: Annotated[dict[str, RawQuantity], Crd({"maxProperties": 64})] = Field(default_factory=dict)
    allocated: Annotated[dict[str, RawQuantity], Crd({"maxProperties": 64})] = Field(default_factory=dict)


class ClusterObjectStatus(ApiModel):
    """What is known of a cluster."""

    preserve_unknown: ClassVar[bool] = True

    kubernetes_version: LongText = ""
    conditions: Annotated[
        tuple[ClusterCondition, ...],
        Crd({"maxItems": 64, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = ()
    resource_summary: ResourceSummary | None = None
    node_summary: Annotated[dict[str, Any], Crd({"x-kubernetes-preserve-unknown-fields": True})] | None = None


class Cluster(TypedObject):
    """A member cluster and how to reach it."""

    required: ClassVar[tuple[str, ...]] = ("spec",)

    spec: ClusterSpec = Field(default_factory=ClusterSpec, description="How to reach the cluster.")
    status: ClusterObjectStatus = Field(
        default_factory=ClusterObjectStatus, description="What is known of the cluster."
    )
