"""Connections of clients that stall are closed: half a header, half a body, an answer that is not read."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler
from structlog.testing import capture_logs

from fedhpa.serving import connections, listener, peers
from fedhpa.serving.connections import MAX_HEADER_LINE
from fedhpa.serving.error_responses import status_errors
from fedhpa.serving.peers import Peers
from tests.support.costs import least_longest_hold
from tests.support.fakeapi import PATIENCE, eventually

LONG = PATIENCE
GET = b"GET /small HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Returns a function that makes all timeouts pass within a moment, also while this process is stopped."""
    monkeypatch.setattr(peers, "SWEEP_SECONDS", 0.02)

    def impatient() -> None:
        for name in ("HEADER_SECONDS", "BODY_SECONDS", "READ_SECONDS"):
            monkeypatch.setattr(connections, name, 0.1)

    return impatient


@pytest.fixture
def impatient(impatience: Callable[[], None]) -> None:
    """Short timeouts from the start."""
    impatience()


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """aiohttp itself logs nothing about clients."""
    yield

    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def small(_: web.Request) -> web.Response:
    return web.Response(text="small")


async def large(_: web.Request) -> web.Response:
    return web.Response(body=b"x" * (32 * 2**20))


async def read(request: web.Request) -> web.Response:
    return web.Response(text=str(len(await request.read())))


async def late(_: web.Request) -> web.Response:
    await asyncio.sleep(0.1)
    return web.Response(text="late")


class Site:
    """A listener on a free port, which closes stalled connections."""

    def __init__(self, peers: Peers, port: int) -> None:
        self.peers = peers
        self.port = port


@asynccontextmanager
async def served(peers: Peers | None = None) -> AsyncIterator[Site]:
    application = web.Application()
    application.add_routes([web.get("/small", small), web.get("/large", large), web.post("/read", read)])
    application.add_routes([web.get("/late", late)])
    peers = Peers() if peers is None else peers
    async with listener.served(application, ("127.0.0.1", 0), peers, grace=0.5) as port:
        yield Site(peers, port)


@asynccontextmanager
async def connected(site: Site) -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Returns the bytes up to the end of the connection."""
    async with asyncio.timeout(LONG):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET /small HTTP/1.1\r\nHos", id="half a header"),
        pytest.param(POST + b"12345", id="half a body"),
        pytest.param(
            POST.replace(b"Content-Length: 10", b"Transfer-Encoding: chunked") + b"5\r\n", id="chunk"
        ),
    ],
)
async def test_a_stalled_request_is_closed(impatient: None, sent: bytes) -> None:
    """The connection is closed soon after the timeout, without an answer and without an error in the log."""
    with capture_logs() as logs:
        async with served() as site, connected(site) as (reader, writer):
            writer.write(sent)

            assert await ended(reader) == b""
            await eventually(lambda: len(site.peers) == 0, LONG)

    assert {entry["log_level"] for entry in logs} == {"debug"}


def open_connections() -> int:
    """Returns how many connections this process has in memory."""
    return sum(isinstance(one, connections.Connection) for one in gc.get_objects())


@pytest.mark.parametrize("path", ["small", "late"])
async def test_a_closed_connection_is_freed_without_a_collection(path: str) -> None:
    """A connection has 256 kB for TLS. Its client leaves after the answer, or before a late one."""
    async with served() as site:
        gc.collect()
        before = open_connections()
        gc.disable()
        try:
            for _ in range(5):
                async with connected(site) as (reader, writer):
                    writer.write(GET.replace(b"small", path.encode()))
                    if path == "small":
                        await reader.readuntil(b"small")
            await eventually(lambda: open_connections() == before, LONG)
        finally:
            gc.enable()


async def drip(writer: asyncio.StreamWriter) -> None:
    """Writes a byte each hundredth of a second."""
    for _ in range(100_000):
        writer.write(b"a")
        await asyncio.sleep(0.01)


async def test_a_slow_header_is_closed(impatience: Callable[[], None]) -> None:
    """The timeout covers the whole header, also behind a request that was answered."""
    async with served() as site, connected(site) as (reader, writer):
        writer.write(GET)
        await reader.readuntil(b"small")
        impatience()
        writer.write(b"GET /")
        dripping = asyncio.ensure_future(drip(writer))
        try:
            assert await ended(reader) == b""
        finally:
            dripping.cancel()


async def test_a_slow_body_is_closed(impatience: Callable[[], None]) -> None:
    """The timeout covers the whole body, however short the pauses between its bytes are."""
    async with served() as site, connected(site) as (reader, writer):
        writer.write(POST.replace(b"Content-Length: 10", b"Content-Length: 1000000"))
        impatience()

        dripping = asyncio.ensure_future(drip(writer))
        try:
            assert await ended(reader) == b""
        finally:
            dripping.cancel()


async def test_a_body_in_the_smallest_pieces_holds_no_loop() -> None:
    """A chunk of one byte is six bytes, and each is handled by itself."""
    body = b"1\r\na\r\n" * 100_000 + b"0\r\n\r\n"
    head = POST.replace(b"Content-Length: 10", b"Transfer-Encoding: chunked")
    async with served() as site:

        async def sent() -> None:
            async with connected(site) as (reader, writer):
                writer.write(head + body)
                async with asyncio.timeout(LONG):
                    await reader.readuntil(b"100000")

        assert await least_longest_hold(sent, 0.05) < 0.05


async def test_a_slowly_read_answer_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout covers the whole answer. A client that always reads a little holds it no longer."""

    async def in_pieces(_: web.Request) -> web.Response:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(128):
                yield b"x" * 2**18

        return web.Response(body=pieces())

    monkeypatch.setitem(globals(), "large", in_pieces)
    # The kernel lets the server go on a few times a second.
    monkeypatch.setattr(connections, "READ_SECONDS", 1.0)
    monkeypatch.setattr(peers, "SWEEP_SECONDS", 0.02)
    async with served() as site, connected(site) as (reader, writer):
        writer.write(GET.replace(b"small", b"large"))
        await reader.readexactly(1000)

        async def sip() -> None:
            for _ in range(1000):
                await reader.read(2**17)
                await asyncio.sleep(0.03)

        sipping = asyncio.ensure_future(sip())
        try:
            # The whole answer takes at least eight seconds at this pace.
            await eventually(lambda: len(site.peers) == 0, 4.0)
        finally:
            sipping.cancel()


