"""The process `fedhpa-controller`: takes shards and reconciles their objects until SIGTERM."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import socket
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from controller.certificates import CERTIFICATES_LEASE, keep_certificates, secrets_config
from controller.cluster_status import CLUSTERS_LEASE, keep_clusters
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
from controller.shards import CRON, Division, Shard, ShardElection, Work
from fedhpa.api.errors import ConfigError
from fedhpa.kube import (
    FAILURE_OBSERVER,
    ApiClient,
    ApiConfig,
    Clock,
    EventRecorder,
    LeaderElector,
    LeaseTiming,
    follow_config,
    supervise,
)
from fedhpa.kube.config import ConnectorFactory
from fedhpa.members import MemberRegistry
from fedhpa.serving import Health, Signals, http_listeners, hub_config, run_program
from fedhpa.serving.flags import Values, common
from fedhpa.serving.flags.members import own_namespace

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
    run_program(PROGRAM, ABOUT, SECTIONS, functools.partial(run, connect=None))


async def run(values: Values, signals: Signals, *, clock: Clock, connect: ConnectorFactory | None) -> None:
    """Serve health and metrics, and work on the shards that this process holds, until asked to stop.

    No other clock is read than `clock` and the event loop's, and each connection to the hub and the members
    comes from `connect`; None means TCP. A simulation passes a virtual clock and a network in memory.
    """
    settings = Settings.of(values)
    _lease_timing(values)
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
    config = dataclasses.replace(await hub_config(values, clock), connector=connect)
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
            work = Leading(values, settings, hub, members, holds, metrics, cron_metrics, clock)
            place = _lease_namespace(values)
            if settings.paused:
                record = functools.partial(record_paused, hub, place, work.leases(), clock)
                background.append(group.create_task(supervise("events", record)))
                if settings.propagation == DIRECT:
                    release = functools.partial(release_clusters, hub, members, place, clock)
                    background.append(group.create_task(supervise("cluster-finalizers", release)))
            leading = []
            if FEDERATED_HPA in values[CONTROLLERS]:
                leading.append(group.create_task(supervise("shards", work.reconcile_objects)))
            if CRON_FEDERATED_HPA in values[CONTROLLERS]:
                leading.append(group.create_task(supervise("cron-shards", work.run_rules)))
            if not settings.paused:
                leading.append(group.create_task(supervise("clusters-lead", work.keep_clusters)))
            if values[MANAGE_CERTIFICATES] and not settings.paused:
                keep = functools.partial(work.keep_certificates, secrets_at)
                leading.append(group.create_task(supervise("certificates-lead", keep)))
            await signals.stop.wait()
            health.drain()
            for task in leading:
                task.cancel()
            # The reads from the members end before the members' connections close.
            await asyncio.wait(leading, timeout=STOP_SECONDS)
            for task in background:
                task.cancel()


@dataclasses.dataclass
class Leading:
    """The work of this process where it leads: it reconciles objects, runs rules and keeps the Clusters."""

    values: Values
    settings: Settings
    hub: ApiClient
    members: MemberRegistry
    holds: NamespaceHolds
    metrics: ControllerMetrics
    cron_metrics: CronMetrics
    clock: Clock

    @property
    def division(self) -> Division:
        """How the objects are divided into shards."""
        return Division(self.values[SHARDS], self.values[SHARD_BY])

    def leases(self) -> dict[str, str]:
        """The first Lease that each controller of this process would hold, with the source of its events."""
        leases = {
            FEDERATED_HPA: (Shard(0, self.division).lease, COMPONENT),
            CRON_FEDERATED_HPA: (Shard(0, self.division, CRON).lease, CRON_COMPONENT),
        }
        return dict(leases[kind] for kind in self.values[CONTROLLERS])

    def events(self, component: str) -> EventRecorder:
        """A recorder of events of one source."""
        return EventRecorder(
            self.hub, component, wall=self.clock.wall, on_drop=self.metrics.events_dropped.inc
        )

    async def keep_clusters(self) -> None:
        """Keep the members' conditions and tokens while this process holds the Lease for it."""
        events, tokens, sources = self.events(COMPONENT), self.metrics.tokens, self.settings.sources

        async def work(_: Callable[[], bool]) -> None:  # writes have versions
            await keep_clusters(self.hub, self.members, events, tokens, self.clock, sources)

        await self._lead("clusters", CLUSTERS_LEASE, work, self.clock)

    async def keep_certificates(self, secrets_at: ApiConfig | None) -> None:
        """Keep the certificates while this process holds the Lease for it."""
        # A machine that was suspended must not write on an old claim.
        clock, metrics = self.clock.counting_suspension(), self.metrics.certificates

        async def work(leads: Callable[[], bool]) -> None:
            await keep_certificates(self.values, self.hub, secrets_at, metrics, leads, clock)

        await self._lead("certificates", CERTIFICATES_LEASE, work, clock)

    async def _lead(
        self,
        name: str,
        lease: str,
        work: Callable[[Callable[[], bool]], Coroutine[Any, Any, None]],
        clock: Clock,
    ) -> None:
        """Call `work` while this process holds a Lease, with a function that tells if it still does."""
        show = functools.partial(self.metrics.set_leader, name)
        show(not self.values[common.LEADER_ELECT])
        if not self.values[common.LEADER_ELECT]:
            await work(lambda: True)
            return
        elector = LeaderElector(
            self.hub,
            _lease_namespace(self.values),
            lease,
            _identity(),
            timing=_lease_timing(self.values),
            on_change=show,
            clock=clock.monotonic,
            wall=clock.wall,
        )
        await elector.run(lambda: work(elector.leads))

    async def reconcile_objects(self) -> None:
        """Reconcile the FederatedHPAs of each shard that this process leads."""
        counts: dict[Shard, int] = {}
        async with asyncio.TaskGroup() as group:
            # The shards of this process read the same namespaces.
            shared = SharedCaches(group, self.clock)

            async def work(shard: Shard, leads: Callable[[], bool]) -> None:  # noqa: ARG001  # writes have versions
                async with shared.used() as caches:
                    await lead(
                        self.settings,
                        self.hub,
                        self.members,
                        self.metrics,
                        shard=shard,
                        counts=counts,
                        clock=self.clock,
                        holds=self.holds,
                        caches=caches,
                    )

            await self.lead_shards(work, self.clock)

    async def run_rules(self) -> None:
        """Run the rules of the CronFederatedHPAs of each shard that this process leads."""
        counts: dict[Shard, int] = {}

        async def work(shard: Shard, leads: Callable[[], bool]) -> None:
            def count(objects: int) -> None:
                counts[shard] = objects
                self.cron_metrics.objects.set(sum(counts.values()))

            await lead_rules(
                self.settings,
                self.hub,
                self.members,
                self.events(CRON_COMPONENT),
                self.cron_metrics,
                shard=shard,
                leads=leads,
                on_count=count,
                on_finding=functools.partial(self.metrics.set_hub_finding, source=str(shard)),
                clock=self.clock,
                holds=self.holds,
            )

        # A machine that was suspended must not write on an old claim.
        await self.lead_shards(work, self.clock.counting_suspension(), kind=CRON)

    async def lead_shards(self, work: Work, clock: Clock, *, kind: str = "") -> None:
        """Call `work` for each shard that this process leads."""
        show = self.metrics.set_leader
        if not self.values[common.LEADER_ELECT] or self.settings.paused:
            # A paused process writes no Lease either. Several processes that only read do no harm.
            shard = Shard(kind=kind)
            show(str(shard), True)
            await supervise("shard", lambda: work(shard, lambda: True), name=str(shard))
            return
        for index in range(self.division.count):
            show(str(Shard(index, self.division, kind)), False)
        election = ShardElection(
            self.hub,
            _lease_namespace(self.values),
            _identity(),
            self.division,
            kind=kind,
            timing=_lease_timing(self.values),
            clock=clock,
            on_lead=lambda shard, leads: show(str(shard), leads),
        )
        await election.run(work)


def _identity() -> str:
    return f"{socket.gethostname()}_{uuid.uuid4()}"


async def _watch_readiness(health: Health, members: MemberRegistry, paused: bool) -> None:
    synced = health.readiness("members-synced", latches=True, reason="members were not read yet")
    hub_check = health.readiness("hub", latches=False, reason="the hub was not read yet")
    if paused:
        health.readiness("paused-by-flag", latches=True).succeed()
    while True:
        if members.synced():
            synced.succeed()
        if members.problem is None:
            hub_check.succeed()
        else:
            hub_check.fail(members.problem)
        await asyncio.sleep(HUB_CHECK_SECONDS if synced.ok else 0.1)


def _lease_namespace(values: Values) -> str:
    return values[common.LEADER_ELECT_RESOURCE_NAMESPACE] or own_namespace("kube-system")


def _lease_timing(values: Values) -> LeaseTiming:
    try:
        return LeaseTiming(
            values[common.LEADER_ELECT_LEASE_DURATION],
            values[common.LEADER_ELECT_RENEW_DEADLINE],
            values[common.LEADER_ELECT_RETRY_PERIOD],
        )
    except ValueError as error:
        raise ConfigError(f"--leader-elect-lease-duration: {error}") from error
