"""A process grows by less than 64 MB, whatever clients without a certificate send.

Only a process of its own shows what the interpreter, the TLS library and the allocator add to the budget.
All clients send at the same moment: the process is stopped until their data waits for it.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from certs import CertificateAuthority
from tests.support.nightly import only_at_night
from tests.support.timing import PATIENCE

BUDGET = 64 * 2**20
# Seconds in which a client waits for its answers.
READ_SECONDS = 4.0
SERVER = """
import asyncio, os, sys, time
from pathlib import Path
from aiohttp import web
from fedhpa.serving.peers import Peers
from fedhpa.serving.process import Garbage
from fedhpa.serving.process import quick_loop, raise_file_limit, return_memory
from fedhpa.serving.server import TlsServer
from fedhpa.serving.tls import ServingTls, TlsFiles

async def small(request):
    return web.Response(text="small")

def webhook():
    from fedhpa.kube import SYSTEM
    from fedhpa.serving.health import Health
    from webhook.application import build_application
    from webhook.review_series import Telemetry
    from webhook.warnings import AdmissionWarnings

    return build_application(Health(), Telemetry(), AdmissionWarnings(SYSTEM.date), SYSTEM)

async def main():
    tls = ServingTls(TlsFiles(Path(sys.argv[1]), Path(sys.argv[2])), request_client_certificates=True)
    tls.trust_clients(Path(sys.argv[4]).read_bytes())
    if sys.argv[3] == "webhook":
        application = webhook()
    else:
        application = web.Application()
        application.add_routes([web.get("/", small)])
    async with TlsServer(application, tls, host="127.0.0.1", port=0, peers=Peers(2048)) as server:
        print("port", server.port, flush=True)
        # Nobody reads the lines of the log, and a full pipe would stop the server.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        await asyncio.sleep(3600)

raise_file_limit()
return_memory()
Garbage(time.thread_time).follow()
with asyncio.Runner(loop_factory=quick_loop) as runner:
    runner.run(main())
"""
GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
FHPA_PATH, CRON_PATH = "/validate-federatedhpa", "/validate-cronfederatedhpa"
LINE = b"X-A: " + b"a" * 4000 + b"\r\n"


class Server:
    """A server in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self.address = "127.0.0.1", port
        self._base = self._bytes("VmRSS")

    @property
    def growth(self) -> int:
        """The most bytes by which the process was larger than at first."""
        return self._bytes("VmHWM") - self._base

    @asynccontextmanager
    async def stopped(self) -> AsyncIterator[None]:
        """The process does not run within the context."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def _bytes(self, field: str) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition(f"{field}:")[2].split()[0]) * 1024


@asynccontextmanager
async def served(folder: Path, application: str = "small") -> AsyncIterator[Server]:
    """Runs a server. The folder `client` has a client certificate that it trusts."""
    authority = CertificateAuthority.create("serving-ca")
    authority.issue_server("server", dns=["localhost"], ips=["127.0.0.1"]).save(folder)
    authority.issue_client("hub").save(folder / "client")
    (folder / "ca.crt").write_bytes(authority.bundle_pem)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVER, str(folder / "tls.crt"), str(folder / "tls.key"), application),
        str(folder / "ca.crt"),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while not (line := await process.stdout.readline()).startswith(b"port "):
                assert line, "the server ended"
        yield Server(process, int(line.split()[1]))
    finally:
        process.kill()
        await process.wait()


class Attack:
    """Clients without a certificate that are connected, and then send the same data."""

    def __init__(self, server: Server, data: bytes, connections: int) -> None:
        self._server = server
        self._data = data
        self._connected = asyncio.Semaphore(0)
        self._start = asyncio.Event()
        self._connections = connections

    async def run(self) -> None:
        """Ends when all have sent their data and read the answers, or were closed."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._connections):
                group.create_task(self._client())
            for _ in range(self._connections):
                await self._connected.acquire()
            async with self._server.stopped():
                self._start.set()
                # The client encrypts for all of them first.
                for _ in range(10):
                    await asyncio.sleep(0)

    async def _client(self) -> None:
        with suppress(OSError, ssl.SSLError):
            try:
                async with asyncio.timeout(PATIENCE):
                    reader, writer = await asyncio.open_connection(*self._server.address, ssl=STRANGER)
            finally:
                self._connected.release()
            try:
                await self._start.wait()
                async with asyncio.timeout(PATIENCE):
                    writer.write(self._data)
                    await writer.drain()
                async with asyncio.timeout(READ_SECONDS):
                    await reader.read()
            finally:
                writer.transport.abort()