async def test_an_unread_answer_is_dropped(impatience: Callable[[], None]) -> None:
    """Otherwise it would stay in memory."""
    async with served() as site, connected(site) as (reader, writer):
        writer.write(GET.replace(b"small", b"large"))
        await reader.readexactly(1000)
        impatience()
        await eventually(lambda: len(site.peers) == 0, LONG)


async def test_a_client_that_leaves_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has no traceback for a client that leaves in the middle of an answer."""
    gone = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 2**16)
        finally:
            gone.set()

    monkeypatch.setitem(globals(), "large", status_errors_around(endless))
    with capture_logs() as logs:
        async with served() as site:
            async with connected(site) as (reader, writer):
                writer.write(GET.replace(b"small", b"large"))
                await reader.readexactly(1000)
                writer.transport.abort()
            async with asyncio.timeout(LONG):
                await gone.wait()
            await eventually(lambda: len(site.peers) == 0, LONG)

    assert {entry["log_level"] for entry in logs} <= {"debug"}


def status_errors_around(handler: Handler) -> Handler:
    """Returns a handler wrapped as in the adapter's application."""

    async def guarded(request: web.Request) -> web.StreamResponse:
        return await status_errors(request, handler)

    return guarded


async def test_idle_and_served_connections_stay(
    impatience: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Idle connections have a timeout of their own, and requests in work have none."""
    sweeps = 0
    sleep = asyncio.sleep

    async def counted(seconds: float) -> None:
        nonlocal sweeps
        sweeps += seconds == 0.02
        await sleep(seconds)

    async def slow(_: web.Request) -> web.Response:
        await swept()
        return web.Response(text="small")

    async def swept() -> None:
        impatience()
        before = sweeps
        await eventually(lambda: sweeps > before + 20, LONG)

    monkeypatch.setitem(globals(), "small", slow)
    monkeypatch.setattr(asyncio, "sleep", counted)
    async with served() as site, connected(site) as (reader, writer):
        for _ in range(2):
            writer.write(GET)
            async with asyncio.timeout(LONG):
                assert b"200 OK" in await reader.readuntil(b"small")
            await swept()

        assert len(site.peers) == 1


async def test_the_longest_idle_connection_makes_room() -> None:
    """Above the limit the longest idle connection is closed, and the new one is served."""
    async with (
        served(Peers(max_connections=6, max_strangers=3)) as site,
        connected(site) as first,
        connected(site) as second,
        connected(site) as third,
    ):
        for reader, writer in (first, second, third):
            writer.write(GET)
            async with asyncio.timeout(LONG):
                await reader.readuntil(b"small")
        async with connected(site) as (reader, writer):
            writer.write(GET)
            async with asyncio.timeout(LONG):
                assert b"200 OK" in await reader.readuntil(b"small")

            assert await ended(first[0]) == b""
            assert len(site.peers) == 3


async def test_without_an_idle_connection_the_newest_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections with a request in work stay."""
    started, release = asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        started.set()
        await release.wait()
        return web.Response(text="done")

    monkeypatch.setitem(globals(), "small", slow)
    async with served(Peers(max_connections=2, max_strangers=1)) as site, connected(site) as (reader, writer):
        writer.write(GET)
        async with asyncio.timeout(LONG):
            await started.wait()
        async with connected(site) as (refused, other):
            other.write(GET)

            assert await ended(refused) == b""
        release.set()
        async with asyncio.timeout(LONG):
            assert b"200 OK" in await reader.readuntil(b"done")


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(b"\x16\x03\x01\x02\x00 secret-token\r\n\r\n", 400, id="no HTTP"),
        pytest.param(b"GET /small HTTP/1.1\r\nAuthorization: Bearer secret-token\x00\r\n\r\n", 400, id="nul"),
        pytest.param(
            b"GET / HTTP/1.1\r\nAuthorization: secret-token" + b"a" * MAX_HEADER_LINE + b"\r\n\r\n",
            431,
            id="too long a header",
        ),
        pytest.param(b"GET /" + b"secret-token" * 8000 + b" HTTP/1.1\r\n\r\n", 431, id="too long a URL"),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: x\r\nExpect: secret-token\r\n\r\n", 417, id="expects something"
        ),
    ],
)
async def test_invalid_http_gets_a_status_and_is_not_quoted(sent: bytes, code: int) -> None:
    """Neither the answer nor the log quotes it, because it may contain a token."""
    with capture_logs() as logs:
        async with served() as site, connected(site) as (reader, writer):
            writer.write(sent)
            async with asyncio.timeout(LONG):
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                body = await reader.readexactly(length)

    status = json.loads(body)
    assert (status["kind"], status["code"]) == ("Status", code)
    assert head.startswith(f"HTTP/1.{head[7:8].decode()} {code} ".encode())
    assert b"secret-token" not in body
    assert "secret-token" not in str(logs)
