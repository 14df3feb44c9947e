"""A local copy of a collection, kept up to date by list and watch.

The protocol is that of the API machinery. The reflector lists in pages and watches from the list's
resourceVersion with bookmarks. When a watch ends, the next one continues from the last version. After 410
(a status or an ERROR event) the reflector lists again. It keeps a record made from each item, which is
much smaller than the item.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Generic, TypeVar

import msgspec
import structlog

from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
from fedhpa.api.json import BOOKMARK, EventCheck, decode_json
from fedhpa.kube.client import LIST_IDLE_SECONDS, PAGE_SIZE, ApiClient
from fedhpa.kube.outage import is_outage
from fedhpa.kube.pieces import Turns
from fedhpa.kube.records import ItemReader, Key, Listener, Store, head_of
from fedhpa.kube.responses import GONE
from fedhpa.kube.supervision import Backoff, RateLimit, SuccessPace, report_failure
from fedhpa.kube.transport import INVALID_RESPONSE, TIMEOUT, TOO_LARGE, TOO_SLOW

log = structlog.get_logger(__name__)

I = TypeVar("I")  # noqa: E741  # an item as decoded
T = TypeVar("T")  # the record made of it

# API servers send a bookmark every minute, plus half a minute of grace. They send none while the version does
# not change (seen with 1.36.3), so a quiet collection costs one new watch in this time.
WATCH_IDLE_SECONDS = 90.0
# As in client-go, each watch ends after 5 to 10 minutes, which spreads clients over API servers.
WATCH_SECONDS = (300, 600)
# A watch that ends sooner counts as a failure, so that the reflector backs off.
SHORT_WATCH_SECONDS = 1.0
FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.5, 30.0
# Lists of a server that makes each one useless back off, until one was of use for so long.
LISTED_SECONDS = 120.0
# Events of a collection, which a member could otherwise send without end. A cluster of 150,000 pods has some
# hundred changes a second. An event counts once for each EVENT_BYTES.
EVENTS_PER_SECOND, EVENT_BURST = 2_000, 40_000
EVENT_BYTES = 4096
NOT_LISTED = "not listed yet"


class _WatchEvent(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _WatchError(msgspec.Struct, frozen=True):
    code: int = 0
    reason: str | None = None
    message: str | None = None


class _Expired(Exception):
    """The server no longer has the resourceVersion."""


class Reflector(Generic[T]):
    """Keeps `store`, the records by (namespace, name), equal to a collection while `run` runs.

    - `item`: the type that objects are decoded as: a msgspec struct with `metadata: ObjectMeta`, or
      `dict[str, Any]`.
    - `make`: makes the record of an item; None leaves the item out. A change that leaves the record equal is
      not reported to listeners.
    - `on_problem`: called with each failure, and with None when list and watch work again.
    - `on_unreadable`: called with the key, the uid and the reason of each object that is left out because it
      cannot be decoded, and with empty texts when such an object is deleted.
    - `name`: the name in logs.
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
        on_unreadable: Callable[[Key, str, str], None] | None = None,
        clock: Callable[[], float],
    ) -> None:
        self.synced = asyncio.Event()
        self._client = client
        self._path = path
        self._events = EventCheck(path)
        self._item = item
        self._selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._page_size = page_size
        self._list_idle = list_idle
        self._watch_idle = watch_idle
        self._backoff = backoff or Backoff(FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS)
        lists = Backoff(FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS)
        self._pace_of_lists = SuccessPace(lists, LISTED_SECONDS)
        self._pace = RateLimit(EVENTS_PER_SECOND, EVENT_BURST)
        self._on_problem = on_problem
        self._clock = clock
        self._about = {"api": client.config.name, "collection": name or path}
        self._log = log.bind(**self._about)
        self._reader: ItemReader[T] = ItemReader(item, make, self._log, on_unreadable)
        self.records: Store[T] = Store(self._log)
        # The records by (namespace, name), a live view; and the record of a key, None without one.
        self.store: Mapping[Key, T] = self.records.view
        self.get: Callable[[Key], T | None] = self.records.view.get
        # Data that a reader derives from the store and keeps up to date. They end with the reflector.
        self.derived: object = None
        # When a reader last used the store, for those who end reflectors that nobody uses.
        self.needed_at = clock()
        self._version = ""
        self.generation = -1
        # The reason why the store may be out of date; None while list and watch work.
        self.problem: str | None = NOT_LISTED
        # False if the whole server has the problem.
        self._is_own_problem = True
        self._problem_since = clock()
        # Complete lists, one each time a watch could not continue, and failed lists and watches.
        self.lists = self.failures = 0
        # `proven` while a watch keeps the store that has shown that it works; `generation` is the client's.
        self._watching = self.proven = self._doubtful = False
        self._listing_since: float | None = None
        self._opened_at = self._unwatched_since = clock()
        # Its deadline is moved to end a watch that may deliver nothing.
        self._watch_timer = asyncio.timeout(None)

    @property
    def problem_seconds(self) -> float:
        """The seconds for which the store may have been out of date; 0 while list and watch work."""
        return self._clock() - self._problem_since if self.problem else 0.0

    def is_up_to_date(self, unwatched: float) -> bool:
        """True if the store is current and without problem, and was watched within so many seconds.

        A watch counts once it has delivered an event or stayed open for a second, because a server may
        accept watches and end each at once. After a failed watch, the next one must deliver an event.
        """
        # Every object asks this of every cluster, so it is answered without a call while all is well.
        if self.problem is not None or self.generation != self._client.generation:
            return False
        is_watched = self.proven or self._is_watched()
        return is_watched or self._clock() - self._unwatched_since <= unwatched

    @property
    def listing_seconds(self) -> float:
        """The seconds since the list under way began; 0 if there is none. The store is older than that."""
        return 0.0 if self._listing_since is None else self._clock() - self._listing_since

    @property
    def resource_version(self) -> str:
        """The version of the store; "" before the first list and while a new list is needed."""
        return self._version

    @property
    def current(self) -> bool:
        """True if the store was listed with the client's present configuration."""
        return self.synced.is_set() and self.generation == self._client.generation

    def subscribe(self, listener: Listener[T]) -> Callable[[], None]:
        """Call `listener` for each later change, in order. Returns the function that unsubscribes it.

        Listeners block the reflector, so they should only put into a queue or set an event.
        """
        return self.records.subscribe(listener)

    def list_anew(self) -> None:
        """List again, because the watch may not have delivered all changes."""
        if self._watching:
            self._version = ""
            self._watch_timer.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Keep the store up to date until cancelled. No response of the server ends it."""
        while True:
            started = self._clock()
            try:
                if not self._can_watch():
                    await asyncio.sleep(self._list_delay())
                    started = self._listing_since = self._clock()
                    try:
                        await self._list()
                    finally:
                        self._listing_since = None
                if self._can_watch():
                    self._watch_timer = asyncio.timeout(None)
                    async with self._watch_timer:
                        await self._watch()
            except TimeoutError:
                self._log.info("listed anew", reason="the objects do not fit what the server says of them")
                continue
            except _Expired as error:
                self._version = ""
                self._log.debug("resource version expired", detail=str(error))
            except FedHPAError as error:
                if is_outage(error):
                    self._client.outage.failed(str(error).replace(self._path, ""), str(error), began=started)
                self._failed(str(error), is_own=not is_outage(error))
            # No error that an answer causes in the code may end the task.
            except Exception as error:
                self._version = ""
                report_failure("reflector", error, on_failure=self._failed, **self._about)
            if self._clock() - started >= SHORT_WATCH_SECONDS and self.problem is None:
                self._backoff.reset()
                continue
            await asyncio.sleep(self._backoff.next())

    def _can_watch(self) -> bool:
        """True if the store has a version to watch from, and it comes from the present server."""
        return bool(self._version) and self.generation == self._client.generation

    def _list_delay(self) -> float:
        """Returns the seconds to wait before a list of a server that was listed already."""
        is_same = self.generation == self._client.generation
        return self._pace_of_lists.wait_seconds(self._clock()) if is_same else 0.0

    async def _list(self) -> None:
        generation = self._client.generation
        self._version = ""
        items, version = await self._client.list_leniently(
            self._path,
            self._item,
            label_selector=self._selectors["labelSelector"],
            field_selector=self._selectors["fieldSelector"],
            page_size=self._page_size,
            idle=self._list_idle,
        )
        records = await self._records(items)
        if generation != self._client.generation:
            return  # the pages may come from two servers
        await self._replace(records)
        self.generation = generation
        self._version = version
        self.lists += 1
        self._unwatched_since = self._clock()
        self._pace_of_lists.succeeded(self._unwatched_since)
        self._doubtful = False
        self._succeeded()
        self.synced.set()

    async def _records(self, items: Sequence[Any]) -> dict[Key, T | None]:
        """Returns the record of each item. Other tasks run meanwhile, because there may be many."""
        turns, records = Turns(), {}
        for item in items:
            key, record = self._reader.keyed(item)
            records[key] = record
            await turns.pause()
        return records

    async def _replace(self, records: Mapping[Key, T | None]) -> None:
        """Store these records and remove all others."""
        turns = Turns()
        gone: dict[Key, T | None] = {key: None for key in self.records.view if key not in records}
        self._reader.keep_only(records.keys())
        for key, record in (*gone.items(), *records.items()):
            self.records.put(key, record)
            await turns.pause()

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
                        return  # the configuration changed: this watch may be on another server
                    if not self._watching:
                        self._watching, self._opened_at = True, self._clock()
                    self._succeeded()
                    if line:
                        self._apply(line)
                        self.proven, self._doubtful = True, False
                        if wait := self._pace.wait_seconds(self._clock(), 1 + len(line) // EVENT_BYTES):
                            await asyncio.sleep(wait)
        except ApiError as error:
            if error.status == GONE:
                raise _Expired(str(error)) from error
            if error.reason in (TOO_LARGE, TOO_SLOW):
                # The same line would come again from this version: list again.
                self._version = ""
            if error.reason != TIMEOUT or not self._watching:
                raise
            # After so long without data the connection may be dead: watch again from the last version.
            self._log.debug("watch timed out")
        finally:
            if self._is_watched():
                self._unwatched_since = self._clock()
            self._watching = self.proven = False

    def _is_watched(self) -> bool:
        if not self._watching or self.proven:
            return self._watching
        self.proven = not self._doubtful and self._clock() - self._opened_at >= SHORT_WATCH_SECONDS
        return self.proven

    def _apply(self, line: bytes) -> None:
        try:
            event = decode_json(line, _WatchEvent)
            if event.type == "ERROR":
                self._raise_watch_error(decode_json(event.object, _WatchError))
            head = head_of(event.object)
            meta = head.metadata
            self._events.check(event.type, head.kind, head.apiVersion, meta.name)
        except InvalidObject as error:
            # The change in this line is lost: list again.
            self._version = ""
            raise ApiError(
                f"watch of {self._path}: a line cannot be read: {error}", status=200, reason=INVALID_RESPONSE
            ) from error
        key = (meta.namespace, meta.name)
        if event.type == "DELETED":
            self.records.put(key, None)
            self._reader.forget(key)
        elif event.type != BOOKMARK:  # a bookmark has only a version
            self.records.put(key, self._reader.decode(key, event.object))
        self._version = meta.resourceVersion or self._version

    def _raise_watch_error(self, status: _WatchError) -> None:
        if status.code == GONE:
            raise _Expired(status.message or "")
        # The server would repeat the error for this version: list again, as client-go does.
        self._version = ""
        raise ApiError(
            f"watch of {self._path} failed: {(status.message or '')[:200]}",
            status=status.code,
            reason=status.reason or "",
        )

    def _succeeded(self) -> None:
        self._client.outage.answered(self._clock())
        if self.problem is not None:
            write = self._log.info if self._is_own_problem else self._log.debug
            write("list and watch work", objects=len(self.records.view))
            self.problem, self._is_own_problem = None, True
            self._tell()

    def _failed(self, problem: str, *, is_own: bool = True) -> None:
        """Record a failure. One of the whole server (`is_own` is false) has a line of its own already."""
        if self.problem is None:
            self._problem_since = self._clock()
        if not is_own:
            self._log.debug("list or watch failed with the API server", error=problem)
        elif self.problem is None or self.problem == NOT_LISTED:
            self._log.info("list or watch failed", error=problem)
        elif self.problem != problem:
            # Many faults begin with a broken connection; the next failure names the cause.
            self._log.info("list or watch fails for another reason", error=problem)
        else:
            self._log.debug("list or watch failed again", error=problem)
        self.failures += 1
        self._doubtful = True
        self.problem, self._is_own_problem = problem, is_own
        self._tell()

    def _tell(self) -> None:
        try:
            if self._on_problem is not None:
                self._on_problem(self.problem)
        except Exception as error:
            report_failure("reflector-listener", error, on_failure=None, **self._about)
