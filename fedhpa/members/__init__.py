"""The member clusters: registry, credentials, clients, and caches of their lists, pods and scales.

Each member has a connection pool, a deadline for each call, and circuit breakers. A member that hangs costs
its deadline once and does not delay the others.
"""

from fedhpa.members.breaker import CircuitBreaker
from fedhpa.members.cluster import CLUSTERS_PATH, Access, Cluster
from fedhpa.members.lists import CALLER_QUOTA, SharedLists, Upstream, pod_metrics, pod_metrics_path
from fedhpa.members.member import Member, MemberState
from fedhpa.members.registry import MemberRegistry
from fedhpa.members.scales import ScaleCache
from fedhpa.members.watches import PodCache

__all__ = [
    "CALLER_QUOTA",
    "CLUSTERS_PATH",
    "Access",
    "CircuitBreaker",
    "Cluster",
    "Member",
    "MemberRegistry",
    "MemberState",
    "PodCache",
    "ScaleCache",
    "SharedLists",
    "Upstream",
    "pod_metrics",
    "pod_metrics_path",
]
