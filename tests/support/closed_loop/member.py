"""One simulated member cluster: nodes, pods that take two minutes to start, and its own HPA.

The HPA follows Kubernetes 1.36: tolerance 0.1, a down window of five minutes, a sync every 15 seconds, and in
each sync at most 4 pods more or twice the replicas. Load is measured in pods at target: load 3 keeps 3 ready
pods exactly at target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from fedhpa.api.times import format_time

SYNC_SECONDS: Final = 15
START_SECONDS: Final = 120
WINDOW_SECONDS: Final = 300
TOLERANCE: Final = 0.1
TARGET: Final = 60
# A pod cannot use more than its whole cpu, whatever the load is.
MOST_USAGE: Final = 100 / TARGET

Slots = Callable[[float], int]


def unlimited(now: float) -> int:
    """Nodes without an end."""
    return 10_000


@dataclass
class Pod:
    """A pod; `bound` is when it got a node, None while it is pending."""

    created: float
    bound: float | None = None

    def ready(self, now: float, seconds: float = 0.0) -> bool:
        """True if the pod has been ready for this long."""
        return self.bound is not None and now - self.bound >= START_SECONDS + seconds


@dataclass
class Member:
    """A cluster with its HPA. `slots` is how many pods its nodes can run at a time."""

    name: str
    minimum: int
    maximum: int
    slots: Slots = unlimited
    pods: list[Pod] = field(default_factory=list)
    usage: float = 0.0
    scaled_at: float | None = None
    _recommended: list[tuple[float, int]] = field(default_factory=list)
    _limited_since: float | None = None

    def begin(self, replicas: int, now: float) -> None:
        """Starts with replicas that have been ready for long."""
        self.pods = [Pod(now - 3600, now - 3600) for _ in range(replicas)]
        self._recommended = [(now, replicas)]

    @property
    def running(self) -> int:
        """The pods that have a node."""
        return sum(pod.bound is not None for pod in self.pods)

    @property
    def pending(self) -> int:
        """The pods without a node."""
        return len(self.pods) - self.running

    def ready(self, now: float, seconds: float = 0.0) -> int:
        """Returns how many pods have been ready for this long."""
        return sum(pod.ready(now, seconds) for pod in self.pods)

    def bind(self, now: float) -> None:
        """Gives nodes to pending pods; if nodes went away, the newest pods lose theirs."""
        free = self.slots(now) - self.running
        for pod in self.pods:
            if free > 0 and pod.bound is None:
                pod.bound = now
                free -= 1
        for pod in reversed(self.pods):
            if free < 0 and pod.bound is not None:
                pod.bound = None
                free += 1

    def sync(self, now: float, load: float) -> None:
        """One reconcile of the HPA under a load."""
        current, ready = len(self.pods), self.ready(now)
        self.usage = min(load / ready, MOST_USAGE) if ready else 0.0
        # Without an HPA, or without replicas, nothing scales.
        if not current or not self.maximum:
            return
        if not self.minimum <= current <= self.maximum:
            self._scale(min(max(current, self.minimum), self.maximum), now)
            return
        if not ready:
            return
        wanted = self._proposal(current, ready)
        window = [(at, number) for at, number in self._recommended if now - at < WINDOW_SECONDS]
        self._recommended = [*window, (now, wanted)]
        if wanted < current:
            wanted = min(current, max(number for _, number in self._recommended))
        allowed = min(wanted, max(current + 4, 2 * current))
        limited = allowed > self.maximum
        if limited != (self._limited_since is not None):
            self._limited_since = now if limited else None
        self._scale(min(max(allowed, self.minimum), self.maximum), now)

    def _proposal(self, current: int, ready: int) -> int:
        unready = current - ready
        if abs(self.usage - 1) <= TOLERANCE:
            return current
        if self.usage < 1 or not unready:
            wanted = math.ceil(self.usage * ready)
            return min(wanted, current) if self.usage < 1 else wanted
        # Going up, pods that are not ready count as idle.
        diluted = self.usage * ready / current
        if diluted <= 1 + TOLERANCE:
            return current
        return max(math.ceil(diluted * current), current)

    def scale(self, replicas: int, now: float) -> None:
        """Sets the replicas, as a write of the scale does."""
        if replicas < len(self.pods):
            # Pending pods go first, then those that became ready last.
            self.pods.sort(key=lambda pod: (pod.bound is None, pod.bound or 0.0))
            del self.pods[replicas:]
        self.pods += [Pod(now) for _ in range(replicas - len(self.pods))]

    def _scale(self, replicas: int, now: float) -> None:
        if replicas != len(self.pods):
            self.scaled_at = now
        self.scale(replicas, now)

    def hpa(self) -> dict[str, Any]:
        """Returns the HPA as its API server does."""
        limited: dict[str, Any] = {
            "type": "ScalingLimited",
            "status": "False",
            "reason": "DesiredWithinRange",
        }
        if self._limited_since is not None:
            limited = {"type": "ScalingLimited", "status": "True", "reason": "TooManyReplicas"}
            limited["lastTransitionTime"] = format_time(self._limited_since)
        target = {"type": "Utilization", "averageUtilization": TARGET}
        current = {"averageUtilization": round(self.usage * TARGET)}
        return {
            "spec": {
                "minReplicas": self.minimum,
                "maxReplicas": self.maximum,
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            },
            "status": {
                "currentReplicas": len(self.pods),
                "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": current}}],
                "conditions": [limited],
            },
        }
