"""A member whose watches never rest costs a bounded part of the process: its events and lists are paced."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from benchmarks.world.network import MemoryNetwork
from fedhpa.api.wire import Pod
from fedhpa.kube import reflector as reflectors
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.reflector import Reflector
from tests.support.memory_network import MemoryListener

pytestmark = pytest.mark.looptime(noop_cycles=0)

LIST = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}'
# The smallest event that is one of the collection.
EVENT = (
    '{"type":"%s","object":{"kind":"Pod","apiVersion":"v1",'
    '"metadata":{"name":"a","namespace":"d","uid":"%s","resourceVersion":"%s"%s}}}\n'
)
Watch = Callable[[web.StreamResponse, Counter[str]], Awaitable[None]]


async def followed(watch: Watch, seconds: float) -> tuple[Counter[str], Reflector[Pod]]:
    """Returns how many lists, watches and events a reflector of such a server took in some seconds."""
    counts: Counter[str] = Counter()

    async def answer(request: web.Request) -> web.StreamResponse:
        counts["watches" if "watch" in request.query else "lists"] += 1
        if "watch" not in request.query:
            return web.Response(body=LIST, content_type="application/json")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await watch(response, counts)
        return response

    network, application = MemoryNetwork(), web.Application()
    application.router.add_get("/{path:.*}", answer)
    async with MemoryListener(network, application) as listener:
        config = ApiConfig(server=listener.server, name="member1", connector=network.connector)
        async with ApiClient(config) as client:
            clock = asyncio.get_running_loop().time
            reflector: Reflector[Pod] = Reflector(client, "/api/v1/pods", Pod, lambda pod: pod, clock=clock)
            running = asyncio.ensure_future(reflector.run())
            await asyncio.sleep(seconds)
            assert not running.done()
            running.cancel()
            await asyncio.wait([running])
    return counts, reflector


def flood(*events: str) -> Watch:
    """Returns a watch that sends the events again and again, as fast as the client reads them."""

    async def watch(response: web.StreamResponse, counts: Counter[str]) -> None:
        while True:
            await response.write("".join(events).encode() * (100 // len(events)))
            counts["events"] += 100
            # A write to a client that is gone waits for nothing.
            await asyncio.sleep(0)

    return watch


FLOODS: dict[str, tuple[str, ...]] = {
    "bookmarks": (EVENT % ("BOOKMARK", "u1", "9", ""),),
    "the same event": (EVENT % ("MODIFIED", "u1", "9", ""),),
    "events from the past": (EVENT % ("MODIFIED", "u1", "3", ""),),
    "an object that comes and goes": (EVENT % ("ADDED", "u1", "9", ""), EVENT % ("DELETED", "u1", "9", "")),
    "an object of two uids": (EVENT % ("MODIFIED", "u1", "9", ""), EVENT % ("MODIFIED", "u2", "9", "")),
    "an unreadable object": ((EVENT % ("MODIFIED", "u1", "9", "")).replace("}}}", '},"spec":7}}'),),
}


@pytest.mark.parametrize("events", FLOODS.values(), ids=FLOODS)
async def test_a_flood_of_events_is_paced(events: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst of events is read at once, and others at a rate. The store has what the last event says."""
    monkeypatch.setattr(reflectors, "EVENT_BURST", 200)
    monkeypatch.setattr(reflectors, "EVENTS_PER_SECOND", 100)
    counts, reflector = await followed(flood(*events), seconds=20.0)

    # Between server and client up to a few hundred kilobytes are under way.
    assert counts["events"] <= 200 + 20 * 100 + 10_000
    assert counts["lists"] == 1
    assert len(reflector.store) <= 1


async def test_large_events_count_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event of a megabyte costs as much as hundreds of small ones."""
    monkeypatch.setattr(reflectors, "EVENT_BURST", 200)
    monkeypatch.setattr(reflectors, "EVENTS_PER_SECOND", 100)
    large = EVENT % ("MODIFIED", "u1", "9", f',"annotations":{{"a":"{"x" * 2**20}"}}')
    counts: Counter[str] = Counter()

    async def watch(response: web.StreamResponse, _: Counter[str]) -> None:
        while True:
            await response.write(large.encode())
            counts["sent"] += 1
            await asyncio.sleep(0)

    await followed(watch, seconds=20.0)

    assert counts["sent"] <= 15


async def expired(response: web.StreamResponse, _: Counter[str]) -> None:
    await asyncio.sleep(1.1)
    await response.write(b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n')


async def broken_now_and_then(response: web.StreamResponse, counts: Counter[str]) -> None:
    await asyncio.sleep(1.1)
    if counts["watches"] % 2:
        await response.write(b"no event\n")


@pytest.mark.parametrize("watch", [expired, broken_now_and_then])
async def test_a_server_is_not_listed_again_and_again(watch: Any) -> None:
    """A server can make each list useless. Lists then follow each other after up to half a minute."""
    counts, _ = await followed(watch, seconds=3600.0)

    assert 50 <= counts["lists"] <= 300


async def test_a_list_that_expires_once_is_followed_soon() -> None:
    """A real server forgets versions after minutes. A new list then follows at once."""
    expired_at: list[float] = []

    async def watch(response: web.StreamResponse, _: Counter[str]) -> None:
        await asyncio.sleep(75.0)
        await response.write((EVENT % ("BOOKMARK", "", "8", "")).encode())
        await asyncio.sleep(75.0)
        await expired(response, Counter())
        expired_at.append(asyncio.get_running_loop().time())

    counts, reflector = await followed(watch, seconds=160.0)

    assert counts["lists"] == 2
    assert reflector.problem is None
