"""Queries a metrics store (Prometheus, Thanos, Mimir) with a deadline, a cache and a circuit breaker.

Callers of the same query share one result within the maximum age, or one failure for a moment. A circuit
breaker stops queries to a store that does not answer. A result older than the maximum age is never served.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

import structlog

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.cache import Cache, Fetched
from fedhpa.members import CALLER_QUOTA, CircuitBreaker
from metrics_adapter.prometheus.access import StoreAccess, StoreUnavailable
from metrics_adapter.prometheus.client import StoreCall
from metrics_adapter.prometheus.queries import InstantQuery
from metrics_adapter.prometheus.results import QueryResult
from metrics_adapter.prometheus.store_series import StoreTelemetry

log = structlog.get_logger(__name__)

# Concurrent queries. A thousand autoscalers must not send a thousand queries to the store at once.
MAX_CONCURRENT = 8
# Waiting queries. More are refused at once, because they would only wait until their deadline.
MAX_WAITING = 1000
FAILURE_SECONDS = 2.0
FAILURES = 3
COOLDOWN_SECONDS = 5.0
# The bound of all cached results, in bytes. Callers can make up any number of queries.
MAX_CACHED_BYTES = 256 * 2**20
# Bytes of an entry without its text and its result.
ENTRY_BYTES = 4 * 1024


class StoreBusy(MetricsUnavailable):
    """A query waited too long for a free slot, which says nothing about the store."""


class MetricsStore:
    """The client of one store. Use it as an async context manager, which ends running queries on exit."""

    def __init__(
        self,
        access: StoreAccess,
        *,
        deadline: float,
        max_age: float,
        telemetry: StoreTelemetry | None = None,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._access = access
        self._deadline = deadline
        self._max_age = max_age
        self._telemetry = telemetry or StoreTelemetry()
        self._clock = clock
        self._wall = wall
        self._breaker = CircuitBreaker(threshold=FAILURES, cooldown=COOLDOWN_SECONDS, clock=clock)
        self._results: Cache[InstantQuery, QueryResult] = Cache(
            clock=clock,
            max_weight=MAX_CACHED_BYTES,
            key_weight=lambda query: ENTRY_BYTES + len(query.text),
            failure_seconds=FAILURE_SECONDS,
            keep_seconds=max_age,
        )
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._threads: ThreadPoolExecutor | None = None
        self._group: asyncio.TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._threads = ThreadPoolExecutor(MAX_CONCURRENT, thread_name_prefix="store")
        self._group = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None, "entered before left"
        assert self._threads is not None, "entered before left"
        self._results.close()
        group, self._group = self._group, None
        try:
            await group.__aexit__(kind, error, trace)
        finally:
            # Cancelling the tasks shut their connections, so the remaining threads end by themselves.
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def query(self, query: InstantQuery) -> QueryResult:
        """Returns the result of a query, at most the maximum age old. Raises MetricsUnavailable."""
        if self._group is None:
            raise RuntimeError("MetricsStore is used outside its `async with`")
        fetched = await self._results.get(
            query,
            lambda: self._fetch(query),
            max_age=self._max_age,
            admit=self._admit,
            group=self._group,
        )
        return fetched.value

    def _admit(self) -> None:
        """Raises MetricsUnavailable, or the error of a caller over its limit, if no query may be sent now."""
        if self._results.in_flight >= MAX_WAITING:
            raise StoreBusy(f"{MAX_WAITING} queries wait for it already")
        charge = CALLER_QUOTA.get()
        if charge is not None:
            charge()
        # The breaker comes last: a trial that it lets through must be made, or the store stays refused.
        refusal = self._breaker.refusal()
        if refusal is not None:
            raise StoreUnavailable(refusal)

    async def _fetch(self, query: InstantQuery) -> Fetched[QueryResult]:
        began = self._clock()
        failure: MetricsUnavailable | None = None
        try:
            result = await self._run(query)
            self._record(None)
            outcome = "partial" if result.warnings else "answered"
        except Exception as error:
            failure, outcome = self._classify(error)
        self._telemetry.queries.labels(outcome).inc()
        self._telemetry.seconds.observe(self._clock() - began)
        if failure is not None:
            raise failure
        return Fetched(result, began, weight=result.size)

    def _classify(self, error: Exception) -> tuple[MetricsUnavailable, str]:
        """Returns the error to cache, and the outcome to count.

        A new error replaces the original one, whose frames and causes keep whole answers in memory.
        """
        if isinstance(error, StoreUnavailable):
            self._record(str(error))
            return StoreUnavailable(str(error)), "silent"
        if isinstance(error, StoreBusy):
            return StoreBusy(str(error)), "silent"
        if isinstance(error, MetricsUnavailable):
            self._record(None)  # The store answered, although not with a usable result.
            return MetricsUnavailable(str(error)), "refused"
        log.error("a query to the metrics store failed unexpectedly", exc_info=error)
        return MetricsUnavailable(f"unexpected: {type(error).__name__}"), "refused"

    async def _run(self, query: InstantQuery) -> QueryResult:
        # Plain seconds, because Prometheus' durations with a unit have no fractions.
        parameters = {"timeout": f"{self._deadline:g}"}
        if query.lookback:
            parameters["lookback_delta"] = str(query.lookback)
        call = StoreCall(self._access, self._wall)
        loop = asyncio.get_running_loop()
        until = loop.time() + self._deadline
        left = 0.0
        try:
            async with asyncio.timeout_at(until):
                await self._slots.acquire()
                left = until - loop.time()
                # The thread may outlive its waiters. It keeps its slot until it ends.
                assert self._threads is not None, "queries run inside `async with`"
                work = self._threads.submit(call.run, query.text, parameters, self._deadline)
                work.add_done_callback(lambda ended: self._release_slot(loop, ended))
                return await asyncio.wrap_future(work)
        except TimeoutError:
            reason = f"no answer within {self._deadline:g} s"
            if left < self._deadline / 2:  # Most of the time passed in our queue, not in the store.
                raise StoreBusy(f"{reason}: too many queries wait for it") from None
            raise StoreUnavailable(reason) from None
        finally:
            call.abort()

    def _release_slot(self, loop: asyncio.AbstractEventLoop, ended: Future[QueryResult]) -> None:
        if not ended.cancelled():
            ended.exception()
        with contextlib.suppress(RuntimeError):  # The loop is closed, so no query waits for a slot.
            loop.call_soon_threadsafe(self._slots.release)

    def _record(self, reason: str | None) -> None:
        was_open = self._breaker.reason is not None
        if reason is None:
            if was_open or self._breaker.failures:
                log.info("the metrics store answers again")
            self._breaker.success()
        else:
            if not self._breaker.failures:
                log.warning("the metrics store does not answer", reason=reason)
            self._breaker.failure(reason)
        self._telemetry.up.set(float(self._breaker.failures == 0))
