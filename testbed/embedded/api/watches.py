"""Watches: what happened since a version, then what happens, as lines of JSON with bookmarks in between."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Final

from testbed.embedded.api import statuses as refusals
from testbed.embedded.api.selection import Selection
from testbed.embedded.api.types import Object, Refusal
from testbed.embedded.objects.kinds import Kind
from testbed.embedded.storage.store import Change, Store

# kube-apiserver 1.36: a bookmark a minute, and watches that name no end last 30 to 60 minutes.
BOOKMARK_SECONDS: Final = 60.0
LAST_BOOKMARK_SECONDS: Final = 2.0
DEFAULT_SECONDS: Final = 1800.0
# A reader that is so far behind is cut off, as a real API server does.
LONGEST_QUEUE: Final = 10_000


class Watches:
    """All watches of one store."""

    def __init__(self, store: Store) -> None:
        self.bookmark_seconds = BOOKMARK_SECONDS
        self._store = store
        self._open: set[asyncio.Queue[Change | None]] = set()

    def end(self) -> None:
        """End them all; their readers come back."""
        for queue in self._open:
            queue.put_nowait(None)

    async def events(
        self, kind: Kind, namespace: str, wanted: Selection, query: Mapping[str, str]
    ) -> AsyncIterator[Object]:
        """The events of one watch, each of them a JSON object with type and object."""
        try:
            backlog = list(self._backlog(kind, namespace, wanted, query.get("resourceVersion", "")))
        except Refusal as error:
            # Once the request is understood, all that is wrong is an event.
            yield {"type": "ERROR", "object": refusals.status_of(error)}
            return
        # The newest version that the client knows of.
        version = int(query.get("resourceVersion") or 0) or self._store.version
        queue: asyncio.Queue[Change | None] = asyncio.Queue()
        unsubscribe = self._store.subscribe(_listener(queue, kind))
        self._open.add(queue)
        try:
            for event in backlog:
                yield event
            seconds = int(query.get("timeoutSeconds") or 0) or DEFAULT_SECONDS
            bookmarks = query.get("allowWatchBookmarks") == "true"
            async for change in self._changes(queue, seconds, bookmarks):
                if isinstance(change, Change):
                    seen = _event(change, kind, namespace, wanted)
                    if seen is not None:
                        version = change.version
                        yield seen
                elif self._store.version > version:
                    version = self._store.version
                    yield _bookmark(kind, version)
        finally:
            unsubscribe()
            self._open.discard(queue)

    async def _changes(
        self, queue: asyncio.Queue[Change | None], seconds: float, bookmarks: bool
    ) -> AsyncIterator[Change | None]:
        """Changes as they come, None when a bookmark is due; ends after `seconds`."""
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        # Once a minute, and shortly before the end.
        last = end - LAST_BOOKMARK_SECONDS
        bookmark = min(clock() + self.bookmark_seconds, last) if bookmarks else end
        while queue.qsize() < LONGEST_QUEUE:
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
                    yield {"type": "ADDED", "object": shown(kind, obj)}
            return
        for change in self._store.since(int(version)):
            event = _event(change, kind, namespace, wanted) if change.collection == kind.collection else None
            if event is not None:
                yield event


def shown(kind: Kind, obj: Object) -> Object:
    """An object in the version that was asked for."""
    return {**obj, "kind": kind.kind, "apiVersion": kind.api_version}


def _listener(queue: asyncio.Queue[Change | None], kind: Kind) -> Callable[[Change], None]:
    def listen(change: Change) -> None:
        if change.collection == kind.collection:
            queue.put_nowait(change)

    return listen


def _event(change: Change, kind: Kind, namespace: str, wanted: Selection) -> Object | None:
    """The change as a watch with this selection sees it: what leaves the selection is deleted to it."""
    if namespace not in ("", change.namespace):
        return None
    was = change.old is not None and wanted(change.old)
    is_ = change.type != "DELETED" and wanted(change.object)
    if not was and not is_:
        return None
    if was and not is_:
        obj, type_ = change.object, "DELETED"
        if change.type != "DELETED" and change.old is not None:
            version = change.object["metadata"]["resourceVersion"]
            obj = {**change.old, "metadata": {**change.old["metadata"], "resourceVersion": version}}
    else:
        obj, type_ = change.object, "MODIFIED" if was else "ADDED"
    return {"type": type_, "object": shown(kind, obj)}


def _bookmark(kind: Kind, version: int) -> Object:
    return {"type": "BOOKMARK", "object": shown(kind, {"metadata": {"resourceVersion": str(version)}})}
