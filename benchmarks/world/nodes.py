"""The nodes of an emulated cluster, its scheduler, and a cluster autoscaler."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from benchmarks.world.workload import Pod


@dataclass(slots=True)
class Autoscaler:
    """Adds nodes for so many pods each, up to `most` pods in all.

    It counts pods that have waited for `patience` seconds (Kubernetes' cluster-autoscaler:
    --new-pod-scale-up-delay), and its nodes are there `boot` seconds later, also if nobody waits any more.
    """

    patience: float
    boot: float
    size: int = 5
    most: int = 10_000
    # When the ordered nodes arrive, and how many.
    due: float = 0.0
    ordered: int = 0


@dataclass
class Nodes:
    """The nodes by name, each with the number of pods that it can run. `changed` is called after a change."""

    sizes: dict[str, int] = field(default_factory=dict)
    autoscaler: Autoscaler | None = None
    changed: Callable[[], None] = lambda: None

    @property
    def room(self) -> int:
        """The pods that all nodes can run."""
        return sum(self.sizes.values())

    def resize(self, name: str, size: int) -> None:
        """Changes what a node can run; running pods stay."""
        self.sizes[name] = size
        self.changed()

    def step(self, pods: list[Pod], now: float) -> list[Pod]:
        """Gives nodes to waiting pods; returns those that got one."""
        if self.autoscaler is not None:
            self._arrive(self.autoscaler, now)
        waiting = [pod for pod in pods if pod.bound is None and pod.leaves is None]
        bound = self._bind(waiting, pods, now) if waiting else []
        if self.autoscaler is not None and len(bound) < len(waiting):
            self._order(self.autoscaler, waiting[len(bound) :], now)
        return bound

    def _bind(self, waiting: Iterable[Pod], pods: Iterable[Pod], now: float) -> list[Pod]:
        free = dict(self.sizes)
        for pod in pods:
            if pod.bound is not None:
                free[pod.node] = free.get(pod.node, 0) - 1
        bound = []
        for pod in waiting:
            name = max(free, key=lambda one: free[one], default="")
            if not name or free[name] <= 0:
                break
            free[name] -= 1
            pod.node, pod.bound = name, now
            bound.append(pod)
        return bound

    def _arrive(self, scaler: Autoscaler, now: float) -> None:
        if scaler.ordered and now >= scaler.due:
            for _ in range(scaler.ordered):
                self.sizes[f"node-{len(self.sizes) + 1}"] = scaler.size
            scaler.ordered = 0
            self.changed()

    def _order(self, scaler: Autoscaler, waiting: Iterable[Pod], now: float) -> None:
        patient = sum(now - pod.created >= scaler.patience for pod in waiting)
        lacking = min(patient, scaler.most - self.room)
        if lacking > 0 and not scaler.ordered:
            scaler.due, scaler.ordered = now + scaler.boot, math.ceil(lacking / scaler.size)
