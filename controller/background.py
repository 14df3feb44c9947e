"""Work that no reconcile waits for, such as the write of a status."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Final, Generic, TypeVar
from weakref import WeakValueDictionary, finalize

from fedhpa.api.errors import FedHPAError
from fedhpa.kube import contain

K = TypeVar("K", bound=Hashable)

# Work that hangs beyond all deadlines inside it is cancelled, which frees its slot.
WORK_SECONDS: Final = 60.0


class Background(Generic[K]):
    """Work that no reconcile waits for: one piece for each key at a time, and one that waits behind it.

    A newer piece replaces the one that waits, so that not more than two pieces for each key exist. At most
    `slots` pieces are done at once. `task` names a failure in log and counter, and `about` the fields of the
    log for a key. The owner calls `end`.
    """

    def __init__(self, task: str, slots: int, about: Callable[[K], Mapping[str, str]]) -> None:
        self._task = task
        self._about = about
        self._slots = asyncio.Semaphore(slots)
        self._waiting: dict[K, tuple[Callable[[], Awaitable[None]], Callable[[str], None]]] = {}
        self._tasks: dict[K, asyncio.Task[None]] = {}

    def is_busy(self, key: K) -> bool:
        """True while work for the key waits or is being done."""
        return key in self._tasks

    def put(
        self, key: K, work: Callable[[], Awaitable[None]], failed: Callable[[str], None] = lambda _: None
    ) -> None:
        """Do the work soon, after what is being done for the key and in place of what waits.

        `failed` gets the reason if it raises, or takes longer than WORK_SECONDS.
        """
        self._waiting[key] = work, failed
        if key not in self._tasks:
            # Not in a TaskGroup: what waits at the end is still to be done after the groups were cancelled.
            self._tasks[key] = asyncio.create_task(self._run(key))

    async def settle(self, seconds: float | None = None) -> None:
        """Wait until all work is done, at most so many seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=seconds)

    async def end(self, seconds: float = 0.0) -> None:
        """Wait at most so many seconds until all work is done, and cancel the rest."""
        try:
            await self.settle(seconds)
        finally:
            self._waiting.clear()
            for task in self._tasks.values():
                task.cancel()

    async def _run(self, key: K) -> None:
        try:
            async with self._slots:
                while key in self._waiting:
                    work, failed = self._waiting.pop(key)
                    await contain(self._task, functools.partial(_in_time, work), failed, **self._about(key))
        finally:
            del self._tasks[key]


class KnownObjects:
    """Calls `forget` with the key of an object once what is known of it was dropped."""

    def __init__(self, forget: Callable[[tuple[str, str]], None]) -> None:
        self._forget = forget
        self._known: WeakValueDictionary[tuple[str, str], object] = WeakValueDictionary()

    def follow(self, key: tuple[str, str], known: object) -> None:
        """Note what is known of an object from now on."""
        self._known[key] = known
        finalize(known, self._drop, key).atexit = False

    def _drop(self, key: tuple[str, str]) -> None:
        # An object that was created again is known anew before the old one is dropped.
        if key not in self._known:
            self._forget(key)


async def _in_time(work: Callable[[], Awaitable[None]]) -> None:
    """Await the work. Raises what it raises, and FedHPAError if it takes too long."""
    try:
        async with asyncio.timeout(WORK_SECONDS) as deadline:
            await work()
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise FedHPAError(f"it took more than {WORK_SECONDS:g} s") from error