def stranger() -> ssl.SSLContext:
    """Returns the context of a client without a certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


STRANGER = stranger()


def posted(path: str, body: bytes, header: str = "") -> bytes:
    """Returns an admission request."""
    lines = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{header}"
    return f"{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


def review(kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> bytes:
    """Returns an AdmissionReview of an object."""
    target = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
    written = {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop", **metadata},
        "spec": {**target, **spec},
    }
    request = {"uid": "7", "object": written}
    envelope = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(envelope, separators=(",", ":")).encode()


def fhpa(size: int) -> bytes:
    """Returns a request with a valid FederatedHPA of about so many bytes."""
    annotations = {"annotations": {"a": "x" * size}}
    return posted(FHPA_PATH, review("FederatedHPA", annotations, {"minReplicas": 1, "maxReplicas": 5}))


def cron(rules: int) -> bytes:
    """Returns a request with a valid CronFederatedHPA of so many rules."""
    listed = [
        {"name": f"r{n}", "schedule": f"{n % 60} {n // 60 % 24} * * *", "targetReplicas": n % 50 + 1}
        for n in range(rules)
    ]
    return posted(CRON_PATH, review("CronFederatedHPA", {}, {"rules": listed}))


UNFINISHED_HEADER = GET + LINE * 256
UNFINISHED_BODY = fhpa(1_000_000)[:-9]
CHUNKED = b"POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % CRON_PATH.encode()
PACKED = posted(CRON_PATH, gzip.compress(b" " * 6_900_000, 1), "Content-Encoding: gzip\r\n")
ATTACKS = [
    pytest.param("small", UNFINISHED_HEADER, 400, id="unfinished headers of 1 MB"),
    pytest.param("small", (GET + LINE * 7 + b"\r\n") * 40, 400, id="40 requests at once"),
    pytest.param("small", GET + LINE * 60 + b"\r\n", 400, id="headers of 240 kB"),
    pytest.param("small", GET + b"X-A: a\r\n" * 1900 + b"\r\n", 1000, id="headers of 1,900 lines"),
    pytest.param("webhook", fhpa(30_000) * 8, 400, id="8 small bodies at once"),
    pytest.param("webhook", fhpa(250_000) * 5, 400, id="5 large bodies at once"),
    pytest.param("webhook", UNFINISHED_BODY, 400, id="unfinished bodies of 1 MB"),
    pytest.param("webhook", fhpa(7_000_000)[:300], 1000, id="bodies that are announced"),
    pytest.param("webhook", cron(600), 400, id="600 rules"),
    pytest.param("webhook", cron(2400), 400, id="2,400 rules"),
    pytest.param("webhook", CHUNKED + b"1\r\na\r\n" * 100_000, 400, id="chunks of one byte"),
    pytest.param("webhook", PACKED, 400, id="bodies that unpack to 7 MB"),
]


async def test_few_strangers_stay_within_the_budget(tmp_path: Path) -> None:
    """30 unpacked bodies would have 210 MB."""
    async with served(tmp_path, "webhook") as server:
        await Attack(server, PACKED, 30).run()

        assert server.growth < BUDGET


@only_at_night
@pytest.mark.parametrize(("application", "sent", "connections"), ATTACKS)
async def test_strangers_stay_within_the_budget(
    tmp_path: Path, application: str, sent: bytes, connections: int
) -> None:
    """400 connections with 1 MB each took a process without a budget from 80 MB to 1,107 MB."""
    async with served(tmp_path, application) as server:
        await Attack(server, sent, connections).run()

        assert server.growth < BUDGET


async def admitted(server: Server, context: ssl.SSLContext) -> bool:
    """Sends a large admission request. True if its object was admitted."""
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection(*server.address, ssl=context)
        try:
            writer.write(fhpa(100_000))
            answer = await reader.readuntil(b"}}}")
            return b" 200 OK" in answer and b'"allowed":true' in answer
        finally:
            writer.transport.abort()


async def test_the_hub_is_answered(tmp_path: Path) -> None:
    """50 parallel requests of 100 kB from a verified peer are admitted while strangers attack."""
    strangers = 20
    async with served(tmp_path, "webhook") as server, asyncio.TaskGroup() as group:
        context = stranger()
        context.load_cert_chain(tmp_path / "client/tls.crt", tmp_path / "client/tls.key")
        group.create_task(Attack(server, UNFINISHED_BODY[:300_000], strangers).run())
        group.create_task(Attack(server, fhpa(250_000) * 2, strangers).run())
        answers = await asyncio.gather(*(admitted(server, context) for _ in range(50)))

    assert answers == [True] * 50
