"""clusterHPAPreference: how many replicas a cluster may have, by the share of it that they may ask for.

Source: docs/explanation/placement.md. What a cluster offers is its resource summary, else what its nodes
offer.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from fedhpa.api.errors import InvalidQuantity
from fedhpa.api.quantity import parse_milli
from fedhpa.members.cluster import Cluster


def offered(cluster: Cluster) -> Mapping[str, int] | None:
    """What the hub knows the cluster to offer, in milli-units by resource; None if it does not say."""
    summary = cluster.status.resourceSummary
    if summary is None or not summary.allocatable:
        return None
    try:
        return {resource: parse_milli(quantity) for resource, quantity in summary.allocatable.items()}
    except InvalidQuantity:
        return None


def most_replicas(
    share: Fraction, offer: Mapping[str, int] | None, asked: Mapping[str, int], present: int
) -> int | None:
    """The largest number of replicas whose requests stay within the share; None: no limit.

    Where it is not known what the cluster offers it keeps what it has at most: a cap that cannot be
    reckoned is no leave to grow. Pods that ask for nothing take no share of anything.
    """
    requests = {resource: milli for resource, milli in asked.items() if resource != "pods" and milli > 0}
    if not requests:
        return None
    if offer is None or not requests.keys() <= offer.keys():
        return present
    return min(int(share * max(offer[resource], 0) // milli) for resource, milli in requests.items())
