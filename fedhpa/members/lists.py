"""One answer of a member, fetched once and shared by everyone who needs it in the same period.

The cost of metrics then grows with members and namespaces, not with autoscalers times clusters.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, cast
from weakref import WeakKeyDictionary

from fedhpa.api.errors import FedHPAError, MemberUnavailable, MetricsUnavailable
from fedhpa.api.wire import ObjectList, PodMetrics
from fedhpa.kube.client import ApiClient
from fedhpa.kube.paths import resource_path
from fedhpa.kube.responses import decoder

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)

METRICS_API = "metrics.k8s.io/v1beta1"
# A failure is shared, too: a thousand autoscalers of a namespace must not each wait for the same deadline.
FAILURE_SECONDS = 2.0
# What did not answer is asked again in the background for as long as somebody wants it.
WANTED_SECONDS = 30.0
# A thousand selections at once would be a thousand connections to each member, and end at their deadline: the
# others wait for their turn, which comes when one ends, by its deadline.
AT_ONCE = 32
TURN_SECONDS = 30.0
# A list of some hundred pods is decoded in a millisecond; one of 10,000 takes some 30. Of a hundred of these
# at once the last would be read after its deadline, and all would be in memory as they were sent.
LARGE_BYTES = 256 * 1024
LARGE_AT_ONCE = 8
# An answer that nobody asked for again is dropped after this long.
KEEP_SECONDS = 120.0
# All that is remembered, as it was sent: whole lists of a hundred members with 10,000 pods each, and then the
# selections and names that callers may think of without end. Beyond either bound the oldest go.
MOST_BYTES = 512 * 2**20
MOST_ENTRIES = 20_000
# What an entry costs beside the answer: its key, and an error.
ENTRY_BYTES = 2048
# More than an error has in practice; a chain may have a cycle.
ERROR_CAUSES = 10

# Called before a member is asked on a caller's behalf; it raises where that caller has asked enough.
CHARGE: ContextVar[Callable[[], None] | None] = ContextVar("charge", default=None)


class Asked(Protocol):
    """Who is asked: a member, or the hub in its place."""

    @property
    def name(self) -> str:
        """What errors call it."""

    @property
    def client(self) -> ApiClient:
        """How it is reached."""

    def check(self) -> None:
        """MemberUnavailable if it cannot be asked now."""


@dataclass(frozen=True)
class Fetched(Generic[T]):
    """A decoded answer and when it was asked for, by the clock of the lists."""

    value: T
    fetched_at: float


@dataclass
class _Entry:
    """What is known under a key: the last outcome, and the fetch under way, if any.

    `retry` is there instead while a member that did not answer is asked again and again.
    """

    task: asyncio.Task[None] | None = None
    retry: asyncio.Task[None] | None = None
    answer: Fetched[Any] | None = None
    error: FedHPAError | None = None
    at: float = float("-inf")
    wanted_at: float = float("-inf")
    size: int = 0

    @property
    def idle(self) -> bool:
        """Whether nobody is being asked."""
        return self.task is None and self.retry is None

    @property
    def silent(self) -> bool:
        """Whether the member did not answer the last time."""
        return isinstance(self.error, MemberUnavailable)


_Key = tuple[Asked, int, str, tuple[tuple[str, str], ...], Callable[[bytes], Any]]


class SharedLists:
    """An async context manager; leaving it ends the fetches under way."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[_Key, _Entry] = {}
        self._swept_at = clock()
        self._group: asyncio.TaskGroup | None = None
        self._fetches = 0
        self._bytes = 0
        self._turns: WeakKeyDictionary[Asked, asyncio.Semaphore] = WeakKeyDictionary()
        self._large_turns = asyncio.Semaphore(LARGE_AT_ONCE)
        self._decoding = asyncio.Lock()

    @property
    def fetches(self) -> int:
        """How many requests were sent to members."""
        return self._fetches

    def age(self, answer: Fetched[Any]) -> float:
        """How many seconds ago an answer was asked for."""
        return self._clock() - answer.fetched_at

    async def __aenter__(self) -> Self:
        self._group = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None, "entered before left"
        for entry in self._entries.values():
            for task in (entry.task, entry.retry):
                if task is not None:
                    task.cancel()
        self._entries.clear()
        self._bytes = 0
        group, self._group = self._group, None
        await group.__aexit__(kind, error, trace)

    def fresh(
        self,
        member: Asked,
        path: str,
        params: Mapping[str, str] | None,
        decode: Callable[[bytes], T],
        *,
        max_age: float,
    ) -> Fetched[T] | None:
        """What `get` would give without asking anybody; None if it would ask, wait or raise."""
        entry = self._entries.get(_key(member, path, params, decode))
        if entry is None or not entry.idle or entry.error is not None:
            return None
        return cast("Fetched[T]", entry.answer) if self._fresh(entry, max_age) else None

    async def get(
        self,
        member: Asked,
        path: str,
        params: Mapping[str, str] | None,
        decode: Callable[[bytes], T],
        *,
        max_age: float,
        deadline: float | None = None,
    ) -> Fetched[T]:
        """The member's answer to GET `path`, decoded, at most `max_age` seconds old.

        Whoever asks while it is being fetched waits for the same fetch; a waiter that is cancelled
        does not end it. `decode` is part of the identity, so pass the same function each time.
        A member that hangs costs a deadline once: after that it is asked in the background, and nobody
        waits for it until it answers. MemberUnavailable if the member does not answer; MetricsUnavailable
        if it answers with an error or with what cannot be decoded.
        """
        if self._group is None:
            raise RuntimeError("SharedLists is used outside its `async with`")
        self._sweep()
        key = _key(member, path, params, decode)
        entry = self._entries.get(key)
        if entry is None or (entry.idle and not self._fresh(entry, max_age)):
            member.check()
            charge = CHARGE.get()
            if charge is not None:
                charge()
            if entry is None:
                entry = self._entries[key] = _Entry()
            entry.task = self._group.create_task(self._first(self._group, key, entry, deadline))
        entry.wanted_at = self._clock()
        if entry.task is not None:
            # The task ends by deadline, and never raises: what ends here is this waiter alone.
            task = entry.task
            await asyncio.wait([task])
            task.result()  # cancelled with the lists
        if entry.error is not None:
            raise entry.error.with_traceback(None)
        return cast("Fetched[T]", entry.answer)

    def _fresh(self, entry: _Entry, max_age: float) -> bool:
        age = self._clock() - entry.at
        return age <= (max_age if entry.error is None else min(max_age, FAILURE_SECONDS))

    async def _first(
        self, group: asyncio.TaskGroup, key: _Key, entry: _Entry, deadline: float | None
    ) -> None:
        """What whoever asks waits for."""
        try:
            await self._fetch(key, entry, deadline)
            if entry.silent:
                entry.retry = group.create_task(self._ask_again(key, entry, deadline))
        finally:
            entry.task = None

    async def _ask_again(self, key: _Key, entry: _Entry, deadline: float | None) -> None:
        """Until it answers, or nobody wants to know any more."""
        try:
            while entry.silent and self._clock() - entry.wanted_at <= WANTED_SECONDS:
                await asyncio.sleep(FAILURE_SECONDS)
                await self._fetch(key, entry, deadline, again=True)
        finally:
            entry.retry = None

    async def _fetch(self, key: _Key, entry: _Entry, deadline: float | None, *, again: bool = False) -> None:
        member, _, path, params, decode = key
        size = ENTRY_BYTES + len(path) + sum(len(value) for _, value in params)
        try:
            # What hung before must not take those places from members that answer.
            small = again or bool(params)
            async with self._turn(member), self._large_turn(member, entry, small):
                began = self._clock()
                self._fetches += 1
                response = await member.client.request("GET", path, params=dict(params), deadline=deadline)
                value = await self._decoded(response.body, decode)
            entry.answer, entry.error = Fetched(value, began), None
            entry.at = began
            size += len(response.body)
        except MemberUnavailable as error:
            entry.error, entry.at = _without_frames(error), self._clock()
        # `decode` is the caller's: whatever it stumbles over is the answer's fault, and every waiter's news.
        except Exception as error:
            entry.error = MetricsUnavailable(f"cluster {member.name!r}: {error}")
            entry.error.__cause__ = _without_frames(error)
            entry.at = self._clock()
        finally:
            # A failure leaves the answer before it where it was.
            self._weigh(entry, size if entry.error is None else max(size, entry.size))

    @asynccontextmanager
    async def _turn(self, member: Asked) -> AsyncIterator[None]:
        """A place among the requests to a member; MemberUnavailable if none is given up in time."""
        turns = self._turns.get(member)
        if turns is None:
            turns = self._turns[member] = asyncio.Semaphore(AT_ONCE)
        reason = f"{AT_ONCE} requests to it are under way, and none ended in {TURN_SECONDS:g} s"
        async with _place(turns, member, reason):
            yield

    @asynccontextmanager
    async def _large_turn(self, member: Asked, entry: _Entry, small: bool) -> AsyncIterator[None]:
        """A place among the large answers, for what was large the last time or is all of something new."""
        known = entry.answer is not None
        if small or (known and entry.size < LARGE_BYTES):
            yield
            return
        reason = f"{LARGE_AT_ONCE} large answers are awaited, and none ended in {TURN_SECONDS:g} s"
        async with _place(self._large_turns, member, reason):
            yield

    async def _decoded(self, body: bytes, decode: Callable[[bytes], T]) -> T:
        """The decoded answer. Of several that are large only one is decoded before others get their turn."""
        if len(body) < LARGE_BYTES:
            return decode(body)
        async with self._decoding:
            value = decode(body)
            await asyncio.sleep(0)
            return value

    def _weigh(self, entry: _Entry, size: int) -> None:
        """Count what an entry holds now, and forget the oldest where that is too much."""
        self._bytes += size - entry.size
        entry.size = size
        if self._bytes <= MOST_BYTES and len(self._entries) <= MOST_ENTRIES:
            return
        idle = [(key, known) for key, known in self._entries.items() if known.idle]
        # Selections before whole lists; more than must, for this looks at everything.
        for key, known in sorted(idle, key=lambda pair: (not pair[0][3], pair[1].at)):
            if self._bytes <= MOST_BYTES * 3 // 4 and len(self._entries) <= MOST_ENTRIES * 3 // 4:
                return
            self._drop(key, known)

    def _drop(self, key: _Key, entry: _Entry) -> None:
        del self._entries[key]
        self._bytes -= entry.size

    def _sweep(self) -> None:
        now = self._clock()
        if now - self._swept_at < KEEP_SECONDS:
            return
        self._swept_at = now
        for key, entry in tuple(self._entries.items()):
            if entry.idle and now - entry.at > KEEP_SECONDS:
                self._drop(key, entry)


