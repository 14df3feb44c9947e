"""The clock of the objects' memories.

Objects of Kubernetes and the status hold wall times, so the memory does too. A step of the wall clock would
make all of them look older, or lie in the future: windows would end at once, or never. Therefore the
monotonic clock of the process shows each step, and the times in memory move with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
import structlog

from controller.federatedhpa.memory import ObjectMemory
from fedhpa.decision import NEW_MEMBER, ClusterMemory, History
from fedhpa.kube import Key

log = structlog.get_logger(__name__)

# Less is the slewing of a time service, or the time between the reads of the two clocks.
STEP_SECONDS: Final = 1.0

S = TypeVar("S", bound=msgspec.Struct)


class SteppedClock:
    """The wall clock. `now` moves the times in an object's memory by the steps since its last call."""

    def __init__(self, wall: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._reported = wall() - monotonic()

    def now(self, memory: ObjectMemory) -> float:
        """The wall time in POSIX seconds; the times in `memory` are comparable with it afterwards."""
        wall = self._wall()
        offset = wall - self._monotonic()
        if memory.clock_offset is None:
            memory.clock_offset = offset
        step = offset - memory.clock_offset
        if abs(step) >= STEP_SECONDS:
            self._report(offset)
            redate(memory, step)
            memory.clock_offset = offset
        return wall

    def restore(self, key: Key, memory: ObjectMemory, raw: Mapping[str, Any]) -> None:
        """Restore a memory that was just opened, in which the times are those of another process.

        If the clocks of the two differ, as the clock of the hub shows, the times move with it.
        """
        wall = self._wall()
        skew = memory.recording.skew(wall)
        memory.restore(raw, wall - skew)
        if skew:
            redate(memory, skew)
            log.warning("record of a process with another clock", seconds=round(skew), hpa="/".join(key))

    def _report(self, offset: float) -> None:
        """Log a step once, not for each object."""
        step = offset - self._reported
        if abs(step) >= STEP_SECONDS:
            self._reported = offset
            log.warning("wall clock stepped; windows and clocks of losses go on", seconds=round(step, 1))


def redate(memory: ObjectMemory, seconds: float) -> None:
    """Move all times in the memory by so many seconds."""

    def moved(entries: tuple[S, ...]) -> tuple[S, ...]:
        return tuple(_times_moved(one, ("time",), seconds) for one in entries)

    known = memory.history
    recommendations = None if known.recommendations is None else moved(known.recommendations)
    memory.history = History(recommendations, moved(known.scale_ups), moved(known.scale_downs))
    absences = {
        name: _times_moved(clock, ("since", "back", "gone"), seconds)
        for name, clock in memory.state.absences.items()
    }
    clusters = {name: _cluster_moved(one, seconds) for name, one in memory.state.clusters.items()}
    resets = memory.state.resets
    if resets is not None:
        resets = msgspec.structs.replace(resets, times=tuple(at + seconds for at in resets.times))
    rebalance = memory.state.rebalance
    if rebalance is not None:
        rebalance = _times_moved(rebalance, ("since", "blocked_since", "rests_until"), seconds)
    memory.state = msgspec.structs.replace(
        memory.state, absences=absences, clusters=clusters, resets=resets, rebalance=rebalance
    )
    memory.refused = {name: at + seconds for name, at in memory.refused.items()}
    memory.implausible_since = {name: at + seconds for name, at in memory.implausible_since.items()}
    memory.missed_since = {name: at + seconds for name, at in memory.missed_since.items()}
    memory.answers = {name: (one, at + seconds) for name, (one, at) in memory.answers.items()}
    memory.absent_since = {name: at + seconds for name, at in memory.absent_since.items()}
    memory.status_written_at += seconds
    memory.recording.at += seconds


def _cluster_moved(known: ClusterMemory, seconds: float) -> ClusterMemory:
    standing = known.standing
    if standing != NEW_MEMBER:
        standing = _times_moved(standing, ("since", "asked_since", "stuck_since", "serves_since"), seconds)
    moved = _times_moved(known, ("seen", "scaled", "lacking_since", "answered_since"), seconds)
    return msgspec.structs.replace(moved, standing=standing)


def _times_moved(known: S, names: Sequence[str], seconds: float) -> S:
    times = {name: getattr(known, name) for name in names}
    moved = {name: max(at + seconds, 0.0) for name, at in times.items() if at is not None}
    return msgspec.structs.replace(known, **moved)
