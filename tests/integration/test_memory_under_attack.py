"""A process grows by less than 64 MB, whatever clients without a certificate send.

Only a process of its own shows what the interpreter, the TLS library and the allocator add to the budget.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from certs import CertificateAuthority
from tests.support.timing import PATIENCE

BUDGET = 64 * 2**20
# The webhook needs so much beside the budget, for requests in work and for buffers that are being joined.
WORKING = 32 * 2**20
SERVER = """
import asyncio, os, sys
from pathlib import Path
from aiohttp import web
from fedhpa.serving.peers import Peers
from fedhpa.serving.process import quick_loop, raise_file_limit, return_memory, spare_modules
from fedhpa.serving.server import TlsServer
from fedhpa.serving.tls import ServingTls, TlsFiles

async def small(request):
    return web.Response(text="small")

def webhook():
    from fedhpa.serving.health import Health
    from webhook.application import build_application
    from webhook.telemetry import Telemetry
    from webhook.warnings import AdmissionWarnings

    return build_application(Health(), Telemetry(), AdmissionWarnings())

async def main():
    tls = ServingTls(TlsFiles(Path(sys.argv[1]), Path(sys.argv[2])), request_client_certificates=True)
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
spare_modules()
with asyncio.Runner(loop_factory=quick_loop) as runner:
    runner.run(main())
"""
GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
POST = (
    b"POST /validate-federatedhpa HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
)
REVIEW = (
    b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"7","object":{"kind":'
    b'"FederatedHPA","apiVersion":"autoscaling.karmada.io/v1alpha1","metadata":{"labels":{"a":"%s"}}}}}'
)
LINE = b"X-A: " + b"a" * 4000 + b"\r\n"


class Server:
    """A server in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self.port = port
        self._base = self._bytes("VmRSS")

    @property
    def growth(self) -> int:
        """The most bytes by which the process was larger than at first."""
        return self._bytes("VmHWM") - self._base

    def _bytes(self, field: str) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition(f"{field}:")[2].split()[0]) * 1024


@asynccontextmanager
async def served(folder: Path, application: str = "small") -> AsyncIterator[Server]:
    authority = CertificateAuthority.create("serving-ca")
    authority.issue_server("server", dns=["localhost"], ips=["127.0.0.1"]).save(folder)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVER, str(folder / "tls.crt"), str(folder / "tls.key"), application),
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


async def send(port: int, context: ssl.SSLContext, data: bytes) -> None:
    """Sends the data, and reads until the server closes or for a moment."""
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.write(data)
            await writer.drain()
    except (OSError, ssl.SSLError):
        return
    try:
        async with asyncio.timeout(2):
            await reader.read()
    except (OSError, ssl.SSLError):
        pass
    finally:
        writer.transport.abort()


@pytest.mark.parametrize(
    ("sent", "connections"),
    [
        pytest.param(GET + LINE * 256, 400, id="unfinished headers of 1 MB"),
        pytest.param((GET + LINE * 7 + b"\r\n") * 40, 400, id="40 requests at once"),
        pytest.param(GET + LINE * 60 + b"\r\n", 400, id="headers of 240 kB"),
        pytest.param(GET + b"X-A: a\r\n" * 1900 + b"\r\n", 1000, id="headers of 1,900 lines"),
    ],
)
async def test_headers_stay_within_the_budget(tmp_path: Path, sent: bytes, connections: int) -> None:
    """400 connections with 1 MB each took a process without a budget from 80 MB to 1,107 MB."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with served(tmp_path) as server:
        await asyncio.gather(*(send(server.port, context, sent) for _ in range(connections)))

        assert server.growth < BUDGET


def posted(size: int) -> bytes:
    """Returns an admission request with a body of about so many bytes."""
    body = REVIEW % (b"x" * size)
    return POST + b"%d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize(
    ("sent", "connections", "budget"),
    [
        pytest.param(posted(30_000) * 8, 400, BUDGET + WORKING, id="8 small bodies at once"),
        pytest.param(posted(250_000) * 5, 400, BUDGET + WORKING, id="5 large bodies at once"),
        pytest.param(posted(1_000_000)[:-9], 400, BUDGET + WORKING, id="unfinished bodies of 1 MB"),
        pytest.param(POST + b"7000000\r\n\r\n", 1000, BUDGET, id="bodies that are announced"),
    ],
)
async def test_bodies_stay_within_the_budget(
    tmp_path: Path, sent: bytes, connections: int, budget: int
) -> None:
    """Bodies of clients without a certificate share one budget, also those that follow on one connection."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with served(tmp_path, "webhook") as server:
        await asyncio.gather(*(send(server.port, context, sent) for _ in range(connections)))

        assert server.growth < budget
