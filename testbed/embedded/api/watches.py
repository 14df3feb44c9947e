"""Watches: the changes since a version, then the changes as they happen, with bookmarks."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final

from testbed.embedded.api import statuses
from testbed.embedded.api.lists import Selection
from testbed.embedded.api.types import Object, StatusError
from testbed.embedded.objects.kinds import Kind
from testbed.embedded.storage.store import Change, Store

# kube-apiserver 1.36: one bookmark a minute, and a watch without timeoutSeconds lasts 30 to 60 minutes.
BOOKMARK_SECONDS: Final = 60.0
LAST_BOOKMARK_SECONDS: Final = 2.0
DEFAULT_SECONDS: Final = 1800.0

_Queue = asyncio.Queue[Change | None]


class Watches:
    """The open watches of a store."""

    def __init__(self, store: Store) -> None:
        self.bookmark_seconds = BOOKMARK_SECONDS
        self._store = store
        self._open: set[_Queue] = set()

    def end(self) -> None:
        """End all watches; clients reconnect."""
        for queue in self._open:
            queue.put_nowait(None)

    async def events(
        self, kind: Kind, namespace: str, wanted: Selection, query: Mapping[str, str]
    ) -> AsyncIterator[Object]:
        """Yields the events of one watch as JSON objects with type and object."""
        try:
            backlog = list(self._backlog(kind, namespace, wanted, query.get("resourceVersion", "")))
        except StatusError as error:
            # The response has begun, so the error is sent as an event.
            yield {"type": "ERROR", "object": statuses.status_of(error)}
            return
        # The newest version that the client knows.
        version = int(query.get("resourceVersion") or 0) or self._store.version
        queue: _Queue = asyncio.Queue()

        def enqueue(change: Change) -> None:
            if change.collection == kind.collection:
                queue.put_nowait(change)

        unsubscribe = self._store.subscribe(enqueue)
        self._open.add(queue)
        try:
            for event in backlog:
                yield event
            seconds = int(query.get("timeoutSeconds") or 0) or DEFAULT_SECONDS
            bookmarks = query.get("allowWatchBookmarks") == "true"
            async for change in self._changes(queue, seconds, bookmarks):
                if isinstance(change, Change):
                    visible = _event(change, kind, namespace, wanted)
                    if visible is not None:
                        version = change.version
                        yield visible
                elif self._store.version > version:
                    version = self._store.version
                    yield _bookmark(kind, version)
        finally:
            unsubscribe()
            self._open.discard(queue)

    async def _changes(self, queue: _Queue, seconds: float, bookmarks: bool) -> AsyncIterator[Change | None]:
        """Yields changes, and None when a bookmark is due; ends after `seconds`."""
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        # The last bookmark comes shortly before the end.
        last = end - LAST_BOOKMARK_SECONDS
        bookmark = min(clock() + self.bookmark_seconds, last) if bookmarks else end
        while True:
            try:
                async with asyncio.timeout_at(min(end, bookmark)):
                    change = await queue.get()
            except TimeoutError:
                if clock() >= end:
                    return
                yield None
                bookmark = clock() + self.bookmark_seconds
                bookmark = last if clock() < last < bookmark else bookmark
            else:
                if change is None:
                    return
                yield change

    def _backlog(self, kind: Kind, namespace: str, wanted: Selection, version: str) -> Iterator[Object]:
        if version in ("", "0"):
            for obj in self._store.list(kind.collection, namespace):
                if wanted(obj):
                    yield {"type": "ADDED", "object": with_type(kind, obj)}
            return
        for change in self._store.since(int(version)):
            event = _event(change, kind, namespace, wanted) if change.collection == kind.collection else None
            if event is not None:
                yield event


def with_type(kind: Kind, obj: Object) -> Object:
    """Returns the object with the kind and apiVersion of the request."""
    return {**obj, "kind": kind.kind, "apiVersion": kind.api_version}


def _event(change: Change, kind: Kind, namespace: str, wanted: Selection) -> Object | None:
    """Returns the event of a change; an object that leaves the selection is DELETED."""
    if namespace not in ("", change.namespace):
        return None
    before = change.old is not None and wanted(change.old)
    after = change.type != "DELETED" and wanted(change.object)
    if not before and not after:
        return None
    obj = change.object
    if not after and change.type != "DELETED" and change.old is not None:
        obj = {**change.old, "metadata": {**change.old["metadata"], "resourceVersion": str(change.version)}}
    type_ = "DELETED" if not after else "MODIFIED" if before else "ADDED"
    return {"type": type_, "object": with_type(kind, obj)}


def _bookmark(kind: Kind, version: int) -> Object:
    return {"type": "BOOKMARK", "object": with_type(kind, {"metadata": {"resourceVersion": str(version)}})}
