"""A real metrics adapter process between a prepared hub with members and cheap clients.

Hub and members are one process, the adapter is another, and the clients run in the benchmark's process. The
adapter's CPU time and memory thus count alone. All connections use TLS. The clients act as the front proxy,
so each request is authenticated and its access is reviewed.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.adapter.backends import FRONT_PROXY, HANG, Backends, FleetSize, backends
from benchmarks.adapter.held import Holds
from benchmarks.process_stats import ProcessStats
from certs import CertificateAuthority
from testbed.stage import free_port, write_kubeconfig

START_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 60.0
# The end of an answer without a Content-Length.
LAST_CHUNK: Final = b"0\r\n\r\n"
UNKNOWN: Final = -1
USER: Final = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"


@dataclass(frozen=True)
class Surroundings:
    """A folder and flags for an adapter, its hub and members, and port and TLS context for its clients."""

    folder: Path
    flags: list[str]
    port: int
    context: ssl.SSLContext
    backends: Backends

    async def connect(self, *identity: str) -> AdapterClient:
        """A new connection to the adapter; `identity` are the arguments of AdapterClient."""
        _, made = await asyncio.get_running_loop().create_connection(
            partial(AdapterClient, *identity),
            "127.0.0.1",
            self.port,
            ssl=self.context,
            ssl_handshake_timeout=START_SECONDS,
        )
        return made

    async def ready(self, runs: Callable[[], bool] = lambda: True) -> None:
        """Waits until the adapter is ready. Raises RuntimeError if it takes too long, or no longer `runs`."""
        ends = time.monotonic() + START_SECONDS
        while time.monotonic() < ends and runs():
            try:
                client = await self.connect()
                status, _ = await client.get("/readyz")
                client.close()
            except OSError:
                status = 0
            if status == 200:
                return
            await asyncio.sleep(0.1)
        raise RuntimeError("the metrics adapter did not become ready")


class AdapterProcess:
    """A running adapter with the statistics of its process; `connect` makes clients."""

    def __init__(self, process: ProcessStats, holds: Holds, around: Surroundings) -> None:
        self.process = process
        self.holds = holds
        self._around = around
        self._plain = ssl.create_default_context()
        self._plain.check_hostname, self._plain.verify_mode = False, ssl.CERT_NONE

    async def connect(self, *identity: str) -> AdapterClient:
        """A new connection to the adapter; `identity` are the arguments of AdapterClient."""
        return await self._around.connect(*identity)

    async def hang(self, member: int) -> None:
        """Make a member accept requests without ever answering."""
        _, writer = await asyncio.open_connection(
            "127.0.0.1", self._around.backends.members[member], ssl=self._plain
        )
        writer.write(f"GET {HANG} HTTP/1.1\r\n\r\n".encode())
        await writer.drain()


class AdapterClient(asyncio.Protocol):
    """One connection. It keeps an answer's status and size, and whether it had warnings.

    `user`, `accept` and `encoding` are sent with each request.
    """

    def __init__(self, user: str = USER, accept: str = "application/json", encoding: str = "") -> None:
        self._user = user
        self._accept = accept
        self._encoding = encoding
        self._transport: Any = None
        self._waiter: asyncio.Future[tuple[int, int]] | None = None
        self._head = b""
        self.warned = False
        self._status = self._size = self._length = 0
        self._tail = b""

    async def get(self, path: str) -> tuple[int, int]:
        """GET `path`: (status, size of the body). Raises TimeoutError, or ConnectionError if it is closed."""
        if self._transport.is_closing():
            raise ConnectionError("closed")
        self._head, self._status, self._size = b"", 0, 0
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(
            f"GET {path} HTTP/1.1\r\nHost: adapter\r\nAccept: {self._accept}\r\n"
            f"Accept-Encoding: {self._encoding or 'identity'}\r\n"
            f"X-Remote-User: {self._user}\r\nX-Remote-Group: system:serviceaccounts\r\n\r\n".encode()
        )
        async with asyncio.timeout(ANSWER_SECONDS):
            return await self._waiter

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As asyncio.Protocol."""
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """As asyncio.Protocol."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(exc or ConnectionError("closed"))

    def data_received(self, data: bytes) -> None:
        """As asyncio.Protocol."""
        if not self._status:
            self._head += data
            head, ended, data = self._head.partition(b"\r\n\r\n")
            if not ended:
                return
            self.warned = b"\r\nwarning:" in head.lower()
            self._status = int(head.split(b" ", 2)[1])
            _, _, length = head.lower().partition(b"content-length: ")
            self._length = int(length.split(b"\r\n", 1)[0]) if length else UNKNOWN
        self._size += len(data)
        self._tail = (self._tail + data[-len(LAST_CHUNK) :])[-len(LAST_CHUNK) :]
        complete = self._tail == LAST_CHUNK if self._length == UNKNOWN else self._size >= self._length
        if complete and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result((self._status, self._size))


@asynccontextmanager
async def running_adapter(size: FleetSize, *flags: str) -> AsyncIterator[AdapterProcess]:
    """A ready adapter over members of that size."""
    with surroundings(size) as around:
        file = around.folder / "holds"
        with _process("benchmarks.adapter.held", str(file), *around.flags, *flags) as process:
            await around.ready(lambda: process.poll() is None)
            yield AdapterProcess(ProcessStats(process.pid), Holds(file), around)


@contextmanager
def surroundings(size: FleetSize) -> Iterator[Surroundings]:
    """A running hub and members of that size, for an adapter that the caller starts."""
    authority, proxies = CertificateAuthority.create("benchmark"), CertificateAuthority.create("proxies")
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        authority.issue_server("benchmark", ips=["127.0.0.1"]).save(folder)
        proxies.issue_client(FRONT_PROXY).save(folder / "proxy")
        (folder / "ca.crt").write_bytes(authority.bundle_pem)
        context = ssl.create_default_context(cadata=authority.bundle_pem.decode())
        context.load_cert_chain(folder / "proxy" / "tls.crt", folder / "proxy" / "tls.key")
        with backends(size, folder, proxies) as started:
            yield Surroundings(folder, _flags(folder, started.hub, port), port, context, started)


@contextmanager
def _process(*module: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", *module]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FEDHPA_")}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def _flags(folder: Path, hub: int, port: int) -> list[str]:
    server, authority = f"https://127.0.0.1:{hub}", (folder / "ca.crt").read_bytes()
    kubeconfig = write_kubeconfig(folder / "kubeconfig", server, authority, {"token": "hub-token"})
    return [
        f"--kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        "--metrics-bind-address=0",
    ]
