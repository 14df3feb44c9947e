"""PlacementDecision, `multicluster.x-k8s.io/v1alpha1`: the clusters that a scheduler chose, in slices.

Source: KEP-5313; kubernetes-sigs/cluster-inventory-api v0.1.2, apis/v1alpha1/placementdecision_types.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.model import MAX_CLUSTERS, MAX_NAME
from fedhpa.api.wire import ObjectMeta

GROUP: Final = "multicluster.x-k8s.io"
API_VERSION: Final = f"{GROUP}/v1alpha1"
KIND: Final = "PlacementDecision"
PLURAL: Final = "placementdecisions"
# The same on all slices of one decision.
KEY_LABEL: Final = f"{GROUP}/decision-key"
# The place of a slice among them, from 0 on.
INDEX_LABEL: Final = f"{GROUP}/decision-index"
SCHEDULER: Final = "fedhpa"
# The CRD allows no more in one object.
MAX_DECISIONS: Final = 100


class Profile(NamedTuple):
    """Namespace and name of a ClusterProfile."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class ProfileReference(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reference to a ClusterProfile. Without a namespace it is in that of the decision."""

    name: str = ""
    namespace: str = ""


class ClusterDecision(msgspec.Struct, frozen=True, omit_defaults=True):
    """One cluster of a decision, and why it was chosen."""

    clusterProfileRef: ProfileReference = ProfileReference()
    reason: str = ""


class OwnerReference(msgspec.Struct, frozen=True):
    """The part of metav1.OwnerReference that is read."""

    uid: str = ""


class SliceMeta(ObjectMeta, frozen=True):
    """The part of metadata that is read."""

    ownerReferences: list[OwnerReference] | None = None


class DecisionSlice(msgspec.Struct, frozen=True):
    """The part of a PlacementDecision that is read."""

    metadata: SliceMeta = SliceMeta()
    decisions: list[ClusterDecision] | None = None
    schedulerName: str = ""

    @property
    def key(self) -> str:
        """The decision that it is a slice of; "" if it stands alone."""
        return (self.metadata.labels or {}).get(KEY_LABEL, "")

    @property
    def owners(self) -> frozenset[str]:
        """The UIDs of the owners."""
        return frozenset(owner.uid for owner in self.metadata.ownerReferences or ())


def slice_name(name: str, index: int) -> str:
    """Returns the name of a slice of the object `name`. One that is too long for Kubernetes is cut."""
    ending = f"-{index}"
    return f"{name[: MAX_NAME - len(ending)].rstrip('.-')}{ending}"


def is_slice_name(text: str, name: str) -> bool:
    """True if the text is the name of a slice of the object `name`."""
    index = text.rpartition("-")[2]
    return index.isascii() and index.isdigit() and text == slice_name(name, int(index[:4]))


def slices_of(
    owner: Mapping[str, Any], api_version: str, kind: str, chosen: Iterable[tuple[Profile, str]]
) -> list[dict[str, Any]]:
    """Returns the PlacementDecisions of the object with the metadata `owner`, in order.

    `chosen` are the clusters with the reasons.
    """
    reference = {"apiVersion": api_version, "kind": kind, "name": owner["name"], "uid": owner.get("uid", "")}
    clusters = list(chosen)
    return [
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "name": slice_name(owner["name"], index),
                "namespace": owner["namespace"],
                "labels": {KEY_LABEL: owner.get("uid", ""), INDEX_LABEL: str(index)},
                "ownerReferences": [reference],
            },
            "schedulerName": SCHEDULER,
            "decisions": [
                {"clusterProfileRef": {"namespace": one.namespace, "name": one.name}, "reason": reason}
                for one, reason in clusters[start : start + MAX_DECISIONS]
            ],
        }
        for index, start in enumerate(range(0, len(clusters), MAX_DECISIONS))
    ]


def listed_profiles(name: str, slices: Sequence[DecisionSlice]) -> tuple[Profile, ...]:
    """Returns the ClusterProfiles that a decision lists, in the order of its slices.

    `slices` are all PlacementDecisions of one namespace, and `name` is that of one of the decision's. Raises
    InvalidObject that says why it cannot be followed: it is absent or empty, or a slice is missing.
    """
    named = next((one for one in slices if one.metadata.name == name), None)
    if named is None:
        raise InvalidObject(f"{KIND} {name} does not exist")
    parts = sorted((one for one in slices if one.key == named.key), key=_index) if named.key else [named]
    # A single slice needs no index.
    indices = [_index(one) for one in parts]
    if indices not in ([-1], list(range(len(parts)))):
        raise InvalidObject(f"a slice of {KIND} {name} is missing: {len(parts)} are there")
    listed = [
        Profile(one.clusterProfileRef.namespace or part.metadata.namespace, one.clusterProfileRef.name)
        for part in parts
        for one in part.decisions or ()
    ]
    if not listed:
        raise InvalidObject(f"{KIND} {name} lists no cluster")
    if len(listed) > MAX_CLUSTERS:
        raise InvalidObject(f"{KIND} {name} lists {len(listed)} clusters, more than {MAX_CLUSTERS}")
    return tuple(dict.fromkeys(listed))


def _index(one: DecisionSlice) -> int:
    """Returns the place of a slice; -1 if it has none that can be read."""
    text = (one.metadata.labels or {}).get(INDEX_LABEL, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else -1
