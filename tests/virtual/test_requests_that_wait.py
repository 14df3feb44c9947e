"""The waits of requests, in virtual time: for bytes, for Retry-After, and for the client-side rate limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from benchmarks.world.network import MemoryNetwork
from fedhpa.api.errors import ApiError
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.responses import LIST_TOTAL_SECONDS
from fedhpa.kube.transport import TIMEOUT
from tests.support.memory_network import MemoryListener

pytestmark = pytest.mark.looptime(noop_cycles=0)


@asynccontextmanager
async def client_of(handler: Callable[[web.Request], object], **config: float) -> AsyncIterator[ApiClient]:
    """A client of a server that answers each request with `handler`."""
    network, app = MemoryNetwork(), web.Application()
    app.router.add_route("*", "/{path:.*}", handler)  # type: ignore[arg-type]  # aiohttp's Handler is private
    async with MemoryListener(network, app) as listener:
        whole = ApiConfig(server=listener.server, connector=network.connector, **config)  # type: ignore[arg-type]  # numbers
        async with ApiClient(whole) as client:
            yield client


def now() -> float:
    return asyncio.get_running_loop().time()


async def drip(request: web.Request) -> web.StreamResponse:
    """Send one byte every two seconds: as many as the path says, and then none for an hour."""
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(int(request.path[1:])):
        await response.write(b" ")
        await asyncio.sleep(2)
    if request.query:
        await asyncio.sleep(3600)
    return response


async def test_an_idle_deadline_counts_from_the_last_byte() -> None:
    """A slow answer may take longer than the deadline if its bytes keep coming."""
    async with client_of(drip) as client:
        slow = await client.request("GET", "/10", deadline=3, idle=True)
        took = now()
        with pytest.raises(ApiError) as caught:
            await client.request("GET", "/10", params={"silent": "true"}, deadline=3, idle=True)

    assert slow.body == b" " * 10
    assert took == pytest.approx(20, abs=0.1)
    assert caught.value.reason == TIMEOUT
    assert now() - took == pytest.approx(9 * 2 + 3, abs=0.1)


async def test_an_endless_answer_fails() -> None:
    """An answer whose bytes keep coming fails after five minutes."""
    async with client_of(drip) as client:
        with pytest.raises(ApiError) as caught:
            await client.request("GET", "/100000", deadline=3, idle=True)

    assert caught.value.reason == TIMEOUT
    assert now() == pytest.approx(LIST_TOTAL_SECONDS, abs=2.1)


async def test_retry_after_is_waited_for() -> None:
    """A request that gets 429 or 503 with Retry-After is repeated after that time, within the deadline."""
    answers = [(429, "3"), (503, "20"), (200, "")]
    asked: list[float] = []

    async def busy(_: web.Request) -> web.Response:
        asked.append(now())
        status, after = answers.pop(0)
        return web.Response(status=status, headers={"Retry-After": after} if after else {})

    async with client_of(busy) as client:
        response = await client.request("POST", "/", body=b"{}", deadline=30)

    assert response.status == 200
    assert [round(moment) for moment in asked] == [0, 3, 23]


async def test_client_side_rate_limit() -> None:
    """With two a second and a burst of three, each further request waits half a second."""
    asked: list[float] = []

    async def note(_: web.Request) -> web.Response:
        asked.append(now())
        return web.Response()

    async with client_of(note, qps=2.0, burst=3) as client:
        await asyncio.gather(*(client.request("GET", "/") for _ in range(7)))

    assert [round(moment, 1) for moment in sorted(asked)] == [0, 0, 0, 0.5, 1, 1.5, 2]
