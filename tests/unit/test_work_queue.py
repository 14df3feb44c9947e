"""The work queue gives out each object when it is due."""

import asyncio
from collections import Counter

import pytest

from controller.federatedhpa.snapshot import max_usage_age, until_slot
from controller.loop import WorkQueue

A, B = ("shop", "a"), ("shop", "b")


class Clock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def taken(queue: WorkQueue[tuple[str, str]]) -> tuple[str, str] | None:
    """The key that is due now; None if no key is."""
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
    """Keys come in the order of their due times, not of their arrival."""
    clock = Clock()
    queue = WorkQueue[tuple[str, str]](clock)
    queue.add(A, 10)
    queue.add(B, 5)
    clock.now = 10.0

    assert [await taken(queue), await taken(queue)] == [B, A]


async def test_not_before_due() -> None:
    """A key is not given out before it is due."""
    queue = WorkQueue[tuple[str, str]](Clock())
    queue.add(A, 5)

    assert await taken(queue) is None


async def test_the_earlier_time_wins() -> None:
    """Adding a key again may bring it forward, never delay it, and it is given out once."""
    clock = Clock()
    queue = WorkQueue[tuple[str, str]](clock)
    queue.add(A, 5)
    queue.add(A, 1)
    queue.add(A, 9)
    clock.now = 1.0

    assert [await taken(queue), await taken(queue)] == [A, None]


async def test_one_worker_a_key() -> None:
    """A key added during its processing is given out again only after `done`."""
    clock = Clock()
    queue = WorkQueue[tuple[str, str]](clock)
    queue.add(A)
    assert await taken(queue) == A

    queue.add(A)

    assert await taken(queue) is None
    queue.done(A)
    assert await taken(queue) == A


async def test_waiter_wakes_for_new_key() -> None:
    """A worker that waits on an empty queue gets a key as soon as one is added."""
    queue = WorkQueue[tuple[str, str]](Clock())
    waiting = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)

    queue.add(A)

    async with asyncio.timeout(60):
        assert await waiting == A


def test_slots_are_spread_over_the_period() -> None:
    """The slots of a thousand objects in many namespaces are spread over the period."""
    now, period = 1234.5, 15.0
    slots = [until_slot((f"team-{n % 100}", f"web-{n}"), period, now) for n in range(1000)]
    crowds = Counter(int(slot * 2) for slot in slots)

    assert 0 < min(slots) <= max(slots) <= period
    assert max(crowds.values()) < 3 * len(slots) / (period * 2)


@pytest.mark.parametrize("period", [1.0, 15.0, 300.0])
def test_a_namespace_shares_its_lists(period: float) -> None:
    """The slots of a namespace's objects are close enough to share one list of usage."""
    slots = [until_slot(("shop", f"web-{n}"), period, 0.0) for n in range(200)]
    first = until_slot(("shop", ""), period, 0.0)
    after = [(slot - first) % period for slot in slots]

    assert max(after) - min(after) < max_usage_age(period)
    assert len({round(slot, 3) for slot in slots}) > 100


@pytest.mark.parametrize("key", [A, B, ("", "")])
@pytest.mark.parametrize("late", [0.0, 0.2, 14.9])
def test_a_slot_stays_the_same(key: tuple[str, str], late: float) -> None:
    """A late reconcile does not move the object's next slot."""
    slot = until_slot(key, 15.0, 100.0) + 100.0
    following = slot + late + until_slot(key, 15.0, slot + late)

    assert following == pytest.approx(slot + 15.0)


async def test_lateness_is_known_during_processing() -> None:
    """The queue knows how late a taken key is; other keys have no lateness."""
    clock = Clock()
    queue = WorkQueue[tuple[str, str]](clock)
    queue.add(A, 1.0)
    clock.now = 4.0
    await taken(queue)
    late = queue.lateness(A)
    queue.done(A)

    assert (late, queue.lateness(A), queue.lateness(B)) == (3.0, 0.0, 0.0)


async def test_a_wall_clock_is_read_again() -> None:
    """A clock that was stepped makes a key due, although nobody added one."""
    clock = Clock()
    queue = WorkQueue[tuple[str, str]](clock, longest_wait=0.01)
    queue.add(A, 3600)
    waiting = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    clock.now = 7200.0

    async with asyncio.timeout(60):
        assert await waiting == A


@pytest.mark.parametrize(("late", "age"), [(0.0, 7.5), (3.0, 10.5), (1e6, 22.5)])
def test_a_late_reconcile_accepts_older_usage(late: float, age: float) -> None:
    """A late reconcile accepts usage that is older by its lateness, up to a bound."""
    assert max_usage_age(15.0, late) == age
