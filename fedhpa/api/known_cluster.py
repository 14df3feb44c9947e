"""The fields of a registered cluster that affinities read. Decoded with msgspec, because the path is hot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from fedhpa.api.taints import MAX_TAINTS, Taint
from fedhpa.api.wire import ObjectMeta

GROUP: Final = "cluster.karmada.io"
API_VERSION: Final = "cluster.karmada.io/v1alpha1"
KIND: Final = "Cluster"


@dataclass(frozen=True)
class KnownCluster:
    """The fields of a registered cluster that affinities read; `deleted` while it is being deleted."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    provider: str = ""
    region: str = ""
    zones: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()
    deleted: bool = False


class RawCluster(msgspec.Struct, frozen=True):
    """The part of a Cluster object that affinities and tolerations read."""

    class Spec(msgspec.Struct, frozen=True):
        """Location and taints of the cluster. `zone` is the older form of `zones`."""

        provider: str = ""
        region: str = ""
        zone: str = ""
        zones: list[str] | None = None
        taints: list[Taint] | None = None

    metadata: ObjectMeta = ObjectMeta()
    spec: Spec = Spec()


def known_cluster(raw: RawCluster) -> KnownCluster:
    """Returns the fields of a Cluster object that affinities and tolerations read."""
    spec = raw.spec
    zones = tuple(spec.zones or ((spec.zone,) if spec.zone else ()))
    labels = raw.metadata.labels or {}
    taints = tuple((spec.taints or ())[:MAX_TAINTS])
    deleted = raw.metadata.deletionTimestamp is not None
    return KnownCluster(raw.metadata.name, labels, spec.provider, spec.region, zones, taints, deleted)
