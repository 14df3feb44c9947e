"""The ways to scale one workload over clusters, each run in the same world."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.closed_loop.actions import Action
from benchmarks.closed_loop.running import Controller, Running, divided, quiet
from benchmarks.closed_loop.worlds import World
from benchmarks.world.cluster import Cluster, ClusterPlan
from benchmarks.world.fleet import Fleet, Tally
from benchmarks.world.hub import Hub
from benchmarks.world.loop import VirtualLoop
from benchmarks.world.network import MemoryNetwork
from benchmarks.world.nodes import Nodes

ONE: Final = "one"
PLAIN: Final = "plain"
FIXED: Final = "fixed"
CENTRALIZED: Final = "Centralized"
DISTRIBUTED: Final = "Distributed"
WAYS: Final[Mapping[str, str]] = {
    ONE: "one HPA in one cluster with the whole load and enough nodes, without faults of single clusters",
    PLAIN: "an HPA in each cluster, from m/N to M",
    FIXED: "an HPA in each cluster, from m/N to M/N: bounds that are never moved",
    CENTRALIZED: "the controller, mode Centralized",
    DISTRIBUTED: "the controller, mode Distributed",
}
PRODUCT: Final = (CENTRALIZED, DISTRIBUTED)
CRDS: Final = Path(__file__).parents[2] / "charts/fedhpa/files/crds/autoscaling.karmada.io.yaml"
MANAGED: Final = {"autoscaling.karmada.io/managed-by": "fedhpa"}
HOUR: Final = 3600.0
# When a fleet with HPAs of its own is handed over; in mode Distributed one cluster after another.
HAND_OVER_SECONDS: Final = 600.0
NEXT_CLUSTER_SECONDS: Final = 120.0


@dataclass(frozen=True)
class Result:
    """The figures of one way in one world."""

    world: str
    way: str
    tally: Tally
    started: int
    member_writes: int
    hub_writes: int

    def figures(self) -> dict[str, float]:
        """Returns what the table shows; rates are per hour."""
        tally = self.tally
        hours = tally.seconds / HOUR
        return {
            "pods/ideal": tally.pods / tally.ideal,
            "unserved %": 100 * tally.unserved / tally.demand if tally.demand else 0.0,
            "unserved pod s": tally.unserved,
            "replica min": tally.pods / 60,
            "changes/h": len(tally.changes) / hours,
            "back and forth/h": tally.reversals / hours,
            "pods started": float(self.started),
            "member writes/h": self.member_writes / hours,
            "hub writes/h": self.hub_writes / hours,
            "above max s": tally.above_maximum,
        }


def simulate(world: World, way: str, hours: float) -> Result:
    """Runs one way in a world for some virtual hours."""
    random.seed(f"{world.name}/{way}")
    loop = VirtualLoop()
    try:
        with tempfile.TemporaryDirectory() as folder, quiet():
            return loop.run_until_complete(_simulate(world, way, hours * HOUR, Path(folder)))
    finally:
        loop.close()


async def _simulate(world: World, way: str, seconds: float, folder: Path) -> Result:
    async with started(world, way, folder) as running:
        clusters = list(running.fleet.clusters.values())
        handed_over = _hand_over(way, clusters) if way in PRODUCT and world.migrates else ()
        await running.run(seconds, (*world.events, *handed_over))
        return _result(world, way, running.fleet, running.hub)


@asynccontextmanager
async def started(world: World, way: str, folder: Path) -> AsyncIterator[Running]:
    """A world at its beginning, in a `VirtualLoop`; the controller has started. `folder` is for its files."""
    loop, network = asyncio.get_running_loop(), MemoryNetwork()
    assert isinstance(loop, VirtualLoop), "the hours of a world pass in virtual time"
    plans = _one_cluster(world) if way == ONE else world.clusters
    clusters = [Cluster(plan, network, loop.wall, number) for number, plan in enumerate(plans)]
    fleet = Fleet(
        clusters, world.load, minimum=world.minimum, maximum=world.maximum, target=world.target / 100
    )
    hub: Hub | None = None
    controller: Controller | None = None
    if way in PRODUCT:
        hub = Hub(network, loop.wall, CRDS)
        hub.join(clusters)
        hub.apply(spec_of(world, way) | ({"dryRun": True} if world.migrates and way == CENTRALIZED else {}))
        controller = Controller(hub, network, folder, world.flags)
        controller.start()
    if way not in PRODUCT or world.migrates:
        _add_hpas(world, way, clusters)
    try:
        yield Running(fleet, hub, controller)
    finally:
        if controller is not None:
            await controller.kill()


def spec_of(world: World, way: str) -> dict[str, Any]:
    """Returns the specification of the FederatedHPA in a mode."""
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": world.target}}
    kind = "StatefulSet" if world.clusters[0].ordered else "Deployment"
    return {
        "mode": way,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": "web"},
        "minReplicas": world.minimum,
        "maxReplicas": world.maximum,
        "metrics": [{"type": "Resource", "resource": metric}],
        "federatedHPAAssignment": {"federatedHPAAssignmentType": "DynamicWeighted"},
        **world.spec,
    }


def _add_hpas(world: World, way: str, clusters: list[Cluster]) -> None:
    minima = divided(max(world.minimum, len(clusters)), len(clusters))
    maxima = divided(world.maximum, len(clusters))
    for cluster, minimum, maximum in zip(clusters, minima, maxima, strict=True):
        cluster.add_hpa(minimum, maximum if way == FIXED else world.maximum, world.target)


def _hand_over(way: str, clusters: list[Cluster]) -> tuple[tuple[float, Action], ...]:
    """Replaces the clusters' own HPAs, as docs/how-to/migrate-from-hpa.md says."""
    if way == CENTRALIZED:

        def replace_all(run: Running) -> None:
            for cluster in clusters:
                cluster.delete_hpa()
            run.change({"dryRun": False})

        return ((HAND_OVER_SECONDS, replace_all),)
    return tuple(
        (
            HAND_OVER_SECONDS + number * NEXT_CLUSTER_SECONDS,
            lambda run, name=cluster.name: run.on(name, lambda one: one.label_hpa(MANAGED)),
        )
        for number, cluster in enumerate(clusters)
    )


def _one_cluster(world: World) -> tuple[ClusterPlan, ...]:
    """Returns the one cluster that has all replicas and enough nodes for all pods."""
    first = world.clusters[0]
    replicas = sum(plan.replicas for plan in world.clusters)
    return (replace(first, name="one", replicas=replicas, nodes=lambda: Nodes({"node-1": 1000})),)


def _result(world: World, way: str, fleet: Fleet, hub: Hub | None) -> Result:
    clusters = fleet.clusters.values()
    return Result(
        world=world.name,
        way=way,
        tally=fleet.tally,
        started=sum(cluster.workload.created for cluster in clusters),
        member_writes=sum(sum(cluster.writes.values()) for cluster in clusters),
        hub_writes=0 if hub is None else sum(n for what, n in hub.writes.items() if what != "leases"),
    )
