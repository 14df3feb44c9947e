"""The member clusters: registry, credentials, clients, and caches of their lists, pods, scales and HPAs.

Each member has a connection pool, a deadline for each call, and circuit breakers. A member that hangs costs
its deadline once and does not delay the others.
"""

from fedhpa.members.client import CircuitBreaker, MemberClient
from fedhpa.members.cluster import (
    CLUSTERS_PATH,
    READY,
    Access,
    Cluster,
    ClusterMeta,
    ForeignCluster,
    Secret,
    api_config,
    change_finalizers,
    metrics_key,
    read_access,
    secret_data,
    secret_key,
    without_own,
)
from fedhpa.members.leading import leading_controller
from fedhpa.members.lists import (
    CALLER_QUOTA,
    METRICS_API,
    POD_METRICS_LIST,
    Query,
    SharedLists,
    Upstream,
    pod_metrics_path,
)
from fedhpa.members.member import NOT_PROBED, OWN_REASONS, Member
from fedhpa.members.member import TASKS as MEMBER_TASKS
from fedhpa.members.registry import Gone, MemberRegistry
from fedhpa.members.slow_lists import Again
from fedhpa.members.sources.providers import read_providers
from fedhpa.members.watches import WATCHED_VERSION, PodCache, ScaleCache
