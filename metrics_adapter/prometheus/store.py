"""A metrics store (Prometheus, Thanos, Mimir) as the adapter asks it: few queries at once, by a deadline.

An answer is shared by all who ask the same within the maximum age, also while it is under way, and so is a
failure for a moment. A store that does not answer is not asked again at once (a breaker); nothing older
than the maximum age is ever given.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import structlog

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.members.breaker import Breaker
from fedhpa.members.lists import CHARGE
from metrics_adapter.prometheus.access import StoreAccess, StoreSilent
from metrics_adapter.prometheus.answer import Answer
from metrics_adapter.prometheus.client import StoreCall
from metrics_adapter.prometheus.telemetry import StoreTelemetry

log = structlog.get_logger(__name__)

# A store that runs queries one after another is not asked a thousand at once by a thousand autoscalers.
AT_ONCE = 8
# Who comes when so many wait is told so at once: all would only wait for their deadline.
MOST_WAITING = 1000
FAILURE_SECONDS = 2.0
FAILURES = 3
COOLDOWN_SECONDS = 5.0
SWEEP_SECONDS = 10.0
# Series that are remembered in all, some hundreds of bytes each; callers may think of queries without end.
MOST_SERIES = 500_000
# What a query counts beside its series.
QUERY_SERIES = 20


@dataclass(frozen=True)
class Query:
    """PromQL, and how many seconds the store looks back for a sample (0: as many as it likes)."""

    text: str
    lookback: int = 0


@dataclass
class _Entry:
    task: asyncio.Task[None] | None = None
    answer: Answer | None = None
    error: MetricsUnavailable | None = None
    at: float = float("-inf")
    weight: int = 0


class StoreBusy(MetricsUnavailable):
    """A query's turn did not come in time: no news of the store."""


