"""Faults and changes in the worlds of the closed loop, of clusters and of the hub."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from benchmarks.closed_loop.running import Running
from benchmarks.world.cluster import Cluster

HOUR: Final = 3600.0

Action = Callable[[Running], None]


def dies(name: str) -> Action:
    """A cluster is gone, with its pods."""
    return lambda run: run.on(name, lambda cluster: cluster.die())


def returns(name: str) -> Action:
    """A cluster is back with its replicas, whose pods start again."""
    return lambda run: run.on(name, lambda cluster: cluster.revive())


def unreachable(name: str) -> Action:
    """A cluster serves, but does not answer the hub."""
    return lambda run: run.on(name, lambda cluster: cluster.server.stop())


def reachable(name: str) -> Action:
    """A cluster answers the hub again."""
    return lambda run: run.on(name, lambda cluster: cluster.server.start())


def releases(name: str = "", *, broken: bool = False) -> Action:
    """Another template is rolled out, in one cluster or in all."""
    return lambda run: run.on(name, lambda cluster: cluster.release(broken=broken))


def starts_nothing(name: str, *, broken: bool = True) -> Action:
    """Pods that a cluster starts from now on do not get ready; with `broken` False they do, also those."""

    def act(cluster: Cluster) -> None:
        cluster.workload.revisions[-1].broken = broken

    return lambda run: run.on(name, act)


def quota(name: str, pods: int | None) -> Action:
    """A cluster creates no more than so many pods."""

    def act(cluster: Cluster) -> None:
        cluster.workload.most = pods

    return lambda run: run.on(name, act)


def raced(name: str, writes: int) -> Action:
    """Before so many of the next writes to a cluster, or to the hub, another client changes the object."""

    def act(run: Running) -> None:
        place = run.hub if name == "hub" and run.hub is not None else run.fleet.clusters[name]
        place.store.races = writes

    return act


def hub_away(away: bool) -> Action:
    """The hub's API server stops or starts."""
    return lambda run: run.hub_away(away)


def controller_killed() -> Action:
    """The controller is killed, and another process starts."""
    return lambda run: run.restart_controller()


def changes(**spec: Any) -> Action:
    """The FederatedHPA is edited."""
    return lambda run: run.change(spec)


def tainted(name: str, *taints: Mapping[str, Any]) -> Action:
    """A Cluster gets these taints instead of those that it has."""

    def act(run: Running) -> None:
        if run.hub is not None:
            run.hub.taint(name, *taints)

    return act


def deleted(name: str) -> Action:
    """A Cluster is deleted on the hub."""

    def act(run: Running) -> None:
        if run.hub is not None:
            run.hub.delete(name)

    return act


def labelled(name: str, **labels: str) -> Action:
    """A Cluster gets these labels instead of those that it has."""

    def act(run: Running) -> None:
        if run.hub is not None:
            run.hub.label(name, **labels)

    return act


def outages(names: list[str], an_hour: float, seconds: tuple[float, float], number: int) -> tuple[Any, ...]:
    """Each cluster misses the hub now and then, for a time between two bounds; chance is seeded."""
    chance = random.Random(number)
    found: list[tuple[float, Action]] = []
    for name in names:
        now = chance.expovariate(an_hour / HOUR)
        while now < 4 * HOUR:
            lasts = chance.uniform(*seconds)
            found += [(now, unreachable(name)), (now + lasts, reachable(name))]
            now += lasts + chance.expovariate(an_hour / HOUR)
    return tuple(sorted(found, key=lambda event: event[0]))


def flapping(name: str, number: int) -> tuple[Any, ...]:
    """A cluster answers the hub for 20 to 70 s, and is away for 20 to 70 s, again and again."""
    chance = random.Random(number)
    found: list[tuple[float, Action]] = []
    now = 300.0
    while now < 4 * HOUR:
        gone = now + chance.uniform(20, 70)
        found += [(now, unreachable(name)), (gone, reachable(name))]
        now = gone + chance.uniform(20, 70)
    return tuple(found)
