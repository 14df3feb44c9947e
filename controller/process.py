"""The process `fedhpa-controller`: takes shards and reconciles their objects until SIGTERM."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import os
import socket
import sys
import uuid
from pathlib import Path
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from controller.cluster_status import follow_cluster_status
from controller.decisions import decisions_route
from controller.federatedhpa.member_caches import MemberCaches
from controller.federatedhpa.reconciler import FederatedHPAReconciler
from controller.federatedhpa.snapshot import SnapshotBuilder
from controller.flags import SECTIONS, SHARDS, Settings
from controller.loop import ReconcileLoop
from controller.publish import FEDERATED_HPAS
from controller.shards import ALL, Shard, ShardElection, lease_name
from controller.telemetry import ControllerMetrics
from fedhpa.api.errors import ConfigError
from fedhpa.kube import (
    FAILURE_OBSERVER,
    SYSTEM,
    ApiClient,
    Clock,
    EventRecorder,
    InvolvedObject,
    LeaseTiming,
    follow_config,
    load_config,
    supervise,
)
from fedhpa.kube.config import SERVICE_ACCOUNT
from fedhpa.members import MemberRegistry, SharedLists
from fedhpa.serving import Health, ReadinessCheck, Signals, http_listeners, run_process
from fedhpa.serving.flags import Values, common, exit_usage, parse_or_exit

PROGRAM: Final = "fedhpa-controller"
ABOUT: Final = (
    "Scales the workload of each FederatedHPA over all clusters by its usage in all of them. "
    "Of several processes, only those that hold a shard's Lease work."
)
# Karmada's name of this controller, so that filters of events by source still match.
COMPONENT: Final = "federatedHPA-controller"
HUB_CHECK_SECONDS: Final = 2.0
# Releasing a Lease takes at most two seconds (fedhpa.kube.leases); everything else ends at once.
STOP_SECONDS: Final = 5.0

PAUSED_MESSAGE: Final = (
    "a controller was started with --pause: it computes decisions and shows them in its metrics and at "
    "/decisions, and writes neither scales nor statuses; it takes no Lease, so another one may still work"
)

log = structlog.get_logger(__name__)


def main() -> None:
    """Entry point of the console script."""
    values = parse_or_exit(PROGRAM, ABOUT, SECTIONS)
    try:
        _lease_timing(values)
    except ConfigError as error:
        exit_usage(PROGRAM, error)

    async def work(signals: Signals) -> None:
        await run(values, signals)

    sys.exit(run_process(PROGRAM, values, work))


async def run(values: Values, signals: Signals) -> None:
    """Serve health and metrics, and work on the shards that this process holds, until asked to stop."""
    settings = Settings.of(values)
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector):
        collector(registry=registry)
    metrics = ControllerMetrics(registry)
    metrics.set_paused(settings.paused)
    FAILURE_OBSERVER.set(metrics.task_failed)
    if settings.paused:
        log.warning("paused: decisions are computed and shown, but neither scales nor statuses are written")
    log.info("this version admits CronFederatedHPAs but does not run them")
    health = Health()
    kubeconfig = values[common.KUBECONFIG] or None
    config = dataclasses.replace(
        await load_config(kubeconfig),
        qps=values[common.KUBE_API_QPS],
        burst=values[common.KUBE_API_BURST],
    )
    async with (
        ApiClient(config) as hub,
        http_listeners(values, health, registry, [decisions_route(metrics.decisions, hub)]),
    ):
        members = MemberRegistry(
            hub,
            deadline=settings.member_deadline,
            qps=values[common.CLUSTER_API_QPS],
            burst=values[common.CLUSTER_API_BURST],
        )
        metrics.watch_members(lambda: members.members)
        async with asyncio.TaskGroup() as group:
            background = [
                group.create_task(supervise("members", members.run)),
                group.create_task(follow_config(hub, kubeconfig)),
                group.create_task(
                    supervise("readiness", lambda: _watch_readiness(health, members, settings.paused))
                ),
            ]
            if settings.paused:
                namespace = values[common.LEADER_ELECT_RESOURCE_NAMESPACE] or _own_namespace()
                lease = lease_name(0, values[SHARDS])
                record = functools.partial(_record_paused, hub, namespace, lease)
                background.append(group.create_task(supervise("events", record)))
            lead_shards = functools.partial(_lead_shards, values, settings, hub, members, metrics)
            leading = group.create_task(supervise("shards", lead_shards))
            await signals.stop.wait()
            health.drain()
            leading.cancel()
            # Its reads from the members end before the members' connections close.
            await asyncio.wait([leading], timeout=STOP_SECONDS)
            for task in background:
                task.cancel()


async def _record_paused(hub: ApiClient, namespace: str, lease: str) -> None:
    """Record an event on the Lease that this process would hold, until cancelled. The hub may refuse it."""
    events = EventRecorder(hub, COMPONENT)
    about = InvolvedObject("coordination.k8s.io/v1", "Lease", lease, namespace)
    events.event(about, "Warning", "Paused", PAUSED_MESSAGE)
    await events.run()


async def _lead_shards(
    values: Values, settings: Settings, hub: ApiClient, members: MemberRegistry, metrics: ControllerMetrics
) -> None:
    counts: dict[Shard, int] = {}

    async def work(shard: Shard) -> None:
        await lead(settings, hub, members, metrics, shard=shard, counts=counts)

    if not values[common.LEADER_ELECT] or settings.paused:
        # A paused process writes no Lease either. Several processes that only read do no harm.
        metrics.set_leader(str(Shard()), True)
        await supervise("shard", lambda: work(Shard()), name=str(Shard()))
        return
    for index in range(values[SHARDS]):
        metrics.set_leader(str(Shard(index, values[SHARDS])), False)
    election = ShardElection(
        hub,
        values[common.LEADER_ELECT_RESOURCE_NAMESPACE] or _own_namespace(),
        f"{socket.gethostname()}_{uuid.uuid4()}",
        values[SHARDS],
        timing=_lease_timing(values),
        on_lead=lambda shard, leads: metrics.set_leader(str(shard), leads),
    )
    await election.run(work)


async def lead(
    settings: Settings,
    hub: ApiClient,
    members: MemberRegistry,
    metrics: ControllerMetrics,
    *,
    shard: Shard = ALL,
    counts: dict[Shard, int] | None = None,
    clock: Clock = SYSTEM,
) -> None:
    """Reconcile a shard's objects until cancelled. State of former leaders is read from the objects' status.

    `counts` receives the number of objects by shard, for all shards that this process leads.
    """
    by_shard = {} if counts is None else counts

    def count(objects: int) -> None:
        by_shard[shard] = objects
        metrics.set_objects(sum(by_shard.values()))

    events = EventRecorder(hub, COMPONENT, wall=clock.wall, on_drop=metrics.count_dropped_event)
    async with SharedLists(clock=clock.monotonic) as lists, asyncio.TaskGroup() as group:
        caches = MemberCaches(lists, clock.monotonic)
        snapshots = SnapshotBuilder(hub, lambda: members.members, caches, settings, clock=clock.monotonic)
        reconciler = FederatedHPAReconciler(
            hub, snapshots, events, metrics, settings, wall=clock.wall, clock=clock.monotonic
        )
        loop = ReconcileLoop(
            hub,
            FEDERATED_HPAS.path(),
            reconciler,
            workers=settings.concurrent_syncs,
            owns=shard.owns,
            on_count=count,
            clock=clock.monotonic,
        )
        group.create_task(caches.run())
        group.create_task(supervise("events", events.run))
        if not settings.paused and shard.index == 0:  # only one process writes the Clusters' status
            group.create_task(
                supervise("cluster-status", lambda: follow_cluster_status(hub, members, wall=clock.wall))
            )
        await _until_synced(members)
        group.create_task(loop.run())


async def _until_synced(members: MemberRegistry) -> None:
    # Until each member answered or its deadline passed, every decision would lack data.
    while not members.synced():  # noqa: ASYNC110  # depends on deadlines, for which there is no event
        await asyncio.sleep(0.05)


async def _watch_readiness(health: Health, members: MemberRegistry, paused: bool) -> None:
    synced = health.readiness("members-synced", latches=True, reason="members were not read yet")
    hub_check = health.readiness("hub", latches=False, reason="the hub was not read yet")
    if paused:
        health.readiness("paused-by-flag", latches=True).succeed()
    while True:
        if members.synced():
            synced.succeed()
        _report(hub_check, members.problem)
        await asyncio.sleep(HUB_CHECK_SECONDS if synced.ok else 0.1)


def _report(check: ReadinessCheck, problem: str | None) -> None:
    if problem is None:
        check.succeed()
    else:
        check.fail(problem)


def _own_namespace() -> str:
    if namespace := os.environ.get("POD_NAMESPACE"):
        return namespace
    mounted = SERVICE_ACCOUNT / "namespace"
    return Path(mounted).read_text().strip() if mounted.is_file() else "kube-system"


def _lease_timing(values: Values) -> LeaseTiming:
    try:
        return LeaseTiming(
            values[common.LEADER_ELECT_LEASE_DURATION],
            values[common.LEADER_ELECT_RENEW_DEADLINE],
            values[common.LEADER_ELECT_RETRY_PERIOD],
        )
    except ValueError as error:
        raise ConfigError(f"--leader-elect-lease-duration: {error}") from error
