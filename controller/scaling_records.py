"""Reads and writes ScalingRecords: one GET at an object's first reconcile, then writes with a version.

The process remembers the version that it read or wrote last. A write that another process came before raises
Conflict, and nothing is overwritten: the object's memory is then read again. A change of metadata alone, such
as a label that Karmada sets, is no such write: what is known of the content is still true.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec
import structlog

from controller.failure_log import concerns_hub
from fedhpa.api.errors import ApiError, Conflict, FedHPAError, InvalidObject
from fedhpa.api.scaling_record import (
    API_VERSION,
    GROUP,
    KIND,
    PLURAL,
    KeptRecord,
    has_same_owner,
    new_record,
    record_name,
)
from fedhpa.kube import FORBIDDEN, NOT_FOUND, ApiClient, Resource, delete_if_there

SCALING_RECORDS: Final = Resource(API_VERSION, KIND, PLURAL, namespaced=True, scale=False)
# Changes of metadata alone that may come before one write.
TRIES: Final = 5

log = structlog.get_logger(__name__)
T = TypeVar("T")


class NotRecorded(FedHPAError):
    """A record could not be written, for a reason that a person has to remove."""


class RecordFile:
    """One record, as this process knows it. `empty` is the record without content, to create it from.

    `problem` says why it cannot be read or written; "" if it can. `manager` is the field manager of writes.
    """

    def __init__(
        self, hub: ApiClient, empty: Mapping[str, Any], deadline: float, *, manager: str = ""
    ) -> None:
        self._hub = hub
        self._empty = empty
        self._deadline = deadline
        self._manager = manager
        self._namespace = str(empty["metadata"]["namespace"])
        self._name = str(empty["metadata"]["name"])
        self._version = ""
        # The hash of the content in this version.
        self._content = _hash_of({})
        # The metadata of a record of an earlier object of this name, until it is deleted.
        self._earlier: Mapping[str, Any] | None = None
        self.problem = ""

    @classmethod
    def of(
        cls,
        hub: ApiClient,
        resource: Resource,
        metadata: Mapping[str, Any],
        deadline: float,
        *,
        manager: str = "",
    ) -> RecordFile:
        """The record of the object of this kind with this `metadata`."""
        name = record_name(resource.kind, str(metadata["name"]))
        return cls(
            hub, new_record(name, resource.api_version, resource.kind, metadata), deadline, manager=manager
        )

    def __str__(self) -> str:
        return f"{KIND} {self._namespace}/{self._name}"

    @property
    def name(self) -> str:
        """The name of the record."""
        return self._name

    @property
    def _path(self) -> str:
        return SCALING_RECORDS.path(self._namespace, self._name)

    def hub_ahead(self, wall: float) -> float:
        """Returns how many seconds the hub's clock is ahead of our time `wall`; 0 if it is right."""
        return self._hub.server_clock.ahead(wall, asyncio.get_running_loop().time())

    async def read(self, *, writes: bool = True) -> Mapping[str, Any] | None:
        """Return the content, None without a record. Raises ApiError if the hub does not answer.

        A record of an earlier object of this name is deleted, unless the process may not write. Without the
        right to read it, the record has a problem.
        """
        try:
            found = await self._hub.get_json(self._path, deadline=self._deadline)
        except ApiError as error:
            if error.status == FORBIDDEN:
                self.problem = f"{self} cannot be read: {error}"
            elif error.status != NOT_FOUND:
                raise
            return None
        if not has_same_owner(found, self._empty):
            if writes:
                self._earlier = found["metadata"]
                await self._delete_earlier_at_first()
            return None
        return self.adopt(found)

    def adopt(self, found: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Note the record as somebody just read it, and return its content; None without one."""
        status = found.get("status")
        self._note(found)
        return status if isinstance(status, Mapping) and status else None

    async def write(self, content: Mapping[str, Any]) -> None:
        """Store the content, in a new record if there is none.

        Raises Conflict if another process wrote it, NotRecorded if the hub refuses, and ApiError if it does
        not answer. `problem` names both failures until a write succeeds.
        """
        await self._unless_written(partial(self._store, content))

    async def _unless_written(self, write: Callable[[], Awaitable[None]]) -> None:
        """Make a write, again after changes of metadata alone. Raises as `write`."""
        try:
            for attempt in range(1, TRIES + 1):
                try:
                    await write()
                    break
                except Conflict:
                    if attempt == TRIES or not await self._has_same_content():
                        raise
        except Conflict:
            raise
        except ApiError as error:
            self.problem = f"{self} cannot be written: {_remedy(error)}"
            if concerns_hub(error):
                raise
            raise NotRecorded(self.problem) from error
        self.problem = ""

    async def _has_same_content(self) -> bool:
        """Read the record. If its content is the known one, its version counts from now on."""
        try:
            found = await self._hub.get_json(self._path, deadline=self._deadline)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            return False
        same = has_same_owner(found, self._empty) and _hash_of(found) == self._content
        if same:
            self._note(found)
        return same

    def _note(self, found: Mapping[str, Any]) -> None:
        self._version, self._content = str(found["metadata"].get("resourceVersion", "")), _hash_of(found)

    async def _store(self, content: Mapping[str, Any]) -> None:
        await self._delete_earlier()
        try:
            await self._put(content)
        except ApiError as error:
            if error.status != NOT_FOUND or not self._version:
                raise
            # Somebody deleted the record, so it is made anew from what this process knows.
            log.warning("scaling record was deleted", record=str(self))
            self._version = ""
            await self._put(content)

    async def _put(self, content: Mapping[str, Any]) -> None:
        if not self._version:
            path = SCALING_RECORDS.path(self._namespace)
            created = await self._hub.post(path, self._empty, deadline=self._deadline, manager=self._manager)
            self._note(created.json())
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "name": self._name,
                "namespace": self._namespace,
                "resourceVersion": self._version,
            },
            "status": content,
        }
        stored = await self._hub.put(
            f"{self._path}/status", body, deadline=self._deadline, manager=self._manager
        )
        self._note(stored.json())

    async def delete(self) -> None:
        """Delete the record if its content is still as this process knows it. Raises as `write`."""
        await self._unless_written(self._remove)
        self._version = ""

    async def _remove(self) -> None:
        if self._version:
            only = {"resourceVersion": self._version}
            await delete_if_there(self._hub, self._path, only=only, deadline=self._deadline)

    async def _delete_earlier_at_first(self) -> None:
        """Delete the record of an earlier object. A refusal is a problem, and each write tries it again."""
        try:
            await self._delete_earlier()
        except Conflict:
            log.debug("earlier scaling record changed", record=str(self))
        except ApiError as error:
            if concerns_hub(error):
                raise
            self.problem = f"{self} of an earlier object cannot be deleted: {_remedy(error)}"

    async def _delete_earlier(self) -> None:
        if self._earlier is None:
            return
        only = {name: self._earlier.get(name, "") for name in ("uid", "resourceVersion")}
        await delete_if_there(self._hub, self._path, only=only, deadline=self._deadline)
        self._earlier = None


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


def _hash_of(stored: Mapping[str, Any]) -> int:
    """Returns a hash of the content of a record, as the hub has it."""
    return hash(msgspec.json.encode(stored.get("status") or {}, order="sorted"))


def _remedy(error: ApiError) -> str:
    if error.status == NOT_FOUND:
        return f"the hub has no kind {KIND}: apply 'fedhpa crds --records' there"
    if error.status == FORBIDDEN:
        needed = f"get, list, create and delete on {PLURAL}.{GROUP}, and update on its status"
        return f"{error} (the controller needs {needed}: see `fedhpa rbac`)"
    return str(error)
