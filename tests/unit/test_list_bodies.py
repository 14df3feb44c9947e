"""Lists as response bodies: written in pieces, bounded in memory, without blocking other tasks."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest
from aiohttp.abc import AbstractStreamWriter

from metrics_adapter.apis import KINDS
from metrics_adapter.members.resource_metrics import SLICE, MemberItems, decode_list, merge
from metrics_adapter.server import list_body as module
from metrics_adapter.server.list_body import ListBody, ListBodyCache
from tests.support.metrics_lists import encode_list

PODS = KINDS[0]


def answer(cluster: str, count: int, first: int = 0) -> MemberItems:
    """A member's list of `count` pods."""
    items = [
        {
            "metadata": {"name": f"web-{number * 7919 % 10_007:05}", "namespace": f"shop-{number % 3}"},
            "containers": [{"name": "web", "usage": {"cpu": "1m", "memory": "1Mi"}}],
        }
        for number in range(first, first + count)
    ]
    head = {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1"}
    return decode_list(json.dumps({**head, "items": items}, separators=(",", ":")).encode(), cluster)


class Written:
    """A writer that takes everything at once."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    async def write(self, piece: bytes) -> None:
        self.pieces.append(piece)


async def write(body: ListBody) -> list[bytes]:
    """Returns the pieces that a client gets."""
    written = Written()
    await body.write(cast(AbstractStreamWriter, written))
    return written.pieces


@pytest.mark.parametrize("counts", [[], [0], [1], [0, 3], [SLICE], [SLICE + 1], [7, 3 * SLICE, 0, SLICE]])
async def test_pieces_are_the_list(counts: list[int]) -> None:
    """The pieces together are the sorted list, with the announced length."""
    answers = [answer(f"m{index}", count) for index, count in enumerate(counts)]
    body = ListBody(PODS, answers)
    sent = b"".join(await write(body))
    keys = [(item.namespace, item.name, item.cluster) for item in merge(answers)]

    assert sent == encode_list(PODS, merge(answers))
    assert len(sent) == body.length
    assert len(json.loads(sent)["items"]) == sum(counts)
    assert keys == sorted(keys)


async def test_a_cached_list_is_sent_again() -> None:
    """The list is made once and sent again while the members' answers are the same."""
    bodies, answers = ListBodyCache(), [answer("m1", 3), answer("m2", 2)]
    first = bodies.get(PODS, "", answers)
    again = bodies.get(PODS, "", list(answers))
    other = bodies.get(PODS, "", answers[:1])

    assert first is again
    assert await write(first) == await write(first) != await write(other)


async def test_a_large_list_is_released_once_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the bodies nor the connection, which holds its last answer, hold the members' answers."""
    monkeypatch.setattr(module, "MAX_CACHED_BYTES", 1000)
    bodies, answers = ListBodyCache(), [answer("m1", 100)]
    body = bodies.get(PODS, "", answers)
    sent = b"".join(await write(body))

    assert sent == encode_list(PODS, answers[0].items)
    assert bodies.get(PODS, "", answers) is not body
    assert not body.made_of(answers)


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least recently used list is dropped first, by number and by bytes."""
    one = answer("m1", 1)
    size = ListBody(PODS, [one]).length
    for bound, value in (("MAX_CACHED_BODIES", 3), ("MAX_CACHED_BYTES", 3 * size)):
        with monkeypatch.context() as patch:
            patch.setattr(module, bound, value)
            bodies = ListBodyCache()
            made: dict[str, Any] = {place: bodies.get(PODS, place, [one]) for place in "abc"}
            bodies.get(PODS, "a", [one])
            bodies.get(PODS, "d", [one])

            assert bodies.get(PODS, "a", [one]) is made["a"]
            assert bodies.get(PODS, "c", [one]) is made["c"]
            assert bodies.get(PODS, "b", [one]) is not made["b"]


async def test_other_tasks_run_between_two_pieces() -> None:
    """This also holds if the client reads as fast as the server writes, so that no write waits."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    pieces = await write(ListBody(PODS, [answer("m1", 5 * SLICE)]))
    task.cancel()
    await asyncio.wait([task])

    assert len(pieces) == 5
    assert turns >= 4
