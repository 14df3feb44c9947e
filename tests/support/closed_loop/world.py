"""The world around the loop: load, faults, and what is counted.

Seconds of unserved load while room exists, needless replicas, writes, and writes that undo an earlier one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.support.closed_loop.hub import Change, Hub
from tests.support.closed_loop.member import MOST_USAGE, SYNC_SECONDS, Member

# Load in pods at target: of all clusters together, or of each cluster.
Load = Callable[[float], float | Mapping[str, float]]
# True while a fault lasts: the cluster's name and the time.
Fault = Callable[[str, float], bool]

# Replicas are needed for this long after a load: the down window, the start of a pod, and two passes.
_NEEDED_SECONDS = 600
# A write that undoes another one within this time is a reversal.
_REVERSAL_SECONDS = 600


def never(name: str, now: float) -> bool:
    """No fault."""
    return False


@dataclass
class Report:
    """The counts of a run. Times are seconds, `needless` is in replica minutes."""

    unserved: float = 0.0
    unserved_load: float = 0.0
    needless: float = 0.0
    above_maximum: float = 0.0
    writes: list[Change] = field(default_factory=list)
    sizes: list[tuple[float, tuple[int, ...]]] = field(default_factory=list)

    @property
    def reversals(self) -> int:
        """Writes that undo the direction of the last write of the same bound, within ten minutes."""
        last: dict[tuple[str, str], Change] = {}
        count = 0
        for write in self.writes:
            before = last.get((write.cluster, write.field))
            if before and write.time - before.time <= _REVERSAL_SECONDS:
                count += (write.after > write.before) != (before.after > before.before)
            last[write.cluster, write.field] = write
        return count

    def summary(self) -> str:
        """One line with all counts."""
        return (
            f"unserved {self.unserved:.0f} s ({self.unserved_load:.0f} pod s), needless {self.needless:.0f} "
            f"replica min, above max {self.above_maximum:.0f} s, {len(self.writes)} writes, "
            f"{self.reversals} reversals"
        )


@dataclass
class World:
    """Members and their hub. `away` clusters do not answer the hub; `dead` ones serve nothing either."""

    members: dict[str, Member]
    hub: Hub
    load: Load
    away: Fault = never
    dead: Fault = never
    hub_down: Callable[[float], bool] = lambda now: False
    now: float = 0.0
    report: Report = field(default_factory=Report)
    _needed: deque[tuple[float, int]] = field(default_factory=deque)

    def run(self, seconds: float) -> Report:
        """Runs the loop; returns the counts since the beginning."""
        until = self.now + seconds
        while self.now < until:
            self.now += SYNC_SECONDS
            self._tick()
        self.report.writes = self.hub.writes
        return self.report

    def _tick(self) -> None:
        now = self.now
        alive = {name: one for name, one in self.members.items() if not self.dead(name, now)}
        for member in alive.values():
            member.bind(now)
        loads = self._loads(alive)
        for name, member in alive.items():
            member.sync(now, loads[name])
            member.bind(now)
        if not self.hub_down(now):
            answers = {name: name in alive and not self.away(name, now) for name in self.members}
            self.hub.look(self.members, answers, now)
        self._count(alive, loads)

    def _loads(self, alive: Mapping[str, Member]) -> dict[str, float]:
        load = self.load(self.now)
        if isinstance(load, Mapping):
            return {name: load[name] for name in alive}
        # The load balancer knows ready pods only.
        ready = {name: member.ready(self.now) for name, member in alive.items()}
        total = sum(ready.values())
        return {name: load * number / total if total else load for name, number in ready.items()}

    def _count(self, alive: Mapping[str, Member], loads: Mapping[str, float]) -> None:
        now, report, hub = self.now, self.report, self.hub
        tied = isinstance(self.load(now), Mapping)
        whole = sum(len(member.pods) for member in alive.values())
        able = {
            name
            for name, member in alive.items()
            if member.running < min(member.slots(now), hub.seats[name].high or hub.maximum)
        }
        # Load that is tied to its cluster is served there or nowhere.
        short = sum(
            max(loads[name] - member.ready(now) * MOST_USAGE, 0.0)
            for name, member in alive.items()
            if name in able or not tied
        )
        if short > 1e-9 and able and whole < hub.maximum:
            report.unserved += SYNC_SECONDS
            report.unserved_load += short * SYNC_SECONDS
        needed = (
            sum(
                max(min(math.ceil(loads[name] / 0.9), hub.seats[name].high or 10**9), hub.base[name])
                for name in alive
            )
            if tied
            else max(math.ceil(sum(loads.values()) / 0.9), sum(hub.base[name] for name in alive))
        )
        self._needed.append((now, needed))
        while self._needed[0][0] < now - _NEEDED_SECONDS:
            self._needed.popleft()
        # Under balanced load each HPA rounds up by itself.
        excess = whole - max(number for _, number in self._needed) - (0 if tied else len(alive) - 1)
        report.needless += max(excess, 0) * SYNC_SECONDS / 60
        assigned = sum(member.maximum for name, member in self.members.items() if name in alive)
        report.above_maximum += SYNC_SECONDS if assigned > hub.maximum else 0
        report.sizes.append((now, tuple(len(member.pods) for member in self.members.values())))
