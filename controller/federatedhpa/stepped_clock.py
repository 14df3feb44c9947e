"""The clock of the objects' memories.

Objects of Kubernetes and the status hold wall times, so the memory does too. A step of the wall clock would
make all of them look older, or lie in the future: windows would end at once, or never. Therefore the
monotonic clock of the process shows each step, and the times in memory move with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast, get_args

import msgspec
import structlog
from msgspec.structs import fields

from controller.federatedhpa.memory import ObjectMemory
from fedhpa.api.times import Seconds
from fedhpa.kube import Key

log = structlog.get_logger(__name__)

# Less is the slewing of a time service, or the time between the reads of the two clocks.
STEP_SECONDS: Final = 1.0

T = TypeVar("T")


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
    memory.state, memory.history = moved(memory.state, seconds), moved(memory.history, seconds)
    memory.answers = {name: (one, at + seconds) for name, (one, at) in memory.answers.items()}
    for table in (memory.refused, memory.implausible_since, memory.missed_since, memory.absent_since):
        table.update({name: at + seconds for name, at in table.items()})
    if memory.leaving_since is not None:
        memory.leaving_since += seconds
    memory.placed.asked_since += seconds
    memory.status_written_at += seconds
    memory.recording.at += seconds


def moved(known: T, seconds: float, kind: object = None) -> T:
    """Returns a struct with all its times moved, also those within it; the same one if it has none.

    `kind` is the type that the value is declared with. Times are those that are declared as Seconds.
    """
    found: Any = known
    parts = get_args(kind)
    if isinstance(known, float) and Seconds in (kind, *parts):
        found = max(known + seconds, 0.0)
    elif isinstance(known, msgspec.Struct):
        before = {each.name: (getattr(known, each.name), each.type) for each in fields(known)}
        after = {name: moved(value, seconds, declared) for name, (value, declared) in before.items()}
        if any(after[name] is not value for name, (value, _) in before.items()):
            found = msgspec.structs.replace(known, **after)
    elif isinstance(known, dict):
        found = {name: moved(one, seconds) for name, one in known.items()}
    elif isinstance(known, tuple):
        found = tuple([moved(one, seconds, parts[0] if parts else None) for one in known])
    return cast(T, found)
