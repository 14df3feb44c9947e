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
from controller.cronfederatedhpa import CronController, CronMetrics
from controller.cronfederatedhpa.foreign import other_controller
from controller.cronfederatedhpa.hub import CronHubCheck
from controller.cronfederatedhpa.owners import WorkloadOwners
from controller.cronfederatedhpa.reconciler import CronReconciler
from controller.cronfederatedhpa.targets import Targets, mappers_of_members
from controller.decisions import decisions_route
from controller.federatedhpa.member_caches import MemberCaches
from controller.federatedhpa.reconciler import FederatedHPAReconciler
from controller.federatedhpa.snapshot import SnapshotBuilder
from controller.flags import (
    CONTROLLERS,
    CRON_FEDERATED_HPA,
    DIRECT,
    FEDERATED_HPA,
    MANAGE_CERTIFICATES,
    SECTIONS,
    SHARDS,
    Settings,
    check_certificate_flags,
)
from controller.loop import ReconcileLoop
from controller.members import member_registry
from controller.pause import record_paused
from controller.publish import FEDERATED_HPAS
from controller.shards import ALL, CRON, Shard, ShardElection, lease_name, within
from controller.telemetry import ControllerMetrics
from fedhpa.api.errors import ConfigError
from fedhpa.kube import (
    BOOT,
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
from fedhpa.kube.config import SERVICE_ACCOUNT
from fedhpa.members import MemberRegistry, SharedLists
from fedhpa.serving import Health, ReadinessCheck, Signals, http_listeners, quick_loop, run_process
from fedhpa.serving.flags import Values, common, exit_usage, parse_or_exit

PROGRAM: Final = "fedhpa-controller"
ABOUT: Final = (
    "Scales the workload of each FederatedHPA over all clusters by its usage in all of them, and applies the "
    "rules of CronFederatedHPAs. Of several processes, only those that hold a shard's Lease work."
)
# Karmada's name of this controller, so that filters of events by source still match.
COMPONENT: Final = "federatedHPA-controller"
CRON_COMPONENT: Final = "cronFederatedHPA-controller"
HUB_CHECK_SECONDS: Final = 2.0
# Releasing a Lease takes at most two seconds (fedhpa.kube.leases); everything else ends at once.
STOP_SECONDS: Final = 5.0

log = structlog.get_logger(__name__)


def main() -> None:
    """Entry point of the console script."""
    values = parse_or_exit(PROGRAM, ABOUT, SECTIONS)
    try:
        _lease_timing(values)
        check_certificate_flags(values)
    except ConfigError as error:
        exit_usage(PROGRAM, error)

    async def work(signals: Signals) -> None:
        await run(values, signals)

    sys.exit(run_process(PROGRAM, values, work, loop_factory=quick_loop))


async def run(values: Values, signals: Signals) -> None:
    """Serve health and metrics, and work on the shards that this process holds, until asked to stop."""
    settings = Settings.of(values)
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector):
        collector(registry=registry)
    metrics, cron_metrics = ControllerMetrics(registry), CronMetrics(registry)
    metrics.set_paused(settings.paused)
    FAILURE_OBSERVER.set(metrics.task_failed)
    if settings.paused:
        log.warning("paused: decisions are computed and shown, but neither scales nor statuses are written")
    health = Health()
    kubeconfig = values[common.KUBECONFIG] or None
    config = dataclasses.replace(
        await load_config(kubeconfig),
        qps=values[common.KUBE_API_QPS],
        burst=values[common.KUBE_API_BURST],
    )
    secrets_at = await secrets_config(values)
    async with (
        ApiClient(config) as hub,
        http_listeners(values, health, registry, [decisions_route(metrics.decisions, hub)]),
    ):
        members = member_registry(hub, settings)
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
                record = functools.partial(record_paused, hub, _lease_namespace(values), _leases_of(values))
                background.append(group.create_task(supervise("events", record)))
            leading = []
            if FEDERATED_HPA in values[CONTROLLERS]:
                run_autoscalers = functools.partial(
                    _lead_autoscalers, values, settings, hub, members, metrics
                )
                leading.append(group.create_task(supervise("shards", run_autoscalers)))
            if CRON_FEDERATED_HPA in values[CONTROLLERS]:
                run_rules = functools.partial(
                    _lead_rules, values, settings, hub, members, metrics, cron_metrics
                )
                leading.append(group.create_task(supervise("cron-shards", run_rules)))
            if not settings.paused:
                keep_clusters = functools.partial(_lead_clusters, values, hub, members, metrics)
                leading.append(group.create_task(supervise("clusters-lead", keep_clusters)))
            if values[MANAGE_CERTIFICATES] and not settings.paused:
                place, timing = _lease_namespace(values), _lease_timing(values)
                told = metrics.certificates, place, timing, metrics.set_leader
                keep = functools.partial(lead_certificates, values, hub, secrets_at, *told)
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
        FEDERATED_HPA: (lease_name(0, values[SHARDS]), COMPONENT),
        CRON_FEDERATED_HPA: (lease_name(0, values[SHARDS], CRON), CRON_COMPONENT),
    }
    return dict(leases[kind] for kind in values[CONTROLLERS])


