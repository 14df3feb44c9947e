"""Controller processes of a federation in memory."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final

from prometheus_client import CollectorRegistry

from benchmarks.world.network import Cable
from controller.cluster_status import CLUSTERS_LEASE, keep_clusters
from controller.cronfederatedhpa import CronMetrics
from controller.decision_series import ControllerMetrics
from controller.flags import DIRECT, Settings
from controller.holds import NamespaceHolds
from controller.shard_work import COMPONENT, CRON_COMPONENT, lead, lead_rules
from controller.shards import CRON, Division, Shard, ShardElection
from fedhpa.decision import ControllerSettings
from fedhpa.kube import Clock
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.events import EventRecorder
from fedhpa.kube.leases import LeaderElector, LeaseTiming
from fedhpa.members.member import PROBE_SECONDS
from fedhpa.members.registry import MemberRegistry
from tests.support.timing import until

# The namespace of the controller on the hub, whose hold concerns all objects.
INSTALLED_IN: Final = "fedhpa-system"


class Controller:
    """The work of one process: `controller.process` without flags, files, signals and HTTP listeners.

    All its connections use `cable`. It runs one kind of controller: CRON, or "" for FederatedHPAs.
    """

    def __init__(
        self,
        identity: str,
        config: ApiConfig,
        clock: Clock,
        cable: Cable,
        settings: Settings,
        *,
        division: Division,
        calm: bool = False,
        kind: str = "",
    ) -> None:
        self.identity = identity
        self.cable = cable
        self.series = CollectorRegistry()
        self._ended = False
        self._hub = ApiClient(config)
        self.members = MemberRegistry(
            self._hub,
            deadline=settings.member_deadline,
            probe_period=300.0 if calm else PROBE_SECONDS,
            clock=clock,
        )
        self.counted = metrics = CountedMetrics(self.series, clock=clock.monotonic)
        cron_metrics = CronMetrics(self.series)
        events = EventRecorder(self._hub, CRON_COMPONENT, wall=clock.wall)
        timing = LeaseTiming(900.0, 600.0, 120.0) if calm else LeaseTiming()
        counts = dict[Shard, int]()
        self.working: set[Shard] = set()
        holds = NamespaceHolds(self._hub, INSTALLED_IN, clock=clock.monotonic)

        async def work(shard: Shard, leads: Callable[[], bool]) -> None:
            self.working.add(shard)
            try:
                if kind == CRON:
                    await lead_rules(
                        settings,
                        self._hub,
                        self.members,
                        events,
                        cron_metrics,
                        shard=shard,
                        clock=clock,
                        holds=holds,
                    )
                else:
                    await lead(
                        settings,
                        self._hub,
                        self.members,
                        metrics,
                        shard=shard,
                        counts=counts,
                        clock=clock,
                        holds=holds,
                    )
            finally:
                self.working.discard(shard)

        self.election = ShardElection(
            self._hub,
            "kube-system",
            identity,
            division,
            kind=kind,
            timing=timing,
            clock=clock,
            rng=random.Random(identity),
        )
        self.elector = self.election.electors[0]
        self.keeps_clusters = LeaderElector(
            self._hub,
            "kube-system",
            CLUSTERS_LEASE,
            identity,
            timing=timing,
            clock=clock.monotonic,
            wall=clock.wall,
            rng=random.Random(identity),
        )
        events = EventRecorder(self._hub, COMPONENT, wall=clock.wall)
        clusters = self.keeps_clusters.run(
            lambda: keep_clusters(self._hub, self.members, events, metrics.tokens, clock)
        )
        self._tasks = [
            asyncio.create_task(self.members.run(), name=f"{identity} members"),
            asyncio.create_task(holds.run(), name=f"{identity} namespaces"),
            asyncio.create_task(clusters, name=f"{identity} clusters"),
            asyncio.create_task(self.election.run(work), name=f"{identity} election"),
        ]

    @property
    def leads(self) -> bool:
        return self.elector.leads()

    @property
    def held(self) -> list[int]:
        """The shards that it holds."""
        return self.election.held

    @property
    def reconciles(self) -> int:
        """The number of completed reconciles."""
        return self.counted.reconciles

    async def more_reconciles(self, count: int, within: float = 600.0) -> None:
        """Let time pass until `count` more reconciles were completed."""
        begin = self.reconciles
        await until(lambda: self.reconciles >= begin + count, within)

    async def stop(self) -> None:
        """Ends as after SIGTERM, which releases the Lease."""
        if self._ended:
            return
        self._ended = True
        for task in reversed(self._tasks):
            assert not task.done(), task
            task.cancel()
            await asyncio.wait([task])
        await self._hub.close()

    async def kill(self) -> None:
        """Ends as after SIGKILL: its connections are reset, and the Lease is not released."""
        self.cable.cut()
        await self.stop()


class CountedMetrics(ControllerMetrics):
    """The metrics, and the number of reconciles as an integer that is cheap to poll."""

    reconciles = 0

    def __init__(self, registry: CollectorRegistry, *, clock: Callable[[], float]) -> None:
        super().__init__(registry, clock=clock)
        # The times of the decisions on each object, by namespace and name.
        self.decided: dict[tuple[str, str], list[float]] = {}
        self._now = clock

    def record_decision(self, namespace: str, name: str, *args: Any, **kwargs: Any) -> None:
        super().record_decision(namespace, name, *args, **kwargs)
        self.reconciles += 1
        self.decided.setdefault((namespace, name), []).append(self._now())

    def record_failure(self, seconds: float) -> None:
        super().record_failure(seconds)
        self.reconciles += 1


def completed_reconciles(series: CollectorRegistry) -> int:
    """The number of reconciles in a controller's series, without computing its other series."""
    name = "fedhpa_controller_reconciliation_duration_seconds_count"
    metrics = series.restricted_registry([name]).collect()
    return int(sum(sample.value for metric in metrics for sample in metric.samples if sample.name == name))


def settings_of(changes: dict[str, Any]) -> Settings:
    """The defaults of the flags with `changes`; durations in seconds."""
    values: dict[str, Any] = {
        "propagation": DIRECT,
        "concurrent_syncs": 5,
        "sync_period": 15.0,
        "member_deadline": 3.0,
        "paused": False,
        "decision": ControllerSettings(),
    }
    return Settings(**{**values, **changes})
