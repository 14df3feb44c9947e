"""Clients that prove nothing cannot crowd out the hub's front proxy, nor fill the memory, over real TLS."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from certs import CertificateAuthority
from fedhpa.serving import connections, listener, peers
from fedhpa.serving.connections import (
    MAX_HEAD_BYTES,
    MAX_HEAD_LINES,
    MAX_HEADER_LINE,
    MAX_VERIFIED_HEAD_BYTES,
)
from fedhpa.serving.error_responses import status_response
from fedhpa.serving.peers import Peers, Reason
from fedhpa.serving.server import TlsServer
from fedhpa.serving.tls import ServingTls, TlsFiles
from tests.support.fakeapi import PATIENCE, eventually

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n12345"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Port:
    """A TLS port that asks for client certificates, and clients of it."""

    def __init__(self, folder: Path, peers: Peers) -> None:
        self._authority = CertificateAuthority.create("serving-ca")
        self._clients = CertificateAuthority.create("client-ca")
        self._authority.issue_server("server", dns=["localhost"], ips=["127.0.0.1"]).save(folder)
        self._clients.issue_client("front-proxy").save(folder / "client")
        self._folder = folder
        self.peers = peers
        self.port = 0
        self.serving = False

    async def _endless(self, _: web.Request) -> web.Response:
        self.serving = True
        await asyncio.Event().wait()
        return web.Response()

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        tls = ServingTls(
            TlsFiles(self._folder / "tls.crt", self._folder / "tls.key"), request_client_certificates=True
        )
        tls.trust_clients(self._clients.bundle_pem)
        application = web.Application()
        application.add_routes([web.get("/endless", self._endless)])
        application.add_routes([web.get("/", small), web.post("/read", read), web.get("/secret", secret)])
        server = TlsServer(application, tls, host="127.0.0.1", port=0, grace=0.5, peers=self.peers)
        async with server:
            self.port = server.port
            yield

    def context(self, *, certificate: bool) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self._authority.bundle_pem.decode())
        if certificate:
            context.load_cert_chain(self._folder / "client/tls.crt", self._folder / "client/tls.key")
        return context

    @asynccontextmanager
    async def connected(self, *, certificate: bool = False) -> AsyncIterator[Streams]:
        context = self.context(certificate=certificate)
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


async def small(_: web.Request) -> web.Response:
    return web.Response(text="small")


async def read(request: web.Request) -> web.Response:
    return web.Response(text=str(len(await request.read())))


async def secret(_: web.Request) -> web.Response:
    return status_response(401, "Unauthorized")


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Returns the bytes up to the end of the connection."""
    async with asyncio.timeout(PATIENCE):
        try:
            return await reader.read()
        except (ConnectionError, ssl.SSLError):
            return b""


@asynccontextmanager
async def port(folder: Path, peers: Peers | None = None) -> AsyncIterator[Port]:
    made = Port(folder, Peers() if peers is None else peers)
    async with made.served():
        yield made


async def test_half_bodies_do_not_crowd_out_verified_peers(tmp_path: Path) -> None:
    """Far more strangers than connections are allowed; each request of the front proxy is served."""
    async with port(tmp_path, Peers(max_connections=48, max_strangers=24)) as made, AsyncExitStack() as stack:
        for _ in range(40):
            _, writer = await stack.enter_async_context(made.connected())
            writer.write(HALF)
        for _ in range(10):
            _, writer = await stack.enter_async_context(made.connected())
            writer.write(HALF)
            async with made.connected(certificate=True) as (reader, proxy):
                proxy.write(GET)
                async with asyncio.timeout(PATIENCE):
                    assert b"200 OK" in await reader.readuntil(b"small")

        assert len(made.peers) <= 24


async def test_a_verified_peer_keeps_its_connection(tmp_path: Path) -> None:
    """Strangers cannot close the connection on which the hub sends its next request."""
    async with port(tmp_path, Peers(max_connections=16, max_strangers=8)) as made, AsyncExitStack() as stack:
        reader, proxy = await stack.enter_async_context(made.connected(certificate=True))
        proxy.write(GET)
        async with asyncio.timeout(PATIENCE):
            await reader.readuntil(b"small")
        for _ in range(20):
            _, writer = await stack.enter_async_context(made.connected())
            writer.write(HALF)
        proxy.write(GET)
        async with asyncio.timeout(PATIENCE):
            assert b"200 OK" in await reader.readuntil(b"small")


