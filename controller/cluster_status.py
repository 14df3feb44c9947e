"""Keeps the Clusters: the condition Ready of each on a plain hub, and the tokens of `fedhpa join`.

One process of all controllers does so, whichever kinds of objects it works on: the holder of a Lease of its
own. On Karmada's hub Karmada writes the conditions.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import structlog

from controller.accepted_servers import keep_servers
from controller.member_tokens import TokenMetrics, TokenRenewer
from fedhpa.api.errors import FedHPAError
from fedhpa.api.known_cluster import API_VERSION
from fedhpa.api.member_sources import ONLY_CLUSTERS, MemberSources
from fedhpa.api.times import format_time
from fedhpa.kube import (
    ApiClient,
    Clock,
    EventRecorder,
    report_failure,
    resource_path,
    supervise,
    update_with_retry,
)
from fedhpa.members import NOT_PROBED, OWN_REASONS, READY, ForeignCluster, Member, MemberRegistry

# Its holder keeps the Clusters.
CLUSTERS_LEASE: Final = "fedhpa-controller-clusters"
# All members are checked this often even if none changed: a version may differ, or a write may have failed.
PERIOD_SECONDS: Final = 60.0

log = structlog.get_logger(__name__)


async def keep_clusters(
    hub: ApiClient,
    members: MemberRegistry,
    events: EventRecorder,
    metrics: TokenMetrics,
    clock: Clock,
    sources: MemberSources = ONLY_CLUSTERS,
) -> None:
    """Write the members' conditions and renew their tokens, until cancelled."""
    tokens = TokenRenewer(hub, members, events, metrics, clock=clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(supervise("events", events.run))
        group.create_task(supervise("tokens", tokens.run))
        if sources.has_foreign:
            keep = functools.partial(keep_servers, hub, members, sources, events)
            group.create_task(supervise("servers", keep))
        group.create_task(
            supervise("cluster-status", lambda: follow_cluster_status(hub, members, events, wall=clock.wall))
        )


async def follow_cluster_status(
    hub: ApiClient, registry: MemberRegistry, events: EventRecorder, *, wall: Callable[[], float]
) -> None:
    """Write each member's condition when it changes, until cancelled, and an event for each second name."""
    changed: set[str] = set()
    reported: dict[str, str] = {}
    wake = asyncio.Event()

    def note(name: str) -> None:
        changed.add(name)
        wake.set()

    unsubscribe = registry.subscribe(note)
    try:
        while True:
            names, due = (sorted(changed), True) if changed else (sorted(registry.registered), False)
            changed.clear()
            wake.clear()
            reported = _report_duplicates(registry, events, reported)
            for name in names:
                await _write(hub, registry, name, wall())
            if not due:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PERIOD_SECONDS):
                        await wake.wait()
    finally:
        unsubscribe()


def _report_duplicates(
    registry: MemberRegistry, events: EventRecorder, reported: Mapping[str, str]
) -> dict[str, str]:
    """Record an event about each new second name of a cluster. Returns all by name, for the next call."""
    wrong = {name: one for name, one in registry.duplicates.items() if one.stands_back_in_error}
    found = {name: one.duplicate for name, one in wrong.items()}
    for name in sorted(found):
        if reported.get(name) != found[name]:
            # A Cluster's event has no uid.
            about = dataclasses.replace(wrong[name].cluster.origin, uid="")
            events.event(about, "Warning", "DuplicateCluster", found[name])
    return found


async def _write(hub: ApiClient, registry: MemberRegistry, name: str, now: float) -> None:
    member = registry.registered.get(name)
    if member is None or isinstance(member.cluster, ForeignCluster):
        return
    try:
        await write_cluster_status(hub, member, now)
    except FedHPAError as error:
        log.debug("cluster status not written", cluster=name, error=str(error))
    except Exception as error:  # the other Clusters are written all the same
        report_failure("cluster-status", error, cluster=name)


class _VersionInfo(msgspec.Struct, frozen=True):
    gitVersion: str = ""


async def kubernetes_version(member: Member) -> str:
    """The member's version ("v1.36.3"), "" if it does not answer."""
    try:
        return (await member.client.get("/version", _VersionInfo)).gitVersion
    except FedHPAError:
        return ""


async def write_cluster_status(hub: ApiClient, member: Member, now: float) -> bool:
    """Write the member's Ready condition and kubernetesVersion; True if something was written.

    Nothing is written before the first probe, without a change, or if another actor wrote the Ready
    condition. `now` is POSIX seconds. Raises ApiError if the hub refuses.
    """
    if member.state.reason not in OWN_REASONS or member.state.reason == NOT_PROBED:
        return False
    version = await kubernetes_version(member)
    written = False

    def mutate(cluster: dict[str, Any]) -> dict[str, Any] | None:
        nonlocal written
        written = _set_status(cluster, member, version, now)
        return cluster if written else None

    path = resource_path(API_VERSION, "clusters", name=member.name)
    await update_with_retry(hub, path, mutate, subresource="status")
    return written


def _set_status(cluster: dict[str, Any], member: Member, version: str, now: float) -> bool:
    """Change the object in place; True if anything changed."""
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
