"""A member whose TLS handshakes fail costs no memory on uvloop, and every process runs on it.

asyncio's own loop keeps the buffers of each failed handshake, some 300 kB, until the next full collection.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from types import ModuleType
from typing import Any

import pytest
import trustme
import uvloop

import controller.process
import fedhpa.serving.process
import metrics_adapter.process
import webhook.process
from fedhpa.api.errors import ApiError
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig, tls_context
from fedhpa.serving.process import quick_loop

ATTEMPTS = 20
BUFFER_BYTES = 256 * 1024


@pytest.mark.parametrize("module", [webhook.process, metrics_adapter.process, controller.process])
def test_each_process_runs_on_the_quick_loop(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry point of each process starts it on uvloop."""
    started: dict[str, Any] = {}

    def run(*_: Any, **settings: Any) -> int:
        started.update(settings)
        return 0

    monkeypatch.setattr(fedhpa.serving.process, "run_process", run)
    monkeypatch.setattr(sys, "argv", [module.__name__])

    with pytest.raises(SystemExit) as ended:
        module.main()

    assert (ended.value.code, started.get("loop_factory")) == (0, quick_loop)


async def test_this_folder_runs_on_uvloop() -> None:
    """Otherwise its tests would show nothing about the loop of the processes."""
    assert type(asyncio.get_running_loop()) is uvloop.Loop


async def test_failed_handshakes_are_not_kept() -> None:
    """Without any garbage collection, the buffers of failed handshakes are released."""
    authority = trustme.CA()
    alert = b"\x15\x03\x03\x00\x02\x02\x50"

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(alert)
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        context = tls_context(ca_data=authority.cert_pem.bytes().decode())
        async with ApiClient(ApiConfig(server=f"https://127.0.0.1:{port}", ssl=context)) as client:
            await _refused(client)
            gc.collect()
            gc.disable()
            tracemalloc.start()
            try:
                for _ in range(ATTEMPTS):
                    await _refused(client)
                kept, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
                gc.enable()

    assert kept < ATTEMPTS * BUFFER_BYTES / 2


async def _refused(client: ApiClient) -> None:
    with pytest.raises(ApiError):
        await client.request("GET", "/readyz")
