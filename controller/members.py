"""The members as the controller reads them, for its process and for single readings."""

from __future__ import annotations

from controller.flags import Settings
from fedhpa.kube import SYSTEM, ApiClient, Clock
from fedhpa.members import MemberRegistry


def member_registry(hub: ApiClient, settings: Settings, clock: Clock = SYSTEM) -> MemberRegistry:
    """Returns the registry of the hub's Clusters, with the deadline and the limits of the settings."""
    return MemberRegistry(
        hub,
        deadline=settings.member_deadline,
        qps=settings.cluster_qps,
        burst=settings.cluster_burst,
        clock=clock.monotonic,
        wall=clock.wall,
    )
