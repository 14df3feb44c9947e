"""Polling with a deadline, and an error that says what the last attempt saw."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import aiohttp

from fedhpa.api.errors import ApiError

T = TypeVar("T")


class NotInTime(Exception):
    """A condition did not hold before its deadline. The message names it and the last result."""


async def eventually(
    attempt: Callable[[], Awaitable[T | None]], *, what: str, seconds: float, every: float = 0.2
) -> T:
    """Returns the first result of `attempt` that is neither None nor False.

    An API error, a refused connection or a time-out of `attempt` means "not yet", because servers start in
    any order. Raises NotInTime after `seconds`.
    """
    seen = "nothing"
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    answer = await attempt()
                    if answer is not None and answer is not False:
                        return answer
                    seen = "a result, but not the expected one"
                except (ApiError, aiohttp.ClientError, OSError) as error:
                    seen = f"{type(error).__name__}: {error}"
                await asyncio.sleep(every)
    except TimeoutError:
        raise NotInTime(f"{what}: not within {seconds:.0f} s; seen last: {seen}") from None


async def gather(*jobs: Coroutine[Any, Any, T]) -> list[T]:
    """Returns all results in order. The first failure cancels the rest and is raised by itself."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(job) for job in jobs]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
