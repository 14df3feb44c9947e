"""The memory of the rules of one object and of the windows of one target, which outlives the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from controller.cronfederatedhpa.objects import TargetKey
from controller.cronfederatedhpa.scales import KnownShares, Reading
from controller.scaling_records import NotRecorded, RecordFile
from fedhpa.api.errors import Conflict, InvalidObject
from fedhpa.api.scaling_record import KeptRecord
from fedhpa.cron.execution.due import newest_success
from fedhpa.cron.execution.model import ObjectRecord, WindowRecord
from fedhpa.cron.execution.stored import TargetReference
from fedhpa.kube import Backoff

T = TypeVar("T")


class Recorded(Generic[T]):
    """A state and its record. `state` is what this process knows; None if there is none.

    `known` is False until the record was read. `lost` says why its content could not be read, and `problem`
    why this process must not write it.
    """

    def __init__(
        self,
        file: RecordFile,
        encode: Callable[[T], Mapping[str, Any]],
        decode: Callable[[Mapping[str, Any]], T],
        check_lease: Callable[[], None],
    ) -> None:
        self.file = file
        self._encode = encode
        self._decode = decode
        self._check_lease = check_lease
        self._stored: Mapping[str, Any] | None = None
        self.state: T | None = None
        self.known = False
        self.lost = ""
        self.problem = ""
        self._reading = asyncio.Lock()

    @property
    def obstacle(self) -> str:
        """Why the state cannot be stored now; "" if it can, as far as known."""
        return self.problem or self.file.problem

    async def read(self, *, writes: bool = True) -> None:
        """Read the record unless it is known. Raises ApiError if the hub does not answer."""
        # Two targets may work on one object, and the later answer must not undo what the other one stored.
        async with self._reading:
            if not self.known:
                self.take(await self.file.read(writes=writes))

    def take(self, content: Mapping[str, Any] | None) -> None:
        """Note the content of the record as it was just read; None without one."""
        self.known, self.state, self._stored = True, None, content
        self.lost = self.problem = ""
        if content is None:
            return
        try:
            self.state = self._decode(content)
        except KeptRecord as error:
            self.problem = f"{self.file}: {error}"
        except InvalidObject as error:
            self.lost = f"{self.file}: {error}"

    async def write(self, state: T | None) -> None:
        """Store a state if the record has another one; None deletes the record.

        Raises Conflict if another process wrote it, which is then read again; NotRecorded if it must not or
        cannot be written; and ApiError if the hub does not answer.
        """
        content = None if state is None else self._encode(state)
        if content != self._stored:
            if self.problem:
                raise NotRecorded(self.problem)
            self._check_lease()
            try:
                await (self.file.delete() if content is None else self.file.write(content))
            except Conflict:
                self.known = False
                raise
        self._stored, self.state = content, state

    async def store(self, state: T | None) -> bool:
        """Store a state. Returns False if the hub refuses it: then this process alone knows it.

        Raises Conflict and ApiError as `write` does.
        """
        try:
            await self.write(state)
        except NotRecorded:
            self.state = state
            return False
        return True


@dataclass
class RulesMemory:
    """All that this process knows of one object beside its stored form; dropped with the object.

    `reported` are the lines about dropped fields that its events have, `reverts` the changes that clients
    made of values that rules had set. `held` is what its last event about a hold says.
    """

    uid: str
    rules: Recorded[ObjectRecord]
    reported: list[str] = field(default_factory=list)
    reverts: list[str] = field(default_factory=list)
    held: str = ""


class Ahead(NamedTuple):
    """A reading that was made at `at` for what is due at `due`, both on the wall clock."""

    reading: Reading
    at: float
    due: float


@dataclass
class Unit:
    """All that this process knows of one target; dropped with its last object and window.

    `reference` names the target as its objects do. `shares` is what is known of the clusters.
    """

    target: TargetKey
    windows: Recorded[WindowRecord]
    reference: TargetReference
    shares: KnownShares = field(default_factory=KnownShares)
    retry: Backoff | None = None
    ahead: Ahead | None = None
    # True once the target was asked for the baseline of windows whose record is lost.
    asked: bool = False
    # The holders that `Units.targets_of` knows.
    noted: frozenset[str] = frozenset()

    def recall_shares(self, records: Iterable[ObjectRecord | None]) -> None:
        """Take the replicas of each cluster from the records of the objects: a cluster may be silent now."""
        if self.shares.complete or self.shares.replicas:
            return
        found = [each for each in records if each is not None and each.target == str(self.target)]
        shares = dict(max(found, key=newest_success).shares) if found else {}
        if self.windows.state is not None:
            shares |= self.windows.state.shares
        self.shares.replicas, self.shares.complete = shares, bool(shares)

    @property
    def holders(self) -> frozenset[str]:
        """The objects whose windows are open here."""
        record = self.windows.state
        return frozenset() if record is None else frozenset(window.object for window in record.open)
