"""What the controller's leader writes into Clusters of a plain hub, for people to see."""

from __future__ import annotations

from typing import Any

import msgspec

from fedhpa.api.errors import FedHPAError
from fedhpa.api.times import format_time
from fedhpa.kube.client import ApiClient
from fedhpa.kube.paths import resource_path
from fedhpa.kube.writes import Object, update_with_retry
from fedhpa.members.cluster import API_VERSION, READY
from fedhpa.members.member import NOT_PROBED, OWN_REASONS, Member


class _Version(msgspec.Struct, frozen=True):
    gitVersion: str = ""


async def kubernetes_version(member: Member) -> str:
    """The member's version ("v1.36.3"), "" if it cannot be asked."""
    try:
        return (await member.client.get("/version", _Version)).gitVersion
    except FedHPAError:
        return ""


async def write_cluster_status(hub: ApiClient, member: Member, now: float) -> bool:
    """Write the member's Ready condition and kubernetesVersion; True if something was written.

    Nothing is written over a Ready condition of somebody else's, before the first probe, or if nothing
    changed. `now` is POSIX seconds. ApiError if the hub refuses.
    """
    if member.state.reason not in OWN_REASONS or member.state.reason == NOT_PROBED:
        return False
    version = await kubernetes_version(member)
    written = False

    def mutate(cluster: Object) -> Object | None:
        nonlocal written
        written = _set_status(cluster, member, version, now)
        return cluster if written else None

    path = resource_path(API_VERSION, "clusters", name=member.name)
    await update_with_retry(hub, path, mutate, subresource="status")
    return written


def _set_status(cluster: Object, member: Member, version: str, now: float) -> bool:
    """Change the object in place; whether anything changed."""
    status = cluster.get("status") or {}
    conditions: list[dict[str, Any]] = list(status.get("conditions") or [])
    old = next((entry for entry in conditions if entry.get("type") == READY), None)
    state = member.state
    if state.reason not in OWN_REASONS or (old is not None and old.get("reason") not in OWN_REASONS):
        return False
    new = {
        "type": READY,
        "status": "True" if state.ready else "False",
        "reason": state.reason,
        "message": state.message or "the API server answers",
    }
    changed = old is None or any(old.get(key) != value for key, value in new.items())
    if version and status.get("kubernetesVersion") != version:
        status["kubernetesVersion"] = version
    elif not changed:
        return False
    if changed:
        same = old is not None and old.get("status") == new["status"]
        new["lastTransitionTime"] = old["lastTransitionTime"] if same and old else format_time(int(now))
        status["conditions"] = [entry for entry in conditions if entry.get("type") != READY] + [new]
    cluster["status"] = status
    return True
