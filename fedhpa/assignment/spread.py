"""The division of a size that nobody measured, over clusters of which some get nothing more.

An execution of a cron rule sets such a size. Source: docs/explanation/membership.md, "Rules".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fedhpa.api.taints import CORDONED, LEAVING, MEMBER
from fedhpa.assignment.division import Shares, apportion, by_weight


class Host(NamedTuple):
    """A cluster that runs a workload: the replicas that were read last, its membership, and if it answers.

    A cluster that does not answer keeps its replicas, because nobody can change them.
    """

    replicas: int
    membership: str = MEMBER
    answers: bool = True


def spread(size: int, hosts: Mapping[str, Host]) -> dict[str, int]:
    """Returns the replicas of each cluster that answers: equal parts for Members.

    With the replicas of the silent clusters they add up to `size`, with two exceptions. The sum is larger
    where a silent cluster has more than its part, because no other one falls below its own part for that. It
    is smaller where none of those that may grow answers.
    A Cordoned cluster gets its part or what it runs, if that is less. A Leaving one keeps what it runs, and
    is the first to shrink. Where every cluster is Cordoned or Leaving, they grow nevertheless: those that are
    Cordoned, or without one all. Clusters of equal rights take single replicas by name.
    """
    staying = {name: host for name, host in hosts.items() if host.membership != LEAVING}
    if hosts and not staying:
        return spread(size, {name: host._replace(membership=CORDONED) for name, host in hosts.items()})
    running = {name: host.replicas for name, host in staying.items() if host.answers}
    leaving = {name: host.replicas for name, host in hosts.items() if name not in staying and host.answers}
    silent = sum(host.replicas for host in hosts.values() if not host.answers)
    low = dict.fromkeys(running, 0)
    if silent:
        part = apportion(size, dict.fromkeys(staying, 1))
        low = {name: min(replicas, part[name]) for name, replicas in running.items()}
    left = max(size - silent, sum(low.values()))
    kept = min(sum(leaving.values()), max(left - sum(running.values()), 0))
    grows = MEMBER if any(host.membership == MEMBER for host in staying.values()) else CORDONED
    high = {
        name: max(left, replicas) if staying[name].membership == grows else replicas
        for name, replicas in running.items()
    }
    return _equal(left - kept, low, high) | _equal(kept, dict.fromkeys(leaving, 0), leaving)


def _equal(total: int, low: Shares, high: Shares) -> dict[str, int]:
    return by_weight(min(total, sum(high.values())), dict.fromkeys(high, 1), low, high)