class Store:
    """An async context manager; leaving it ends the queries under way."""

    def __init__(
        self,
        access: StoreAccess,
        *,
        deadline: float,
        max_age: float,
        telemetry: StoreTelemetry | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access = access
        self._deadline = deadline
        self._max_age = max_age
        self._telemetry = telemetry or StoreTelemetry()
        self._clock = clock
        self._breaker = Breaker(threshold=FAILURES, cooldown=COOLDOWN_SECONDS, clock=clock)
        self._entries: dict[Query, _Entry] = {}
        self._weight = 0
        self._swept_at = clock()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0
        self._threads: ThreadPoolExecutor | None = None
        self._group: asyncio.TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="store")
        self._group = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None, "entered before left"
        assert self._threads is not None, "entered before left"
        for entry in self._entries.values():
            if entry.task is not None:
                entry.task.cancel()
        group, self._group = self._group, None
        try:
            await group.__aexit__(kind, error, trace)
        finally:
            # Their connections were shut with the tasks: what is left of them ends by itself.
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def ask(self, query: Query) -> Answer:
        """The store's answer, at most the maximum age old. Raises MetricsUnavailable."""
        if self._group is None:
            raise RuntimeError("Store is used outside its `async with`")
        self._sweep()
        entry = self._entries.get(query)
        if entry is None or (entry.task is None and not self._fresh(entry)):
            if self._waiting >= MOST_WAITING:
                raise StoreBusy(f"{MOST_WAITING} queries wait for it already")
            charge = CHARGE.get()
            if charge is not None:
                charge()
            # The last to be asked: a trial that it lets through must be made, or the store stays refused.
            refusal = self._breaker.refusal()
            if refusal is not None:
                raise StoreSilent(refusal)
            if entry is None:
                entry = self._entries[query] = _Entry()
            self._waiting += 1
            entry.task = self._group.create_task(self._fetch(query, entry))
        if entry.task is not None:
            task = entry.task
            await asyncio.wait([task])  # it ends by its deadline, and never raises
            if task.done():
                task.result()  # cancelled with the store
        if entry.error is not None:
            raise entry.error.with_traceback(None)
        assert entry.answer is not None, "a fetch that ended left an answer or an error"
        return entry.answer

    def _fresh(self, entry: _Entry) -> bool:
        age = self._clock() - entry.at
        return age <= (self._max_age if entry.error is None else min(self._max_age, FAILURE_SECONDS))

    async def _fetch(self, query: Query, entry: _Entry) -> None:
        began = self._clock()
        try:
            answer = await self._run(query)
            entry.answer, entry.error, entry.at = answer, None, began
            self._note(None)
            outcome = "partial" if answer.warnings else "answered"
        except Exception as error:
            entry.error, outcome = self._failed(error)
            entry.at = self._clock()
        finally:
            self._waiting -= 1
            self._weigh(entry)
            entry.task = None
        self._telemetry.answered(outcome, self._clock() - began)

    def _failed(self, error: Exception) -> tuple[MetricsUnavailable, str]:
        """What is remembered of a failure, and the outcome to count.

        The error is made anew: the frames and causes of the first one hold whole answers.
        """
        if isinstance(error, StoreSilent):
            self._note(str(error))
            return StoreSilent(str(error)), "silent"
        if isinstance(error, StoreBusy):
            return StoreBusy(str(error)), "silent"
        if isinstance(error, MetricsUnavailable):
            self._note(None)  # it answered, if not with what was asked for
            return MetricsUnavailable(str(error)), "refused"
        log.error("a query to the metrics store failed unexpectedly", exc_info=error)
        return MetricsUnavailable(f"unexpected: {type(error).__name__}"), "refused"

    async def _run(self, query: Query) -> Answer:
        # Without a unit, for Prometheus' durations have no fractions.
        parameters = {"timeout": f"{self._deadline:g}"}
        if query.lookback:
            parameters["lookback_delta"] = str(query.lookback)
        call = StoreCall(self._access)
        loop = asyncio.get_running_loop()
        until = loop.time() + self._deadline
        left = 0.0
        try:
            async with asyncio.timeout_at(until):
                await self._slots.acquire()
                left = until - loop.time()
                # The thread may live longer than whoever waits for it; until it ends nobody has its place.
                assert self._threads is not None, "asked inside `async with`"
                work = self._threads.submit(call.run, query.text, parameters, self._deadline)
                work.add_done_callback(lambda ended: self._ended(loop, ended))
                return await asyncio.wrap_future(work)
        except TimeoutError:
            reason = f"no answer within {self._deadline:g} s"
            if left < self._deadline / 2:  # the store had little of it
                raise StoreBusy(f"{reason}: too many queries wait for it") from None
            raise StoreSilent(reason) from None
        finally:
            call.abort()

    def _ended(self, loop: asyncio.AbstractEventLoop, ended: Future[Answer]) -> None:
        if not ended.cancelled():
            ended.exception()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for a place any more
            loop.call_soon_threadsafe(self._slots.release)

    def _note(self, reason: str | None) -> None:
        was_open = self._breaker.reason is not None
        if reason is None:
            if was_open or self._breaker.failures:
                log.info("the metrics store answers again")
            self._breaker.success()
        else:
            if not self._breaker.failures:
                log.warning("the metrics store does not answer", reason=reason)
            self._breaker.failure(reason)
        self._telemetry.up(self._breaker.failures == 0)

    def _weigh(self, entry: _Entry) -> None:
        """Count what an entry holds now, and forget the oldest where that is too much."""
        weight = QUERY_SERIES + (len(entry.answer.series) if entry.answer is not None else 0)
        self._weight += weight - entry.weight
        entry.weight = weight
        if self._weight <= MOST_SERIES:
            return
        idle = [(query, known) for query, known in self._entries.items() if known.task is None]
        # More than must, for this looks at everything.
        for query, known in sorted(idle, key=lambda pair: pair[1].at):
            if self._weight <= MOST_SERIES * 3 // 4:
                return
            self._drop(query, known)

    def _drop(self, query: Query, entry: _Entry) -> None:
        del self._entries[query]
        self._weight -= entry.weight

    def _sweep(self) -> None:
        """Forget what is too old to be given."""
        now = self._clock()
        if now - self._swept_at < SWEEP_SECONDS:
            return
        self._swept_at = now
        for query, entry in tuple(self._entries.items()):
            if entry.task is None and not self._fresh(entry):
                self._drop(query, entry)