async def test_a_refused_user_keeps_no_connection(tmp_path: Path) -> None:
    """The response to a request without credentials closes, also if a part of its body is still to come."""
    async with port(tmp_path) as made:
        for sent in (GET.replace(b" / ", b" /secret "), HALF.replace(b"POST /read", b"GET /secret")):
            async with made.connected() as (reader, writer):
                writer.write(sent)

                assert b"Connection: close" in await ended(reader)
        await eventually(lambda: len(made.peers) == 0, PATIENCE)


async def test_silent_sockets_are_bounded(tmp_path: Path) -> None:
    """They are bounded like connections, and a stranger and the front proxy are still served."""
    peers = Peers(max_connections=64, max_strangers=32)
    async with port(tmp_path, peers) as made, AsyncExitStack() as stack:
        for _ in range(100):
            silent = stack.enter_context(socket.create_connection(("127.0.0.1", made.port)))
            silent.setblocking(False)
            await asyncio.sleep(0)
        await eventually(lambda: 0 < len(made.peers) <= 32, PATIENCE)
        for certificate in (False, True):
            async with made.connected(certificate=certificate) as (reader, writer):
                writer.write(GET)
                async with asyncio.timeout(PATIENCE):
                    assert b"200 OK" in await reader.readuntil(b"small")


@pytest.mark.parametrize("tls", [False, True])
async def test_a_silent_socket_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: bool) -> None:
    """Before the handshake and after it."""
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", PATIENCE if tls else 0.2)
    monkeypatch.setattr(peers, "SWEEP_SECONDS", 0.02)
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.1)
    async with port(tmp_path) as made:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", made.port, ssl=made.context(certificate=False) if tls else None
        )

        assert await ended(reader) == b""
        writer.close()
        await eventually(lambda: len(made.peers) == 0, PATIENCE)


async def test_a_handshake_that_stalls_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is what is no TLS at all; neither is an error."""
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 0.2)
    with capture_logs() as logs:
        async with port(tmp_path) as made:
            for sent in (b"\x16", b"GET / HTTP/1.1\r\n\r\n" * 10):
                reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
                writer.write(sent)
                await ended(reader)
                writer.close()
            await eventually(lambda: len(made.peers) == 0, PATIENCE)

    assert {entry["log_level"] for entry in logs} <= {"debug", "info"}


async def test_stopping_ends_handshakes(tmp_path: Path) -> None:
    """A server that stops waits neither for a first byte nor for a handshake."""
    async with port(tmp_path) as made:
        silent, first = await asyncio.open_connection("127.0.0.1", made.port)
        begun, second = await asyncio.open_connection("127.0.0.1", made.port)
        second.write(b"\x16")
        await eventually(lambda: len(made.peers) == 2, PATIENCE)

    assert await ended(silent) == await ended(begun) == b""
    first.close()
    second.close()
    assert len(made.peers) == 0


async def test_refused_peers_end(tmp_path: Path) -> None:
    """Nothing waits for a refused peer that does not read its answer, nor does a server that stops."""
    async with AsyncExitStack() as stack:
        async with port(tmp_path) as made:
            _, writer = await stack.enter_async_context(made.connected())
            reading: Any = writer.transport
            reading.pause_reading()
            writer.write(GET.removesuffix(b"\r\n") + b"X-A: a\r\n" * (MAX_HEAD_BYTES // 8))
            await eventually(lambda: refused(made.peers) == 1, PATIENCE)

        # uvloop reports a lost connection some turns of the loop later.
        await eventually(lambda: len(made.peers) == 0, PATIENCE)


def refused(peers: Peers) -> float:
    """Returns how many connections were closed because of their header."""
    return next(
        sample.value
        for metric in peers.collect()
        for sample in metric.samples
        if sample.labels == {"reason": Reason.HEADER.value} and sample.name.endswith("_total")
    )


async def test_no_more_files_is_logged_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `ulimit -n` reached, connections are accepted again as soon as some were closed."""
    failures = 3
    accept = listener.accept

    async def without_files(listening: socket.socket) -> socket.socket:
        nonlocal failures
        if failures:
            failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return await accept(listening)

    monkeypatch.setattr(listener, "accept", without_files)
    monkeypatch.setattr(listener, "PAUSE_SECONDS", 0.01)
    with capture_logs() as logs:
        async with port(tmp_path) as made, made.connected() as (reader, writer):
            writer.write(GET)
            async with asyncio.timeout(PATIENCE):
                assert b"200 OK" in await reader.readuntil(b"small")

    warnings = [entry for entry in logs if entry["log_level"] == "warning"]
    assert {entry["reason"] for entry in warnings} == {"no more files can be opened (ulimit -n)"}


