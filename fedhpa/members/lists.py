"""GET requests to members, cached and shared by all callers.

The cost of metrics grows with members and namespaces, not with autoscalers times clusters.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, cast, runtime_checkable
from weakref import WeakKeyDictionary

from fedhpa.api.errors import ApiError, MemberUnavailable, MetricsUnavailable
from fedhpa.cache import Cache, Entry, Fetched, copy_of
from fedhpa.kube import ApiClient, Response, Turns, decode_in_pieces, report_failure, resource_path
from fedhpa.kube.transport import TOO_LARGE
from fedhpa.members.slow_lists import PATIENCE_SECONDS, Again, SlowList

T = TypeVar("T")

METRICS_API = "metrics.k8s.io/v1beta1"
POD_METRICS_LIST = "PodMetricsList"
# Failures are cached, too, so that the autoscalers of a namespace do not each wait for the same deadline.
FAILURE_SECONDS = 2.0
# A request that was not answered is repeated in the background until no caller has wanted it for this long.
WANTED_SECONDS = 30.0
# Concurrent requests to a member, which cost a connection each. Other requests wait for a slot, at most
# QUEUE_SECONDS. A member that needs 3 s for an answer can then serve three hundred lists a period.
MAX_CONCURRENT = 64
QUEUE_SECONDS = 30.0
# Concurrent repetitions in the background of one member. All that hangs must not take the slots of the rest.
MAX_CONCURRENT_RETRIES = 16
# Concurrent large answers, of all members. A list of 10,000 pods takes about 30 ms to decode. Of a hundred at
# once the last would miss its deadline, and all bodies would be in memory.
LARGE_BYTES = 256 * 1024
MAX_CONCURRENT_LARGE = 8
# An answer that is expected to be small, and is larger, is requested again with a slot for a large one. The
# answers of a lying member to all concurrent requests would otherwise fill the memory.
LIMIT_OF_SMALL = 2**20
# A larger one still, of 40,000 pods or more, is requested again when no other one is awaited. Eight of 96 MB
# would take the memory that the chart gives a process.
LIMIT_OF_LARGE = 24 * 2**20
# Why a slow server counts as missing. It has no numbers, because they would change a status all the time.
SLOW = "it answers slowly: its last answer is too old"
# Older answers are dropped.
KEEP_SECONDS = 120.0
# The bounds of the cache, in bytes of response bodies: enough for the whole lists of a hundred members with
# 10,000 pods each. Callers can request any number of selections and names.
MAX_BYTES = 512 * 2**20
MAX_ENTRIES = 20_000
# The size of an entry without its answer: its key, and an error.
ENTRY_BYTES = 2048
# The bound of requests that are repeated in the background, in bytes of keys and errors. Beyond it, a request
# is repeated only when a caller wants it.
MAX_RETRY_BYTES = 16 * 2**20

# Called before a request to a member is sent for a caller; raises if the caller is over its limit.
CALLER_QUOTA: ContextVar[Callable[[], None] | None] = ContextVar("charge", default=None)


class Upstream(Protocol):
    """The server that requests are sent to: a member, or the hub in its place."""

    @property
    def name(self) -> str:
        """The name in errors."""

    @property
    def client(self) -> ApiClient:
        """The client for the requests."""

    def check(self) -> None:
        """Raises MemberUnavailable if no request can be sent now."""


@runtime_checkable
class Joinable(Protocol):
    """A decoded list that is put together from pieces in its own way; others are collections."""

    async def joined(self, pieces: Sequence[Any], turns: Turns) -> Any:
        """Returns all pieces as one. The first of them is this one."""


@dataclass(eq=False)
class _Retry:
    """A request that is repeated in the background, because the member did not answer it."""

    error: MemberUnavailable
    wanted_at: float
    task: asyncio.Task[None] | None = None


Query = tuple[Upstream, int, str, tuple[tuple[str, str], ...], Callable[[bytes], Any]]


class SharedLists:
    """An async context manager; leaving it cancels the requests under way."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._cache: Cache[Query, Any] = Cache(
            clock=clock,
            max_entries=MAX_ENTRIES,
            max_weight=MAX_BYTES,
            key_weight=_key_bytes,
            expendable=_selects,
            failure_seconds=FAILURE_SECONDS,
            keep_seconds=KEEP_SECONDS,
        )
        self._retries: dict[Query, _Retry] = {}
        self._retry_bytes = 0
        # The lists that are read ahead: their callers must say when they come again.
        self.slow: dict[Query, tuple[SlowList, asyncio.Task[None]]] = {}
        self._group: asyncio.TaskGroup | None = None
        # The requests that were sent to members.
        self.fetches = 0
        self._slots: WeakKeyDictionary[Upstream, asyncio.Semaphore] = WeakKeyDictionary()
        self._retry_slots: WeakKeyDictionary[Upstream, asyncio.Semaphore] = WeakKeyDictionary()
        self._large_slots = asyncio.Semaphore(MAX_CONCURRENT_LARGE)
        self._huge_slot = asyncio.Semaphore(1)
        self._decoding = asyncio.Lock()

    def age(self, answer: Fetched[Any]) -> float:
        """Returns the seconds since the request for an answer was sent."""
        return self._clock() - answer.fetched_at

    async def __aenter__(self) -> Self:
        self._group = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None, "entered before left"
        self._cache.close()
        for retry in self._retries.values():
            if retry.task is not None:
                retry.task.cancel()
        for _, task in self.slow.values():
            task.cancel()
        group, self._group = self._group, None
        await group.__aexit__(kind, error, trace)

    def fresh(
        self,
        member: Upstream,
        path: str,
        params: Mapping[str, str] | None,
        decode: Callable[[bytes], T],
        *,
        max_age: float,
        again: Again | None = None,
    ) -> Fetched[T] | None:
        """Returns what `get` would return at once; None if `get` would send a request, wait or raise."""
        key = _key(member, path, params, decode)
        found = self._cache.peek(key, max_age=max_age)
        if found is not None and again is not None and key in self.slow:
            self.slow[key][0].want(again, max_age)
        return found

    def held(
        self, member: Upstream, path: str, decode: Callable[[bytes], T]
    ) -> tuple[Query, Entry[T] | None]:
        """Returns the key of a request without parameters, and its last outcome, None without one."""
        key = _key(member, path, None, decode)
        return key, self._cache.entry(key)

    async def get(
        self,
        member: Upstream,
        path: str,
        params: Mapping[str, str] | None,
        decode: Callable[[bytes], T],
        *,
        max_age: float,
        deadline: float | None = None,
        again: Again | None = None,
    ) -> Fetched[T]:
        """Returns the member's decoded answer to GET `path`, at most `max_age` seconds old.

        Concurrent callers share one request, and cancelling one of them does not cancel the request.
        `decode` is part of the cache key: pass the same function each time. It returns a collection, or a
        `Joinable`, and gets a large list in pieces.
        A member that hangs costs one deadline. After that it is tried in the background, and callers get the
        error at once until it answers. Raises MemberUnavailable if the member does not answer, and
        MetricsUnavailable if it answers with an error or with a body that cannot be decoded.
        A caller that says when it comes `again` does not wait for a slow member, but for its first answer.
        The list is then read ahead of that time. The caller gets the last answer if it is young enough, and
        otherwise MemberUnavailable.
        """
        if self._group is None:
            raise RuntimeError("SharedLists is used outside its `async with`")
        key = _key(member, path, params, decode)
        retry = self._retries.get(key)
        if retry is not None:
            retry.wanted_at = self._clock()
            raise copy_of(retry.error)
        found = self.fresh(member, path, params, decode, max_age=max_age, again=again)
        if found is not None:
            return found
        if again is None or key not in self.slow:
            first = partial(self._first, self._group, key, deadline)
            is_first, began = self._cache.latest(key) is None, self._clock()
            try:
                async with asyncio.timeout(None if again is None or is_first else PATIENCE_SECONDS):
                    admit = partial(_admit, member)
                    found = await self._cache.get(key, first, max_age=max_age, admit=admit, group=self._group)
            except TimeoutError:
                found = None
            took = self._clock() - began
            if again is None or (found is not None and took < PATIENCE_SECONDS):
                assert found is not None, "nobody else gives up waiting"
                return found
            self._read_ahead(self._group, key, first, took)
        self.slow[key][0].want(again, max_age)
        last = self._cache.outcome(key)
        if last is None or self.age(last) > max(max_age, again.oldest):
            raise MemberUnavailable(key[0].name, SLOW)
        return last

    def _read_ahead(
        self,
        group: asyncio.TaskGroup,
        key: Query,
        first: Callable[[], Awaitable[Fetched[Any]]],
        seconds: float,
    ) -> None:
        """Read a list from now on before it is wanted, because it took so many seconds or more."""
        if key in self.slow:
            return
        slow, joins = SlowList(self._clock, seconds), self._cache.is_fetching(key)

        async def read() -> None:
            if key not in self._retries:
                await self._cache.refresh(key, first, admit=partial(_admit, key[0]), group=group)

        async def run() -> None:
            try:
                await slow.run(read, partial(self._cache.latest, key), joins=joins)
            except Exception as error:
                report_failure("member-list", error, cluster=key[0].name)
            finally:
                del self.slow[key]

        self.slow[key] = slow, group.create_task(run())

    async def _first(self, group: asyncio.TaskGroup, key: Query, deadline: float | None) -> Fetched[Any]:
        """The request that callers wait for."""
        try:
            return await self._request(key, deadline, small=bool(key[3]))
        except MemberUnavailable as error:
            if self._retry_bytes + _key_bytes(key) <= MAX_RETRY_BYTES:
                self._retry_bytes += _key_bytes(key)
                retry = self._retries[key] = _Retry(error, self._clock())
                retry.task = group.create_task(self._try_again(group, key, deadline, retry))
            raise

    async def _try_again(
        self, group: asyncio.TaskGroup, key: Query, deadline: float | None, retry: _Retry
    ) -> None:
        """Repeat the request until the member answers, or until no caller has wanted it for a while."""
        slots = self._retry_slots.setdefault(key[0], asyncio.Semaphore(MAX_CONCURRENT_RETRIES))
        try:
            while self._clock() - retry.wanted_at <= WANTED_SECONDS:
                await asyncio.sleep(FAILURE_SECONDS)
                try:
                    async with slots:
                        # Small: a member that hung must not take the slots of large answers from others.
                        request = partial(self._request, key, deadline, small=True, repeated=True)
                        await self._cache.refresh(key, request, group=group)
                except MemberUnavailable as error:
                    retry.error = copy_of(error)
                except MetricsUnavailable:
                    return  # the member answers again, with an error
                except Exception as error:
                    report_failure("member-list", error, cluster=key[0].name)
                    return
                else:
                    return
        finally:
            del self._retries[key]
            self._retry_bytes -= _key_bytes(key)

    async def _request(
        self, key: Query, deadline: float | None, *, small: bool, repeated: bool = False
    ) -> Fetched[Any]:
        """Sends one request, and further ones while an answer is larger than it was expected to be."""
        member, last = key[0], self._cache.latest(key)
        if last is not None and not repeated:
            small = last.weight < LARGE_BYTES
        send = partial(self._send, key, last, deadline, repeated)
        try:
            slots = self._slots.setdefault(member, asyncio.Semaphore(MAX_CONCURRENT))
            async with _acquired(slots, member, f"{MAX_CONCURRENT} requests to it are under way"):
                answer = await send(LIMIT_OF_SMALL) if small else None
                if answer is None and (last is None or last.weight <= LIMIT_OF_LARGE):
                    async with _acquired(
                        self._large_slots, member, f"{MAX_CONCURRENT_LARGE} large answers are awaited"
                    ):
                        answer = await send(LIMIT_OF_LARGE)
                if answer is None:
                    async with _acquired(self._huge_slot, member, "a very large answer is awaited"):
                        answer = await send(None)
        except MemberUnavailable:
            raise
        # `decode` is the caller's: whatever it raises means that the answer cannot be used.
        except Exception as error:
            raise MetricsUnavailable(f"cluster {member.name!r}: {error}") from error
        assert answer is not None, "the last request has no limit"
        return answer

    async def _send(
        self, key: Query, last: Fetched[Any] | None, deadline: float | None, repeated: bool, limit: int | None
    ) -> Fetched[Any] | None:
        """Returns the decoded answer; None if it is larger than the limit."""
        member, _, path, params, decode = key
        began, known = self._clock(), last.tag if last is not None else b""
        self.fetches += 1
        request = partial(member.client.request, "GET", path, is_list=True, repeated=repeated, limit=limit)
        try:
            response = await request(params=dict(params), deadline=deadline, known=known)
        except ApiError as error:
            if limit is not None and error.reason == TOO_LARGE:
                return None
            raise
        if response.unchanged and last is not None:
            return replace(last, fetched_at=began)
        # Large answers are decoded one after the other.
        async with self._decoding if response.size >= LARGE_BYTES else nullcontext():
            value = await _in_pieces(response, decode)
        return Fetched(value, began, weight=response.size, tag=response.digest)


