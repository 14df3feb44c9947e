"""The member clusters: who they are, how to reach each, whether it answers, and what was asked of it last.

Every member has one pool of connections, a deadline for each call, and a breaker, so that a member that
hangs costs its deadline once and nobody else anything.
"""

from fedhpa.cache import Fetched
from fedhpa.members.lists import SharedLists, pod_metrics
from fedhpa.members.member import Member, MemberState
from fedhpa.members.registry import MemberRegistry
from fedhpa.members.watches import PodCache

__all__ = ["Fetched", "Member", "MemberRegistry", "MemberState", "PodCache", "SharedLists", "pod_metrics"]
