"""The fields of a FederatedHPA that select clusters, and the one that publishes the selection."""

from __future__ import annotations

from typing import Annotated, ClassVar

from fedhpa.api.meta import LabelSelector, LabelSelectorRequirement
from fedhpa.api.model import MAX_CLUSTERS, ApiModel, Bool, Checked, Crd, Item, Name

ClusterName = Annotated[Item, Crd({"minLength": 1})]
ClusterNames = Annotated[tuple[ClusterName, ...], Checked({"maxItems": MAX_CLUSTERS})]


class FieldSelector(ApiModel):
    """Selects clusters by the fields provider, region and zone of their Cluster objects."""

    match_expressions: Annotated[tuple[LabelSelectorRequirement, ...], Checked({"maxItems": 64})] = ()
    """Requirements; all must hold. Keys are provider, region and zone. Example: [{key: region, operator: In,
    values: [eu-west]}]."""


class ClusterAffinity(ApiModel):
    """Selects clusters, as Karmada's ClusterAffinity does. All fields that are set must hold."""

    label_selector: LabelSelector | None = None
    """Selects clusters by the labels of their Cluster objects. Default: all clusters. Example: {matchLabels:
    {tier: gold}}."""
    field_selector: FieldSelector | None = None
    """Selects clusters by provider, region and zone. Default: all clusters. Example: {matchExpressions:
    [{key: zone, operator: NotIn, values: [a]}]}."""
    cluster_names: ClusterNames = ()
    """Names of the selected clusters. Default: all clusters. Example: [member1, member2]."""
    exclude: ClusterNames = ()
    """Names of clusters that are never selected. Default: none. Example: [member3]."""


class PlacementDecisionReference(ApiModel):
    """Names a PlacementDecision (multicluster.x-k8s.io/v1alpha1) of another scheduler."""

    required: ClassVar[tuple[str, ...]] = ("name",)

    name: Name = ""
    """Name of the PlacementDecision, or of one of its slices, in the namespace of this object. Example:
    web-clusters."""


class ClusterSelection(ClusterAffinity):
    """Selects the clusters that take part. All fields that are set must hold."""

    go_name: ClassVar[str] = "ClusterAffinity"

    placement_decision: PlacementDecisionReference | None = None
    """Selects the clusters that a PlacementDecision of another scheduler lists. A change of it acts after a
    minute. While it is absent, empty or incomplete, the selection stays as it was. Default: all clusters.
    Example: {name: web-clusters}."""


class PlacementPublication(ApiModel):
    """Publication of the clusters that should have the workload."""

    publish: Bool | None = None
    """If true, the controller publishes the selected clusters as PlacementDecisions, so that others can
    deliver the workload there. A selected cluster without the workload is then Awaited. Requires
    clusterAffinity and --propagation=direct. Default: false. Example: true."""
