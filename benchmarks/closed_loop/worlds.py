"""The named worlds of the closed loop: clusters, a load, and what goes wrong when.

Load is in pods at full request. At a target of 50 % a load of 10 therefore needs 20 pods.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from benchmarks.closed_loop.actions import (
    Action,
    changes,
    controller_killed,
    dies,
    flapping,
    hub_away,
    outages,
    quota,
    reachable,
    releases,
    returns,
    starts_nothing,
    tainted,
    unreachable,
)
from benchmarks.world.cluster import ClusterPlan
from benchmarks.world.fleet import Load
from benchmarks.world.nodes import Autoscaler, Nodes

MINUTE: Final = 60.0


@dataclass(frozen=True)
class World:
    """One world. `spec` has further fields of the FederatedHPA, `flags` further flags of the controller.

    `calm` worlds lose no cluster, fill none and break nothing: there the product must be as good as one HPA.
    """

    name: str
    about: str
    clusters: tuple[ClusterPlan, ...]
    load: Load
    minimum: int
    maximum: int
    events: tuple[tuple[float, Action], ...] = ()
    spec: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    flags: tuple[str, ...] = ()
    target: int = 50
    calm: bool = False
    # Clusters begin with HPAs of their own, and are handed over to the FederatedHPA.
    migrates: bool = False


# -- loads -------------------------------------------------------------------------------------------------
def steps(*pairs: tuple[float, float]) -> Callable[[float], float]:
    """A load that changes at minutes."""
    return lambda now: next(value for minute, value in reversed(pairs) if now >= minute * MINUTE)


def wave(mean: float, swing: float, minutes: float = 60, phase: float = 0.0) -> Callable[[float], float]:
    """A load that rises and falls; it begins at its lowest point."""
    return lambda now: mean - swing * math.cos((now / minutes / MINUTE + phase) * 2 * math.pi)


def noisy(load: Callable[[float], float], part: float) -> Load:
    """A load that moves by chance every 15 seconds; the same moments have the same load."""

    def around(now: float) -> float:
        return load(now) * (1 + random.Random(int(now // 15)).uniform(-part, part))

    return around


def tied(**loads: Callable[[float], float]) -> Load:
    """A load that belongs to clusters."""
    return lambda now: {name: load(now) for name, load in loads.items()}


def share(load: Callable[[float], float], part: float) -> Callable[[float], float]:
    """A part of a load."""
    return lambda now: part * load(now)


# -- clusters ----------------------------------------------------------------------------------------------
def several(number: int, replicas: int, **more: Any) -> tuple[ClusterPlan, ...]:
    """Equal clusters m1, m2, ..., with so many replicas in all."""
    each, rest = divmod(replicas, number)
    return tuple(ClusterPlan(f"m{i + 1}", each + (i < rest), **more) for i in range(number))


def limited(plans: tuple[ClusterPlan, ...], name: str, room: int) -> tuple[ClusterPlan, ...]:
    """The same clusters, one with nodes for so many pods only."""
    nodes = partial(Nodes, {"node-1": room})
    return tuple(replace(plan, nodes=nodes) if plan.name == name else plan for plan in plans)


def growing(room: int, patience: float, boot: float) -> Callable[[], Nodes]:
    """Nodes for so many pods, and more of them some time after pods began to wait."""
    return lambda: Nodes({"node-1": room}, Autoscaler(patience, boot))


# -- the worlds --------------------------------------------------------------------------------------------
FIVE: Final = several(5, 20)
STEPS: Final = steps((0, 10), (10, 20), (30, 8), (45, 16))
WAVE: Final = wave(14, 8, minutes=40)
PRIORITIES: Final = MappingProxyType(
    {
        "federatedHPAAssignment": {
            "federatedHPAAssignmentType": "Prioritized",
            "clusterAutoscalingPreference": [
                {"targetCluster": {"clusterNames": ["m1"]}, "priority": 2},
                {"targetCluster": {"clusterNames": ["m2"]}, "priority": 1},
            ],
        }
    }
)
DRAIN: Final = MappingProxyType({"key": "fedhpa.io/drain", "effect": "NoSchedule"})
# For the cost of the benchmark itself.
SIXTY: Final = wave(22, 8, minutes=40)
TWO_HUNDRED: Final = wave(80, 20, minutes=40)
TEN_NAMES: Final = [f"m{number + 1}" for number in range(10)]
QUARTERS: Final = tuple((minute * MINUTE, controller_killed()) for minute in range(3, 240, 3))
DEFAULT_LEASES: Final = (
    "--leader-elect-lease-duration=15s",
    "--leader-elect-renew-deadline=10s",
    "--leader-elect-retry-period=2s",
)


def _part(now: float, begin: float, end: float) -> float:
    """Returns how much of a time has passed, from 0 to 1."""
    return min(max((now - begin) / (end - begin), 0.0), 1.0)


def _world(name: str, about: str, load: Load = STEPS, **more: Any) -> World:
    given = {"clusters": FIVE, "minimum": 5, "maximum": 60, **more}
    return World(name, about, load=load, **given)


ALL: Final = {
    world.name: world
    for world in (
        # The whole load, in several shapes, over healthy clusters.
        _world("wave", "a load that rises and falls in 40 minutes", WAVE, calm=True),
        _world("steps", "a load that doubles, falls, and doubles again", calm=True),
        _world("noise", "a wave with 15 % of noise", noisy(WAVE, 0.15), calm=True),
        _world("spike", "three times the load for two minutes", steps((0, 8), (20, 24), (22, 8)), calm=True),
        _world("two", "steps over two clusters", clusters=several(2, 20), calm=True),
        _world("ten", "steps over ten clusters", clusters=several(10, 20), calm=True),
        _world(
            "old-metrics",
            "metrics that are a minute old",
            clusters=several(5, 20, metrics_lag=60.0),
            calm=True,
        ),
        _world("sixty", "60 pods at most", SIXTY, clusters=several(5, 28), maximum=100, calm=True),
        _world(
            "two-hundred", "200 pods at most", TWO_HUNDRED, clusters=several(5, 120), maximum=300, calm=True
        ),
        # Load that belongs to clusters.
        _world(
            "tied",
            "6:3:1 of a wave, each part served in its cluster or nowhere",
            tied(m1=share(WAVE, 0.6), m2=share(WAVE, 0.3), m3=share(WAVE, 0.1)),
            clusters=several(3, 18),
        ),
        _world(
            "antiphase",
            "one cluster is busy while the other is quiet",
            tied(m1=wave(8, 6, 40), m2=wave(8, 6, 40, phase=0.5)),
            clusters=several(2, 16),
            maximum=36,
        ),
        _world(
            "moving-over",
            "the load moves from one cluster to another in 20 minutes",
            tied(
                m1=lambda now: 12 - 10 * _part(now, 900, 2100), m2=lambda now: 2 + 10 * _part(now, 900, 2100)
            ),
            clusters=(ClusterPlan("m1", 24), ClusterPlan("m2", 4)),
            minimum=2,
            maximum=40,
        ),
        # Clusters that are lost.
        _world(
            "largest-dies",
            "the cluster with most replicas dies",
            WAVE,
            clusters=(ClusterPlan("m1", 12), ClusterPlan("m2", 4), ClusterPlan("m3", 4)),
            events=((900, dies("m1")),),
        ),
        _world("small-dies", "one of five clusters dies", WAVE, events=((900, dies("m2")),)),
        _world(
            "away",
            "a cluster serves, but is away from the hub for 10 minutes",
            WAVE,
            events=((900, unreachable("m2")), (1500, reachable("m2"))),
        ),
        _world(
            "returns",
            "a cluster dies and returns with its replicas after 10 minutes",
            WAVE,
            events=((900, dies("m2")), (1500, returns("m2"))),
        ),
        _world(
            "blips",
            "each of ten clusters misses the hub six times an hour for 5 to 20 s",
            WAVE,
            clusters=several(10, 20),
            events=outages(TEN_NAMES, 6, (5, 20), 1),
        ),
        _world(
            "flaps", "one cluster is away and back every 20 to 70 s", steps((0, 10)), events=flapping("m3", 1)
        ),
        # Nodes.
        _world("full", "one cluster has nodes for five pods", STEPS, clusters=limited(FIVE, "m1", 5)),
        _world(
            "all-full",
            "three clusters that are all full before the load is served",
            steps((0, 3), (10, 12), (50, 3)),
            clusters=limited(limited(limited(several(3, 6), "m1", 4), "m2", 5), "m3", 6),
            minimum=3,
            maximum=30,
        ),
        _world(
            "burst",
            "Prioritized: a data centre for ten pods, and a cloud that takes the rest of a burst",
            steps((0, 3), (10, 9), (40, 3)),
            clusters=limited((ClusterPlan("m1", 6), ClusterPlan("m2", 1)), "m1", 10),
            minimum=2,
            maximum=30,
            spec=PRIORITIES,
        ),
        _world(
            "late-nodes",
            "three clusters whose nodes come two minutes after pods wait",
            steps((0, 7), (10, 20)),
            clusters=several(3, 15, nodes=growing(5, 60.0, 60.0)),
            minimum=3,
        ),
        # Rollouts.
        _world(
            "broken-release",
            "a release that gets ready nowhere",
            WAVE,
            events=((900, releases(broken=True)),),
        ),
        _world(
            "broken-in-one",
            "a release that gets ready nowhere in one cluster",
            WAVE,
            events=((900, releases("m1", broken=True)),),
        ),
        _world(
            "black-hole",
            "pods of one cluster do not get ready any more, and do so again after half an hour",
            steps((0, 10), (10, 20), (30, 10), (45, 20)),
            events=((300, starts_nothing("m2")), (2400, starts_nothing("m2", broken=False))),
        ),
        _world(
            "quota",
            "a quota lets one cluster create five pods",
            steps((0, 10), (10, 20), (40, 10)),
            events=((300, quota("m2", 5)),),
        ),
        _world(
            "rollout-on-full-nodes",
            "a rollout in two clusters whose nodes are full",
            steps((0, 20)),
            clusters=limited(limited(several(2, 40, stop_seconds=30.0), "m1", 20), "m2", 20),
            maximum=60,
            events=((900, releases()),),
        ),
        _world("slow-start", "pods need 120 s to get ready", clusters=several(5, 20, start_seconds=120.0)),
        _world(
            "stateful",
            "StatefulSets that start one pod at a time",
            WAVE,
            clusters=several(5, 20, ordered=True),
        ),
        # The hub and its controller.
        _world(
            "hub-away",
            "the hub's API server is away for 10 minutes while the load rises",
            WAVE,
            events=((600, hub_away(True)), (1200, hub_away(False))),
        ),
        _world(
            "killed",
            "the controller is killed every three minutes",
            WAVE,
            events=QUARTERS,
            flags=DEFAULT_LEASES,
        ),
        _world(
            "deselection",
            "a cluster is taken out of clusterAffinity",
            WAVE,
            events=((900, changes(clusterAffinity={"exclude": ["m2"]})),),
        ),
        _world(
            "drain",
            "a cluster is drained for half an hour, and pods need 60 s to get ready",
            WAVE,
            clusters=several(5, 20, start_seconds=60.0),
            events=((600, tainted("m2", DRAIN)), (2400, tainted("m2"))),
        ),
        _world(
            "migration",
            "clusters with HPAs of their own, which the FederatedHPA replaces",
            WAVE,
            migrates=True,
        ),
        # Worlds that a much smaller model has run, too (tests/virtual/test_closed_loop.py).
        _world(
            "main-dies",
            "Prioritized, the cluster with nine of ten replicas dies",
            steps((0, 4.5)),
            clusters=(ClusterPlan("m1", 9), ClusterPlan("m2", 1)),
            minimum=2,
            maximum=10,
            events=((900, dies("m1")),),
            spec=PRIORITIES,
        ),
        _world(
            "rank-with-tied-load",
            "Prioritized, but most of the load belongs to the second cluster",
            tied(m1=steps((0, 1.02)), m2=steps((0, 4.98))),
            clusters=(ClusterPlan("m1", 6), ClusterPlan("m2", 3)),
            minimum=2,
            maximum=18,
            spec=PRIORITIES,
        ),
    )
}
