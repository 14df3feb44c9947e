"""Runs a task for as long as it is wanted, whatever it raises.

A member, a tenant or a typing error can make a task fail in ways that nobody foresaw. In a bare TaskGroup
such a failure cancels all other tasks and ends the process. A supervised task fails alone: the failure is
counted, reported, and logged in one line, and the task starts again after a delay. A failure that repeats is
logged again every ten minutes.

The waits before another attempt are here, too: exponential backoff, and the rate limit of a client.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import structlog

from fedhpa.api.errors import FedHPAError
from fedhpa.api.texts import one_line

log = structlog.get_logger(__name__)

FailureObserver = Callable[[str], None]
T = TypeVar("T")

# The tasks of this package. A process shows the failures of each task from its start on.
TASKS: Final = ("events", "hub-config", "object-unreadable", "reflector", "reflector-listener")
RESTART_SECONDS = (1.0, 30.0)
# A task that ran this long before it failed starts again after the first delay.
LONG_SECONDS = 60.0
MAX_CAUSE = 200
# The period of the log for a repeated failure, and the number of failures in memory.
REMINDER_SECONDS: Final = 600.0
MAX_REMEMBERED: Final = 1024

# By event loop, when a failure was logged: by task, what it is about, type and place. The oldest comes first.
_logged: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, ...], float]] = WeakKeyDictionary()


def _ignore(_: str) -> None:
    """The observer that does nothing."""


# Called with the name of each task that fails. A process sets it before it starts its tasks, which inherit
# it. The names are literals in the code, so a counter may have them as a label.
FAILURE_OBSERVER: ContextVar[FailureObserver] = ContextVar("failure_observer", default=_ignore)


# Seconds by which sums of POSIX times differ.
ROUNDING = 1e-3


class Backoff:
    """Delays that double from `first` to `most` seconds, each shortened at random by up to half.

    The jitter spreads the clients of a server that comes back.
    """

    def __init__(self, first: float, most: float, *, rng: random.Random | None = None) -> None:
        self._first = first
        self._most = most
        self._rng = rng or random.Random(random.random())
        self._next = first

    def next(self) -> float:
        """Returns the seconds to wait now, and doubles the delay after it."""
        delay = self._next
        self._next = min(self._next * 2, self._most)
        return delay * (0.5 + self._rng.random() / 2)

    def reset(self) -> None:
        """Start again with the first delay, after a success."""
        self._next = self._first


class SuccessPace:
    """Waits after successes in short order, by `backoff`, until one was the last for `useful` seconds."""

    def __init__(self, backoff: Backoff, useful: float) -> None:
        self._backoff = backoff
        self._useful = useful
        self._last = self._due = float("-inf")

    def succeeded(self, now: float) -> None:
        """Record a success. The more of them in short order, the later the next one is due."""
        if now - self._last >= self._useful:
            self._backoff.reset()
        self._last, self._due = now, now + self._backoff.next()

    def wait_seconds(self, now: float) -> float:
        """Returns the seconds until the next attempt is due. Failures do not move it."""
        return max(self._due - now, 0.0)


class RateLimit:
    """A token bucket: `qps` requests a second on average, `burst` at once. qps 0 means no limit."""

    def __init__(self, qps: float, burst: int) -> None:
        self._interval = 1.0 / qps if qps > 0 else 0.0
        self._slack = self._interval * max(burst - 1, 0)
        self._due = self._seen = float("-inf")

    def allows(self, now: float) -> bool:
        """Take a token that is valid now. Returns False, and takes none, if there is none.

        A clock that is set back takes no token away.
        """
        self._due -= max(self._seen - now, 0.0)
        self._seen = now
        due = max(self._due + self._interval, now - self._slack)
        if due > now + ROUNDING:
            return False
        self._due = due
        return True

    def wait_seconds(self, now: float, tokens: int = 1) -> float:
        """Take the next tokens. Returns the seconds until they are valid.

        They stay taken if the caller gives up: this wastes a token but never allows a burst.
        """
        if not self._interval:
            return 0.0
        self._due = max(self._due + tokens * self._interval, now - self._slack)
        return max(self._due - now, 0.0)


async def supervise(
    task: str,
    run: Callable[[], Awaitable[None]],
    *,
    on_failure: Callable[[str], None] | None = None,
    backoff: Backoff | None = None,
    **about: str,
) -> None:
    """Await `run()` until it returns, and call it again after each failure. Raises only CancelledError.

    - `task`: a short literal such as "member-probe"; the label of the counter of failures.
    - `on_failure`: called with a sentence about the failure.
    - `about`: the member or object, for the log line: cluster, namespace, name.
    """
    delays = backoff or Backoff(*RESTART_SECONDS)
    clock = asyncio.get_running_loop().time
    while True:
        began = clock()
        try:
            await run()
            return
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            # The task awaited something that another task cancelled.
            report_failure(task, error, on_failure=on_failure, **about)
        except Exception as error:
            report_failure(task, error, on_failure=on_failure, **about)
        if clock() - began >= LONG_SECONDS:
            delays.reset()
        await asyncio.sleep(delays.next())


@asynccontextmanager
async def background(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs tasks until the context is left."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in works]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


async def contain(task: str, work: Callable[[], Awaitable[T]], failed: Callable[[str], T], **about: str) -> T:
    """Returns the result of `work()`; after an exception `failed(reason)`. Raises only CancelledError.

    A child of a TaskGroup that is contained never cancels its siblings. An error that the product raises on
    purpose is its own reason. Any other is reported as a failure of `task`; `about` is as in `supervise`.
    """
    return await _contain(work, failed, lambda error: reason_of(task, error, **about))


async def contain_each(
    task: str,
    clusters: Iterable[str],
    work: Callable[[str], Awaitable[T]],
    failed: Callable[[str], T],
    **about: str,
) -> dict[str, T]:
    """Returns the result of `work(cluster)` for each cluster, as `contain`. All are done at once."""
    async with asyncio.TaskGroup() as group:  # the tasks never raise
        tasks = {
            name: group.create_task(contain(task, partial(work, name), failed, cluster=name, **about))
            for name in clusters
        }
    return {name: done.result() for name, done in tasks.items()}


async def contain_unlogged(task: str, work: Callable[[], Awaitable[T]], failed: Callable[[str], T]) -> T:
    """Does what `contain` does, but leaves the log to the caller.

    The reason of an unexpected failure therefore ends with its place in the code.
    """

    def reason(error: BaseException) -> str:
        if isinstance(error, FedHPAError):
            return one_line(str(error), MAX_CAUSE)
        _count(task, None, "", {})
        return f"internal error: {explain(error)} ({_place(error)})"

    return await _contain(work, failed, reason)


async def _contain(
    work: Callable[[], Awaitable[T]], failed: Callable[[str], T], reason: Callable[[BaseException], str]
) -> T:
    try:
        return await work()
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        return failed(reason(error))
    except Exception as error:
        return failed(reason(error))


def reason_of(task: str, error: BaseException, **about: str) -> str:
    """Returns the bounded reason that a condition shows for an exception.

    Every exception but the product's own errors is reported as a failure of `task`.
    """
    if isinstance(error, FedHPAError):
        return one_line(str(error), MAX_CAUSE)
    report_failure(task, error, on_failure=None, **about)
    return f"internal error: {explain(error)}"


def report_failure(
    task: str, error: BaseException, *, on_failure: Callable[[str], None] | None = None, **about: str
) -> None:
    """Log and count an unexpected failure of `task`, and pass it to `on_failure`. Never raises."""
    cause, where = explain(error), _place(error)
    if _is_news((task, *about.values(), type(error).__name__, where)):
        log.error("task failed", task=task, error=cause, where=where, **about)
    else:
        log.debug("task failed again", task=task, error=cause, where=where, **about)
    _count(task, on_failure, cause, about)


def _count(task: str, on_failure: Callable[[str], None] | None, cause: str, about: Mapping[str, str]) -> None:
    try:
        FAILURE_OBSERVER.get()(task)
        if on_failure is not None:
            on_failure(f"internal error: {cause}")
    except Exception as again:
        log.exception("failure could not be reported", task=task, error=explain(again), **about)


def _is_news(failure: tuple[str, ...]) -> bool:
    """True if this failure was not logged in the last ten minutes."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return True
    known, now = _logged.setdefault(loop, {}), loop.time()
    if now - known.get(failure, float("-inf")) < REMINDER_SECONDS:
        return False
    known.pop(failure, None)
    known[failure] = now
    if len(known) > MAX_REMEMBERED:
        del known[next(iter(known))]
    return True


def explain(error: BaseException) -> str:
    """Returns a bounded text for any exception: its type, and its message in one line."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    try:
        message = one_line(str(error), MAX_CAUSE)
    except Exception:  # a message that cannot be made must not hide the failure
        message = ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _place(error: BaseException) -> str:
    """Returns module and line of the code that raised, so that one line is enough to find it."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}"


def _is_cancelled() -> bool:
    current = asyncio.current_task()
    return current is None or current.cancelling() > 0
