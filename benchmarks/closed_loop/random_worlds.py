"""Random worlds of 27 kinds: three shapes of load, three faults and three policies, each drawn from a number.

The maximum serves the whole load at target. Where no cluster fails and nodes suffice, each way could serve
everything.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from benchmarks.closed_loop.actions import Action, dies, returns
from benchmarks.closed_loop.worlds import MINUTE, World, growing, noisy, steps, tied, wave
from benchmarks.world.cluster import ClusterPlan
from benchmarks.world.fleet import Load
from benchmarks.world.nodes import Nodes

LOADS: Final = ("wave", "steps", "tied")
FAULTS: Final = ("nothing fails", "the largest dies", "few nodes")
POLICIES: Final = ("StaticWeighted", "DynamicWeighted", "Prioritized")
KINDS: Final = tuple(itertools.product(LOADS, FAULTS, POLICIES))
# Loads and faults of a world follow each other for so long.
HOURS: Final = 2.0
TARGET: Final = 50


def random_world(number: int) -> World:
    """Returns the world of a number: two to four clusters; `number % 27` is its kind."""
    chance = random.Random(number)
    load, fault, policy = KINDS[number % len(KINDS)]
    names = [f"m{index + 1}" for index in range(chance.randrange(2, 5))]
    parts = dict(zip(names, _parts(chance, len(names)), strict=True))
    peak = chance.uniform(8, 16)
    demand, first = _load(chance, load, peak, parts)
    maximum = math.ceil(peak / TARGET * 100 * 1.1) + len(names)
    begins = {name: max(math.ceil(first.get(name, 0.0) * 100 / TARGET), 1) for name in names}
    largest = max(names, key=lambda name: begins[name])
    return World(
        f"random-{number}",
        f"{load}, {fault}, {policy}",
        tuple(_cluster(chance, name, begins[name], fault, load, number) for name in names),
        demand,
        minimum=len(names),
        maximum=maximum,
        events=_events(chance, fault, largest),
        spec=_spec(policy, names),
        target=TARGET,
    )


def _parts(chance: random.Random, count: int) -> list[float]:
    drawn = [chance.uniform(1, 4) for _ in range(count)]
    return [one / sum(drawn) for one in drawn]


def _load(
    chance: random.Random, kind: str, peak: float, parts: Mapping[str, float]
) -> tuple[Load, Mapping[str, float]]:
    """Returns a load, and the part of each cluster at its beginning."""
    if kind == "wave":
        low = peak * chance.uniform(0.2, 0.5)
        shape = wave((peak / 1.1 + low) / 2, (peak / 1.1 - low) / 2, chance.choice((20, 40, 80)))
        return noisy(shape, 0.1), {name: shape(0) * part for name, part in parts.items()}
    if kind == "steps":
        shape = _steps(chance, peak)
        return shape, {name: shape(0) * part for name, part in parts.items()}
    shapes: dict[str, Callable[[float], float]] = {}
    minutes = chance.choice((20, 40, 80))
    for name, part in parts.items():
        most = peak * part
        if chance.random() < 0.5:
            low = most * chance.uniform(0.2, 0.6)
            shapes[name] = wave((most + low) / 2, (most - low) / 2, minutes, phase=chance.random())
        else:
            shapes[name] = _steps(chance, most)
    return tied(**shapes), {name: shape(0) for name, shape in shapes.items()}


def _steps(chance: random.Random, peak: float) -> Callable[[float], float]:
    changes = sorted(chance.sample(range(5, 115, 5), 4))
    return steps(*((minute, peak * chance.uniform(0.2, 1.0)) for minute in (0, *changes)))


def _cluster(
    chance: random.Random, name: str, replicas: int, fault: str, load: str, number: int
) -> ClusterPlan:
    plan = ClusterPlan(name, replicas, start_seconds=chance.choice((15.0, 30.0, 60.0)))
    if fault != "few nodes":
        return plan
    # Tied load can be served in its own cluster only, so its nodes come.
    if load == "tied" or number % 2:
        return replace(plan, nodes=growing(replicas + 2, 60.0, 60.0))
    # The first cluster is large enough for all.
    room = 1000 if name == "m1" else replicas + chance.randrange(3)
    return replace(plan, nodes=partial(Nodes, {"node-1": room}))


def _events(chance: random.Random, fault: str, largest: str) -> tuple[tuple[float, Action], ...]:
    if fault != "the largest dies":
        return ()
    at = chance.uniform(10, 30) * MINUTE
    died = (at, dies(largest))
    return (died,) if chance.random() < 0.5 else (died, (at + 15 * MINUTE, returns(largest)))


def _spec(policy: str, names: list[str]) -> Mapping[str, Any]:
    assignment: dict[str, Any] = {"federatedHPAAssignmentType": policy}
    if policy == "Prioritized":
        assignment["clusterAutoscalingPreference"] = [
            {"targetCluster": {"clusterNames": [name]}, "priority": len(names) - index}
            for index, name in enumerate(names)
        ]
    return MappingProxyType({"federatedHPAAssignment": assignment})
