"""Lists of a slow server are read before they are wanted, and their age is honest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from fedhpa.api.errors import ApiError, MemberUnavailable, MetricsUnavailable
from fedhpa.cache import Fetched
from fedhpa.kube import Response
from fedhpa.members import Again, SharedLists
from fedhpa.members.lists import SLOW
from tests.support.timing import loop_time

pytestmark = pytest.mark.looptime(noop_cycles=0)

AGAIN = Again(15.0, 7.5)


class Server:
    """A member that answers after `seconds` with the time at which it was asked, or with an error."""

    name = "m1"
    generation = 0

    def __init__(self) -> None:
        self.client: Any = self
        self.seconds = 2.5
        self.fails = False
        self.requests: list[float] = []

    def check(self) -> None:
        """It is never known to be unavailable."""

    async def request(self, *_: Any, **__: Any) -> Response:
        """The answer to a request."""
        self.requests.append(loop_time())
        asked = str(loop_time()).encode()
        await asyncio.sleep(self.seconds)
        if self.fails:
            raise ApiError("broken", status=500)
        return Response(200, CIMultiDictProxy(CIMultiDict[str]()), asked)


def decode(body: bytes) -> tuple[float, ...]:
    """The time in an answer."""
    return (float(body),)


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Server, SharedLists]]:
    """A slow server, and lists of it."""
    async with SharedLists(clock=loop_time) as lists:
        yield Server(), lists


async def get(lists: SharedLists, server: Server, again: Again = AGAIN) -> Fetched[tuple[float, ...]]:
    """Ask for the list as a reconcile does."""
    return await lists.get(server, "/list", None, decode, max_age=min(again.seconds / 2, 7.5), again=again)


async def test_the_first_answer_is_waited_for() -> None:
    """A list that was never read has no answer that could serve."""
    async with served() as (server, lists):
        answer = await get(lists, server)

        assert loop_time() == pytest.approx(2.5)
        assert answer.fetched_at == 0.0


@pytest.mark.parametrize("period", [5.0, 15.0, 60.0, 300.0])
async def test_later_answers_are_there_when_they_are_wanted(period: float) -> None:
    """No later caller waits, each gets an answer of at most 7.5 s, and its age counts from the request."""
    async with served() as (server, lists):
        await get(lists, server, Again(period, 7.5))
        waits, ages = [], []
        for number in range(1, 20):
            await asyncio.sleep(2.5 + number * period - loop_time())
            began = loop_time()
            answer = await get(lists, server, Again(period, 7.5))
            waits.append(loop_time() - began)
            ages.append(lists.age(answer))
            assert answer.value == (answer.fetched_at,)

        assert max(waits) == 0.0
        assert min(ages) >= 2.5
        assert max(ages) <= 7.5
        assert len(server.requests) <= 22


async def test_a_list_that_becomes_slow_is_missed_once() -> None:
    """The caller waits a quarter of a second, and the last answer of a period before is too old."""
    async with served() as (server, lists):
        server.seconds = 0.01
        await get(lists, server)
        server.seconds = 2.5
        await asyncio.sleep(15 - loop_time())
        with pytest.raises(MemberUnavailable) as caught:
            await get(lists, server)
        waited = loop_time() - 15
        await asyncio.sleep(30 - loop_time())
        answer = await get(lists, server)

        assert caught.value.reason == SLOW
        assert waited == pytest.approx(0.25)
        assert loop_time() == 30
        assert lists.age(answer) <= 7.5


async def test_a_young_answer_serves_while_the_next_one_is_read() -> None:
    """A caller that wants a younger answer gets the last one if that may still be used."""
    async with served() as (server, lists):
        server.seconds = 0.01
        await get(lists, server, Again(5.0, 7.5))
        server.seconds = 2.5
        await asyncio.sleep(5 - loop_time())
        answer = await get(lists, server, Again(5.0, 7.5))

        assert answer.fetched_at == 0.0
        assert loop_time() == pytest.approx(5.25)


async def test_an_error_is_never_covered_by_an_older_answer() -> None:
    """Callers of a slow list get the error that followed the last answer."""
    async with served() as (server, lists):
        await get(lists, server)
        await asyncio.sleep(17.5 - loop_time())
        await get(lists, server)
        server.fails = True
        await asyncio.sleep(32.5 - loop_time())
        with pytest.raises(MetricsUnavailable, match="broken"):
            await get(lists, server)
        server.fails = False
        await asyncio.sleep(47.5 - loop_time())

        assert (await get(lists, server)).fetched_at > 40


async def test_a_list_that_is_quick_again_is_read_when_it_is_wanted() -> None:
    """Nothing is read ahead any more, and answers are fresh."""
    async with served() as (server, lists):
        await get(lists, server)
        server.seconds = 0.01
        for number in range(1, 30):
            await asyncio.sleep(number * 15 - loop_time())
            answer = await get(lists, server)

        assert answer.fetched_at == pytest.approx(29 * 15, abs=0.02)
        assert not lists.slow


async def test_a_list_that_nobody_wants_is_not_read() -> None:
    """Reads end with the last wanted time, and the list is forgotten soon after."""
    async with served() as (server, lists):
        await get(lists, server)
        await asyncio.sleep(600)

        assert len(server.requests) == 2
        assert not lists.slow
