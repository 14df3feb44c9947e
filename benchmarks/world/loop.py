"""An event loop whose time is virtual: it jumps to the next timer whenever nothing is left to do."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

# 2027-01-15T08:00:00Z, when virtual time begins.
EPOCH = 1_800_000_000.0


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs everything in memory: no sockets, no signals, no threads."""

    def __init__(self) -> None:
        self._seconds = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        """Returns the virtual time in seconds; it begins at 0."""
        return self._seconds

    def wall(self) -> float:
        """Returns the virtual time of day in POSIX seconds; it begins at EPOCH."""
        return EPOCH + self._seconds

    def jump(self, seconds: float) -> None:
        """Lets time pass."""
        self._seconds += seconds

    def run_in_executor(  # type: ignore[override]  # its type has unpacked arguments
        self,
        executor: Any,  # noqa: ARG002  # asyncio's signature
        func: Callable[..., Any],
        *args: Any,
    ) -> asyncio.Future[Any]:
        """Calls `func` at once: a thread would take real time, in which the virtual clock would jump."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class _Jumping(selectors.DefaultSelector):
    """Waits for no file: a wait only moves the clock."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        """Returns nothing. Raises RuntimeError if the loop waits for something that cannot happen."""
        if timeout is None:
            raise RuntimeError("all tasks wait for something, and no timer is set")
        if timeout > 0:
            self._loop.jump(timeout)
        return []
