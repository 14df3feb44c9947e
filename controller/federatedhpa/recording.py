"""The changes of an object that are worth a write: of its ScalingRecord and of its status.

A record is written when a later decision would be another one after a restart. A status is written at once
when a person would act on the change, otherwise at most once a minute. If only times change, one write in ten
minutes is enough (docs/reference/conditions-and-events.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
import structlog

from controller.failure_log import WriteFailure
from controller.scaling_records import NotRecorded, RecordFile
from fedhpa.api.errors import Conflict, FedHPAError, InvalidObject
from fedhpa.api.free_json import condition
from fedhpa.api.scaling_record import UnknownVersion
from fedhpa.decision import (
    NO_RECORD,
    READY,
    ClusterMemory,
    Decision,
    History,
    MemoryState,
    ScaleEvent,
    ScalingSpec,
    StoredRecord,
    decode_stored,
    encode_stored,
)

log = structlog.get_logger(__name__)

# A lower recommendation waits for so long.
QUIET_SECONDS: Final = 60.0
# The record of an object of mode Distributed follows the members' sizes this often.
SIZES_SECONDS: Final = 600.0


# The reason in conditions and events for an object that is held, because it would run as something else.
INVALID_OBJECT: Final = "InvalidObject"
# Reasons of Ready for which an object has no record yet.
NEVER_RECORDED: Final = frozenset((NO_RECORD, INVALID_OBJECT))


class Windows(NamedTuple):
    """The stabilization windows of an object in seconds."""

    up: float
    down: float

    @classmethod
    def of(cls, spec: ScalingSpec, default_down: float) -> Windows:
        """The windows that a spec sets; `default_down` is the controller's."""
        if spec.behavior is None:
            return cls(0.0, default_down)
        down = spec.behavior.scale_down.stabilization_seconds
        return cls(spec.behavior.scale_up.stabilization_seconds or 0, default_down if down is None else down)


@dataclass
class Unstored:
    """The history of an object that its record does not have yet.

    A restart knows the stored history and takes the `last` stored recommendation as repeated until then
    (controller.federatedhpa.memory). It would forget the recommendations since then that are higher or lower
    than `last`, and scale events other than `events`.
    """

    last: int | None = None
    highest: int | None = None
    lowest: int | None = None
    events: tuple[tuple[ScaleEvent, ...], tuple[ScaleEvent, ...]] = ((), ())

    @classmethod
    def of(cls, stored: History) -> Unstored:
        """The state after a record with this history was written or read."""
        return cls(last=_newest(stored), events=(stored.scale_ups, stored.scale_downs))

    def note(self, history: History) -> None:
        """Count the newest recommendation of a history that is not stored yet."""
        newest = _newest(history)
        if newest is not None:
            self.highest = newest if self.highest is None else max(self.highest, newest)
            self.lowest = newest if self.lowest is None else min(self.lowest, newest)

    def differs(self, history: History) -> bool:
        """True if a restart would take another size than the newest as the last recommendation."""
        return self.last != _newest(history)

    def matters(self, history: History, windows: Windows, waited: float) -> bool:
        """True if a later decision would differ after a restart, `waited` seconds after the record."""
        if self.events != (history.scale_ups, history.scale_downs):
            return True
        if self.last is None or self.highest is None or self.lowest is None:
            return False
        if (windows.down > 0 and self.highest > self.last) or (windows.up > 0 and self.lowest < self.last):
            return True
        # Repeated for longer than it held, the last one would hold the size for longer, too.
        return waited >= QUIET_SECONDS and any(windows) and self.differs(history)


