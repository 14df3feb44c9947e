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
from fedhpa.cache import Cache, Fetched
from fedhpa.members.breaker import CircuitBreaker
from fedhpa.members.lists import CALLER_QUOTA
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
# Series that are remembered in all, some hundreds of bytes each; callers may think of queries without end.
MOST_SERIES = 500_000
# What a query counts beside its series.
QUERY_SERIES = 20


@dataclass(frozen=True)
class Query:
    """PromQL, and how many seconds the store looks back for a sample (0: as many as it likes)."""

    text: str
    lookback: int = 0


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
        self._breaker = CircuitBreaker(threshold=FAILURES, cooldown=COOLDOWN_SECONDS, clock=clock)
        self._answers: Cache[Query, Answer] = Cache(
            clock=clock,
            max_weight=MOST_SERIES,
            key_weight=lambda _: QUERY_SERIES,
            failure_seconds=FAILURE_SECONDS,
            keep_seconds=max_age,
        )
        self._slots = asyncio.Semaphore(AT_ONCE)
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
        self._answers.close()
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
        fetched = await self._answers.get(
            query,
            lambda: self._fetch(query),
            max_age=self._max_age,
            admit=self._admit,
            group=self._group,
        )
        return fetched.value

    def _admit(self) -> None:
        """Raises MetricsUnavailable, or the error of a caller over its limit, if no query may be sent now."""
        if self._answers.in_flight >= MOST_WAITING:
            raise StoreBusy(f"{MOST_WAITING} queries wait for it already")
        charge = CALLER_QUOTA.get()
        if charge is not None:
            charge()
        # The breaker comes last: a trial that it lets through must be made, or the store stays refused.
        refusal = self._breaker.refusal()
        if refusal is not None:
            raise StoreSilent(refusal)

    async def _fetch(self, query: Query) -> Fetched[Answer]:
        began = self._clock()
        failure: MetricsUnavailable | None = None
        try:
            answer = await self._run(query)
            self._note(None)
            outcome = "partial" if answer.warnings else "answered"
        except Exception as error:
            failure, outcome = self._failed(error)
        self._telemetry.answered(outcome, self._clock() - began)
        if failure is not None:
            raise failure
        return Fetched(answer, began, weight=len(answer.series))

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
