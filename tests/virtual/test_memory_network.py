"""A network without sockets behaves as one with them: streams, flow control, TLS, ends of connections."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

import pytest
import trustme
from aiohttp import web

from fedhpa.api.errors import ApiError
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig, tls_context
from playground.memory import HIGH_WATER, LATENCY_SECONDS, MemoryNetwork

pytestmark = pytest.mark.looptime(noop_cycles=0)

URL = "http://hub"
MEGABYTE = 2**20


def application(handler: Callable[[web.Request], object]) -> web.Application:
    app = web.Application(client_max_size=64 * MEGABYTE)
    app.router.add_route("*", "/{path:.*}", handler)  # type: ignore[arg-type]  # aiohttp's type is wider
    return app


def client(network: MemoryNetwork, url: str = URL, context: ssl.SSLContext | None = None) -> ApiClient:
    return ApiClient(ApiConfig(server=url, ssl=context, connector=network.connector))


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_requests_and_answers_of_any_size_arrive_whole() -> None:
    """Much more than the buffers hold, both ways, over one connection."""

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    network = MemoryNetwork()
    bodies = [bytes(range(256)) * size for size in (1, 16, 4_000)]
    async with network.serving(application(echo), URL), client(network) as api:
        answers = [(await api.request("POST", "/", body=body)).body for body in bodies]

    assert bodies == answers


async def test_an_exchange_takes_the_latency_each_way_and_nothing_else() -> None:
    """The loop's clock moves by what was waited for; the wall's does not matter."""

    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(3600)
        return web.Response()

    network = MemoryNetwork()
    async with network.serving(application(slow), URL), client(network) as api:
        began = now()
        await api.request("GET", "/", deadline=4000)

    assert now() - began == pytest.approx(3600 + 2 * LATENCY_SECONDS, abs=1e-4)


async def test_a_stream_arrives_as_it_is_written() -> None:
    """Each line of a watch is read in the moment it was sent, not at the end."""

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for number in range(3):
            await asyncio.sleep(60)
            await response.write(b"%d\n" % number)
        return response

    network = MemoryNetwork()
    seen: list[tuple[float, bytes]] = []
    async with network.serving(application(stream), URL), client(network) as api:
        began = now()
        async for line in api.watch("/", params=None, idle=90):
            if line:
                seen.append((round(now() - began), line))

    assert seen == [(60, b"0"), (120, b"1"), (180, b"2")]


async def test_a_writer_waits_for_a_reader_that_does_not_read() -> None:
    """What is on its way is bounded; once the reader goes on, so does the writer."""
    sent = 0

    async def flood(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(400):
            await response.write(b"x" * 9_999 + b"\n")
            sent += 1
        return response

    network = MemoryNetwork()
    async with network.serving(application(flood), URL), client(network) as api:
        lines = api.watch("/", params=None, idle=3600)
        assert await anext(lines) == b""
        await asyncio.sleep(1800)
        held = sent
        read = [line async for line in lines]

    # The client's own buffer, the network's, and what the writer had in hand.
    assert 0 < held * 10_000 < 16 * HIGH_WATER
    assert len(read) == sent == 400


async def test_nobody_listens() -> None:
    """An unknown host, and one whose site was stopped, refuse."""

    async def ok(_: web.Request) -> web.Response:
        return web.Response()

    network = MemoryNetwork()
    async with client(network) as api:
        with pytest.raises(ApiError, match="cannot connect"):
            await api.request("GET", "/")
        async with network.serving(application(ok), URL):
            assert (await api.request("GET", "/")).status == 200
        with pytest.raises(ApiError, match="cannot connect"):
            await api.request("GET", "/")


async def test_reset_connections_end_both_sides() -> None:
    """The client is told (a GET it would send once more); the handler is cancelled."""
    ended = asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return web.Response()

    network = MemoryNetwork()
    async with network.serving(application(hang), URL) as site, client(network) as api:
        asyncio.get_running_loop().call_later(5, site.disconnect)
        with pytest.raises(ApiError, match="connection"):
            await api.request("POST", "/", deadline=60)
        await asyncio.wait_for(ended.wait(), 1)

    assert 5 <= now() < 6


async def test_a_client_that_gives_up_ends_its_request() -> None:
    """The server's handler is cancelled when the deadline of the call passes."""
    ended_at: list[float] = []

    async def hang(_: web.Request) -> web.Response:
        try:
            await asyncio.Event().wait()
        finally:
            ended_at.append(now())
        return web.Response()

    network = MemoryNetwork()
    async with network.serving(application(hang), URL), client(network) as api:
        with pytest.raises(ApiError, match="no answer within 3 s"):
            await api.request("GET", "/", deadline=3)
        await asyncio.sleep(1)

    assert [round(moment) for moment in ended_at] == [3]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_context(authority: trustme.CA, name: str = "hub") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


async def peer(request: web.Request) -> web.Response:
    secured = request.get_extra_info("ssl_object")
    return web.Response(body=b"x" * (MEGABYTE - 1), headers={"X-Protocol": secured.version()})


async def test_tls_is_the_real_one(authority: trustme.CA) -> None:
    """A trusted server is read, through the same buffers."""
    network = MemoryNetwork()
    trusted = tls_context(ca_data=authority.cert_pem.bytes().decode())
    async with (
        network.serving(application(peer), "https://hub", ssl_context=server_context(authority)),
        client(network, "https://hub", trusted) as api,
    ):
        answer = await api.request("GET", "/")

    assert (len(answer.body), answer.headers["X-Protocol"]) == (MEGABYTE - 1, "TLSv1.3")


@pytest.mark.parametrize(
    ("trusts", "name", "reason"),
    [
        (False, "hub", "certificate not accepted: unable to get local issuer certificate"),
        (True, "elsewhere", "certificate not accepted: Hostname mismatch"),
    ],
)
async def test_a_server_that_is_not_trusted_is_refused(
    authority: trustme.CA, trusts: bool, name: str, reason: str
) -> None:
    """Its authority is unknown, or its certificate is for another name; the message says which."""
    network = MemoryNetwork()
    trusted = tls_context(ca_data=(authority if trusts else trustme.CA()).cert_pem.bytes().decode())
    async with (
        network.serving(application(peer), "https://hub", ssl_context=server_context(authority, name)),
        client(network, "https://hub", trusted) as api,
    ):
        with pytest.raises(ApiError, match=reason):
            await api.request("GET", "/")
