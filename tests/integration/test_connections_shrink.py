"""The connections to a server shrink after a burst of requests.

aiohttp takes the age of an idle connection from the machine's clock, so this takes a second of real time.
"""

from __future__ import annotations

import asyncio

import pytest

from fedhpa.kube import transport
from fedhpa.kube.client import ApiClient
from tests.support.fakeapi import FakeApi, eventually

BURST = 40
IDLE_SECONDS = 0.5


def connections(api: FakeApi) -> int:
    """The open connections, as the server sees them."""
    assert api._runner is not None, "it runs"
    assert api._runner.server is not None, "it runs"
    return len(api._runner.server.connections)


@pytest.mark.parametrize(("at_once", "kept"), [(1, 1), (5, 8)])
async def test_few_requests_do_not_keep_the_connections_of_a_burst(
    monkeypatch: pytest.MonkeyPatch, at_once: int, kept: int
) -> None:
    """Forty requests at once open forty connections. Fewer then use at most twice as many as they are."""
    monkeypatch.setattr(transport, "KEEPALIVE_SECONDS", IDLE_SECONDS)
    async with FakeApi(tls=False) as api, ApiClient(api.config()) as client:
        api.faults.hang.add("/version")
        burst = [asyncio.create_task(client.get_json("/version")) for _ in range(BURST)]
        await eventually(lambda: len(api.queries("/version")) == BURST)
        most = connections(api)
        for task in burst:
            task.cancel()
        await asyncio.wait(burst)
        api.faults.clear()
        await asyncio.gather(*(client.get_json("/version") for _ in range(BURST)))

        async def few_at_a_time() -> None:
            while True:
                await asyncio.gather(*(client.get_json("/version") for _ in range(at_once)))
                await asyncio.sleep(IDLE_SECONDS / 50)

        using = asyncio.create_task(few_at_a_time())
        try:
            await eventually(lambda: connections(api) <= kept)
        finally:
            using.cancel()
            await asyncio.wait([using])

    assert most == BURST
