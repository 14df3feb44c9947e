"""What affinities look at of a registered cluster; for the hot path, so without models of written objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from fedhpa.api.wire import ObjectMeta


@dataclass(frozen=True)
class KnownCluster:
    """What affinities look at of a registered cluster."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    provider: str = ""
    region: str = ""
    zones: tuple[str, ...] = ()


class StoredCluster(msgspec.Struct, frozen=True):
    """A Cluster object, as far as affinities look at it."""

    class Spec(msgspec.Struct, frozen=True):
        """Where the cluster stands; `zone` is the older form of `zones`."""

        provider: str = ""
        region: str = ""
        zone: str = ""
        zones: list[str] | None = None

    metadata: ObjectMeta = ObjectMeta()
    spec: Spec = Spec()


def known_cluster(stored: StoredCluster) -> KnownCluster:
    """What affinities look at of a stored Cluster."""
    spec = stored.spec
    zones = tuple(spec.zones or ((spec.zone,) if spec.zone else ()))
    labels = stored.metadata.labels or {}
    return KnownCluster(stored.metadata.name, labels, spec.provider, spec.region, zones)