@dataclass
class Recording:
    """The record of one object: its `file`, and the state that it holds, None on a fresh start.

    `record` is the content as it was read, until the first write; None if there is none or it cannot be read.
    `at` is when it was written, in POSIX seconds. `problem` says why this process must not write it. `failed`
    is True if its decision has an error. `explained` is what `fedhpa explain` shows of it. `failure` is the
    error of the last write, None if it succeeded. `is_open` is True once the record was read.
    """

    file: RecordFile
    record: StoredRecord | None = None
    stored: MemoryState | None = None
    at: float = float("-inf")
    problem: str = ""
    lost: str = ""
    failed: bool = False
    explained: tuple[str, ...] = ()
    failure: WriteFailure | None = None
    unstored: Unstored = field(default_factory=Unstored)
    _refused_at: float = float("-inf")
    _latest: Decision | None = None
    is_open: bool = False

    @classmethod
    async def open(cls, file: RecordFile, *, writes: bool) -> Recording:
        """The recording of a record that was just read. Raises ApiError.

        `lost` says why a stored state could not be read, "" if there is none or it was read.
        """
        content = await file.read(writes=writes)
        found = cls(file, is_open=True)
        if content is None:
            return found
        try:
            record = decode_stored(content)
        except UnknownVersion as error:
            found.problem = f"{file} was written by another release: {error}"
        except InvalidObject as error:
            found.lost = f"{file}: {error}"
        else:
            found.record, found.stored, found.at = record, record.state, record.time
            found.note_explanation(_last_decision(record))
            found.unstored = Unstored.of(record.state.history)
        return found

    def skew(self, wall: float) -> float:
        """By how many seconds our clock `wall` is ahead of that of the process that wrote the record."""
        return 0.0 if self.record is None else self.record.hubAhead - self.file.hub_ahead(wall)

    @property
    def obstacle(self) -> str:
        """Why the memory cannot be stored now; "" if it can, as far as known."""
        return self.problem or self.file.problem

    def is_due(self, decision: Decision, windows: Windows) -> bool:
        """True if the memory that a decision left must be stored now."""
        self.unstored.note(decision.history)
        self._latest = decision
        waited = abs(decision.now - self.at)
        if self.stored is None or self.unstored.matters(decision.history, windows, waited):
            return True
        # `fedhpa explain` must not show a failure that is over.
        if self.failed is not (decision.error is not None):
            return True
        if not _are_alike(self.stored, decision.memory):
            return True
        if waited >= QUIET_SECONDS and self.explained != _explanation(decision):
            return True
        late = waited >= SIZES_SECONDS
        return late and decision.distributed and self.stored.shares != decision.memory.shares

    def is_behind(self) -> bool:
        """True if the next process would want to know more than the record has."""
        decision = self._latest
        if decision is None:
            return False
        if self.stored is None or self.unstored.differs(decision.history):
            return True
        return decision.distributed and self.stored.shares != decision.memory.shares

    async def write(self, state: MemoryState, decision: Decision) -> None:
        """Store a state that `decision` left. Raises as `RecordFile.write`.

        After a refusal, an object without a record asks for one once a minute: the hub may lack the kind.
        """
        if self.problem:
            return
        if self.stored is None and abs(decision.now - self._refused_at) < QUIET_SECONDS:
            raise NotRecorded(self.file.problem)
        try:
            content = encode_stored(state, decision)
            if ahead := self.file.hub_ahead(decision.now):
                content["hubAhead"] = round(ahead)
            await self.file.write(content)
        except FedHPAError as error:
            self.failure = WriteFailure.of(error)
            if isinstance(error, NotRecorded):
                self._refused_at = decision.now
            raise
        self.record = self.failure = None
        self.stored, self.at = state, decision.now
        self.note_explanation(decision)
        self.unstored = Unstored.of(state.history)

    async def write_before_first_scale(self, decision: Decision, before: MemoryState) -> None:
        """Store the state from before the first scale of an object that has no record yet. Raises Conflict.

        Without it the next process would not know that a scale was made, if this one dies before the record
        of the scale. An object is scaled all the same if the hub refuses the record.
        """
        if self.stored is not None or self.obstacle:
            return
        try:
            await self.write(before, decision)
        except Conflict:
            raise
        except FedHPAError as error:
            log.debug("record not written before the first scale", error=str(error))

    async def flush(self) -> None:
        """Store the latest state. Raises as `write`."""
        if self._latest is not None:
            await self.write(self._latest.memory, self._latest)

    def note_explanation(self, decision: Decision | None) -> None:
        """Note what the record explains; None if it has no decision."""
        if decision is not None:
            self.failed, self.explained = decision.error is not None, _explanation(decision)


def expecting_hpas(state: MemoryState, clusters: set[str]) -> MemoryState:
    """Returns the state with clusters that are about to hold our HPA."""
    known = {name: state.clusters.get(name, ClusterMemory()) for name in clusters}
    about = {name: msgspec.structs.replace(one, holds_hpa=True) for name, one in known.items()}
    return msgspec.structs.replace(state, clusters={**state.clusters, **about})


def _are_alike(stored: MemoryState, state: MemoryState) -> bool:
    """True if the parts of two states are equal that are stored at once. The history has its own rules."""
    if _essence(stored) != _essence(state) or len(stored.clusters) != len(state.clusters):
        return False
    distributed, known = bool(state.assigned_for), stored.clusters
    return known == state.clusters or all(
        one is (other := known.get(name))
        or (
            other is not None
            and _essence_of_cluster(one, distributed=distributed)
            == _essence_of_cluster(other, distributed=distributed)
        )
        for name, one in state.clusters.items()
    )


