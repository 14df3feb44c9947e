"""Clients of the adapter that hardly read a large list hold neither its memory nor its other callers."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from fedhpa.serving import connections, peers
from metrics_adapter.process import Adapter
from tests.support.adapter.process import (
    JANE,
    METRICS,
    PODS_PATH,
    Fleet,
    fleet_of_one,
    pod_metrics,
)
from tests.support.fakeapi import eventually

READERS = 20
PODS = 400
LABEL_BYTES = 40_000
BODY_BYTES = PODS * LABEL_BYTES


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    """A member with a list of 16 MB."""
    async with fleet_of_one(tmp_path, pod_metrics("first")) as made:
        for number in range(PODS):
            made.member.put(METRICS, pod_metrics(f"web-{number}", size="9" * LABEL_BYTES))
        yield made


async def slow_reader(fleet: Fleet, adapter: Adapter, user: str) -> asyncio.Transport:
    """Requests all pods and returns the connection, from which nothing is read."""
    context = ssl.create_default_context(cadata=fleet.world.serving.bundle_pem.decode())
    folder = fleet.world.folder / "slow"
    if not folder.exists():
        fleet.world.proxies.issue_client("front-proxy-client").save(folder)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    connected = socket.socket()
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connected.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connected, ("127.0.0.1", adapter.server.port))
    transport, _ = await asyncio.get_running_loop().create_connection(
        Unread, sock=connected, ssl=context, server_hostname="127.0.0.1"
    )
    head = f"GET {PODS_PATH} HTTP/1.1\r\nHost: x\r\nX-Remote-User: {user}\r\n\r\n"
    transport.write(head.encode())
    return transport


class Unread(asyncio.Protocol):
    """Reads nothing."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implements asyncio.Protocol."""
        assert isinstance(transport, asyncio.ReadTransport)
        transport.pause_reading()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def waiting(adapter: Adapter) -> int:
    """Returns how many connections wait until their client reads."""
    return sum(getattr(peer, "writing_paused", False) for peer in adapter._peers)


async def test_slow_readers_hold_neither_memory_nor_others(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty clients of an answer of 16 MB share it, a quick one gets it, and the slow ones are closed."""
    monkeypatch.setattr(peers, "SWEEP_SECONDS", 0.05)
    async with AsyncExitStack() as stack:
        adapter = await stack.enter_async_context(fleet.world.adapter("--metrics-max-age=1h"))
        quick = await stack.enter_async_context(fleet.world.caller(adapter))
        first = await quick.get(PODS_PATH, **JANE)
        idle = len(adapter._peers)
        before = resident_bytes()
        for number in range(READERS):
            transport = await slow_reader(fleet, adapter, f"user-{number}")
            stack.callback(transport.abort)
        await eventually(lambda: waiting(adapter) == READERS)
        grown = resident_bytes() - before
        async with asyncio.timeout(30):
            again = await quick.get(PODS_PATH, **JANE)
        monkeypatch.setattr(connections, "READ_SECONDS", 0.5)
        await eventually(lambda: len(adapter._peers) <= idle)

    assert len(json.loads(first.body)["items"]) == PODS + 1
    assert again.body == first.body
    assert grown < READERS * BODY_BYTES / 4
