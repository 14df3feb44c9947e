"""The split of a workload that exists in the members only (propagation direct, mode Centralized).

Source: docs/contracts.md section 2, docs/distributed.md: equal weights; an absent member's last known share
is held, and only the difference is apportioned, so a scale-up lowers no member.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fedhpa.assignment.apportion import apportion


def split_difference(
    desired: int,
    present: Mapping[str, int],
    reachable: Collection[str],
    weights: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """New replicas of each cluster so that they add up to `desired`.

    `present` is what each cluster has (or, absent, was last known to have); only `reachable` ones change. A
    scale-down that the reachable clusters cannot give in full takes what there is. `weights` absent: equal.
    """
    result = dict(present)
    open_to_change = {cluster: (weights or {}).get(cluster, 1) for cluster in present if cluster in reachable}
    difference = desired - sum(present.values())
    if difference >= 0:
        for cluster, more in apportion(difference, open_to_change).items():
            result[cluster] += more
        return result
    left = -difference
    while left:
        # What a cluster cannot give is asked of those that still have something.
        givers = {cluster: weight for cluster, weight in open_to_change.items() if result[cluster] > 0}
        if not givers:
            break
        for cluster, less in apportion(left, givers).items():
            taken = min(less, result[cluster])
            result[cluster] -= taken
            left -= taken
    return result
