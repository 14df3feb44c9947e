"""The network of a cluster whose pods do not run: connections of its API server to Services lead elsewhere.

A real API server is told by an EgressSelectorConfiguration to reach Services through a proxy. This proxy is
here. It knows a port of this machine for some ports of Services, as kube-proxy knows pods.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

CHUNK = 65536


class ServiceNetwork:
    """The ports behind addresses such as 10.96.0.7:443. Addresses of this machine lead to themselves."""

    def __init__(self, folder: Path) -> None:
        self.backends: dict[str, int] = {}
        self.configuration = folder / "egress.json"
        self._socket = folder / "proxy"  # short, because the kernel allows about 100 characters

    async def __aenter__(self) -> ServiceNetwork:
        connection = {
            "proxyProtocol": "HTTPConnect",
            "transport": {"uds": {"udsName": str(self._socket)}},
        }
        configuration = {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": connection}],
        }
        self.configuration.write_text(json.dumps(configuration), encoding="utf-8")
        self._server = await asyncio.start_unix_server(self._serve, self._socket)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.decode().split(maxsplit=2)
            host, _, number = target.rpartition(":")
            port = int(number) if host in ("localhost", "127.0.0.1") else self.backends.get(target)
            try:
                if method != "CONNECT" or port is None:
                    raise ConnectionRefusedError(target)
                to_read, to_write = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                writer.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
                await writer.drain()
                return
            with closing(to_write):
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                await asyncio.gather(_pump(reader, to_write), _pump(to_read, writer), return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copies until the end, and then tells the other side that nothing follows."""
    while chunk := await reader.read(CHUNK):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


@asynccontextmanager
async def service_network() -> AsyncIterator[ServiceNetwork]:
    """Runs the proxy of one API server."""
    with tempfile.TemporaryDirectory(prefix="net") as folder:
        async with ServiceNetwork(Path(folder)) as network:
            yield network