@asynccontextmanager
async def _place(places: asyncio.Semaphore, member: Asked, reason: str) -> AsyncIterator[None]:
    if places.locked():
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await places.acquire()
        except TimeoutError:
            raise MemberUnavailable(member.name, reason) from None
    else:
        await places.acquire()
    try:
        yield
    finally:
        places.release()


def _without_frames(error: E) -> E:
    """The error without the frames of its making: they hold whole answers, and it is remembered."""
    found: BaseException | None = error
    for _ in range(ERROR_CAUSES):
        if found is None:
            break
        found.__traceback__ = None
        found = found.__cause__ or found.__context__
    return error


def _key(member: Asked, path: str, params: Mapping[str, str] | None, decode: Callable[[bytes], Any]) -> _Key:
    return (member, member.client.generation, path, tuple(sorted(params.items())) if params else (), decode)


def decode_pod_metrics(body: bytes) -> list[PodMetrics]:
    """The items of a PodMetricsList; ValueError (msgspec.DecodeError) if it is none."""
    return decoder(ObjectList[PodMetrics]).decode(body).items or []


async def pod_metrics(
    lists: SharedLists,
    member: Asked,
    namespace: str,
    *,
    max_age: float,
    decode: Callable[[bytes], T],
    deadline: float | None = None,
) -> Fetched[T]:
    """Usage of all pods of a namespace ("" for all), as `decode`, say `decode_pod_metrics`, makes it."""
    path = pod_metrics_path(namespace)
    return await lists.get(member, path, None, decode, max_age=max_age, deadline=deadline)


def pod_metrics_path(namespace: str) -> str:
    """Where the usage of all pods of a namespace ("" for all) is."""
    return resource_path(METRICS_API, "pods", namespace)
