"""Asking until the answer is what it will be before long.

On a busy machine a webhook may miss its three seconds, a member those that the adapter gives it, and an API
server learns of roles, kinds and registrations by watches. So nothing of that kind is asked once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from testbed.real.controlplane import Answer, ControlPlane
from testbed.stage.waiting import NotInTime, eventually

T = TypeVar("T")

# Longer than the hub takes to look again at an API or its documents, about a minute.
SECONDS = 120.0


async def settled(
    ask: Callable[[], Awaitable[T]], holds: Callable[[T], bool], *, seconds: float = SECONDS, every: float = 1
) -> T:
    """The first answer of which `holds` is true; if there is none in time the last one, for the test's own
    assertion to fail on.
    """
    answers: list[T] = []

    async def look() -> bool:
        answer = await ask()
        answers[:] = [answer]
        return holds(answer)

    try:
        await eventually(look, what="an answer as it should be", seconds=seconds, every=every)
    except NotInTime:
        if not answers:
            raise
    return answers[-1]


async def kubectl(
    plane: ControlPlane, *arguments: str, stdin: str | None = None, code: int = 0, words: str = ""
) -> Answer:
    """What kubectl answers once it ends with this code and says these words, on either stream."""
    return await settled(
        lambda: plane.kubectl(*arguments, stdin=stdin),
        lambda answer: answer.code == code and words in answer.out + answer.err,
    )


async def done(do: Callable[[], Awaitable[object]], what: str) -> None:
    """Do it again until it is not refused; it must not matter that it is done twice."""

    async def look() -> bool:
        await do()
        return True

    await eventually(look, what=what, seconds=SECONDS, every=1)
