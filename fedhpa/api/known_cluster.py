"""The fields of a registered cluster that affinities read. Decoded with msgspec, because the path is hot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from fedhpa.api.wire import ObjectMeta


@dataclass(frozen=True)
class KnownCluster:
    """The fields of a registered cluster that affinities read."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    provider: str = ""
    region: str = ""
    zones: tuple[str, ...] = ()


class RawCluster(msgspec.Struct, frozen=True):
    """The part of a Cluster object that affinities read."""

    class Spec(msgspec.Struct, frozen=True):
        """The location of the cluster. `zone` is the older form of `zones`."""

        provider: str = ""
        region: str = ""
        zone: str = ""
        zones: list[str] | None = None

    metadata: ObjectMeta = ObjectMeta()
    spec: Spec = Spec()


def known_cluster(raw: RawCluster) -> KnownCluster:
    """Returns the fields of a Cluster object that affinities read."""
    spec = raw.spec
    zones = tuple(spec.zones or ((spec.zone,) if spec.zone else ()))
    labels = raw.metadata.labels or {}
    return KnownCluster(raw.metadata.name, labels, spec.provider, spec.region, zones)
