"""A network in memory behaves like sockets: latency, streams and flow control."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from benchmarks.world.network import HIGH_WATER, LATENCY_SECONDS, MemoryNetwork
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from tests.support.memory_network import MemoryListener

pytestmark = pytest.mark.looptime(noop_cycles=0)


def application(handler: Callable[[web.Request], object]) -> web.Application:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)  # type: ignore[arg-type]  # aiohttp's type is wider
    return app


@asynccontextmanager
async def serving(handler: Callable[[web.Request], object]) -> AsyncIterator[ApiClient]:
    """The client of a server with one handler in its own network."""
    network = MemoryNetwork()
    async with (
        MemoryListener(network, application(handler)) as listener,
        ApiClient(ApiConfig(server=listener.server, connector=network.connector)) as api,
    ):
        yield api


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_an_exchange_takes_the_latency_each_way_and_nothing_else() -> None:
    """Only the loop's clock advances during waits."""

    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(3600)
        return web.Response()

    async with serving(slow) as api:
        began = now()
        await api.request("GET", "/", deadline=4000)

    assert now() - began == pytest.approx(3600 + 2 * LATENCY_SECONDS, abs=1e-4)


async def test_a_stream_arrives_as_it_is_written() -> None:
    """Each line of a watch is read when it is sent, not at the end."""

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for number in range(3):
            await asyncio.sleep(60)
            await response.write(b"%d\n" % number)
        return response

    seen: list[tuple[float, bytes]] = []
    async with serving(stream) as api:
        began = now()
        async for line in api.watch("/", params=None, idle=90):
            if line:
                seen.append((round(now() - began), line))

    assert seen == [(60, b"0"), (120, b"1"), (180, b"2")]


async def test_a_writer_waits_for_a_reader_that_does_not_read() -> None:
    """Unread data is bounded, and the writer continues when the reader does."""
    sent = 0

    async def flood(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(400):
            await response.write(b"x" * 9_999 + b"\n")
            sent += 1
        return response

    async with serving(flood) as api:
        lines = api.watch("/", params=None, idle=3600)
        assert await anext(lines) == b""
        await asyncio.sleep(1800)
        held = sent
        read = [line async for line in lines]

    # The client's buffer, the network's, and the chunk being written.
    assert 0 < held * 10_000 < 16 * HIGH_WATER
    assert len(read) == sent == 400
