"""A cache with single flight, ages and bounds: concurrent callers of a key share one fetch and its outcome.

It serves the lists of members, the answers of a metrics store, the targets that admission looks up, and the
hub's reviews of tokens and access.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
E = TypeVar("E", bound=Exception)

# More causes than an error has in practice; a chain of causes may have a cycle.
MAX_ERROR_CAUSES = 10


class Recent(OrderedDict[K, V]):
    """The values of at most `most` keys. The keys that were not set for longest go first."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


@dataclass(frozen=True)
class Fetched(Generic[V]):
    """A fetched value.

    `fetched_at` is the time, by the cache's clock, from which the value's age counts. The value expires
    `ttl` seconds later. `weight` counts towards the cache's `max_weight`. `tag` is for those that fetch.
    """

    value: V
    fetched_at: float
    ttl: float = math.inf
    weight: int = 0
    tag: bytes = b""

    @property
    def expires(self) -> float:
        """The time at which the value is no longer served."""
        return self.fetched_at + self.ttl


Fetch = Callable[[], Awaitable[Fetched[V]]]


@dataclass(eq=False)
class _Flight(Generic[V]):
    """A fetch under way, and its outcome afterwards. A detached one outlives its waiters."""

    detached: bool
    waiters: int = 0
    fetched: Fetched[V] | None = None
    error: Exception | None = None
    task: asyncio.Task[None] = field(init=False)


@dataclass(eq=False)
class Entry(Generic[V]):
    """The last outcome of a key, and the fetch under way, if any.

    After a failure `fetched` is still the value before it.
    """

    flight: _Flight[V] | None = None
    fetched: Fetched[V] | None = None
    error: Exception | None = None
    at: float = -math.inf
    expires: float = -math.inf
    weight: int = 0

    def fresh(self, now: float, max_age: float) -> bool:
        """True if the last outcome may be used by a caller that accepts `max_age` seconds."""
        return now - self.at <= max_age and now < self.expires


