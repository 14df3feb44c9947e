"""Waiting for effects: poll until something is true, with a deadline and with the reason it was not true
last time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import aiohttp

from fedhpa.api.errors import ApiError

T = TypeVar("T")


class NotInTime(Exception):
    """Something did not become true before its deadline; the message says what, and what was seen last."""


async def eventually(
    look: Callable[[], Awaitable[T | None]], *, what: str, seconds: float, every: float = 0.2
) -> T:
    """The first answer of `look` that is neither None nor False.

    An API error, a refused connection or a time-out of `look` counts as "not yet": servers come up in their
    own order. Raises NotInTime after `seconds`.
    """
    seen = "nothing"
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    answer = await look()
                    if answer is not None and answer is not False:
                        return answer
                    seen = "an answer, but not that"
                except (ApiError, aiohttp.ClientError, OSError) as error:
                    seen = f"{type(error).__name__}: {error}"
                await asyncio.sleep(every)
    except TimeoutError:
        raise NotInTime(f"{what}: not within {seconds:.0f} s; seen last: {seen}") from None


async def gather(*jobs: Coroutine[Any, Any, T]) -> list[T]:
    """All results, in order; the first failure cancels the rest and is raised as it is, not in a group."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(job) for job in jobs]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
