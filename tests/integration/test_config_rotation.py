"""A hub whose certificates change under a running process, and a member behind a proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from fedhpa.api.errors import ApiError, MemberUnavailable
from fedhpa.kube import SYSTEM
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import load_config
from fedhpa.kube.rotation import follow_config
from testbed.stage.kubeconfig import write_kubeconfig
from tests.support.fakeapi import CLUSTERS, SECRETS, FakeApi, cluster, eventually, fake_api, secret
from tests.support.members import federation_on_sockets


def write_config(path: Path, api: FakeApi) -> None:
    """Write a kubeconfig for the present server."""
    write_kubeconfig(path, api.url, api.ca_pem.encode(), {"token": "t"})


@asynccontextmanager
async def following(client: ApiClient, path: Path) -> AsyncIterator[None]:
    """Follow the kubeconfig with a short period."""
    task = asyncio.create_task(follow_config(client, str(path), clock=SYSTEM, period=0.02))
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_replaced_kubeconfig_is_used(tmp_path: Path) -> None:
    """A kubeconfig with a new CA is used without a restart."""
    path = tmp_path / "kubeconfig"
    async with fake_api() as api, fake_api() as other:
        write_config(path, api)
        async with ApiClient(await load_config(str(path), clock=SYSTEM)) as client, following(client, path):
            await client.request("GET", "/readyz")
            await api.stop()
            api.ca = other.ca
            await api.start()
            with pytest.raises(ApiError, match="certificate not accepted"):
                await client.request("GET", "/readyz")
            write_config(path, api)
            await eventually(lambda: client.generation == 1)

            assert (await client.request("GET", "/readyz")).status == 200


async def test_a_broken_kubeconfig_is_not_used(tmp_path: Path) -> None:
    """An incomplete file is reported, and the old configuration stays in use."""
    path = tmp_path / "kubeconfig"
    async with fake_api() as api:
        write_config(path, api)
        async with ApiClient(await load_config(str(path), clock=SYSTEM)) as client:
            with capture_logs() as logs:
                async with following(client, path):
                    path.write_text("clusters: [")
                    await eventually(lambda: logs)

            assert logs[0]["event"] == "changed configuration cannot be used"
            assert (await client.request("GET", "/readyz")).status == 200


class Proxy:
    """An HTTP proxy that supports CONNECT and records the requests."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.refuse = False
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        if self.refuse:
            writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        else:
            host, _, port = head.split()[1].rpartition(":")
            upstream_reader, upstream_writer = await asyncio.open_connection(host, int(port))
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await asyncio.gather(_pump(reader, upstream_writer), _pump(upstream_reader, writer))
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def proxy() -> AsyncIterator[Proxy]:
    """A running proxy."""
    running = Proxy()
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0)
    running.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield running
    finally:
        server.close()
        await server.wait_closed()


async def test_a_member_behind_a_proxy() -> None:
    """proxyURL is used, and only the proxy gets each value of proxyHeader."""
    async with proxy() as between, federation_on_sockets() as world, fake_api() as api:
        api.token = "t"
        world.hub.put(SECRETS, secret("member1", token="t", ca=api.ca_pem))
        headers = {"X-Tenant": "a,b"}
        world.hub.put(CLUSTERS, cluster("member1", api.url, proxyURL=between.url, proxyHeader=headers))
        await world.ready("member1")
        head = between.heads[0]
        world.hub.remove(CLUSTERS, "member1")
        await eventually(lambda: not world.registry.members)

        assert head.startswith(f"CONNECT 127.0.0.1:{api.port} HTTP/1.1\r\n")
        assert [line for line in head.split("\r\n") if line.startswith("X-Tenant")] == [
            "X-Tenant: a",
            "X-Tenant: b",
        ]
        assert "Bearer" not in head


async def test_a_proxy_that_refuses() -> None:
    """The reason names the proxy, not the member."""
    async with proxy() as between, federation_on_sockets() as world, fake_api() as api:
        between.refuse = True
        world.hub.put(SECRETS, secret("member1", token="t", ca=api.ca_pem))
        world.hub.put(CLUSTERS, cluster("member1", api.url, proxyURL=between.url))
        await eventually(lambda: "member1" in world.registry.members and world.registry.synced())
        await eventually(lambda: "proxy" in world["member1"].state.message)

        with pytest.raises(MemberUnavailable, match="proxy answered 403"):
            await world["member1"].client.get_json("/version")
