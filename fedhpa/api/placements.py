"""Placement, `fedhpa.io/v1alpha1`: where a workload should be, for an ApplicationSet of Argo CD.

The generator clusterDecisionResource reads `status.decisions` of objects in its own namespace. It casts every
field of an entry to a string, and panics on a number and on a status without the list. So the CRD requires
the list and allows only strings. It has no status subresource, so that no object is ever stored without a
status. Source: argo-cd, applicationset/generators/duck_type.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from fedhpa.api.names import label_value
from fedhpa.api.scaling_record import API_VERSION as API_VERSION
from fedhpa.api.scaling_record import GROUP, cut_name

KIND: Final = "Placement"
PLURAL: Final = "placements"
MANAGED_BY, MANAGER = "app.kubernetes.io/managed-by", "fedhpa"
# NAMESPACE/NAME/UID of the FederatedHPA that publishes it.
OWNER: Final = f"{GROUP}/owner"
# Labels by which an ApplicationSet may select.
NAMESPACE_LABEL, NAME_LABEL = f"{GROUP}/namespace", f"{GROUP}/name"


class Owner(NamedTuple):
    """Namespace and name of a FederatedHPA, and its UID."""

    key: tuple[str, str]
    uid: str


def placement_name(namespace: str, name: str) -> str:
    """Returns the name of the Placement of an object; one that is too long is cut with a hash."""
    return cut_name(f"{namespace}.{name}")


def new_placement(
    namespace: str, owner: Mapping[str, Any], decisions: Iterable[tuple[str, str]]
) -> dict[str, Any]:
    """Returns the Placement, in `namespace`, of the object with the metadata `owner`.

    `decisions` are Argo CD's names of clusters, with the reasons.
    """
    labels = {MANAGED_BY: MANAGER}
    for label, value in ((NAMESPACE_LABEL, owner["namespace"]), (NAME_LABEL, owner["name"])):
        if not label_value(value):
            labels[label] = value
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": placement_name(owner["namespace"], owner["name"]),
            "namespace": namespace,
            "labels": labels,
            "annotations": {OWNER: f"{owner['namespace']}/{owner['name']}/{owner.get('uid', '')}"},
        },
        "status": {"decisions": [{"clusterName": name, "reason": reason} for name, reason in decisions]},
    }


def owner_of(placement: Mapping[str, Any]) -> Owner:
    """Returns the object that publishes a Placement; one without UID if it is not ours."""
    metadata = placement["metadata"]
    labels, annotations = metadata.get("labels"), metadata.get("annotations")
    parts = str((annotations or {}).get(OWNER, "")).split("/")
    if not isinstance(labels, Mapping) or labels.get(MANAGED_BY) != MANAGER or len(parts) != 3:
        return Owner(("", ""), "")
    return Owner((parts[0], parts[1]), parts[2])