def _essence(state: MemoryState) -> tuple[Any, ...]:
    return (
        state.absences,
        state.rebalance,
        state.target,
        state.resets is not None and state.resets.is_conflict,
        state.assigned_for,
        state.awaited,
        state.followed,
        # In mode Distributed the members change their sizes all the time.
        None if state.assigned_for else state.size,
    )


def _essence_of_cluster(one: ClusterMemory, *, distributed: bool) -> tuple[Any, ...]:
    size = None if distributed else one.replicas
    return one.state, one.standing, one.assignment, one.holds_hpa, one.uid, size


def _explanation(decision: Decision) -> tuple[str, ...]:
    """The reason up to its details, and the steps that had an effect."""
    effective = (step.step for step in decision.steps if step.before != step.after)
    return decision.reason.partition(":")[0], *effective


def _newest(history: History) -> int | None:
    if not history.recommendations:
        return None
    return max(history.recommendations, key=lambda entry: entry.time).replicas


def _last_decision(record: StoredRecord) -> Decision | None:
    try:
        return record.last_decision()
    except InvalidObject:
        return None  # the memory beside it is readable


# For a status in which only times differ: shows that the controller still works.
STILL_SECONDS: Final = 600.0

# The fields that a person acts on, by level. Usage and times beside them change at every reconcile.
TOP_FIELDS: Final = (
    "currentReplicas",
    "desiredReplicas",
    "observedGeneration",
    "lastScaleTime",
)
CONDITION_FIELDS: Final = ("type", "status", "reason")
CLUSTER_FIELDS: Final = (
    "name",
    "state",
    "membership",
    "currentReplicas",
    "desiredReplicas",
    "minReplicas",
    "maxReplicas",
)


def worth_writing(
    stored: Mapping[str, Any] | None, wanted: Mapping[str, Any], written_at: float, now: float
) -> bool:
    """True if `wanted` should replace the `stored` status; `written_at` is our last write, POSIX seconds."""
    if stored is None or not _shows_same(stored, wanted):
        return True
    # The clock of a former leader may have been ahead of ours.
    waited = abs(now - written_at)
    if waited < QUIET_SECONDS or stored == wanted:
        return False
    return waited >= STILL_SECONDS or _without_times(stored) != _without_times(wanted)


def _shows_same(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """True if the parts of two statuses are the same that a person acts on."""
    return (
        all(stored.get(name) == wanted.get(name) for name in TOP_FIELDS)
        and _are_same(stored.get("conditions"), wanted.get("conditions"), CONDITION_FIELDS)
        and _are_same(stored.get("clusters"), wanted.get("clusters"), CLUSTER_FIELDS)
        and _reason(stored.get("summary")) == _reason(wanted.get("summary"))
    )


def _without_times(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status without the times of answers, which change although nothing happens."""
    clusters = [{**entry, "lastSeen": None} for entry in status.get("clusters") or ()]
    return {**status, "lastSeen": None, "clusters": clusters}


def _reason(summary: Any) -> tuple[str, ...]:
    """The reason up to a colon: details of an absence may vary.

    Words with digits are left out: names of pods, numbers and times vary without a new cause.
    """
    reason = summary.get("reason") if isinstance(summary, Mapping) else None
    words = str(reason or "").partition(":")[0].split()
    return tuple(word for word in words if not any(map(str.isdigit, word)))


def _are_same(
    one: Sequence[Mapping[str, Any]] | None, other: Sequence[Mapping[str, Any]] | None, fields: Sequence[str]
) -> bool:
    """True if two lists have equal entries, as far as these fields show."""
    first, second = one or (), other or ()
    if len(first) != len(second):
        return False
    # Most entries are equal as a whole, which is quickly seen.
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a != b]
    return all(a.get(name) == b.get(name) for a, b in pairs for name in fields)


def lost_memory(recording: Recording, raw: Mapping[str, Any]) -> str:
    """Returns why a fresh start is one although the object was scaled before; "" if it is none."""
    if recording.lost:
        return f"{recording.lost}; the history begins anew"
    # Only a status of ours has the condition Ready.
    reason = condition(raw, READY).get("reason", NO_RECORD)
    if recording.stored is not None or recording.obstacle or reason in NEVER_RECORDED:
        return ""
    return f"{recording.file} is gone; the history begins anew"
