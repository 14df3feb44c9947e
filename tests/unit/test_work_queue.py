"""When each object is looked at next."""

import asyncio
from collections import Counter

import pytest

from controller.workqueue import WorkQueue, max_usage_age, until_slot

A, B = ("shop", "a"), ("shop", "b")


class Clock:
    """Time that only a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def taken(queue: WorkQueue) -> tuple[str, str] | None:
    """What is due now; None if nothing is."""
    task = asyncio.ensure_future(queue.get())
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
    queue = WorkQueue(clock)
    await queue.add(A, 10)
    await queue.add(B, 5)
    clock.now = 10.0

    assert [await taken(queue), await taken(queue)] == [B, A]


async def test_not_before_due() -> None:
    """A key that is not due is not given out."""
    queue = WorkQueue(Clock())
    await queue.add(A, 5)

    assert await taken(queue) is None


async def test_earlier_wish_wins() -> None:
    """Adding a key again brings it forward and never puts it off, and it is given out once."""
    clock = Clock()
    queue = WorkQueue(clock)
    await queue.add(A, 5)
    await queue.add(A, 1)
    await queue.add(A, 9)
    clock.now = 1.0

    assert [await taken(queue), await taken(queue)] == [A, None]


async def test_one_worker_a_key() -> None:
    """A key that is held is not given out again before it was given back, and is then due as wished."""
    clock = Clock()
    queue = WorkQueue(clock)
    await queue.add(A)
    assert await taken(queue) == A

    await queue.add(A)

    assert await taken(queue) is None
    await queue.done(A)
    assert await taken(queue) == A


async def test_discarded_key_is_gone() -> None:
    """A deleted object is not looked at, and not put back by the worker that held it."""
    clock = Clock()
    queue = WorkQueue(clock)
    await queue.add(A)
    await queue.add(B)
    await queue.discard(A)

    assert [await taken(queue), await taken(queue)] == [B, None]


async def test_waiter_wakes_for_new_key() -> None:
    """A worker that waits for nothing takes a key as soon as one is added."""
    queue = WorkQueue(Clock())
    waiting = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)

    await queue.add(A)

    async with asyncio.timeout(60):
        assert await waiting == A


def test_turns_are_spread_over_the_period() -> None:
    """A thousand objects of many namespaces never have more than a few turns in the same half second."""
    now, period = 1234.5, 15.0
    turns = [until_slot((f"team-{n % 100}", f"web-{n}"), period, now) for n in range(1000)]
    crowds = Counter(int(turn * 2) for turn in turns)

    assert 0 < min(turns) <= max(turns) <= period
    assert max(crowds.values()) < 3 * len(turns) / (period * 2)


@pytest.mark.parametrize("period", [1.0, 15.0, 300.0])
def test_a_namespace_shares_its_lists(period: float) -> None:
    """Objects of one namespace have their turns while one list of usage is young enough for all."""
    turns = [until_slot(("shop", f"web-{n}"), period, 0.0) for n in range(200)]
    first = until_slot(("shop", ""), period, 0.0)
    after = [(turn - first) % period for turn in turns]

    assert max(after) - min(after) < max_usage_age(period)
    assert len({round(turn, 3) for turn in turns}) > 100


@pytest.mark.parametrize("key", [A, B, ("", "")])
@pytest.mark.parametrize("late", [0.0, 0.2, 14.9])
def test_a_turn_stays_the_same(key: tuple[str, str], late: float) -> None:
    """However late a turn is taken, the next one is where it was: never later than a period after."""
    turn = until_slot(key, 15.0, 100.0) + 100.0
    following = turn + late + until_slot(key, 15.0, turn + late)

    assert following == pytest.approx(turn + 15.0)


async def test_a_key_is_as_late_as_it_was_taken() -> None:
    """A held key says how long it was due; one that is not held was never late."""
    clock = Clock()
    queue = WorkQueue(clock)
    await queue.add(A, 1.0)
    clock.now = 4.0
    await taken(queue)
    clock.now = 9.0
    held = queue.lateness(A)
    await queue.done(A)

    assert (held, queue.lateness(A), queue.lateness(B)) == (3.0, 0.0, 0.0)


@pytest.mark.parametrize(("late", "age"), [(0.0, 7.5), (3.0, 10.5), (1e6, 22.5)])
def test_what_is_late_may_use_what_was_listed_when_it_was_due(late: float, age: float) -> None:
    """Falling behind makes nothing be listed anew, within bounds."""
    assert max_usage_age(15.0, late) == age


async def test_a_turn_is_waited_for() -> None:
    """A key that was given its turn is due then, and not before."""
    clock = Clock()
    queue = WorkQueue(clock)
    await queue.add_periodic(A, 10.0)
    turn = until_slot(A, 10.0, 0.0)
    clock.now = turn - 0.01
    early = await taken(queue)
    clock.now = turn

    assert (early, await taken(queue)) == (None, A)