async def _in_pieces(response: Response, decode: Callable[[bytes], T]) -> T:
    pieces = await decode_in_pieces(response.parts, cast("Callable[[bytes], Any]", decode))
    if len(pieces) == 1:
        return cast(T, pieces[0])
    first = pieces[0]
    if isinstance(first, Joinable):
        return cast(T, await first.joined(pieces, Turns()))
    return cast(T, type(first)(chain.from_iterable(pieces)))


@asynccontextmanager
async def _acquired(slots: asyncio.Semaphore, member: Upstream, busy: str) -> AsyncIterator[None]:
    """Hold one of some slots. Raises MemberUnavailable if none becomes free in time; all are `busy`."""
    if slots.locked():
        try:
            async with asyncio.timeout(QUEUE_SECONDS):
                await slots.acquire()
        except TimeoutError:
            raise MemberUnavailable(member.name, f"{busy}, and none ended in {QUEUE_SECONDS:g} s") from None
    else:
        await slots.acquire()
    try:
        yield
    finally:
        slots.release()


def _key(
    member: Upstream, path: str, params: Mapping[str, str] | None, decode: Callable[[bytes], Any]
) -> Query:
    return (member, member.client.generation, path, tuple(sorted(params.items())) if params else (), decode)


def _key_bytes(key: Query) -> int:
    _, _, path, params, _ = key
    return ENTRY_BYTES + len(path) + sum(len(value) for _, value in params)


def _selects(key: Query) -> bool:
    """True for a selection, which is cheaper to fetch again than a whole list."""
    return bool(key[3])


def _admit(member: Upstream) -> None:
    """Raises MemberUnavailable if the member is unavailable, or the error of a caller over its limit."""
    member.check()
    quota = CALLER_QUOTA.get()
    if quota is not None:
        quota()


def pod_metrics_path(namespace: str) -> str:
    """Returns the path of the usage of all pods of a namespace ("" for all)."""
    return resource_path(METRICS_API, "pods", namespace)
