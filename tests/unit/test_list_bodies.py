"""Lists and Tables as response bodies: shared, sent in pieces, bounded in memory, and without long holds."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any, cast

import pytest
from aiohttp.abc import AbstractStreamWriter

from metrics_adapter.apis import KINDS
from metrics_adapter.members import resource_metrics
from metrics_adapter.members.resource_metrics import PART, MemberItems, decode_list
from metrics_adapter.server import bodies as module
from metrics_adapter.server.bodies import Body, BodyCache, BodyPayload, ListBody, TableBody
from tests.support.metrics_lists import encode_list, items_of

PODS = KINDS[0]


def answer(cluster: str, count: int, first: int = 0) -> MemberItems:
    """A member's list of `count` pods, in parts of PART."""
    items = [
        {
            "metadata": {"name": f"web-{number * 7919 % 10_007:05}", "namespace": f"shop-{number % 3}"},
            "containers": [{"name": "web", "usage": {"cpu": "1m", "memory": "1Mi"}}],
        }
        for number in range(first, first + count)
    ]
    head = {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1"}
    whole = decode_list(json.dumps({**head, "items": items}, separators=(",", ":")).encode(), cluster)
    return MemberItems.of(cluster, [item.json for item in items_of(whole)], whole.namespaces)


@pytest.fixture(autouse=True)
def a_piece_for_each_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small parts are sent together otherwise."""
    monkeypatch.setattr(resource_metrics, "MAX_TEXT", 1)


class Written:
    """A client. With a `gate` it reads nothing until the gate is open."""

    def __init__(self, gate: asyncio.Event | None = None) -> None:
        self.pieces: list[bytes] = []
        self._gate = gate

    async def write(self, piece: bytes, *, drain: bool = True) -> None:
        assert not drain, "a turn must not wait for the client"
        self.pieces.append(piece)

    async def drain(self) -> None:
        if self._gate is not None:
            await self._gate.wait()


async def write(
    body: Body, turn: asyncio.Lock | None = None, gate: asyncio.Event | None = None
) -> list[bytes]:
    """Returns the pieces that a client gets."""
    written = Written(gate)
    await BodyPayload(body, turn or asyncio.Lock()).write(cast(AbstractStreamWriter, written))
    return written.pieces


OF_PODS = partial(ListBody, PODS)
AS_TABLE = partial(TableBody, PODS, include="")


@pytest.mark.parametrize("counts", [[], [0], [1], [0, 3], [PART], [PART + 1], [7, 3 * PART, 0, PART]])
async def test_pieces_are_the_list(counts: list[int]) -> None:
    """The pieces together are the list, with the announced length."""
    answers = [answer(f"m{index}", count) for index, count in enumerate(counts)]
    body = ListBody(PODS, answers)
    sent = b"".join(await write(body))

    assert sent == encode_list(PODS, items_of(*answers))
    assert len(sent) == body.length
    assert len(json.loads(sent)["items"]) == sum(counts)


async def test_a_cached_list_is_sent_again() -> None:
    """The list is made once and sent again while the members' answers are the same."""
    bodies, answers = BodyCache(), [answer("m1", 3), answer("m2", 2)]
    first = bodies.get("", answers, OF_PODS)
    again = bodies.get("", list(answers), OF_PODS)
    other = bodies.get("", answers[:1], OF_PODS)

    assert first is again
    assert await write(first) == await write(first) != await write(other)


async def test_a_body_is_released_once_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection, which holds its last answer, holds no body; a body that is too large is not kept."""
    monkeypatch.setattr(module, "MAX_CACHED_BYTES", 1000)
    bodies, answers = BodyCache(), [answer("m1", 100)]
    body = bodies.get("", answers, OF_PODS)
    payload = BodyPayload(body, asyncio.Lock())
    written = Written()
    await payload.write(cast(AbstractStreamWriter, written))

    assert b"".join(written.pieces) == encode_list(PODS, items_of(answers[0]))
    assert bodies.get("", answers, OF_PODS) is not body
    assert body not in vars(payload).values()


@pytest.mark.parametrize("end", ["sent", "client gone", "never begun"])
async def test_the_end_of_an_answer_is_reported_once(end: str) -> None:
    """Otherwise the bytes of a user would stay counted."""

    class Gone(Written):
        async def drain(self) -> None:
            raise ConnectionResetError

    ended: list[str] = []
    payload = BodyPayload(ListBody(PODS, [answer("m1", 1)]), asyncio.Lock(), lambda: ended.append(end))
    if end != "never begun":
        writer = Gone() if end == "client gone" else Written()
        with suppress(ConnectionResetError):
            await payload.write(cast(AbstractStreamWriter, writer))
    del payload

    assert ended == [end]


@pytest.mark.parametrize("make", [OF_PODS, AS_TABLE])
async def test_all_clients_share_one_body(make: Any) -> None:
    """A hundred clients, of which none reads to the end, cost one body."""
    answers, gate, turn = [answer("m1", 8 * PART)], asyncio.Event(), asyncio.Lock()
    bodies = BodyCache()
    tracemalloc.start()
    sending = [
        asyncio.create_task(write(bodies.get("", answers, make), turn, gate if number else None))
        for number in range(100)
    ]
    whole = await sending[0]
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    gate.set()
    sent = await asyncio.gather(*sending)

    assert all(pieces == whole for pieces in sent)
    assert all(one is other for pieces in sent for one, other in zip(pieces, whole, strict=True))
    assert held < 1.5 * sum(map(len, whole))


async def test_a_body_that_fails_is_whole_for_nobody() -> None:
    """A client that comes after an unexpected error gets the error, too, and no shorter list."""

    class Broken(ListBody):
        def _generate(self) -> Iterator[bytes]:
            yield b"{"
            raise ZeroDivisionError

    body = Broken(PODS, [answer("m1", 1)])
    body.keep()

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await write(body)


@pytest.mark.parametrize("make", [OF_PODS, AS_TABLE])
async def test_any_number_of_clients_holds_no_loop(make: Any) -> None:
    """While a hundred clients get a body each, another task runs after each piece."""
    answers, turn = [answer("m1", 4 * PART)], asyncio.Lock()
    sent, most = 0, 0

    class Counting(Written):
        async def write(self, piece: bytes, *, drain: bool = True) -> None:
            nonlocal sent
            sent += 1
            await super().write(piece, drain=drain)

    async def client() -> None:
        await BodyPayload(make(answers), turn).write(cast(AbstractStreamWriter, Counting()))

    sending = asyncio.gather(*(client() for _ in range(100)))
    while not sending.done():
        before = sent
        await asyncio.sleep(0)
        most = max(most, sent - before)

    assert sent >= 400
    assert most == 1


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least recently used list is dropped first, by number and by bytes."""
    one = answer("m1", 1)
    size = ListBody(PODS, [one]).weight
    for bound, value in (("MAX_CACHED_BODIES", 3), ("MAX_CACHED_BYTES", 3 * size)):
        with monkeypatch.context() as patch:
            patch.setattr(module, bound, value)
            bodies = BodyCache()
            made: dict[str, Any] = {place: bodies.get(place, [one], OF_PODS) for place in "abc"}
            bodies.get("a", [one], OF_PODS)
            bodies.get("d", [one], OF_PODS)

            assert bodies.get("a", [one], OF_PODS) is made["a"]
            assert bodies.get("c", [one], OF_PODS) is made["c"]
            assert bodies.get("b", [one], OF_PODS) is not made["b"]


async def test_other_tasks_run_between_two_pieces() -> None:
    """This also holds if the client reads as fast as the server writes, so that no write waits."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    pieces = await write(ListBody(PODS, [answer("m1", 5 * PART)]))
    task.cancel()
    await asyncio.wait([task])

    # The head and the end of a list are pieces of their own here.
    assert len(pieces) == 6
    assert turns >= 4
