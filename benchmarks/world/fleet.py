"""A fleet under load, second by second, and what is counted about it.

Load is counted in pods at full request. A shared load is spread evenly over the ready pods of all clusters; a
tied one has a part for each cluster, which nobody else can serve. `ideal` is the number of pods that would
serve the load at its target, at least the minimum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.world.cluster import Cluster

# Total, or by cluster: a function of the seconds since the beginning.
Load = Callable[[float], float | Mapping[str, float]]

# A change in the other direction within this time undoes the one before.
REVERSAL_SECONDS: Final = 600.0
# Changes of several clusters within this time belong to one decision.
TOGETHER_SECONDS: Final = 5.0


@dataclass
class Tally:
    """The costs of a run. Integrals are over seconds."""

    seconds: float = 0.0
    ideal: float = 0.0
    pods: float = 0.0
    demand: float = 0.0
    unserved: float = 0.0
    above_maximum: float = 0.0
    # (time, change of the size) of each decision.
    changes: list[tuple[float, int]] = field(default_factory=list)
    sizes: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def reversals(self) -> int:
        """The changes that undo the direction of the one before."""
        pairs = zip(self.changes, self.changes[1:], strict=False)
        return sum(
            (a > 0) != (b > 0) and later - sooner <= REVERSAL_SECONDS for (sooner, a), (later, b) in pairs
        )


class Fleet:
    """Clusters that serve one load. `target` is the utilization (0.5) at which the load should run."""

    def __init__(
        self, clusters: Sequence[Cluster], load: Load, *, minimum: int, maximum: int, target: float
    ) -> None:
        self.clusters = {cluster.name: cluster for cluster in clusters}
        self.tally = Tally()
        self._load = load
        self._minimum = minimum
        self._maximum = maximum
        self._target = target
        self._size = self._replicas()

    def step(self, now: float, seconds: float = 1.0) -> None:
        """Lets a second pass that ends at `now` (seconds since the beginning)."""
        given = self._load(now)
        parts = self._parts(given)
        demand = sum(parts.values()) if isinstance(given, Mapping) else given
        unserved = self._unserved(given, parts)
        for name, cluster in self.clusters.items():
            cluster.step(parts.get(name, 0.0), seconds)
        self._count(now, seconds, given, demand, unserved)

    def _parts(self, load: float | Mapping[str, float]) -> Mapping[str, float]:
        if isinstance(load, Mapping):
            if len(self.clusters) == 1:
                return dict.fromkeys(self.clusters, sum(load.values()))
            return load
        ready = {name: cluster.ready for name, cluster in self.clusters.items()}
        total = sum(ready.values())
        return {name: load * count / total if total else 0.0 for name, count in ready.items()}

    def _unserved(self, load: float | Mapping[str, float], parts: Mapping[str, float]) -> float:
        ready = {name: cluster.ready for name, cluster in self.clusters.items()}
        if isinstance(load, Mapping):
            return sum(max(part - ready[name], 0.0) for name, part in parts.items())
        return max(load - sum(ready.values()), 0.0)

    def _count(
        self, now: float, seconds: float, load: float | Mapping[str, float], demand: float, unserved: float
    ) -> None:
        tally, alive = self.tally, [one for one in self.clusters.values() if one.alive]
        parts = [demand] if not isinstance(load, Mapping) or len(self.clusters) == 1 else load.values()
        needed = sum(math.ceil(part / self._target - 1e-9) for part in parts)
        tally.seconds += seconds
        tally.ideal += max(needed, self._minimum) * seconds
        tally.pods += sum(len(one.workload.active) for one in alive) * seconds
        tally.demand += demand * seconds
        tally.unserved += unserved * seconds
        tally.above_maximum += seconds if sum(one.replicas for one in alive) > self._maximum else 0.0
        # A cluster that dies or returns is no change of its size.
        size = self._replicas()
        change = sum(size) - sum(self._size)
        if change:
            if tally.changes and now - tally.changes[-1][0] < TOGETHER_SECONDS:
                change += tally.changes.pop()[1]
            if change:
                tally.changes.append((now, change))
        self._size = size
        tally.sizes.append(size)

    def _replicas(self) -> tuple[int, ...]:
        return tuple(one.replicas for one in self.clusters.values())
