"""Clusters whose pods do not become ready although the same pods do elsewhere (mode Centralized, direct).

A quota, a missing image or a broken node pool may be the cause. Growth into such a cluster serves nothing.
Source: docs/explanation/membership.md, "Stuck".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from fedhpa.api.times import ZERO_TIME
from fedhpa.decision.memory import MemoryState
from fedhpa.decision.spec import ScalingSpec
from fedhpa.scaling import IGNORED, PodRecord

if TYPE_CHECKING:
    from fedhpa.decision.fleet import ClusterView  # which calls this module

# Nodes often take two minutes to come.
DEFAULT_SECONDS: Final = 180.0
# The longest time that slow pods may ask for.
MAX_SECONDS: Final = 900.0
# This part of the pods becomes ready within the time that is asked for.
_MOST: Final = 0.9


class Stuck(NamedTuple):
    """Why pods of a cluster do not serve, and since when, in POSIX seconds."""

    since: float
    why: str


def stuck_clusters(
    clusters: Sequence[ClusterView],
    takers: Collection[str],
    memory: MemoryState,
    spec: ScalingSpec,
    now: float,
) -> dict[str, Stuck]:
    """Returns the clusters that are stuck.

    In such a cluster pods have waited for a node for the delay, and no pod got one, while in some of the
    `takers` none waits. Or a replica is not ready, and for the delay no pod was created or became ready,
    while elsewhere a pod of the same version became ready since, or all are ready. A workload that becomes
    ready nowhere makes no cluster stuck.
    """
    found: dict[str, Stuck] = {}
    nodeless_delay = DEFAULT_SECONDS if spec.assignment.delay is None else spec.assignment.delay
    for cluster in clusters:
        lacking = cluster.replicas - cluster.ready_pods
        pods = [pod for pod in cluster.pods if pod.state != IGNORED]
        versions = {pod.template for pod in pods}
        if lacking <= 0 or len(versions) > 1:
            continue
        known = memory.clusters.get(cluster.name)
        since = None if known is None else known.standing.stuck_since
        nodeless = _nodeless(pods)
        if since is None:
            since = _waiting_since(pods)
            if since is None or now - since < nodeless_delay or not _has_room(clusters, takers, memory):
                since = _lacking_since(cluster, pods, None if known is None else known.lacking_since)
                if since is None or now - since < _delay(clusters, spec):
                    continue
                if not _ready_elsewhere(clusters, cluster, versions, since):
                    continue
        found[cluster.name] = Stuck(min(since, now), _why(lacking, nodeless, cluster.replicas))
    return found


def ready_nowhere(clusters: Sequence[ClusterView], memory: MemoryState, spec: ScalingSpec, now: float) -> str:
    """Returns how many replicas lack if some did for the delay in each of several clusters; else ""."""
    hosts = [cluster for cluster in clusters if cluster.replicas]
    for cluster in hosts:
        pods = [pod for pod in cluster.pods if pod.state != IGNORED]
        known = memory.clusters.get(cluster.name)
        uncreated = None if known is None else known.lacking_since
        times = (_waiting_since(pods), _lacking_since(cluster, pods, uncreated))
        since = min((time for time in times if time is not None), default=now)
        if now - since < _delay(clusters, spec):
            return ""
    if len(hosts) < 2:
        return ""
    replicas = sum(cluster.replicas for cluster in hosts)
    lacking = replicas - sum(cluster.ready_pods for cluster in hosts)
    return f"pods become ready in no cluster, {lacking} of {replicas} replicas are not, and nothing moves"


def _why(lacking: int, nodeless: int, replicas: int) -> str:
    if nodeless >= lacking:
        return f"{lacking} of {replicas} replicas {'waits' if lacking == 1 else 'wait'} for a node there"
    are = "is" if lacking == 1 else "are"
    return f"{lacking} of {replicas} replicas {are} not ready there, and elsewhere they are"


def lacking_since(cluster: ClusterView, before: float | None, now: float) -> float | None:
    """Returns since when a cluster has fewer pods than replicas; None if it has as many."""
    pods = sum(pod.state != IGNORED for pod in cluster.pods)
    if pods >= cluster.replicas:
        return None
    return now if before is None else min(before, now)


def _lacking_since(
    cluster: ClusterView, pods: Sequence[PodRecord], uncreated_since: float | None
) -> float | None:
    """Returns since when a replica lacks though it has a node, and no pod was created or became ready."""
    lacks = [_unready_since(pod) for pod in pods if _is_counted(pod)]
    if uncreated_since is not None and len(pods) < cluster.replicas:
        lacks.append(uncreated_since)
    if not lacks:
        return None
    changes = [pod.created for pod in pods] + [pod.ready_since for pod in pods if _is_ready(pod)]
    return max([min(lacks), *changes])


def _waiting_since(pods: Sequence[PodRecord]) -> float | None:
    """Returns since when a pod waits for a node, and none got one or became ready; None if none waits.

    A pod that is created meanwhile shows nothing about nodes.
    """
    waits = [pod.unschedulable_since for pod in pods if pod.unschedulable_since is not None]
    placed = [pod.start for pod in pods if pod.start is not None]
    return max([min(waits), *placed, *[pod.ready_since for pod in pods if _is_ready(pod)]]) if waits else None


def _has_room(clusters: Iterable[ClusterView], takers: Collection[str], memory: MemoryState) -> bool:
    """True if no pod waits for a node in some of the `takers` that is not stuck."""
    for cluster in clusters:
        known = memory.standing(cluster.name)
        is_stuck = known is not None and known.stuck_since is not None
        if cluster.name in takers and not is_stuck and not _nodeless(cluster.pods):
            return True
    return False


def _nodeless(pods: Iterable[PodRecord]) -> int:
    return sum(pod.unschedulable_since is not None for pod in pods)


def _is_ready(pod: PodRecord) -> bool:
    return pod.running and pod.ready == "True"


def _is_counted(pod: PodRecord) -> bool:
    """True if a pod lacks, has a node, and it is known since when."""
    known = pod.ready == "False" or pod.created != ZERO_TIME
    return known and not _is_ready(pod) and pod.unschedulable_since is None


def _unready_since(pod: PodRecord) -> float:
    return max(pod.created, pod.ready_since) if pod.ready == "False" else pod.created


def _ready_elsewhere(
    clusters: Iterable[ClusterView], stuck: ClusterView, versions: set[str], since: float
) -> bool:
    """True if pods of the same version became ready in another cluster since then, or all are ready there."""
    for cluster in clusters:
        pods = [pod for pod in cluster.pods if pod.state != IGNORED]
        if cluster.name == stuck.name or not cluster.ready_pods:
            continue
        same = [pod for pod in pods if _is_ready(pod) and (not versions or pod.template in versions)]
        if any(pod.ready_since > since for pod in same) or len(same) == len(pods) >= cluster.replicas:
            return True
    return False


def _delay(clusters: Iterable[ClusterView], spec: ScalingSpec) -> float:
    """Returns how many seconds a replica may lack: the object's delay, or the time that its pods need."""
    times = sorted(
        pod.ready_since - pod.start
        for cluster in clusters
        for pod in cluster.pods
        if pod.start is not None and _is_ready(pod) and not pod.restarted
    )
    slow = times[min(int(len(times) * _MOST), len(times) - 1)] if times else 0.0
    # Without any delay for nodes, a pod needs some time to start all the same.
    return max(spec.assignment.delay or DEFAULT_SECONDS, min(slow, MAX_SECONDS))
