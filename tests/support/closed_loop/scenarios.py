"""Scenarios of the closed loop: three equal clusters, or a data centre and a cloud with priorities."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fedhpa.assignment.policies import PRIORITIZED, Policy
from tests.support.closed_loop.hub import Hub, Seat
from tests.support.closed_loop.member import Member, Slots, unlimited
from tests.support.closed_loop.world import Load, World

MAXIMUM: Final = 30
NAMES: Final = ("m1", "m2", "m3")
MINUTE: Final = 60


def three(
    load: Load,
    *,
    starts: Sequence[int] = (3, 3, 3),
    maxima: Sequence[int] = (10, 10, 10),
    highs: Sequence[int | None] = (None, None, None),
    slots: Mapping[str, Slots] | None = None,
    policy: Policy = None,
    delay: float = 0.0,
    rules: Mapping[str, Any] | None = None,
    **faults: Any,
) -> World:
    """Three clusters that share 30 replicas. Clusters with a maximum have an HPA already.

    `rules` are further fields of the hub.
    """
    members = {
        name: Member(name, min(most, 1), most, (slots or {}).get(name, unlimited))
        for name, most in zip(NAMES, maxima, strict=True)
    }
    for member, replicas in zip(members.values(), starts, strict=True):
        member.begin(replicas, 0.0)
    seats = {name: Seat(high=high) for name, high in zip(NAMES, highs, strict=True)}
    hub = Hub(MAXIMUM, policy, seats, dict.fromkeys(NAMES, 1), delay=delay, **(rules or {}))
    return World(members, hub, load, **faults)


def data_centre_and_cloud(load: Load, slots: Slots = lambda now: 10, **faults: Any) -> World:
    """A data centre for 10 pods that is filled first, and a cloud without an end."""
    members = {"dc": Member("dc", 1, MAXIMUM - 1, slots), "cloud": Member("cloud", 1, 1)}
    members["dc"].begin(6, 0.0)
    members["cloud"].begin(1, 0.0)
    seats = {"dc": Seat(priority=2), "cloud": Seat(priority=1)}
    return World(members, Hub(MAXIMUM, PRIORITIZED, seats, {"dc": 1, "cloud": 1}), load, **faults)


def steps(*pairs: tuple[float, float]) -> Load:
    """A load that changes at minutes, spread over all ready pods."""

    def load(now: float) -> float:
        return next(value for minute, value in reversed(pairs) if now >= minute * MINUTE)

    return load


def tied(before: Sequence[float], after: Sequence[float], minute: float = 10) -> Load:
    """A load that is tied to its clusters, and changes at a minute."""
    return lambda now: dict(zip(NAMES, before if now < minute * MINUTE else after, strict=True))


def noisy(load: Load, part: float, seed: int = 1) -> Load:
    """A load that goes up and down by chance in each sync."""
    chance = random.Random(seed)

    def around(now: float) -> float | Mapping[str, float]:
        found = load(now)
        if isinstance(found, Mapping):
            return {name: one * (1 + chance.uniform(-part, part)) for name, one in found.items()}
        return found * (1 + chance.uniform(-part, part))

    return around


def wave(mean: float, swing: float, minutes: float = 60) -> Load:
    """A load that rises and falls."""
    return lambda now: mean - swing * math.cos(now / minutes / MINUTE * 2 * math.pi)


def between(cluster: str, first: float, last: float) -> Callable[[str, float], bool]:
    """A fault of one cluster between two minutes."""
    return lambda name, now: name == cluster and first * MINUTE <= now < last * MINUTE


def flapping(cluster: str, minutes: float) -> Callable[[str, float], bool]:
    """A fault of one cluster that comes and goes."""
    return lambda name, now: name == cluster and int(now / minutes / MINUTE) % 2 == 1
