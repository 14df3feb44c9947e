"""Rotation of a serving certificate under load drops no connection, and bad files change nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certs import CertificateAuthority, IssuedCertificate
from fedhpa.api.errors import FedHPAError
from fedhpa.serving.process import Signals
from fedhpa.serving.server import TlsServer
from fedhpa.serving.tls import ServingTls, TlsFiles

# Longer than any pause of a busy machine.
DEADLINE = 60.0


@pytest.fixture
def authority() -> CertificateAuthority:
    """Returns the CA of a test."""
    return CertificateAuthority.create("test-ca")


@pytest.fixture
def files(authority: CertificateAuthority, tmp_path: Path) -> TlsFiles:
    """A first serving certificate on disk."""
    issue(authority).save(tmp_path)
    return TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key")


def issue(authority: CertificateAuthority) -> IssuedCertificate:
    return authority.issue_server("test", ips=["127.0.0.1"])


class Slow:
    """The handler of /slow, with events for the start of the request and for its release."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.release = asyncio.Event()

    async def handle(self, _: web.Request) -> web.Response:
        self.entered.set()
        await self.release.wait()
        return web.Response(text="late")


async def hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")


@contextlib.asynccontextmanager
async def serving(tls: ServingTls, *, grace: float = DEADLINE) -> AsyncIterator[tuple[TlsServer, Slow]]:
    """A server with /hello and /slow."""
    slow = Slow()
    application = web.Application()
    application.add_routes([web.get("/hello", hello), web.get("/slow", slow.handle)])
    async with TlsServer(application, tls, host="127.0.0.1", port=0, grace=grace) as server:
        yield server, slow


async def text_of(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(url) as response:
        return await response.text()


async def served_serial(port: int, roots: bytes, client: ssl.SSLContext | None = None) -> int:
    """Returns the serial number of the certificate that a new connection receives."""
    context = client or ssl.create_default_context(cadata=roots.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    peer = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    # With TLS 1.3 the client learns of a refused certificate at the first read.
    writer.write(b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    try:
        async with asyncio.timeout(DEADLINE):
            answer = await reader.read()
    finally:
        writer.close()
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            await writer.wait_closed()
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise ConnectionResetError("closed without an answer")
    return x509.load_der_x509_certificate(peer).serial_number


async def eventually_serves(port: int, roots: bytes, serial: int) -> None:
    async with asyncio.timeout(DEADLINE):
        while await served_serial(port, roots) != serial:  # noqa: ASYNC110 - polls a socket
            await asyncio.sleep(0.05)


async def test_new_connections_get_the_new_certificate_and_old_ones_live_on(
    authority: CertificateAuthority, files: TlsFiles, tmp_path: Path
) -> None:
    """The watcher loads changed files; a running request and a kept connection are not disturbed."""
    connections = 0

    async def count(*_: object) -> None:
        nonlocal connections
        connections += 1

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(count)
    roots = ssl.create_default_context(cadata=authority.bundle_pem.decode())
    # Otherwise the client closes connections that were idle for 15 s.
    connector = aiohttp.TCPConnector(ssl=roots, keepalive_timeout=2 * DEADLINE)
    async with (
        serving(ServingTls(files)) as (server, slow),
        aiohttp.ClientSession(connector=connector, trace_configs=[trace]) as session,
        asyncio.TaskGroup() as group,
    ):
        base = f"https://127.0.0.1:{server.port}"
        pending = group.create_task(text_of(session, f"{base}/slow"))
        async with asyncio.timeout(DEADLINE):
            await slow.entered.wait()
        assert await text_of(session, f"{base}/hello") == "hello"
        assert connections == 2

        fresh = issue(authority)
        fresh.save(tmp_path)
        await eventually_serves(server.port, authority.bundle_pem, fresh.certificate.serial_number)
        slow.release.set()

        assert await pending == "late"
        assert await text_of(session, f"{base}/hello") == "hello"
        assert connections == 2


async def test_bad_files_leave_the_old_certificate_in_service(
    authority: CertificateAuthority, files: TlsFiles, tmp_path: Path
) -> None:
    """Garbage, a wrong key or a missing file keep the old certificate; a good pair replaces it."""
    tls = ServingTls(files)
    first = IssuedCertificate.load(tmp_path).certificate.serial_number
    fresh = issue(authority)

    async with serving(tls) as (server, _):
        files.certificate.write_bytes(b"rubbish")
        assert not tls.reload()
        files.certificate.write_bytes(fresh.cert_pem)
        assert not tls.reload()
        files.certificate.unlink()
        assert not tls.reload()
        assert await served_serial(server.port, authority.bundle_pem) == first

        fresh.save(tmp_path)
        assert tls.reload()
        assert await served_serial(server.port, authority.bundle_pem) == fresh.certificate.serial_number


async def test_sighup_reloads(authority: CertificateAuthority, files: TlsFiles, tmp_path: Path) -> None:
    """SIGHUP loads the files without waiting for the watcher."""
    tls = ServingTls(files)
    signals = Signals()
    signals.on_reload(tls.reload)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, signals.reload)
    try:
        async with serving(tls) as (server, _):
            fresh = issue(authority)
            fresh.save(tmp_path)
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0)
            await eventually_serves(server.port, authority.bundle_pem, fresh.certificate.serial_number)
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)


