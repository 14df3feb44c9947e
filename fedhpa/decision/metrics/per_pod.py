"""The parts that metrics with a value for each pod share. Values are milli-units."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from fedhpa.api.quantity import format_milli
from fedhpa.decision.fleet import ClusterView, FleetView
from fedhpa.decision.model import ClusterShare, PodCounts
from fedhpa.scaling import CurrentSize, CustomSample, Groups, Sampled, UsageRecord


def calibrated(fleet: FleetView, clusters: list[ClusterView], scale: CurrentSize) -> CurrentSize:
    """Returns the scale for a metric that only these clusters serve: they stand for the others' replicas."""
    if len(clusters) == len(fleet.answered):
        return scale
    return msgspec.structs.replace(scale, calibration=fleet.calibration_of(clusters))


def finder(records: Sequence[UsageRecord] | Sequence[CustomSample]) -> Callable[[str], Sampled]:
    """Returns a function that finds a pod's record by name. Its index is built on the first call."""
    by_name: dict[str, Sampled] = {}

    def find(name: str) -> Sampled:
        if not by_name:
            by_name.update((record.name, record) for record in records)
        return by_name[name]

    return find


def shares(groups: Groups, *, binary: bool = False) -> dict[str, ClusterShare]:
    """Returns each cluster's part of a metric; `binary` shows sums with binary suffixes."""
    return {
        cluster: ClusterShare(share.pods, format_milli(share.milli, binary=binary))
        for cluster, share in groups.shares.items()
    }


def counts(groups: Groups) -> PodCounts:
    """Returns how the pods were classified."""
    return PodCounts(groups.ready, groups.unready, groups.missing, groups.ignored)
