"""The invariants of mode Distributed, judged each second from outside: by members and by the hub's objects.

Source: docs/explanation/distributed.md, "Four invariants".
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.closed_loop.running import Running
from benchmarks.world.cluster import AUTOSCALING, HPAS, NAME, NAMESPACE, Cluster

# A failed write waits for the next pass, and a process that starts reads all first.
PASS_SECONDS: Final = 150
SURPLUS_SECONDS: Final = 600
# The numbers that a pass can have read of a member.
READ_SECONDS: Final = 90
DRAIN: Final = "fedhpa.io/drain"
MARGIN: Final = 2


@dataclass(frozen=True)
class Seen:
    """One cluster in one second; `asks` is what its metrics ask for, None if unknown."""

    least: int
    most: int
    replicas: int
    ready: int
    reachable: bool
    leaving: bool
    asks: int | None


@dataclass
class Judge:
    """The judge of one run; `broken` has each second in which an invariant did not hold."""

    target: int
    broken: list[str] = field(default_factory=list)
    now: int = 0
    writes: int = 0
    status_writes: int = 0
    _past: deque[dict[str, Seen]] = field(default_factory=lambda: deque(maxlen=READ_SECONDS))
    _total: int = 0
    _restarts: int = 0
    _changed: int = 0
    # A lowered maxReplicas acts at once, so until the maxima have followed it.
    _lowered: bool = False
    _left: int = -SURPLUS_SECONDS
    _above_since: int | None = None
    _returns: bool = False
    _returned: int = -SURPLUS_SECONDS

    def look(self, run: Running) -> None:
        """Judges one second."""
        assert run.hub is not None
        assert run.hub.object is not None
        self.now += 1
        seen = {name: self._seen(run, one) for name, one in run.fleet.clusters.items()}
        spec = run.hub.object["spec"]
        total, least = int(spec["maxReplicas"]), int(spec["minReplicas"])
        before = self._past[-1] if self._past else seen
        assigned = sum(one.most for one in before.values() if one.reachable)
        self._lowered = total < self._total or (self._lowered and assigned > total)
        works = run.hub.server.listens
        moved = [(one.reachable, one.leaving) for one in seen.values()] != [
            (one.reachable, one.leaving) for one in before.values()
        ]
        restarted, self._restarts = run.restarts != self._restarts, run.restarts
        if moved or restarted or total != self._total or not works or not self._past:
            self._changed = self.now
        if any(one.leaving and one.most for one in seen.values()):
            self._left = self.now
        self._total = total
        shown = run.hub.status.get("conditions") or ()
        self._returns = any(one["reason"] in ("Returning", "Rebalancing") for one in shown)
        # A pass counts the clusters that answer.
        running = sum(one.replicas for one in seen.values() if one.reachable)
        if running <= total:
            self._above_since = None
        elif self._above_since is None:
            self._above_since = self.now
        if self._returns:
            self._returned = self.now
        self._removals(before, seen)
        self._sums(before, seen, total, least)
        self._past.append(seen)
        self.writes = sum(sum(one.writes.values()) for one in run.fleet.clusters.values())
        self.status_writes = run.hub.writes.get("federatedhpas/status", 0)

    def _seen(self, run: Running, cluster: Cluster) -> Seen:
        assert run.hub is not None
        found = cluster.store.find(AUTOSCALING, HPAS, NAME, NAMESPACE) or {}
        spec, status = found.get("spec") or {}, found.get("status") or {}
        place = run.hub.store.find("cluster.karmada.io/v1alpha1", "clusters", cluster.name) or {}
        taints = (place.get("spec") or {}).get("taints") or []
        return Seen(
            least=spec.get("minReplicas", 0),
            most=spec.get("maxReplicas", 0),
            replicas=cluster.replicas,
            ready=cluster.ready,
            reachable=cluster.server.listens,
            leaving=any(one["key"] == DRAIN for one in taints),
            asks=self._asks(status, cluster.ready),
        )

    def _asks(self, status: dict[str, Any], ready: int) -> int | None:
        values = [
            (one.get("resource") or {}).get("current", {}).get("averageUtilization")
            for one in status.get("currentMetrics") or ()
        ]
        return math.ceil(ready * values[0] / self.target) if values and values[0] is not None else None

    def _removals(self, before: dict[str, Seen], seen: dict[str, Seen]) -> None:
        """I3: a lower maximum removes ready pods only for the reasons of the page."""
        for name, one in seen.items():
            was = before[name]
            if one.most >= was.most or one.most >= min(was.ready, was.replicas):
                continue
            recent = [past[name] for past in self._past]
            asked = [each.asks for each in recent if each.asks is not None]
            takes_back = bool(asked) and one.most >= min(asked) + MARGIN
            # A giver of a return gives one more where its pods are as busy as the new ones.
            takes_back |= bool(asked) and self._returns and one.most >= min(asked) - 1
            since = self._above_since
            surplus = since is not None and self.now - since >= SURPLUS_SECONDS - READ_SECONDS
            leaves = any(each.leaving for each in recent) or self.now - self._left <= PASS_SECONDS
            spare = not one.most and was.most and was.replicas <= 1
            if not (takes_back or self._lowered or surplus or leaves or spare):
                self.broken.append(
                    f"I3 at {self.now}: {name} {was} -> {one.most}, asked {sorted(set(asked))}"
                )

    def _sums(self, before: dict[str, Seen], seen: dict[str, Seen], total: int, least: int) -> None:
        there = [one for one in seen.values() if one.reachable]
        maxima, running = sum(one.most for one in there), sum(one.replicas for one in there)
        # A leave and a return may exceed the maximum by a step.
        moves = self.now - max(self._left, self._returned) <= PASS_SECONDS
        step = max(total // 10, 1) if moves else 0
        if self.now - self._changed > PASS_SECONDS and maxima > max(total + step, running + len(there)):
            self.broken.append(f"I1 at {self.now}: {maxima} of {total}, {running} run: {seen}")
        same = [name for name, one in seen.items() if one.reachable and before[name].reachable]
        was = sum(before[name].most for name in same)
        if (
            sum(seen[name].most for name in same) > max(was, total + step, running + len(there))
            and not self._lowered
        ):
            self.broken.append(f"I1 at {self.now}: raised from {was} to {maxima}, {total} allowed: {seen}")
        if self.now - self._changed > SURPLUS_SECONDS:
            minima = sum(one.least for one in there if not one.leaving)
            if minima < min(least, running, total):
                self.broken.append(f"I2 at {self.now}: minima {minima} of {least}: {seen}")
