"""The process `fedhpa-controller`: flags in, one leader's work until SIGTERM."""

from __future__ import annotations

import asyncio
import dataclasses
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
from controller.federatedhpa.gather import Readers
from controller.federatedhpa.reconciler import Reconciler
from controller.federatedhpa.snapshot import Observer
from controller.flags import SECTIONS, SHARDS, Settings
from controller.loop import Loop
from controller.pausing import tell_paused
from controller.shards import ALL, Shard, ShardCampaign
from controller.telemetry import Series
from fedhpa.api.errors import ConfigError
from fedhpa.kube.client import ApiClient
from fedhpa.kube.clock import SYSTEM, Clock
from fedhpa.kube.config import SERVICE_ACCOUNT, load_config
from fedhpa.kube.events import EventRecorder
from fedhpa.kube.leases import LeaseTiming
from fedhpa.kube.rotation import follow_config
from fedhpa.members.lists import SharedLists
from fedhpa.members.registry import MemberRegistry
from fedhpa.serving.flags import Values, common, exit_usage, parse_or_exit
from fedhpa.serving.health import Health, ReadinessCheck
from fedhpa.serving.process import Signals, run_process
from fedhpa.serving.server import http_listeners

PROGRAM: Final = "fedhpa-controller"
ABOUT: Final = (
    "Scales the workload of each FederatedHPA over all clusters by its usage in all of them. "
    "Of several processes those work that hold a shard's Lease."
)
# Karmada's name of this controller: who filters events by source keeps finding them.
COMPONENT: Final = "federatedHPA-controller"
HUB_CHECK_SECONDS: Final = 2.0
# Giving the Lease back has two seconds (fedhpa.kube.leases); the rest ends at once.
STEP_DOWN_SECONDS: Final = 5.0

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
    """Serve health and metrics, campaign, and work while leading, until asked to stop."""
    settings = Settings.of(values)
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector):
        collector(registry=registry)
    series = Series(registry)
    series.paused(settings.paused)
    if settings.paused:
        log.warning("paused: decisions are computed and shown, nothing is written anywhere")
    log.info("CronFederatedHPAs are admitted but not run by this version")
    health = Health()
    kubeconfig = values[common.KUBECONFIG] or None
    config = dataclasses.replace(
        await load_config(kubeconfig),
        qps=values[common.KUBE_API_QPS],
        burst=values[common.KUBE_API_BURST],
    )
    async with (
        ApiClient(config) as hub,
        http_listeners(values, health, registry, [decisions_route(series.decisions, hub)]),
    ):
        members = MemberRegistry(
            hub,
            deadline=settings.member_deadline,
            qps=values[common.CLUSTER_API_QPS],
            burst=values[common.CLUSTER_API_BURST],
        )
        async with asyncio.TaskGroup() as group:
            following = [
                group.create_task(members.run()),
                group.create_task(follow_config(hub, kubeconfig)),
                group.create_task(_watch_readiness(health, members, settings.paused)),
            ]
            if settings.paused:
                namespace = values[common.LEADER_ELECT_RESOURCE_NAMESPACE] or _own_namespace()
                lease = f"fedhpa-controller-0-of-{values[SHARDS]}"
                following.append(group.create_task(tell_paused(hub, COMPONENT, namespace, lease)))
            leading = group.create_task(_campaign(values, settings, hub, members, series))
            await signals.stop.wait()
            health.drain()
            leading.cancel()
            # What it reads from the members ends before their connections do.
            await asyncio.wait([leading], timeout=STEP_DOWN_SECONDS)
            for task in following:
                task.cancel()


async def _campaign(
    values: Values, settings: Settings, hub: ApiClient, members: MemberRegistry, series: Series
) -> None:
    counts: dict[Shard, int] = {}

    async def work(shard: Shard) -> None:
        await lead(settings, hub, members, series, shard=shard, counts=counts)

    if not values[common.LEADER_ELECT] or settings.paused:
        # Paused, not even a Lease is written; a second one that only looks does no harm.
        await work(Shard())
        return
    campaign = ShardCampaign(
        hub,
        values[common.LEADER_ELECT_RESOURCE_NAMESPACE] or _own_namespace(),
        f"{socket.gethostname()}_{uuid.uuid4()}",
        values[SHARDS],
        timing=_lease_timing(values),
    )
    await campaign.run(work)


async def lead(
    settings: Settings,
    hub: ApiClient,
    members: MemberRegistry,
    series: Series,
    *,
    shard: Shard = ALL,
    counts: dict[Shard, int] | None = None,
    clock: Clock = SYSTEM,
) -> None:
    """The work on a shard, from scratch: what another leader did meanwhile is in the objects' status.

    `counts` has the numbers of objects of the shards that this process works on.
    """
    known = {} if counts is None else counts

    def count(objects: int) -> None:
        known[shard] = objects
        series.objects(sum(known.values()))

    events = EventRecorder(hub, COMPONENT, wall=clock.wall)
    async with SharedLists(clock=clock.monotonic) as lists, asyncio.TaskGroup() as group:
        readers = Readers.of(lists, clock.monotonic)
        observer = Observer(hub, lambda: members.members, readers, settings, clock=clock.monotonic)
        reconciler = Reconciler(
            hub, observer, events, series, settings, wall=clock.wall, clock=clock.monotonic
        )
        loop = Loop(
            hub,
            reconciler,
            observer,
            workers=settings.concurrent_syncs,
            owns=shard.owns,
            counted=count,
            clock=clock.monotonic,
        )
        group.create_task(readers.run())
        group.create_task(events.run())
        if not settings.paused and shard.index == 0:  # one of all processes tells of the members
            group.create_task(follow_cluster_status(hub, members, wall=clock.wall))
        await _until_synced(members)
        group.create_task(loop.run())


async def _until_synced(members: MemberRegistry) -> None:
    # Before each member answered or had its deadline, every decision would be one on missing data.
    while not members.synced():  # noqa: ASYNC110  # being settled is a matter of time, too
        await asyncio.sleep(0.05)


async def _watch_readiness(health: Health, members: MemberRegistry, paused: bool) -> None:
    synced = health.readiness("members-synced", latches=True, reason="members were not asked yet")
    hub_check = health.readiness("hub", latches=False, reason="the hub was not asked yet")
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
