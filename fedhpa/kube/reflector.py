"""A local copy of a collection, kept by list and watch.

The protocol is the API machinery's: list in pages, watch from the list's resourceVersion with bookmarks,
go on from the last version seen when a watch ends, list anew on 410 (as a status or as an ERROR event).
What is kept is a record made of each item, so that a pod of 10 kB need not stay a pod of 10 kB.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Generic, TypeVar

import msgspec
import structlog

from fedhpa.api.errors import ApiError, FedHPAError
from fedhpa.api.wire import ObjectMeta
from fedhpa.kube.backoff import Backoff
from fedhpa.kube.client import LIST_IDLE_SECONDS, PAGE_SIZE, ApiClient
from fedhpa.kube.responses import GONE, Listing, decoder
from fedhpa.kube.store import Change, Key, Store
from fedhpa.kube.transport import INVALID_RESPONSE, TIMEOUT, TOO_LARGE, TOO_SLOW

log = structlog.get_logger(__name__)

I = TypeVar("I")  # noqa: E741  # an item as decoded
T = TypeVar("T")  # the record made of it

# API servers send a bookmark a minute; half a minute of grace. But none is sent while the version does not
# move (seen with 1.36.3): a collection without changes is watched anew this often, at one small request.
WATCH_IDLE_SECONDS = 90.0
# client-go's: each watch ends by itself after 5 to 10 minutes, which spreads clients over API servers.
WATCH_SECONDS = (300, 600)
# A watch that ends sooner than this counts as a failure, or a server that closes at once is hammered.
SHORT_WATCH_SECONDS = 1.0
FIRST_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 30.0
NOT_LISTED = "not listed yet"


class _WatchEvent(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Meta(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class _WatchError(msgspec.Struct, frozen=True):
    code: int = 0
    reason: str | None = None
    message: str | None = None


class _Expired(Exception):
    """The server no longer knows our resourceVersion."""


class Reflector(Generic[T]):
    """Keeps `store`, (namespace, name) -> record, equal to a collection while `run` runs.

    `item` is what an object is decoded as: a msgspec struct with a `metadata: ObjectMeta`, or
    `dict[str, Any]`. `make` turns it into the record that is kept; None leaves it out. Records are
    compared: an object that changed in nothing that the record holds is no change. `on_problem` is told each
    failure, and None when list and watch work again; `name` is for the log.
    """

    def __init__(
        self,
        client: ApiClient,
        path: str,
        item: type[I],
        make: Callable[[I], T | None],
        *,
        label_selector: str = "",
        field_selector: str = "",
        name: str = "",
        page_size: int = PAGE_SIZE,
        list_idle: float = LIST_IDLE_SECONDS,
        watch_idle: float = WATCH_IDLE_SECONDS,
        backoff: Backoff | None = None,
        on_problem: Callable[[str | None], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.synced = asyncio.Event()
        self._client = client
        self._path = path
        self._item: type[Any] = item
        self._make: Callable[[Any], T | None] = make
        self._selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._page_size = page_size
        self._list_idle = list_idle
        self._watch_idle = watch_idle
        self._backoff = backoff or Backoff(FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS)
        self._on_problem = on_problem
        self._clock = clock
        self._log = log.bind(api=client.config.name, collection=name or path)
        self._store: Store[T] = Store(self._log)
        self._version = ""
        self._generation = -1
        self._problem: str | None = NOT_LISTED
        self._problem_since = clock()
        self._lists = 0
        self._failures = 0
        self._watching = False
        self._proven = False
        self._doubtful = False
        self._listing_since: float | None = None
        self._opened_at = self._unwatched_since = clock()

    @property
    def store(self) -> Mapping[Key, T]:
        """The records, by (namespace, name); a live view."""
        return self._store.view

    @property
    def problem(self) -> str | None:
        """Why the store may be out of date, None while list and watch work."""
        return self._problem

    @property
    def problem_seconds(self) -> float:
        """For how long the store may have been out of date, 0 while list and watch work."""
        return self._clock() - self._problem_since if self._problem else 0.0

    @property
    def unwatched_seconds(self) -> float:
        """For how long changes may have passed unseen although nothing has failed yet; 0 while watched.

        A watch counts once it told something or stayed open for a second: one that is accepted and ended
        again and again tells nothing. After one that failed, the next has to tell something.
        """
        if self._is_watched():
            return 0.0
        return self._clock() - self._unwatched_since

    @property
    def listing_seconds(self) -> float:
        """For how long a list has been under way; 0 for none. Until it is complete, the last one is old."""
        return 0.0 if self._listing_since is None else self._clock() - self._listing_since

    @property
    def resource_version(self) -> str:
        """The version the store stands at; "" before the first list and while a new one is needed."""
        return self._version

    @property
    def lists(self) -> int:
        """How many complete lists were made; one more for each time the watch could not go on."""
        return self._lists

    @property
    def current(self) -> bool:
        """Whether the store is a copy of what the client is configured for now."""
        return self.synced.is_set() and self._generation == self._client.generation

    @property
    def failures(self) -> int:
        """How many times list or watch failed."""
        return self._failures

    def subscribe(self, listener: Callable[[Change[T]], None]) -> Callable[[], None]:
        """Call `listener` for each change from now on, in order; gives the function that ends it.

        Listeners run between two awaits of the reflector: they put into a queue or set an event.
        """
        return self._store.subscribe(listener)

    async def run(self) -> None:
        """Keep the store up to date until cancelled; no answer of the server ends it."""
        while True:
            started = self._clock()
            try:
                if not self._can_watch():
                    await self._list()
                if self._can_watch():
                    await self._watch()
            except _Expired as error:
                self._version = ""
                self._log.debug("resource version expired", detail=str(error))
            except FedHPAError as error:
                self._failed(error)
            if self._clock() - started >= SHORT_WATCH_SECONDS and self._problem is None:
                self._backoff.reset()
                continue
            await asyncio.sleep(self._backoff.next())

    def _can_watch(self) -> bool:
        """Whether there is a version to watch from, and it is the present server's."""
        return bool(self._version) and self._generation == self._client.generation

    async def _list(self) -> None:
        generation = self._client.generation
        self._version = ""
        self._listing_since = self._clock()
        try:
            listing = await self._fetch_leniently()
        finally:
            self._listing_since = None
        if generation != self._client.generation:
            return  # pages of two servers are no list
        self._store.replace(self._keyed(item) for item in listing.items)
        self._generation = generation
        self._version = listing.resource_version
        self._lists += 1
        self._unwatched_since = self._clock()
        self._doubtful = False
        self._succeeded()
        self.synced.set()

    async def _fetch_leniently(self) -> Listing[Any]:
        try:
            return await self._fetch(self._item)
        except ApiError as error:
            if error.reason != INVALID_RESPONSE:
                raise
            # One item that does not fit its type spoils a page: take the items one by one.
            return await self._fetch(msgspec.Raw)

    async def _fetch(self, item: type[I]) -> Listing[I]:
        return await self._client.list(
            self._path,
            item,
            label_selector=self._selectors["labelSelector"],
            field_selector=self._selectors["fieldSelector"],
            page_size=self._page_size,
            idle=self._list_idle,
        )

    async def _watch(self) -> None:
        params: dict[str, str | int] = {
            **self._selectors,
            "watch": True,
            "allowWatchBookmarks": True,
            "resourceVersion": self._version,
            "timeoutSeconds": random.randint(*WATCH_SECONDS),
        }
        self._watching = False
        try:
            async with aclosing(
                self._client.watch(self._path, params=params, idle=self._watch_idle)
            ) as lines:
                async for line in lines:
                    if not self._can_watch():
                        return  # opened with another server than the one that was listed
                    if not self._watching:
                        self._watching, self._opened_at = True, self._clock()
                    self._succeeded()
                    if line:
                        self._apply(line)
                        self._proven, self._doubtful = True, False
        except ApiError as error:
            if error.status == GONE:
                raise _Expired(str(error)) from error
            if error.reason in (TOO_LARGE, TOO_SLOW):
                # From the same version the same line would come: only a new list leads on.
                self._version = ""
            if error.reason != TIMEOUT or not self._watching:
                raise
            # Quiet for so long, the connection may be dead: open another from where this one stood.
            self._log.debug("watch fell silent")
        finally:
            if self._is_watched():
                self._unwatched_since = self._clock()
            self._watching = self._proven = False

    def _is_watched(self) -> bool:
        if not self._watching or self._proven:
            return self._watching
        return not self._doubtful and self._clock() - self._opened_at >= SHORT_WATCH_SECONDS

    def _apply(self, line: bytes) -> None:
        try:
            event = decoder(_WatchEvent).decode(line)
            if event.type == "ERROR":
                self._raise_watch_error(decoder(_WatchError).decode(event.object))
            meta = decoder(_Meta).decode(event.object).metadata
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            # What this line was about is lost: only a new list says what is there.
            self._version = ""
            raise ApiError(
                f"watch of {self._path}: a line cannot be read: {error}", status=200, reason=INVALID_RESPONSE
            ) from error
        key = (meta.namespace, meta.name)
        if not meta.name:
            pass  # a bookmark, which has nothing but a version
        elif event.type == "DELETED":
            self._store.put(key, None)
        elif event.type in ("ADDED", "MODIFIED"):
            self._store.put(key, self._decode(key, event.object))
        self._version = meta.resourceVersion or self._version

    def _raise_watch_error(self, status: _WatchError) -> None:
        if status.code == GONE:
            raise _Expired(status.message or "")
        # From this version the server would say the same again: list anew, as client-go does.
        self._version = ""
        raise ApiError(
            f"watch of {self._path} failed: {(status.message or '')[:200]}",
            status=status.code,
            reason=status.reason or "",
        )

    def _decode(self, key: Key, raw: msgspec.Raw) -> T | None:
        try:
            item = decoder(self._item).decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._log.warning("object cannot be read", namespace=key[0], name=key[1], error=str(error))
            return None
        return self._record(key, item)

    def _record(self, key: Key, item: Any) -> T | None:
        try:
            return self._make(item)
        # One object that somebody's code trips over must not end the watch of all others.
        except Exception as error:
            self._log.warning(
                "object left out", namespace=key[0], name=key[1], error=f"{type(error).__name__}: {error}"
            )
            return None

    def _keyed(self, item: Any) -> tuple[Key, T | None]:
        if not isinstance(item, msgspec.Raw):
            key = _key(item)
            return key, self._record(key, item)
        key = self._raw_key(item)
        return key, self._decode(key, item) if key[1] else None

    def _raw_key(self, raw: msgspec.Raw) -> Key:
        try:
            return _key(decoder(_Meta).decode(raw))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._log.warning("object without readable metadata left out", error=str(error))
            return ("", "")

    def _succeeded(self) -> None:
        if self._problem is not None:
            self._log.info("list and watch work", objects=len(self._store.view))
            self._problem = None
            if self._on_problem is not None:
                self._on_problem(None)

    def _failed(self, error: FedHPAError) -> None:
        if self._problem is None or self._problem == NOT_LISTED:
            self._problem_since = self._clock() if self._problem is None else self._problem_since
            self._log.info("list or watch failed", error=str(error))
        elif self._problem != str(error):
            # A connection that breaks is the first thing to be seen of many a fault; what it is comes then.
            self._log.info("list or watch fails otherwise", error=str(error))
        else:
            self._log.debug("list or watch failed again", error=str(error))
        self._failures += 1
        self._doubtful = True
        self._problem = str(error)
        if self._on_problem is not None:
            self._on_problem(self._problem)


def _key(item: Any) -> Key:
    if isinstance(item, dict):
        metadata = item.get("metadata") or {}
        return metadata.get("namespace", ""), metadata.get("name", "")
    return item.metadata.namespace, item.metadata.name


__all__ = ["Change", "Key", "Reflector"]
