"""The faults of an embedded API server as its clients see them, over real TLS."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from testbed.embedded.network.listener import Listener
from testbed.embedded.network.pki import Pki
from tests.support.plane_faults import Fault, Faults

BODY = {"kind": "PodMetricsList", "items": [{"name": f"pod-{number}"} for number in range(20)]}


class Server:
    """An application with faults, and a client of it."""

    def __init__(self, folder: Path) -> None:
        app = web.Application()
        app.router.add_get("/watch", self._watch)
        app.router.add_get("/{path:.*}", self._answer)
        self.pki = Pki(folder, "member1")
        self.listener = Listener(app, self.pki.serving())
        self.faults = Faults(app, self.listener, self.pki, drip_seconds=0.01)
        self.session: aiohttp.ClientSession
        self.events: asyncio.Queue[bytes] = asyncio.Queue()

    async def _answer(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response(BODY)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(await self.events.get())

    async def get(self, path: str = "/apis", seconds: float = 60.0) -> tuple[int, bytes]:
        timeout = aiohttp.ClientTimeout(total=seconds)
        async with self.session.get(self.listener.server + path, timeout=timeout) as answer:
            return answer.status, await answer.read()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    made = Server(tmp_path)
    async with made.listener:
        connector = aiohttp.TCPConnector(ssl=made.pki.client())
        async with aiohttp.ClientSession(connector=connector) as made.session:
            assert await made.get() == (200, json.dumps(BODY).encode())
            yield made


async def test_a_refusing_server_keeps_its_port(server: Server) -> None:
    """Open connections are cut, new ones are refused, and no other program gets the port."""
    async with server.session.get(server.listener.server + "/watch") as watch:
        await server.faults.set(Fault.REFUSE)

        with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
            await watch.content.read()
    with pytest.raises(aiohttp.ClientConnectorError, match=r"refused|Connect call failed"):
        await server.get()
    with pytest.raises(OSError, match="in use"):
        await asyncio.start_server(lambda *_: None, "127.0.0.1", server.listener.port, reuse_address=False)

    await server.faults.clear(Fault.REFUSE)

    assert (await server.get())[0] == 200


async def test_a_hanging_server_also_stops_open_watches(server: Server) -> None:
    """Requests and watch events wait until the fault is cleared."""
    async with server.session.get(server.listener.server + "/watch") as watch:
        await server.faults.set(Fault.HANG)
        server.events.put_nowait(b"after\n")
        with pytest.raises(TimeoutError):
            await server.get(seconds=0.2)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await watch.content.readline()
        await server.faults.clear()

        async with asyncio.timeout(60):
            assert await watch.content.readline() == b"after\n"


async def test_a_dripping_server_sends_single_bytes(server: Server) -> None:
    """The answer misses a deadline; after the fault is cleared the rest comes immediately."""
    await server.faults.set(Fault.DRIP)
    with pytest.raises(TimeoutError):
        await server.get(seconds=0.2)

    async with server.session.get(server.listener.server + "/apis") as answer:
        async with asyncio.timeout(60):
            first = await answer.content.readexactly(3)
        await server.faults.clear()
        async with asyncio.timeout(60):
            rest = await answer.read()

    assert json.loads(first + rest) == BODY


async def test_a_fault_affects_only_its_paths(server: Server) -> None:
    """Several faults hold at the same time, and each is cleared alone."""
    await server.faults.set(Fault.SERVER_ERROR, ("/apis/metrics.k8s.io", "/api/v1/pods"))
    await server.faults.set(Fault.TOO_MANY_REQUESTS, ("/apis/apps",))

    async def statuses() -> list[int]:
        paths = ("/apis/metrics.k8s.io/v1beta1/pods", "/api/v1/pods", "/apis/apps/v1", "/api/v1/nodes")
        return [(await server.get(path))[0] for path in paths]

    assert await statuses() == [500, 500, 429, 200]

    await server.faults.clear(Fault.SERVER_ERROR)

    assert await statuses() == [200, 200, 429, 200]
