"""The process `fedhpa-controller`: takes shards and reconciles their objects until SIGTERM."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import os
import socket
import sys
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from controller.certificates import lead_certificates, secrets_config
from controller.cluster_status import CLUSTERS_LEASE, lead_clusters
from controller.cronfederatedhpa import CronMetrics
from controller.decision_series import ControllerMetrics
from controller.decisions import decisions_route
from controller.flags import (
    CONTROLLERS,
    CRON_FEDERATED_HPA,
    DIRECT,
    FEDERATED_HPA,
    MANAGE_CERTIFICATES,
    SECTIONS,
    SHARD_BY,
    SHARDS,
    Settings,
)
from controller.holds import NamespaceHolds
from controller.members import member_registry
from controller.pause import record_paused, release_clusters
from controller.shard_work import COMPONENT, CRON_COMPONENT, SharedCaches, lead, lead_rules
from controller.shards import CRON, Division, Shard, ShardElection
from fedhpa.api.errors import ConfigError
from fedhpa.api.member_sources import MemberSources
from fedhpa.kube import (
    FAILURE_OBSERVER,
    SYSTEM,
    ApiClient,
    Clock,
    EventRecorder,
    LeaderElector,
    LeaseTiming,
    follow_config,
    load_config,
    supervise,
)
from fedhpa.kube.config import SERVICE_ACCOUNT, ConnectorFactory
from fedhpa.members import MemberRegistry
from fedhpa.serving import Health, ReadinessCheck, Signals, http_listeners, quick_loop, run_process
from fedhpa.serving.flags import Values, common, exit_usage, parse_or_exit

PROGRAM: Final = "fedhpa-controller"
ABOUT: Final = (
    "Scales the workload of each FederatedHPA over all clusters by its usage in all of them, and applies the "
    "rules of CronFederatedHPAs. Of several processes, only those that hold a shard's Lease work."
)
HUB_CHECK_SECONDS: Final = 2.0
# Releasing a Lease takes at most two seconds (fedhpa.kube.leases); everything else ends at once.
STOP_SECONDS: Final = 5.0

log = structlog.get_logger(__name__)


def main() -> None:
    """Entry point of the console script."""
    values = parse_or_exit(PROGRAM, ABOUT, SECTIONS)
    try:
        _lease_timing(values)
    except ConfigError as error:
        exit_usage(PROGRAM, error)

    async def work(signals: Signals) -> None:
        await run(values, signals, clock=SYSTEM, connect=None)

    sys.exit(run_process(PROGRAM, values, work, loop_factory=quick_loop))


async def run(values: Values, signals: Signals, *, clock: Clock, connect: ConnectorFactory | None) -> None:
    """Serve health and metrics, and work on the shards that this process holds, until asked to stop.

    No other clock is read than `clock` and the event loop's, and each connection to the hub and the members
    comes from `connect`; None means TCP. A simulation passes a virtual clock and a network in memory.
    """
    settings = Settings.of(values)
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector):
        collector(registry=registry)
    metrics, cron_metrics = ControllerMetrics(registry, clock=clock.monotonic), CronMetrics(registry)
    metrics.paused.set(settings.paused)
    FAILURE_OBSERVER.set(metrics.task_failed)
    if settings.paused:
        log.warning("paused: decisions are computed and shown, but neither scales nor statuses are written")
    health = Health()
    kubeconfig = values[common.KUBECONFIG] or None
    config = dataclasses.replace(
        await load_config(kubeconfig, clock=clock),
        connector=connect,
        qps=values[common.KUBE_API_QPS],
        burst=values[common.KUBE_API_BURST],
    )
    secrets_at = await secrets_config(values, clock)
    async with (
        ApiClient(config) as hub,
        http_listeners(
            values,
            health,
            registry,
            [decisions_route(metrics.decisions, hub, clock)],
            measures_lag=not clock.virtual,
        ),
    ):
        members = member_registry(hub, settings, clock)
        holds = NamespaceHolds(
            hub, _lease_namespace(values), on_finding=metrics.set_hub_finding, clock=clock.monotonic
        )
        metrics.members.watch(lambda: members.registered, lambda: members.duplicates)
        async with asyncio.TaskGroup() as group:
            background = [
                group.create_task(supervise("members", members.run)),
                group.create_task(supervise("namespaces", holds.run)),
                group.create_task(follow_config(hub, kubeconfig, clock=clock)),
                group.create_task(
                    supervise("readiness", lambda: _watch_readiness(health, members, settings.paused))
                ),
            ]
            if settings.paused:
                record = functools.partial(
                    record_paused, hub, _lease_namespace(values), _leases_of(values), clock
                )
                background.append(group.create_task(supervise("events", record)))
                if settings.propagation == DIRECT:
                    release = functools.partial(
                        release_clusters, hub, members, _lease_namespace(values), clock
                    )
                    background.append(group.create_task(supervise("cluster-finalizers", release)))
            leading = []
            if FEDERATED_HPA in values[CONTROLLERS]:
                run_autoscalers = functools.partial(
                    _lead_autoscalers, values, settings, hub, members, holds, metrics, clock
                )
                leading.append(group.create_task(supervise("shards", run_autoscalers)))
            if CRON_FEDERATED_HPA in values[CONTROLLERS]:
                run_rules = functools.partial(
                    _lead_rules, values, settings, hub, members, holds, metrics, cron_metrics, clock
                )
                leading.append(group.create_task(supervise("cron-shards", run_rules)))
            if not settings.paused:
                keep_clusters = functools.partial(
                    _lead_clusters, values, settings.sources, hub, members, metrics, clock
                )
                leading.append(group.create_task(supervise("clusters-lead", keep_clusters)))
            if values[MANAGE_CERTIFICATES] and not settings.paused:
                place, timing = _lease_namespace(values), _lease_timing(values)
                told = metrics.certificates, place, timing, metrics.set_leader
                keep = functools.partial(lead_certificates, values, hub, secrets_at, *told, clock=clock)
                leading.append(group.create_task(supervise("certificates-lead", keep)))
            await signals.stop.wait()
            health.drain()
            for task in leading:
                task.cancel()
            # The reads from the members end before the members' connections close.
            await asyncio.wait(leading, timeout=STOP_SECONDS)
            for task in background:
                task.cancel()


def _leases_of(values: Values) -> dict[str, str]:
    """The first Lease that each controller of this process would hold, with the source of its events."""
    leases = {
        FEDERATED_HPA: (Shard(0, _division(values)).lease, COMPONENT),
        CRON_FEDERATED_HPA: (Shard(0, _division(values), CRON).lease, CRON_COMPONENT),
    }
    return dict(leases[kind] for kind in values[CONTROLLERS])


async def _lead_clusters(
    values: Values,
    sources: MemberSources,
    hub: ApiClient,
    members: MemberRegistry,
    metrics: ControllerMetrics,
    clock: Clock,
) -> None:
    """Keep the members' conditions and tokens while this process holds the Lease for it."""
    elector, show = None, functools.partial(metrics.set_leader, "clusters")
    show(not values[common.LEADER_ELECT])
    if values[common.LEADER_ELECT]:
        place, identity = _lease_namespace(values), f"{socket.gethostname()}_{uuid.uuid4()}"
        timing = _lease_timing(values)
        elector = LeaderElector(
            hub,
            place,
            CLUSTERS_LEASE,
            identity,
            timing=timing,
            on_change=show,
            clock=clock.monotonic,
            wall=clock.wall,
        )
    events = EventRecorder(hub, COMPONENT, wall=clock.wall, on_drop=metrics.events_dropped.inc)
    await lead_clusters(hub, members, events, metrics.tokens, clock, elector, sources)