@pytest.mark.parametrize("name", ["tls.crt", "tls.key"])
def test_a_missing_file_is_named_at_start(files: TlsFiles, tmp_path: Path, name: str) -> None:
    """A server without a certificate does not start, and the error names the missing file."""
    (tmp_path / name).unlink()

    with pytest.raises(FedHPAError, match=f"cannot read .*{name}: No such file"):
        ServingTls(files)


def test_a_key_of_another_certificate_is_refused_at_start(
    authority: CertificateAuthority, files: TlsFiles
) -> None:
    """The error names both files, because either may be the wrong one."""
    files.key.write_bytes(issue(authority).key_pem)

    with pytest.raises(FedHPAError, match=r"tls.crt with .*tls.key"):
        ServingTls(files)


def test_an_encrypted_key_is_refused_without_asking(files: TlsFiles) -> None:
    """A process has no terminal to prompt for a password."""
    key = serialization.load_pem_private_key(files.key.read_bytes(), password=None)
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"password"),
        )
    )

    with pytest.raises(FedHPAError, match="cannot use the serving certificate"):
        ServingTls(files)


async def test_client_cas_are_swapped_whole(
    authority: CertificateAuthority, files: TlsFiles, tmp_path: Path
) -> None:
    """A client certificate of a removed CA is refused; a client without a certificate is served."""
    old, new = CertificateAuthority.create("clients"), CertificateAuthority.create("clients")
    tls = ServingTls(files, request_client_certificates=True)

    def client(ca: CertificateAuthority, name: str) -> ssl.SSLContext:
        ca.issue_client("jane").save(tmp_path / name)
        context = ssl.create_default_context(cadata=authority.bundle_pem.decode())
        context.load_cert_chain(tmp_path / name / "tls.crt", tmp_path / name / "tls.key")
        return context

    of_old, of_new = client(old, "old"), client(new, "new")
    async with serving(tls) as (server, _):
        tls.trust_clients(old.bundle_pem)
        await served_serial(server.port, b"", of_old)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await served_serial(server.port, b"", of_new)

        tls.trust_clients(new.bundle_pem)
        await served_serial(server.port, b"", of_new)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await served_serial(server.port, b"", of_old)
        await served_serial(server.port, authority.bundle_pem)


@pytest.mark.parametrize(
    ("minimum", "spoken", "accepted"),
    [("1.3", "1.2", False), ("1.2", "1.2", True), ("1.0", "1.2", True), ("1.3", "1.3", True)],
)
async def test_older_versions_than_the_minimum_are_refused(
    authority: CertificateAuthority, files: TlsFiles, minimum: str, spoken: str, accepted: bool
) -> None:
    """The handshake enforces the minimum version."""
    versions = {"1.0": ssl.TLSVersion.TLSv1, "1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
    context = ssl.create_default_context(cadata=authority.bundle_pem.decode())
    context.maximum_version = versions[spoken]
    async with serving(ServingTls(files, minimum_version=versions[minimum])) as (server, _):
        if accepted:
            assert await served_serial(server.port, b"", context)
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await served_serial(server.port, b"", context)


async def test_draining_lets_requests_end(authority: CertificateAuthority, files: TlsFiles) -> None:
    """A running request is answered while the server stops; new connections are refused."""
    roots = ssl.create_default_context(cadata=authority.bundle_pem.decode())
    async with (
        asyncio.timeout(DEADLINE),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=roots)) as session,
        asyncio.TaskGroup() as group,
    ):
        async with serving(ServingTls(files)) as (server, slow):
            request = group.create_task(text_of(session, f"https://127.0.0.1:{server.port}/slow"))
            await slow.entered.wait()
            # The server starts to stop before the request may end.
            asyncio.get_running_loop().call_later(0.1, slow.release.set)

        assert await request == "late"
        with pytest.raises(aiohttp.ClientConnectorError):
            await text_of(session, f"https://127.0.0.1:{server.port}/hello")


async def test_draining_is_bounded(authority: CertificateAuthority, files: TlsFiles) -> None:
    """A request that never ends does not keep the process alive."""
    roots = ssl.create_default_context(cadata=authority.bundle_pem.decode())

    async def never_answered(session: aiohttp.ClientSession, url: str) -> None:
        with pytest.raises(aiohttp.ClientError):
            await text_of(session, url)

    async with (
        asyncio.timeout(DEADLINE),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=roots)) as session,
        asyncio.TaskGroup() as group,
        serving(ServingTls(files), grace=0.2) as (server, slow),
    ):
        group.create_task(never_answered(session, f"https://127.0.0.1:{server.port}/slow"))
        await slow.entered.wait()
