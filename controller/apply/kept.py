"""Objects on the hub that we keep equal to what was decided, beside those of others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec
import structlog

from controller.publish import FIELD_MANAGER
from fedhpa.decision import Finding
from fedhpa.kube import ApiClient, Reflector, Resource, delete_if_there, supervise

HUB_SECONDS: Final = 10.0
NOT_OWNED: Final = "NotOwned"

log = structlog.get_logger(__name__)

T = TypeVar("T")


class Stored(msgspec.Struct, Generic[T], frozen=True):
    """An object as the hub has it. `owner` is the object that it is kept for, "" if not by us.

    `content` is what we write of it.
    """

    owner: str
    content: T
    uid: str = ""
    version: str = ""


class WantedWatches:
    """Watches that begin with the first need, so that a hub without a need for them gets no request.

    Asking for `problem` or `begins` is a need.
    """

    def __init__(self, *watches: Reflector[Any]) -> None:
        self._wanted, self._watches = asyncio.Event(), watches

    async def run(self) -> None:
        """List and watch from the first need on, until cancelled."""
        await self._wanted.wait()
        async with asyncio.TaskGroup() as group:
            for watch in self._watches:
                group.create_task(supervise("placement-watch", watch.run))

    @property
    def problem(self) -> str:
        """Why the objects are not known; "" once they are."""
        self._wanted.set()
        waits = next((one for one in self._watches if not one.synced.is_set()), None)
        return "" if waits is None else str(waits.problem)

    @property
    def begins(self) -> bool:
        """True until each first list succeeds or fails."""
        self._wanted.set()
        return any(not one.synced.is_set() and not one.failures for one in self._watches)


class KeptObjects(WantedWatches, Generic[T]):
    """The objects of one kind; in `namespace`, or in all with "".

    `read` makes the record of an object's JSON.
    """

    def __init__(
        self,
        hub: ApiClient,
        resource: Resource,
        read: Callable[[dict[str, Any]], Stored[T]],
        *,
        namespace: str = "",
        clock: Callable[[], float],
    ) -> None:
        self._hub = hub
        self._resource = resource
        self._read = read
        self._known: dict[str, dict[str, Stored[T]]] = {}
        reflector: Reflector[Stored[T]] = Reflector(
            hub, resource.path(namespace), dict[str, Any], read, name=resource.plural, clock=clock
        )
        reflector.subscribe(lambda key, _, new: self._note(*key, new))
        super().__init__(reflector)

    def of(self, namespace: str) -> Mapping[str, Stored[T]]:
        """Returns the objects of a namespace by name."""
        return self._known.get(namespace, {})

    async def apply(
        self, namespace: str, owner: str, wanted: Iterable[Mapping[str, Any]], former: Iterable[str]
    ) -> tuple[Finding, ...]:
        """Makes the objects of an owner equal to the `wanted` manifests, and removes those named `former`.

        Returns the objects of these names that are not ours, and therefore stay as they are. Raises Conflict
        if somebody wrote one meanwhile, and ApiError.
        """
        problems: list[Finding] = []
        known = self.of(namespace)
        for manifest in wanted:
            name = manifest["metadata"]["name"]
            found = known.get(name)
            if found is not None and found.owner != owner:
                text = f"{self._resource.kind} {namespace}/{name} is not ours and stays as it is: delete it"
                problems.append(Finding(NOT_OWNED, text))
            elif found is None or found.content != self._read(dict(manifest)).content:
                await self._write(namespace, name, manifest, found)
        for name in former:
            found = known.get(name)
            if found is not None and found.owner == owner:
                await self.remove(namespace, name, found)
        return tuple(problems)

    async def remove(self, namespace: str, name: str, found: Stored[T]) -> None:
        """Deletes an object if it is still as `found`. Raises Conflict and ApiError."""
        path, only = (
            self._resource.path(namespace, name),
            {"uid": found.uid, "resourceVersion": found.version},
        )
        await delete_if_there(self._hub, path, only=only, deadline=HUB_SECONDS)
        self._note(namespace, name, None)
        log.info("no longer published", kind=self._resource.kind, namespace=namespace, name=name)

    async def _write(
        self, namespace: str, name: str, manifest: Mapping[str, Any], found: Stored[T] | None
    ) -> None:
        if found is None:
            path = self._resource.path(namespace)
            answer = await self._hub.post(path, manifest, deadline=HUB_SECONDS, manager=FIELD_MANAGER)
        else:
            versioned = {**manifest["metadata"], "resourceVersion": found.version}
            path, body = self._resource.path(namespace, name), {**manifest, "metadata": versioned}
            answer = await self._hub.put(path, body, deadline=HUB_SECONDS, manager=FIELD_MANAGER)
        self._note(namespace, name, self._read(answer.json()))
        log.info("published", kind=self._resource.kind, namespace=namespace, name=name)

    def _note(self, namespace: str, name: str, found: Stored[T] | None) -> None:
        if found is not None:
            self._known.setdefault(namespace, {})[name] = found
            return
        self._known.get(namespace, {}).pop(name, None)
        if not self._known.get(namespace):
            self._known.pop(namespace, None)