async def _lead_autoscalers(
    values: Values,
    settings: Settings,
    hub: ApiClient,
    members: MemberRegistry,
    holds: NamespaceHolds,
    metrics: ControllerMetrics,
    clock: Clock,
) -> None:
    counts: dict[Shard, int] = {}
    async with asyncio.TaskGroup() as group:
        # The shards of this process read the same namespaces.
        shared = SharedCaches(group, clock)

        async def work(shard: Shard, leads: Callable[[], bool]) -> None:  # noqa: ARG001  # writes have versions
            async with shared.used() as caches:
                await lead(
                    settings,
                    hub,
                    members,
                    metrics,
                    shard=shard,
                    counts=counts,
                    clock=clock,
                    holds=holds,
                    caches=caches,
                )

        await _lead_shards(values, settings, hub, metrics, work, clock)


async def _lead_rules(
    values: Values,
    settings: Settings,
    hub: ApiClient,
    members: MemberRegistry,
    holds: NamespaceHolds,
    metrics: ControllerMetrics,
    cron_metrics: CronMetrics,
    clock: Clock,
) -> None:
    counts: dict[Shard, int] = {}

    async def work(shard: Shard, leads: Callable[[], bool]) -> None:
        def count(objects: int) -> None:
            counts[shard] = objects
            cron_metrics.objects.set(sum(counts.values()))

        events = EventRecorder(hub, CRON_COMPONENT, wall=clock.wall, on_drop=metrics.events_dropped.inc)
        await lead_rules(
            settings,
            hub,
            members,
            events,
            cron_metrics,
            shard=shard,
            leads=leads,
            on_count=count,
            on_finding=functools.partial(metrics.set_hub_finding, source=str(shard)),
            clock=clock,
            holds=holds,
        )

    # A machine that was suspended must not write on an old claim.
    await _lead_shards(values, settings, hub, metrics, work, clock.counting_suspension(), kind=CRON)


async def _lead_shards(
    values: Values,
    settings: Settings,
    hub: ApiClient,
    metrics: ControllerMetrics,
    work: Callable[[Shard, Callable[[], bool]], Coroutine[Any, Any, None]],
    clock: Clock,
    *,
    kind: str = "",
) -> None:
    """Call `work` for each shard that this process leads, with a function that tells if it still does."""
    if not values[common.LEADER_ELECT] or settings.paused:
        # A paused process writes no Lease either. Several processes that only read do no harm.
        shard = Shard(kind=kind)
        metrics.set_leader(str(shard), True)
        await supervise("shard", lambda: work(shard, lambda: True), name=str(shard))
        return
    division = _division(values)
    for index in range(division.count):
        metrics.set_leader(str(Shard(index, division, kind)), False)
    election = ShardElection(
        hub,
        _lease_namespace(values),
        f"{socket.gethostname()}_{uuid.uuid4()}",
        division,
        kind=kind,
        timing=_lease_timing(values),
        clock=clock,
        on_lead=lambda shard, leads: metrics.set_leader(str(shard), leads),
    )
    await election.run(lambda shard: work(shard, functools.partial(election.leads, shard)))


def _division(values: Values) -> Division:
    return Division(values[SHARDS], values[SHARD_BY])


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


def _lease_namespace(values: Values) -> str:
    if namespace := values[common.LEADER_ELECT_RESOURCE_NAMESPACE] or os.environ.get("POD_NAMESPACE", ""):
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