async def _lead_clusters(
    values: Values, hub: ApiClient, members: MemberRegistry, metrics: ControllerMetrics
) -> None:
    """Keep the members' conditions and tokens while this process holds the Lease for it."""
    elector, show = None, functools.partial(metrics.set_leader, "clusters")
    show(not values[common.LEADER_ELECT])
    if values[common.LEADER_ELECT]:
        place, identity = _lease_namespace(values), f"{socket.gethostname()}_{uuid.uuid4()}"
        timing = _lease_timing(values)
        elector = LeaderElector(hub, place, CLUSTERS_LEASE, identity, timing=timing, on_change=show)
    events = EventRecorder(hub, COMPONENT, on_drop=metrics.count_dropped_event)
    await lead_clusters(hub, members, events, metrics.tokens, SYSTEM, elector)


async def _lead_autoscalers(
    values: Values, settings: Settings, hub: ApiClient, members: MemberRegistry, metrics: ControllerMetrics
) -> None:
    counts: dict[Shard, int] = {}

    async def work(shard: Shard, leads: Callable[[], bool]) -> None:  # noqa: ARG001  # writes have versions
        await lead(settings, hub, members, metrics, shard=shard, counts=counts)

    await _lead_shards(values, settings, hub, metrics, work)


async def _lead_rules(
    values: Values,
    settings: Settings,
    hub: ApiClient,
    members: MemberRegistry,
    metrics: ControllerMetrics,
    cron_metrics: CronMetrics,
) -> None:
    counts: dict[Shard, int] = {}

    async def work(shard: Shard, leads: Callable[[], bool]) -> None:
        def count(objects: int) -> None:
            counts[shard] = objects
            cron_metrics.set_objects(sum(counts.values()))

        events = EventRecorder(hub, CRON_COMPONENT, on_drop=metrics.count_dropped_event)
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
        )

    await _lead_shards(values, settings, hub, metrics, work, kind=CRON)


async def _lead_shards(
    values: Values,
    settings: Settings,
    hub: ApiClient,
    metrics: ControllerMetrics,
    work: Callable[[Shard, Callable[[], bool]], Coroutine[Any, Any, None]],
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
    for index in range(values[SHARDS]):
        metrics.set_leader(str(Shard(index, values[SHARDS], kind)), False)
    election = ShardElection(
        hub,
        _lease_namespace(values),
        f"{socket.gethostname()}_{uuid.uuid4()}",
        values[SHARDS],
        kind=kind,
        timing=_lease_timing(values),
        # A machine that was suspended must not write on an old claim.
        clock=BOOT if kind == CRON else SYSTEM,
        on_lead=lambda shard, leads: metrics.set_leader(str(shard), leads),
    )
    await election.run(lambda shard: work(shard, functools.partial(election.leads, shard)))


async def lead_rules(
    settings: Settings,
    hub: ApiClient,
    members: MemberRegistry,
    events: EventRecorder,
    metrics: CronMetrics,
    *,
    shard: Shard = ALL,
    leads: Callable[[], bool] = lambda: True,
    on_count: Callable[[int], None] = lambda _: None,
    on_finding: Callable[[str, bool], None] = lambda *_: None,
    clock: Clock = SYSTEM,
) -> None:
    """Run the rules of a shard's CronFederatedHPAs until cancelled."""
    direct = settings.propagation == DIRECT
    check = CronHubCheck(hub, clock=clock.monotonic, on_finding=on_finding)
    targets = Targets(
        hub,
        lambda: members.members,
        mappers_of_members(clock),
        direct=direct,
        member_deadline=settings.member_deadline,
    )
    owns = within(settings.watch_namespaces, shard)
    owners = WorkloadOwners(hub, owns=owns, clock=clock.monotonic)
    controller = CronController(
        hub,
        lambda objects: CronReconciler(
            hub,
            objects,
            targets,
            events,
            metrics,
            paused=settings.paused,
            leads=leads,
            blocked=other_controller,
            owners=owners.of,
            check=check,
            wall=clock.wall,
            clock=clock.monotonic,
        ),
        events,
        metrics,
        owns=owns,
        on_count=on_count,
        owners=owners,
        wall=clock.wall,
        clock=clock.monotonic,
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(supervise("cron-events", lambda: events.run(controller.results_stored)))
        if direct:
            await _until_synced(members)
        group.create_task(controller.run())


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
            owns=within(settings.watch_namespaces, shard),
            on_count=count,
            clock=clock.monotonic,
        )
        group.create_task(caches.run())
        group.create_task(supervise("events", events.run))
        group.create_task(supervise("failure-reminders", reconciler.remind))
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
