"""The cache: one fetch for concurrent callers, ages, failures, cancellation and bounds, in virtual time."""

from __future__ import annotations

import asyncio
import gc
import traceback
import weakref
from collections.abc import Awaitable, Callable

import pytest

from fedhpa.api.errors import ApiError
from fedhpa.cache import Cache, Fetched

pytestmark = pytest.mark.looptime


def now() -> float:
    """The virtual time."""
    return asyncio.get_running_loop().time()


class Source:
    """Answers each fetch after a second, with the number of the fetch or the next of `answers`."""

    def __init__(self, *answers: object, seconds: float = 1.0) -> None:
        self.answers = list(answers)
        self.seconds = seconds
        self.begun = 0
        self.cancelled = 0

    async def __call__(self) -> Fetched[object]:
        self.begun += 1
        number = self.begun
        began = now()
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        answer = self.answers.pop(0) if self.answers else number
        if isinstance(answer, Exception):
            raise answer
        return Fetched(answer, began)


def lasting(ttl: float, value: object = "value", weight: int = 0) -> Callable[[], Awaitable[Fetched[object]]]:
    """A fetch whose value expires `ttl` seconds from now."""

    async def fetch() -> Fetched[object]:
        await asyncio.sleep(0)
        return Fetched(value, now(), ttl, weight)

    return fetch


async def test_concurrent_callers_share_one_fetch() -> None:
    """Ten callers of a key cost one fetch; another key has its own."""
    cache: Cache[str, object] = Cache(clock=now)
    source = Source()

    answers = await asyncio.gather(*(cache.get("a", source) for _ in range(10)))
    other = await cache.get("b", source)

    assert [answer.value for answer in answers] == [1] * 10
    assert other.value == 2


async def test_a_value_is_served_until_it_is_older_than_the_caller_accepts() -> None:
    """The age counts from `fetched_at`, and each caller states its own limit."""
    cache: Cache[str, object] = Cache(clock=now)
    source = Source()
    await cache.get("a", source, max_age=10.0)
    await asyncio.sleep(8.0)

    assert cache.peek("a", max_age=8.9) is None
    assert (await cache.get("a", source, max_age=9.0)).value == 1
    assert (await cache.get("a", source, max_age=8.9)).value == 2


async def test_values_live_as_long_as_they_say() -> None:
    """Each value has its own lifetime, and is not served in the moment in which that ends."""
    cache: Cache[str, object] = Cache(clock=now)

    assert (await cache.get("a", lasting(10.0, "yes"))).value == "yes"
    assert (await cache.get("b", lasting(5.0, "no"))).value == "no"
    await asyncio.sleep(6.0)
    assert (await cache.get("a", lasting(10.0, "other"))).value == "yes"
    assert (await cache.get("b", lasting(10.0, "other"))).value == "other"
    await asyncio.sleep(4.0)
    assert (await cache.get("a", lasting(10.0, "other"))).value == "other"


async def test_a_failure_reaches_all_who_wait_and_is_forgotten() -> None:
    """Without `failure_seconds` the next caller fetches again."""
    cache: Cache[str, object] = Cache(clock=now)
    source = Source(ValueError("no"))

    errors = await asyncio.gather(*(cache.get("a", source) for _ in range(3)), return_exceptions=True)

    assert [str(error) for error in errors] == ["no"] * 3
    assert "a" not in cache
    assert (await cache.get("a", source)).value == 2


