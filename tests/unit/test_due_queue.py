"""When each object is looked at next."""

import asyncio
import random

import pytest

from controller.schedule import DueQueue

A, B = ("shop", "a"), ("shop", "b")


class Clock:
    """Time that only a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def taken(queue: DueQueue) -> tuple[str, str] | None:
    """What is due now; None if nothing is."""
    task = asyncio.ensure_future(queue.take())
    for _ in range(3):
        await asyncio.sleep(0)
    if task.done():
        return task.result()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return None


async def test_earliest_first() -> None:
    """Keys come in the order of their times, not of their arrival."""
    clock = Clock()
    queue = DueQueue(clock)
    await queue.add(A, 10)
    await queue.add(B, 5)
    clock.now = 10.0

    assert [await taken(queue), await taken(queue)] == [B, A]


async def test_not_before_due() -> None:
    """A key that is not due is not given out."""
    queue = DueQueue(Clock())
    await queue.add(A, 5)

    assert await taken(queue) is None


async def test_earlier_wish_wins() -> None:
    """Adding a key again brings it forward and never puts it off, and it is given out once."""
    clock = Clock()
    queue = DueQueue(clock)
    await queue.add(A, 5)
    await queue.add(A, 1)
    await queue.add(A, 9)
    clock.now = 1.0

    assert [await taken(queue), await taken(queue)] == [A, None]


async def test_one_worker_a_key() -> None:
    """A key that is held is not given out again before it was given back, and is then due as wished."""
    clock = Clock()
    queue = DueQueue(clock)
    await queue.add(A)
    assert await taken(queue) == A

    await queue.add(A)

    assert await taken(queue) is None
    await queue.give_back(A)
    assert await taken(queue) == A


async def test_discarded_key_is_gone() -> None:
    """A deleted object is not looked at, and not put back by the worker that held it."""
    clock = Clock()
    queue = DueQueue(clock)
    await queue.add(A)
    await queue.add(B)
    await queue.discard(A)

    assert [await taken(queue), await taken(queue)] == [B, None]


async def test_waiter_wakes_for_new_key() -> None:
    """A worker that waits for nothing takes a key as soon as one is added."""
    queue = DueQueue(Clock())
    waiting = asyncio.ensure_future(queue.take())
    await asyncio.sleep(0)

    await queue.add(A)

    async with asyncio.timeout(1):
        assert await waiting == A


async def test_spread_stays_within_a_tenth() -> None:
    """Periods are shortened by at most a tenth, and not all by the same."""
    clock = Clock()
    queue = DueQueue(clock, rng=random.Random(7))
    keys = [("shop", str(number)) for number in range(50)]
    for key in keys:
        await queue.add_spread(key, 10.0)
    clock.now = 8.99
    assert await taken(queue) is None

    clock.now = 9.5
    early = 0
    while await taken(queue) is not None:
        early += 1

    assert 0 < early < len(keys)
    clock.now = 10.0
    assert len(queue) == len(keys)
