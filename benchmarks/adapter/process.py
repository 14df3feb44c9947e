"""The metrics adapter as people run it, between a hub and members with ready answers and cheap callers.

Hub and members are one process, the adapter is one, the callers are the benchmark's own: CPU seconds and
memory of the adapter are its alone. All speak TLS. The callers are a front proxy, so each request is
authenticated and its access is reviewed.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.adapter.backends import FRONT_PROXY, HANG, Fleet, Peers, peers
from benchmarks.webhook import Process
from certs import CertificateAuthority
from testbed.stage.kubeconfig import write_kubeconfig
from testbed.stage.ports import free_port

START_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 60.0
USER: Final = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"


class AdapterWorld:
    """A running adapter: what the system says of its process, and a way to call it."""

    def __init__(self, process: Process, port: int, context: ssl.SSLContext, peers_: Peers) -> None:
        self.process = process
        self._port = port
        self._context = context
        self._peers = peers_
        self._plain = ssl.create_default_context()
        self._plain.check_hostname, self._plain.verify_mode = False, ssl.CERT_NONE

    async def caller(self) -> Caller:
        """A connection to the adapter."""
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(
            Caller, "127.0.0.1", self._port, ssl=self._context, ssl_handshake_timeout=START_SECONDS
        )
        return made

    async def hang(self, member: int) -> None:
        """From now on that member accepts requests and answers none."""
        _, writer = await asyncio.open_connection("127.0.0.1", self._peers.members[member], ssl=self._plain)
        writer.write(f"GET {HANG} HTTP/1.1\r\n\r\n".encode())
        await writer.drain()


class Caller(asyncio.Protocol):
    """One connection; of an answer it keeps the status, the size and whether there were warnings."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._waiter: asyncio.Future[tuple[int, int]] | None = None
        self._head = b""
        self.warned = False
        self._status = self._size = self._length = 0

    async def get(self, path: str) -> tuple[int, int]:
        """(status, bytes of the body). TimeoutError if that takes too long, ConnectionError if it is cut."""
        if self._transport.is_closing():
            raise ConnectionError("closed")
        self._head, self._status, self._size = b"", 0, 0
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(
            f"GET {path} HTTP/1.1\r\nHost: adapter\r\nAccept: application/json\r\n"
            f"X-Remote-User: {USER}\r\nX-Remote-Group: system:serviceaccounts\r\n\r\n".encode()
        )
        async with asyncio.timeout(ANSWER_SECONDS):
            return await self._waiter

    def close(self) -> None:
        """Hang up."""
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
            self._length = int(length.split(b"\r\n", 1)[0])
        self._size += len(data)
        if self._size >= self._length and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result((self._status, self._size))


@asynccontextmanager
async def adapter(fleet: Fleet, *flags: str) -> AsyncIterator[AdapterWorld]:
    """A ready adapter of that fleet."""
    with _running(fleet, *flags) as (process, world):
        await _ready(process, world)
        yield world


@contextmanager
def _running(fleet: Fleet, *flags: str) -> Iterator[tuple[subprocess.Popen[bytes], AdapterWorld]]:
    authority, proxies = CertificateAuthority.create("benchmark"), CertificateAuthority.create("proxies")
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        authority.issue_server("benchmark", ips=["127.0.0.1"]).save(folder)
        proxies.issue_client(FRONT_PROXY).save(folder / "proxy")
        (folder / "ca.crt").write_bytes(authority.bundle_pem)
        context = ssl.create_default_context(cadata=authority.bundle_pem.decode())
        context.load_cert_chain(folder / "proxy" / "tls.crt", folder / "proxy" / "tls.key")
        with peers(fleet, folder, proxies) as made:
            command = _command(folder, made.hub, port, flags)
            environment = {key: value for key, value in os.environ.items() if not key.startswith("FEDHPA_")}
            with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
                try:
                    yield process, AdapterWorld(Process(process.pid), port, context, made)
                finally:
                    process.kill()


def _command(folder: Path, hub: int, port: int, flags: Sequence[str]) -> list[str]:
    server, authority = f"https://127.0.0.1:{hub}", (folder / "ca.crt").read_bytes()
    kubeconfig = write_kubeconfig(folder / "kubeconfig", server, authority, {"token": "hub-token"})
    return [
        *(sys.executable, "-m", "metrics_adapter"),
        f"--kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        "--metrics-bind-address=0",
        *flags,
    ]


async def _ready(process: subprocess.Popen[bytes], world: AdapterWorld) -> None:
    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends and process.poll() is None:
        try:
            caller = await world.caller()
            status, _ = await caller.get("/readyz")
            caller.close()
        except OSError:
            status = 0
        if status == 200:
            return
        await asyncio.sleep(0.1)
    raise RuntimeError("the metrics adapter did not become ready")