async def test_a_failure_is_kept_for_its_seconds() -> None:
    """Callers get it at once, however old an answer they accept, and then the source is tried again."""
    cache: Cache[str, object] = Cache(clock=now, failure_seconds=2.0)
    source = Source(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await cache.get("a", source)
    await asyncio.sleep(1.9)
    began = now()
    with pytest.raises(ValueError, match="no"):
        await cache.get("a", source)

    assert now() == began
    assert cache.peek("a") is None
    await asyncio.sleep(0.1)
    assert (await cache.get("a", source)).value == 2


async def test_a_kept_failure_holds_no_frames() -> None:
    """The frames of its making, and of its causes, would hold whole answers."""

    async def fetch() -> Fetched[object]:
        await asyncio.sleep(0)
        try:
            raise ValueError("cause")
        except ValueError as error:
            raise KeyError("failure") from error

    cache: Cache[str, object] = Cache(clock=now, failure_seconds=2.0)
    with pytest.raises(KeyError) as raised:
        await cache.get("a", fetch)

    names = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert "fetch" not in names
    assert raised.value.__cause__ is not None
    assert raised.value.__cause__.__traceback__ is None


class Answer:
    """Something large that a caller has at hand."""


async def test_a_kept_failure_holds_nothing_of_those_who_got_it() -> None:
    """The frames of a caller, and all that they refer to, go when the caller has handled its failure."""
    failure = ApiError("no", status=503, reason="Busy")
    cache: Cache[str, object] = Cache(clock=now, failure_seconds=60.0)
    source = Source(failure)
    held: list[weakref.ref[Answer]] = []

    async def handled(call: Callable[[], Awaitable[object]]) -> tuple[object, ...]:
        answer = Answer()
        held.append(weakref.ref(answer))
        try:
            return (await call(), answer)
        except ApiError as error:
            return str(error), error.status, error.reason, error.__cause__

    async def outcome() -> object:
        return cache.outcome("a")

    gc.disable()
    try:
        for call in (lambda: cache.get("a", source), lambda: cache.get("a", source), outcome):
            assert await handled(call) == ("no", 503, "Busy", None)
        assert len(cache) == 1
        assert [one() for one in held] == [None, None, None]
    finally:
        gc.enable()


async def test_a_failure_leaves_the_older_value_in_place() -> None:
    """`latest` returns it; `get` and `peek` do not."""
    cache: Cache[str, object] = Cache(clock=now, failure_seconds=60.0)
    source = Source("old", ValueError("no"))
    await cache.get("a", source)
    with pytest.raises(ValueError, match="no"):
        await cache.refresh("a", source)

    latest = cache.latest("a")
    assert latest is not None
    assert latest.value == "old"
    assert cache.peek("a") is None


async def test_a_cancelled_caller_leaves_the_fetch_to_the_others() -> None:
    """The first caller gives up; the second gets the answer of the same fetch."""
    cache: Cache[str, object] = Cache(clock=now)
    source = Source()
    first, second = (asyncio.create_task(cache.get("a", source)) for _ in range(2))
    await asyncio.sleep(0.5)
    first.cancel()

    assert (await second).value == 1
    assert first.cancelled()
    assert (source.begun, source.cancelled) == (1, 0)


async def test_the_last_caller_takes_the_fetch_with_it() -> None:
    """It ends before the caller does; nothing is kept, and the next caller fetches anew."""
    cache: Cache[str, object] = Cache(clock=now)
    source = Source()
    callers = [asyncio.create_task(cache.get("a", source)) for _ in range(2)]
    await asyncio.sleep(0.5)
    for caller in callers:
        caller.cancel()
    await asyncio.wait(callers)

    assert source.cancelled == 1
    assert (len(cache), cache.in_flight) == (0, 0)
    assert (await cache.get("a", source)).value == 2


async def test_a_caller_that_comes_while_a_fetch_is_being_cancelled_fetches_anew() -> None:
    """A fetch that takes time to clean up is not shared any more."""
    cache: Cache[str, object] = Cache(clock=now)

    async def slow_to_end() -> Fetched[object]:
        try:
            await asyncio.sleep(60.0)
        finally:
            await asyncio.sleep(1.0)
        raise AssertionError("must not be reached")

    caller = asyncio.create_task(cache.get("a", slow_to_end))
    await asyncio.sleep(0.5)
    caller.cancel()
    await asyncio.sleep(0.5)

    assert (await cache.get("a", Source())).value == 1
    await asyncio.wait([caller])
    assert caller.cancelled()


async def test_a_fetch_in_a_group_outlives_its_callers() -> None:
    """A caller that waited only for a moment finds the answer later."""
    cache: Cache[str, object] = Cache(clock=now)
    source = Source()
    async with asyncio.TaskGroup() as group:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await cache.get("a", source, group=group)

    found = cache.peek("a")
    assert found is not None
    assert found.value == 1
    assert source.cancelled == 0


async def test_a_failure_does_not_end_the_group() -> None:
    """Other tasks of the group go on."""
    cache: Cache[str, object] = Cache(clock=now)
    async with asyncio.TaskGroup() as group:
        other = group.create_task(cache.get("b", Source(seconds=5.0), group=group))
        cache.start("a", Source(ValueError("no")), group=group)

    assert other.result().value == 1
    assert "a" not in cache


async def test_a_refused_fetch_leaves_nothing_behind() -> None:
    """A fetch under way and a fresh value need no admission."""

    def refuse() -> None:
        raise PermissionError

    cache: Cache[str, object] = Cache(clock=now)
    source = Source()
    first = asyncio.create_task(cache.get("a", source))
    await asyncio.sleep(0.5)

    assert (await cache.get("a", source, admit=refuse)).value == 1
    assert (await cache.get("a", source, admit=refuse)).value == 1
    with pytest.raises(PermissionError):
        await cache.get("b", source, admit=refuse)
    assert (source.begun, "b" in cache) == (1, False)
    await first


async def test_closing_cancels_fetches_and_callers() -> None:
    """Waiting callers are cancelled, too, and nothing is left."""
    cache: Cache[str, object] = Cache(clock=now)
    async with asyncio.TaskGroup() as group:
        caller = asyncio.create_task(cache.get("a", Source(seconds=60.0), group=group))
        await asyncio.sleep(1.0)
        cache.close()
    await asyncio.wait([caller])

    assert caller.cancelled()
    assert now() < 2.0
    assert (len(cache), cache.in_flight) == (0, 0)


async def test_a_fetch_from_before_clear_is_not_kept() -> None:
    """The fetch under way serves those who wait for it; later callers fetch anew."""
    cache: Cache[str, object] = Cache(clock=now)
    source = Source()
    waiting = asyncio.create_task(cache.get("a", source))
    await asyncio.sleep(0.5)
    cache.clear()

    assert (await waiting).value == 1
    assert cache.peek("a") is None
    assert (await cache.get("a", source)).value == 2
    assert cache.in_flight == 0


async def test_beyond_the_number_of_entries_the_oldest_go() -> None:
    """A value that was fetched again is not among the oldest any more."""
    cache: Cache[str, object] = Cache(clock=now, max_entries=3)
    for key in ("a", "b", "c"):
        await cache.get(key, lasting(10.0))
    await cache.refresh("a", lasting(10.0))
    await cache.get("d", lasting(10.0))

    assert [key for key in "abcd" if key in cache] == ["a", "c", "d"]


async def test_beyond_the_weight_expendable_keys_go_first() -> None:
    """Keys and values weigh; what is dropped weighs nothing any more."""
    cache: Cache[str, object] = Cache(
        clock=now, max_weight=30, key_weight=len, expendable=lambda key: key.startswith("small")
    )
    await cache.get("whole", lasting(60.0, weight=10))
    for number in range(5):
        await cache.get(f"small{number}", lasting(60.0, weight=1))

        assert cache.weight <= 30
    kept = [key for key in ("whole", "small1", "small2", "small3", "small4") if key in cache]
    assert kept == ["whole", "small3", "small4"]

    await cache.get("heavy", lasting(60.0, weight=25))
    assert (len(cache), cache.weight) == (1, 30)


async def test_a_fetch_under_way_is_not_dropped() -> None:
    """Its entry stays, however many others come."""
    cache: Cache[str, object] = Cache(clock=now, max_entries=2)
    async with asyncio.TaskGroup() as group:
        slow = group.create_task(cache.get("slow", Source(seconds=10.0)))
        await asyncio.sleep(1.0)
        for number in range(10):
            await cache.get(f"k{number}", lasting(60.0))

        assert (len(cache), cache.in_flight) == (2, 1)
    assert slow.result().value == 1


async def test_old_outcomes_are_dropped_when_another_arrives() -> None:
    """Values and failures alike, once they are older than `keep_seconds`."""
    cache: Cache[str, object] = Cache(clock=now, failure_seconds=2.0, keep_seconds=120.0)
    await cache.get("a", lasting(10.0))
    with pytest.raises(ValueError, match="no"):
        await cache.get("b", Source(ValueError("no")))
    await asyncio.sleep(119.5)
    await cache.get("c", lasting(10.0))
    kept = "b" in cache
    await asyncio.sleep(1.0)
    await cache.get("d", lasting(10.0))

    assert kept
    assert [key for key in "abcd" if key in cache] == ["c", "d"]
