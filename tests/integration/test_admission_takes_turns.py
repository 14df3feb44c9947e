"""Large admission requests are judged one at a time in a thread, and small ones do not wait for them."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from tests.support.fakeapi import PATIENCE, eventually
from webhook import intake
from webhook.admission_review import MAX_BODY, Refused, Verdict
from webhook.handlers import Review
from webhook.intake import LARGE_BODY, Intake, Turns

LARGE = b"x" * (LARGE_BODY + 1)
Caller = TestClient[web.Request, web.Application]


class Judge:
    """Judges large bodies once `may` is set, and records how many were judged at the same time."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.judging = 0
        self.most = 0
        self.inline = threading.current_thread()

    def __call__(self, path: str, body: bytes, content_type: str) -> Review:
        if len(body) <= LARGE_BODY:
            assert threading.current_thread() is self.inline
            return Review(Verdict(True))
        assert threading.current_thread() is not self.inline
        self.judging += 1
        self.most = max(self.most, self.judging)
        assert self.may.wait(PATIENCE)
        self.judging -= 1
        return Review(Verdict(True))


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
async def caller(judge: Judge) -> AsyncIterator[Caller]:
    async def without_warnings(review: Review) -> Review:
        return review

    taking = Intake(judge, without_warnings)

    async def handle(request: web.Request) -> web.Response:
        try:
            review = await taking.review("/path", request)
        except Refused as refusal:
            return web.Response(text=str(refusal.verdict.code))
        return web.Response(text=str(review.verdict.code))

    application = web.Application(client_max_size=MAX_BODY + 1)
    application.router.add_post("/", handle)
    server = TestServer(application)
    # As the processes serve.
    await server.start_server(auto_decompress=False)
    async with TestClient(server) as client:
        try:
            yield client
        finally:
            judge.may.set()


async def post(caller: Caller, body: bytes | AsyncIterator[bytes], **headers: str) -> str:
    async with caller.post("/", data=body, headers=headers) as answer:
        return await answer.text()


async def test_small_requests_are_served_while_large_ones_wait(
    caller: Caller, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one large request is judged at a time, and all get an answer."""
    monkeypatch.setattr(intake, "TURN_SECONDS", PATIENCE)
    async with asyncio.TaskGroup() as group:
        large = [group.create_task(post(caller, LARGE)) for _ in range(5)]
        small = [await post(caller, b"{}") for _ in range(5)]
        judge.may.set()

    assert small == ["200"] * 5
    assert [task.result() for task in large] == ["200"] * 5
    assert judge.most == 1


async def test_a_large_request_that_waits_too_long_is_refused(
    caller: Caller, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal is a 429. The next large request is judged as usual."""
    monkeypatch.setattr(intake, "TURN_SECONDS", 0.05)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(post(caller, LARGE))
        await eventually(lambda: judge.judging)
        second = await post(caller, LARGE)
        judge.may.set()
    third = await post(caller, LARGE)

    assert (first.result(), second, third) == ("200", "429", "200")


async def test_a_compressed_request_is_judged_in_a_thread(caller: Caller, judge: Judge) -> None:
    """Its Content-Length does not tell its real size."""
    judge.may.set()

    code = await post(caller, gzip.compress(LARGE), **{"Content-Encoding": "gzip"})

    assert code == "200"
    assert judge.most == 1


@pytest.mark.parametrize(
    "body",
    [gzip.compress(LARGE)[:-9], b"no gzip at all", gzip.compress(b" " * (MAX_BODY + 1), 1)],
    ids=["cut", "other", "too large"],
)
async def test_a_body_that_cannot_be_unpacked_is_refused(caller: Caller, judge: Judge, body: bytes) -> None:
    """At most one byte more than the limit is unpacked."""
    judge.may.set()

    code = await post(caller, body, **{"Content-Encoding": "gzip"})

    assert code == ("413" if len(body) > 1000 else "400")


async def test_bodies_beyond_the_limit_are_refused(
    caller: Caller, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bodies in work share one limit. Small requests are served meanwhile."""
    monkeypatch.setattr(intake, "MAX_BODIES", 2 * len(LARGE))
    monkeypatch.setattr(intake, "TURN_SECONDS", PATIENCE)
    async with asyncio.TaskGroup() as group:
        held = [group.create_task(post(caller, LARGE)) for _ in range(3)]
        await eventually(lambda: any(task.done() for task in held))
        small = await post(caller, b"{}")
        judge.may.set()

    assert sorted(task.result() for task in held) == ["200", "200", "429"]
    assert small == "200"


async def half() -> AsyncIterator[bytes]:
    """A body that never ends."""
    yield LARGE
    await asyncio.Event().wait()


async def test_half_bodies_make_room_for_others(
    caller: Caller, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that has been arriving for longest is refused, so those that never end keep nobody out."""
    monkeypatch.setattr(intake, "MAX_BODIES", 2 * len(LARGE))
    judge.may.set()
    async with asyncio.TaskGroup() as group:
        stalled = [group.create_task(post(caller, half())) for _ in range(2)]
        await asyncio.sleep(0.1)  # Their bytes need a moment, which nothing outside shows.
        code = await post(caller, LARGE)
        await eventually(lambda: any(task.done() for task in stalled))
        refused = [task.result() for task in stalled if task.done()]
        for task in stalled:
            task.cancel()

    assert code == "200"
    assert refused == ["429"]


async def test_verified_peers_have_their_turn_first() -> None:
    """Bodies of others wait longer."""
    turns, order = Turns(), []

    async def take(name: str, *, first: bool) -> None:
        async with turns.turn(first=first):
            order.append(name)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for name, first in (("one", False), ("two", False), ("hub", True), ("proxy", True)):
            group.create_task(take(name, first=first))

    assert order == ["one", "hub", "proxy", "two"]


async def test_bodies_of_others_take_no_room_of_verified_peers(
    caller: Caller, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each have a bound of their own."""
    monkeypatch.setattr(intake, "MAX_BODIES", len(LARGE))
    monkeypatch.setattr(intake, "TURN_SECONDS", PATIENCE)
    monkeypatch.setattr(intake, "is_trusted", lambda request: "Hub" in request.headers)
    async with asyncio.TaskGroup() as group:
        stranger = group.create_task(post(caller, LARGE))
        await eventually(lambda: judge.judging)
        other = await post(caller, LARGE)
        hub = group.create_task(post(caller, LARGE, Hub="yes"))
        judge.may.set()

    assert (stranger.result(), other, hub.result()) == ("200", "429", "200")


async def test_a_turn_that_is_given_up_is_passed_on() -> None:
    """A cancelled request does not hold the others, also if it was cancelled as its turn came."""
    turns = Turns()
    held, entered, leave = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def take() -> None:
        async with turns.turn(first=False):
            entered.set()

    async def hold() -> None:
        async with turns.turn(first=False):
            held.set()
            await leave.wait()
        second.cancel()

    first = asyncio.create_task(hold())
    await held.wait()
    second, third = asyncio.create_task(take()), asyncio.create_task(take())
    await asyncio.sleep(0)
    leave.set()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait([first, second, third])

    assert second.cancelled()
    assert entered.is_set()
    assert third.exception() is None
