"""What an embedded API server's clients see of each fault, on a real socket over real TLS."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from testbed.embedded.network.faults import Fault, Faults
from testbed.embedded.network.listener import Listener
from testbed.embedded.network.pki import Pki

BODY = {"kind": "PodMetricsList", "items": [{"name": f"pod-{number}"} for number in range(20)]}


class Server:
    """An application behind a switchboard, and a client of it."""

    def __init__(self, folder: Path) -> None:
        app = web.Application()
        app.router.add_get("/watch", self._watch)
        app.router.add_get("/{path:.*}", self._answer)
        self.pki = Pki(folder, "member1")
        self.listener = Listener(app, self.pki.serving())
        self.faults = Faults(app, self.listener, self.pki, drip_seconds=0.01)
        self.session: aiohttp.ClientSession
        self.events: asyncio.Queue[bytes] = asyncio.Queue()
        self.cancelled = asyncio.Event()

    async def _answer(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response(BODY)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(await self.events.get())
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def get(self, path: str = "/apis", seconds: float = 60.0) -> tuple[int, bytes]:
        async with self.session.get(
            self.listener.server + path, timeout=aiohttp.ClientTimeout(total=seconds)
        ) as answer:
            return answer.status, await answer.read()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    made = Server(tmp_path)
    async with made.listener:
        connector = aiohttp.TCPConnector(ssl=made.pki.client())
        async with aiohttp.ClientSession(connector=connector) as made.session:
            assert await made.get() == (200, json.dumps(BODY).encode())
            yield made


@pytest.mark.parametrize("fault", [Fault.REFUSE, Fault.DISAPPEAR])
async def test_a_lost_server_refuses_and_comes_back_on_its_port(server: Server, fault: Fault) -> None:
    """Connections that were open are cut, new ones refused."""
    async with server.session.get(server.listener.server + "/watch") as watch:
        await server.faults.set(fault)

        with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
            await watch.content.read()
    with pytest.raises(aiohttp.ClientConnectorError, match=r"refused|Connect call failed"):
        await server.get()
    async with asyncio.timeout(60):
        await server.cancelled.wait()

    await server.faults.clear(fault)

    assert (await server.get())[0] == 200


async def test_nobody_takes_the_port_of_a_server_that_is_away(server: Server) -> None:
    """It is not free while the server does not listen."""
    await server.faults.set(Fault.REFUSE)

    with pytest.raises(OSError, match="in use"):
        await asyncio.start_server(lambda *_: None, "127.0.0.1", server.listener.port, reuse_address=False)


@pytest.mark.parametrize(
    ("fault", "text"),
    [(Fault.WRONG_CA, "self-signed|unable to get local issuer|signature"), (Fault.EXPIRED, "expired")],
)
async def test_certificates_that_prove_nothing(server: Server, fault: Fault, text: str) -> None:
    """Open connections are cut too, or clients would never see the new certificate."""
    await server.faults.set(fault)

    with pytest.raises(aiohttp.ClientConnectorCertificateError, match=text):
        await server.get()

    await server.faults.clear(fault)

    assert (await server.get())[0] == 200


async def test_a_hanging_server_answers_once_it_is_well(server: Server) -> None:
    """Neither a head nor a byte before."""
    await server.faults.set(Fault.HANG)
    with pytest.raises(TimeoutError):
        await server.get(seconds=0.2)

    waiting = asyncio.create_task(server.get())
    await server.faults.clear()

    assert (await waiting)[0] == 200


async def test_a_hanging_server_is_silent_on_open_watches(server: Server) -> None:
    """What happens meanwhile is told afterwards."""
    async with server.session.get(server.listener.server + "/watch") as watch:
        server.events.put_nowait(b"before\n")
        assert await watch.content.readline() == b"before\n"

        await server.faults.set(Fault.HANG)
        server.events.put_nowait(b"after\n")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await watch.content.readline()
        await server.faults.clear()

        async with asyncio.timeout(60):
            assert await watch.content.readline() == b"after\n"


async def test_a_dripping_server_sends_a_byte_now_and_then(server: Server) -> None:
    """Each byte in time, the whole never within a deadline; what is still owed comes at once afterwards."""
    await server.faults.set(Fault.DRIP)
    with pytest.raises(TimeoutError):
        await server.get(seconds=0.2)

    async with server.session.get(server.listener.server + "/apis") as answer:
        async with asyncio.timeout(60):
            first = await answer.content.readexactly(3)
        assert answer.headers["Content-Length"] == str(len(json.dumps(BODY)))
        await server.faults.clear()
        async with asyncio.timeout(60):
            rest = await answer.read()

    assert json.loads(first + rest) == BODY


async def test_an_overloaded_server_says_when_to_come_again(server: Server) -> None:
    """As kube-apiserver's priority and fairness."""
    await server.faults.set(Fault.TOO_MANY_REQUESTS)

    async with server.session.get(server.listener.server + "/apis") as answer:
        assert answer.status == 429
        assert answer.headers["Retry-After"] == "1"
        assert await answer.text() == "Too many requests, please try again later.\n"


async def test_a_failing_server_answers_with_a_status(server: Server) -> None:
    """500, InternalError."""
    await server.faults.set(Fault.SERVER_ERROR)
    status, body = await server.get()

    assert status == 500
    assert json.loads(body)["reason"] == "InternalError"


async def test_truncated_json_is_a_whole_answer(server: Server) -> None:
    """Its Content-Length is true, its JSON is not."""
    await server.faults.set(Fault.TRUNCATED)
    status, body = await server.get()

    assert status == 200
    assert json.dumps(BODY).encode().startswith(body)
    with pytest.raises(ValueError, match=r"delimiter|Unterminated|Expecting"):
        json.loads(body)


async def test_a_cut_answer_ends_in_the_middle(server: Server) -> None:
    """Before the Content-Length that was promised."""
    await server.faults.set(Fault.CUT)

    with pytest.raises(aiohttp.ClientError):
        await server.get()


async def test_a_fault_meets_only_its_paths(server: Server) -> None:
    """Others are answered; several faults hold side by side, and each is cleared alone."""
    await server.faults.set(Fault.SERVER_ERROR, ("/apis/metrics.k8s.io", "/api/v1/pods"))
    await server.faults.set(Fault.TOO_MANY_REQUESTS, ("/apis/apps",))

    async def statuses() -> list[int]:
        paths = ("/apis/metrics.k8s.io/v1beta1/pods", "/api/v1/pods", "/apis/apps/v1", "/api/v1/nodes")
        return [(await server.get(path))[0] for path in paths]

    assert await statuses() == [500, 500, 429, 200]

    await server.faults.clear(Fault.SERVER_ERROR)

    assert await statuses() == [200, 200, 429, 200]


async def test_metric_values_are_for_the_metrics_to_read(server: Server) -> None:
    """The switchboard only says which rubbish is due."""
    seen: list[Any] = [server.faults.metric_values]
    for fault in (Fault.NEGATIVE, Fault.NAN):
        await server.faults.set(fault)
        seen.append(server.faults.metric_values)
        await server.faults.clear(fault)
    seen.append(server.faults.metric_values)

    assert seen == [None, "negative", "nan", None]
    assert (await server.get())[0] == 200