class Cache(Generic[K, V]):
    """Values by key.

    - `failure_seconds`: how long a failure is kept. With 0 only the callers that wait for the fetch get it.
    - `keep_seconds`: outcomes older than this are dropped when another outcome arrives.
    - `max_entries`, `max_weight`: beyond either bound the oldest outcomes are dropped. An entry weighs
      `key_weight(key)` plus the weight of its value. Keys that are `expendable` are dropped before others.

    Kept errors are without tracebacks, whose frames would hold whole answers in memory.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        max_entries: float = math.inf,
        max_weight: float = math.inf,
        key_weight: Callable[[K], int] = lambda _: 0,
        expendable: Callable[[K], bool] = lambda _: False,
        failure_seconds: float = 0.0,
        keep_seconds: float = math.inf,
    ) -> None:
        self._clock = clock
        self._max_entries = max_entries
        self._max_weight = max_weight
        self._key_weight = key_weight
        self._expendable = expendable
        self._failure_seconds = failure_seconds
        self._keep_seconds = keep_seconds
        self._entries: dict[K, Entry[V]] = {}
        # The keys that may be dropped, oldest first: the expendable ones, and the others.
        self._droppable: tuple[OrderedDict[K, None], OrderedDict[K, None]] = (OrderedDict(), OrderedDict())
        # The weight of all entries, and the number of fetches under way.
        self.weight = self.in_flight = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def is_fetching(self, key: K) -> bool:
        """True while the key is being fetched."""
        entry = self._entries.get(key)
        return entry is not None and entry.flight is not None

    def entry(self, key: K) -> Entry[V] | None:
        """Returns the last outcome of a key, which later ones replace in place until the key is dropped."""
        return self._entries.get(key)

    def peek(self, key: K, *, max_age: float = math.inf) -> Fetched[V] | None:
        """Returns what `get` would return at once; None if `get` would fetch, wait or raise."""
        entry = self._entries.get(key)
        if entry is None or entry.flight is not None or entry.error is not None:
            return None
        now = self._clock()
        return entry.fetched if now - entry.at <= max_age and now < entry.expires else None

    def latest(self, key: K) -> Fetched[V] | None:
        """Returns the last value of a key however old it is, also if a failure followed."""
        entry = self._entries.get(key)
        return entry.fetched if entry is not None else None

    def outcome(self, key: K) -> Fetched[V] | None:
        """Returns the last value of a key however old it is, None without one. Raises a failure after it."""
        entry = self._entries.get(key)
        if entry is not None and entry.error is not None:
            raise copy_of(entry.error)
        return entry.fetched if entry is not None else None

    async def get(
        self,
        key: K,
        fetch: Fetch[V],
        *,
        max_age: float = math.inf,
        admit: Callable[[], None] | None = None,
        group: asyncio.TaskGroup | None = None,
    ) -> Fetched[V]:
        """Returns the value of `key`, at most `max_age` seconds old, and fetches it if necessary.

        A caller that comes while the key is being fetched waits for that fetch. `admit` is called before
        a new fetch begins; if it raises, nothing is fetched and nothing is kept.

        With `group` the fetch runs in that task group and outlives its callers. Without, it is cancelled
        with the last caller that waits for it; a caller that is cancelled earlier leaves it to the others.

        Raises what `fetch` raises, or raised at most `failure_seconds` ago.
        """
        entry = self._entries.get(key)
        if entry is None or entry.flight is not None or not entry.fresh(self._clock(), max_age):
            return await self.refresh(key, fetch, admit=admit, group=group)
        if entry.error is not None:
            raise copy_of(entry.error)
        assert entry.fetched is not None, "an outcome is a value or an error"
        return entry.fetched

    async def refresh(
        self,
        key: K,
        fetch: Fetch[V],
        *,
        admit: Callable[[], None] | None = None,
        group: asyncio.TaskGroup | None = None,
    ) -> Fetched[V]:
        """Returns a newly fetched value, or that of the fetch under way. For the rest see `get`."""
        flight = self._fly(key, fetch, admit, group)
        flight.waiters += 1
        try:
            await asyncio.wait([flight.task])
        finally:
            flight.waiters -= 1
            if not flight.waiters and not flight.detached and not flight.task.done():
                self._settle(key, flight)
                flight.task.cancel()
                await asyncio.wait([flight.task])
        flight.task.result()  # CancelledError if the cache was closed
        if flight.error is not None:
            raise copy_of(flight.error) if self._failure_seconds else flight.error
        assert flight.fetched is not None, "a fetch that ended left a value or an error"
        return flight.fetched

    def start(
        self,
        key: K,
        fetch: Fetch[V],
        *,
        group: asyncio.TaskGroup,
        admit: Callable[[], None] | None = None,
    ) -> None:
        """Fetch in the background, unless a fetch of this key is under way. Raises what `admit` raises."""
        self._fly(key, fetch, admit, group)

    def clear(self) -> None:
        """Forget everything. Fetches under way serve those who wait for them and are not kept."""
        self._entries.clear()
        for keys in self._droppable:
            keys.clear()
        self.weight = 0

    def close(self) -> None:
        """Cancel the fetches under way, also for those who wait for them, and forget everything."""
        for entry in self._entries.values():
            if entry.flight is not None:
                entry.flight.task.cancel()
        self.clear()

    def _fly(
        self, key: K, fetch: Fetch[V], admit: Callable[[], None] | None, group: asyncio.TaskGroup | None
    ) -> _Flight[V]:
        """Returns the fetch under way; begins it if there is none."""
        entry = self._entries.get(key)
        if entry is not None and entry.flight is not None:
            return entry.flight
        if admit is not None:
            admit()
        if entry is None:
            entry = self._entries[key] = Entry()
        flight = entry.flight = _Flight(detached=group is not None)
        # Without a group the task is the callers' own: the last of them waits until it has ended.
        create = group.create_task if group is not None else asyncio.create_task
        flight.task = create(_run(flight, fetch))
        flight.task.add_done_callback(partial(self._landed, key, flight))
        self.in_flight += 1
        self._queue(key).pop(key, None)
        return flight

    def _landed(self, key: K, flight: _Flight[V], _: asyncio.Task[None]) -> None:
        self.in_flight -= 1
        self._settle(key, flight)

    def _settle(self, key: K, flight: _Flight[V]) -> None:
        """Keep the outcome of a fetch that ended, or was cancelled, and drop what is too much."""
        entry = self._entries.get(key)
        if entry is None or entry.flight is not flight:
            return
        entry.flight = None
        if flight.fetched is not None:
            entry.fetched, entry.error = flight.fetched, None
            entry.at, entry.expires = flight.fetched.fetched_at, flight.fetched.expires
        elif flight.error is not None and self._failure_seconds:
            _drop_frames(flight.error)
            entry.error, entry.at = flight.error, self._clock()
            entry.expires = entry.at + self._failure_seconds
        self._queue(key)[key] = None
        if entry.fetched is None and entry.error is None:
            self._drop(key)
            return
        weight = self._key_weight(key) + (entry.fetched.weight if entry.fetched is not None else 0)
        self.weight += weight - entry.weight
        entry.weight = weight
        self._trim()

    def _trim(self) -> None:
        oldest = self._clock() - self._keep_seconds
        for keys in self._droppable:
            while keys and self._entries[key := next(iter(keys))].at < oldest:
                self._drop(key)
        for keys in self._droppable:
            while keys and (len(self._entries) > self._max_entries or self.weight > self._max_weight):
                self._drop(next(iter(keys)))

    def _drop(self, key: K) -> None:
        self.weight -= self._entries.pop(key).weight
        del self._queue(key)[key]

    def _queue(self, key: K) -> OrderedDict[K, None]:
        return self._droppable[0 if self._expendable(key) else 1]


async def _run(flight: _Flight[V], fetch: Fetch[V]) -> None:
    """Never raises but CancelledError: a failed fetch must not end the other tasks of its group."""
    try:
        flight.fetched = await fetch()
    except Exception as error:
        flight.error = error


def copy_of(error: E) -> E:
    """Returns the same failure for one caller. An exception that is raised holds the frames of the caller."""
    copy = error.__class__.__new__(error.__class__, *error.args)
    copy.__dict__.update(error.__dict__)
    copy.__cause__ = error.__cause__
    return copy


def _drop_frames(error: BaseException) -> None:
    found: BaseException | None = error
    for _ in range(MAX_ERROR_CAUSES):
        if found is None:
            return
        found.__traceback__ = None
        found = found.__cause__ or found.__context__
