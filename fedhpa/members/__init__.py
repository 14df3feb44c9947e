"""The member clusters: registry, credentials, clients, and caches of their lists, pods and scales.

Each member has a connection pool, a deadline for each call, and circuit breakers. A member that hangs costs
its deadline once and does not delay the others.
"""

from fedhpa.cache import Fetched
from fedhpa.members.lists import SharedLists, pod_metrics
from fedhpa.members.member import Member, MemberState
from fedhpa.members.registry import MemberRegistry
from fedhpa.members.watches import PodCache

__all__ = ["Fetched", "Member", "MemberRegistry", "MemberState", "PodCache", "SharedLists", "pod_metrics"]
