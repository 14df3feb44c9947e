"""A network in memory behaves like sockets: streams, flow control, TLS, closed connections."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trustme
from aiohttp import web

from benchmarks.world.network import HIGH_WATER, LATENCY_SECONDS, Cable, MemoryNetwork
from fedhpa.api.errors import ApiError
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig, tls_context
from tests.support.memory_network import MemoryListener

pytestmark = pytest.mark.looptime(noop_cycles=0)

MEGABYTE = 2**20


def application(handler: Callable[[web.Request], object]) -> web.Application:
    app = web.Application(client_max_size=64 * MEGABYTE)
    app.router.add_route("*", "/{path:.*}", handler)  # type: ignore[arg-type]  # aiohttp's type is wider
    return app


@asynccontextmanager
async def serving(
    handler: Callable[[web.Request], object],
    *,
    server: ssl.SSLContext | None = None,
    trusting: ssl.SSLContext | None = None,
) -> AsyncIterator[tuple[MemoryListener, ApiClient]]:
    """A server with one handler in its own network, and a client."""
    network = MemoryNetwork()
    async with MemoryListener(network, application(handler), server) as listener:
        config = ApiConfig(server=listener.server, ssl=trusting, connector=network.connector)
        async with ApiClient(config) as api:
            yield listener, api


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_requests_and_answers_of_any_size_arrive_whole() -> None:
    """Bodies far larger than the buffers pass both ways over one connection."""

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    bodies = [bytes(range(256)) * size for size in (1, 16, 4_000)]
    async with serving(echo) as (_, api):
        answers = [(await api.request("POST", "/", body=body)).body for body in bodies]

    assert bodies == answers


async def test_an_exchange_takes_the_latency_each_way_and_nothing_else() -> None:
    """Only the loop's clock advances during waits."""

    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(3600)
        return web.Response()

    async with serving(slow) as (_, api):
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
    async with serving(stream) as (_, api):
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

    async with serving(flood) as (_, api):
        lines = api.watch("/", params=None, idle=3600)
        assert await anext(lines) == b""
        await asyncio.sleep(1800)
        held = sent
        read = [line async for line in lines]

    # The client's buffer, the network's, and the chunk being written.
    assert 0 < held * 10_000 < 16 * HIGH_WATER
    assert len(read) == sent == 400


async def test_nobody_listens() -> None:
    """A stopped listener refuses connections, and accepts them again after a start."""

    async def ok(_: web.Request) -> web.Response:
        return web.Response()

    async with serving(ok) as (listener, api):
        assert (await api.request("GET", "/")).status == 200
        await listener.stop()
        with pytest.raises(ApiError, match="cannot connect: Connection refused"):
            await api.request("GET", "/")
        await listener.start()

        assert (await api.request("GET", "/")).status == 200


async def test_reset_connections_end_both_sides() -> None:
    """When the connection is reset, the client gets an error and the handler is cancelled."""
    ended = asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return web.Response()

    async with serving(hang) as (listener, api), asyncio.TaskGroup() as group:
        asyncio.get_running_loop().call_later(5, lambda: group.create_task(listener.stop()))
        with pytest.raises(ApiError, match="Connection reset by peer"):
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

    async with serving(hang) as (_, api):
        with pytest.raises(ApiError, match="no answer within 3 s"):
            await api.request("GET", "/", deadline=3)
        await asyncio.sleep(1)

    assert [round(moment) for moment in ended_at] == [3]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_context(authority: trustme.CA, name: str = "127.0.0.1") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    return tls_context(ca_data=authority.cert_pem.bytes().decode())


async def body_and_version(request: web.Request) -> web.Response:
    secured = request.get_extra_info("ssl_object")
    return web.Response(body=b"x" * (MEGABYTE - 1), headers={"X-Version": secured.version()})


async def test_tls_is_the_real_one(authority: trustme.CA) -> None:
    """A client reads from a server whose certificate it trusts."""
    server = server_context(authority)
    async with serving(body_and_version, server=server, trusting=trusting(authority)) as (_, api):
        answer = await api.request("GET", "/")

    assert (len(answer.body), answer.headers["X-Version"]) == (MEGABYTE - 1, "TLSv1.3")


async def test_an_unknown_authority_is_refused(authority: trustme.CA) -> None:
    """The error says what is wrong with the certificate."""
    server = server_context(authority)
    async with serving(body_and_version, server=server, trusting=trusting(trustme.CA())) as (_, api):
        with pytest.raises(ApiError, match="certificate not accepted: unable to get local issuer"):
            await api.request("GET", "/")


async def test_a_certificate_of_another_host_is_refused(authority: trustme.CA) -> None:
    """A certificate of the right authority for another host is refused."""
    server = server_context(authority, "elsewhere")
    async with serving(body_and_version, server=server, trusting=trusting(authority)) as (_, api):
        with pytest.raises(ApiError, match="certificate not accepted: IP address mismatch"):
            await api.request("GET", "/")


async def test_another_certificate_from_now_on(authority: trustme.CA) -> None:
    """A start with another context resets old connections, and new ones get the new certificate."""
    async with serving(body_and_version, server=server_context(authority), trusting=trusting(authority)) as (
        listener,
        api,
    ):
        assert (await api.request("GET", "/")).status == 200
        await listener.start(server_context(trustme.CA()))
        with pytest.raises(ApiError, match="certificate not accepted"):
            await api.request("GET", "/")
        await listener.start()

        assert (await api.request("GET", "/")).status == 200


async def hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")


async def test_a_frozen_cable_tells_nobody() -> None:
    """Open and new connections wait while frozen; afterwards sent data arrives."""
    network = MemoryNetwork()
    cable = Cable(network)
    listener = MemoryListener(network, application(hello))
    async with listener, ApiClient(ApiConfig(server=listener.server, connector=cable.connector)) as api:
        assert (await api.request("GET", "/")).body == b"hello"
        cable.freeze()
        asyncio.get_running_loop().call_later(7, cable.thaw)
        with pytest.raises(ApiError, match="no answer within 3 s"):
            await api.request("GET", "/", deadline=3)
        assert (await api.request("GET", "/", deadline=60)).body == b"hello"

    assert 7 <= now() < 8


async def test_a_cut_cable_is_gone_for_good() -> None:
    """A cut cable resets the connections of one client and no others."""
    network = MemoryNetwork()
    cable = Cable(network)
    async with MemoryListener(network, application(hello)) as listener:
        killed = ApiClient(ApiConfig(server=listener.server, connector=cable.connector))
        other = ApiClient(ApiConfig(server=listener.server, connector=network.connector))
        async with killed, other:
            for api in (killed, other):
                assert (await api.request("GET", "/")).body == b"hello"
            cable.cut()
            with pytest.raises(ApiError, match="cannot connect"):
                await killed.request("GET", "/")

            assert (await other.request("GET", "/")).body == b"hello"
