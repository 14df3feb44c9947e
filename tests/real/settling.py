"""Retries until a result is the expected one.

On a busy machine a webhook or a member may miss its deadline, and an API server learns of roles, kinds and
registrations by watches. So tests retry such requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from testbed.real.controlplane import Answer, ControlPlane
from testbed.stage.waiting import NotInTime, eventually

T = TypeVar("T")

# Longer than the minute after which the hub rereads an API or its documents.
SECONDS = 120.0


async def settled(
    request: Callable[[], Awaitable[T]],
    holds: Callable[[T], bool],
    *,
    seconds: float = SECONDS,
    every: float = 1,
) -> T:
    """Returns the first result for which `holds` is true. After the deadline it returns the last one, so that
    the test's assertion fails.
    """
    results: list[T] = []

    async def attempt() -> bool:
        result = await request()
        results[:] = [result]
        return holds(result)

    try:
        await eventually(attempt, what="the expected result", seconds=seconds, every=every)
    except NotInTime:
        if not results:
            raise
    return results[-1]


async def kubectl(
    plane: ControlPlane, *arguments: str, stdin: str | None = None, code: int = 0, words: str = ""
) -> Answer:
    """Runs kubectl until it ends with this code and prints these words. Returns the output."""
    return await settled(
        lambda: plane.kubectl(*arguments, stdin=stdin),
        lambda answer: answer.code == code and words in answer.out + answer.err,
    )


async def done(do: Callable[[], Awaitable[object]], what: str) -> None:
    """Repeats an idempotent action until it succeeds."""

    async def attempt() -> bool:
        await do()
        return True

    await eventually(attempt, what=what, seconds=SECONDS, every=1)