@pytest.mark.parametrize(("certificate", "limit"), [(False, MAX_HEAD_BYTES), (True, MAX_VERIFIED_HEAD_BYTES)])
async def test_headers_are_bounded(tmp_path: Path, certificate: bool, limit: int) -> None:
    """The front proxy sends all groups of a user, and may send more than others."""
    line = b"X-Remote-Group: " + b"a" * (MAX_HEADER_LINE // 4) + b"\r\n"
    async with port(tmp_path) as made:
        for size, served in ((limit - 2 * len(line), True), (2 * limit, False)):
            async with made.connected(certificate=certificate) as (reader, writer):
                writer.write(GET.removesuffix(b"\r\n"))
                try:
                    for _ in range(size // len(line)):
                        writer.write(line)
                        await writer.drain()
                except ConnectionError:
                    pass
                if served:
                    writer.write(b"\r\n")
                    async with asyncio.timeout(PATIENCE):
                        assert b"200 OK" in await reader.readuntil(b"small")
                else:
                    assert b"200 OK" not in await ended(reader)


async def test_the_front_proxy_may_send_much(tmp_path: Path) -> None:
    """It proved who it is. It sends one header for each group of a user, and selectors in the first line."""
    groups = b"".join(b"X-Remote-Group: team-%d\r\n" % number for number in range(1000))
    many_groups = GET.removesuffix(b"\r\n") + groups + b"\r\n"
    long_selector = GET.replace(b" / ", b" /?labelSelector=" + b"a" * 60_000 + b" ")
    async with port(tmp_path) as made, made.connected(certificate=True) as (reader, writer):
        for sent in (many_groups, long_selector):
            writer.write(sent)
            async with asyncio.timeout(PATIENCE):
                assert b"200 OK" in await reader.readuntil(b"small")


@pytest.mark.parametrize("certificate", [False, True])
@pytest.mark.parametrize(
    "more",
    [
        pytest.param(b"X-A: a\r\n" * (MAX_HEAD_LINES + 1), id="lines"),
        pytest.param((b"X-A: " + b"a" * 4000 + b"\r\n") * 5, id="bytes"),
    ],
)
async def test_a_header_of_a_stranger_is_small(tmp_path: Path, certificate: bool, more: bytes) -> None:
    """A stranger is told so, and the front proxy with the same header is served."""
    async with port(tmp_path) as made, made.connected(certificate=certificate) as (reader, writer):
        writer.write(GET.removesuffix(b"\r\n") + more + b"\r\n")
        if not certificate:
            answer = await ended(reader)
            head, _, body = answer.partition(b"\r\n\r\n")

            assert head.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
            assert (json.loads(body)["kind"], json.loads(body)["code"]) == ("Status", 431)
            return
        async with asyncio.timeout(PATIENCE):
            assert b"200 OK" in await reader.readuntil(b"small")


async def test_a_header_is_small_also_while_a_request_is_served(tmp_path: Path) -> None:
    """A stranger cannot let large headers wait behind a slow request."""
    async with port(tmp_path) as made, made.connected() as (reader, writer):
        writer.write(GET.replace(b" / ", b" /endless "))
        await eventually(lambda: made.serving, PATIENCE)
        writer.write(GET.removesuffix(b"\r\n") + b"X-A: a\r\n" * (MAX_HEAD_LINES + 1) + b"\r\n")

        assert await ended(reader) == b""


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(GET, id="served"),
        pytest.param(GET.replace(b" / ", b" /nowhere "), id="no such path"),
        pytest.param(b"this is no HTTP\r\n\r\n", id="no HTTP"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nExpect: nothing\r\n\r\n", id="refused by aiohttp"),
    ],
)
async def test_no_response_names_the_software(tmp_path: Path, sent: bytes) -> None:
    """The versions of Python and aiohttp would tell a stranger which faults to try."""
    async with port(tmp_path) as made, made.connected() as (reader, writer):
        writer.write(sent)
        async with asyncio.timeout(PATIENCE):
            head = await reader.readuntil(b"\r\n\r\n")

    assert b"HTTP/1." in head
    assert b"server:" not in head.lower()
    assert b"python" not in head.lower()
