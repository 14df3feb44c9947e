"""What a LIST of 20,000 pods over 10 members costs the metrics adapter, TLS on both sides included.

Members and caller are processes of their own, so that the CPU seconds are the adapter's alone. Cold: each
member is asked. Warm: the members' answers are young enough to be used again.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import aiohttp
import msgspec
from aiohttp import web

from certs import CertificateAuthority
from fedhpa.api.wire import ObjectMeta
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.members.cluster import Access, Cluster
from fedhpa.members.lists import SharedLists
from fedhpa.members.member import Member
from fedhpa.serving.authentication import Authenticator, PeerAuthenticator, Trust
from fedhpa.serving.authorization import Authorizer, Guard
from fedhpa.serving.health import Health
from fedhpa.serving.logs import configure_logs
from fedhpa.serving.server import TlsServer
from fedhpa.serving.tls import ServingTls, TlsFiles
from metrics_adapter.application import build_application
from metrics_adapter.gather import MembersSource
from metrics_adapter.telemetry import Telemetry

MEMBERS = 10
PODS = 20_000
ROUNDS = 5
DEADLINE = 120.0
PATH = "/apis/metrics.k8s.io/v1beta1/pods"
SCENARIO = f"LIST of {PODS:,} pods over {MEMBERS} members"


def run() -> dict[str, float]:
    """CPU time of one LIST in the adapter's process, in microseconds a pod, best of several."""
    configure_logs("text", 0)
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_run(Path(folder)))


async def _run(folder: Path) -> dict[str, float]:
    authority = CertificateAuthority.create("benchmark")
    authority.issue_server("benchmark", ips=["127.0.0.1"]).save(folder)
    spawn = multiprocessing.get_context("spawn")
    to_members, members_end = spawn.Pipe()
    to_caller, caller_end = spawn.Pipe()
    members = spawn.Process(target=_serve_members, args=(members_end, folder), daemon=True)
    caller = spawn.Process(target=_call, args=(caller_end, authority.bundle_pem), daemon=True)
    members.start()
    caller.start()
    try:
        ports: list[int] = await asyncio.to_thread(to_members.recv)
        roots = authority.bundle_pem.decode()
        cold = await _measure(folder, ports, roots, to_caller, max_age=0.0)
        warm = await _measure(folder, ports, roots, to_caller, max_age=3600.0)
    finally:
        for process in (members, caller):
            process.terminate()
            process.join()
    return {f"{SCENARIO}, cold, us/pod": cold / PODS * 1e6, f"{SCENARIO}, warm, us/pod": warm / PODS * 1e6}


async def _measure(
    folder: Path, ports: list[int], roots: str, caller: Connection, *, max_age: float
) -> float:
    spent = []
    async with _adapter(folder, ports, roots, max_age) as port:
        for _ in range(ROUNDS + 1):
            started = time.process_time()
            caller.send(f"https://127.0.0.1:{port}{PATH}")
            size: int = await asyncio.to_thread(caller.recv)
            spent.append(time.process_time() - started)
            if size < PODS * 100:
                raise RuntimeError(f"the adapter answered {size} bytes")
    return min(spent[1:])


@asynccontextmanager
async def _adapter(folder: Path, ports: list[int], roots: str, max_age: float) -> AsyncIterator[int]:
    async def nothing() -> None:
        """No Secret to read again."""

    async with AsyncExitStack() as stack:
        members: dict[str, Member] = {}
        for index, port in enumerate(ports):
            member = Member(Cluster(metadata=ObjectMeta(name=f"member{index}")), reread=nothing, deadline=30)
            way = Access(f"https://127.0.0.1:{port}", "token", roots, None, ())
            await member.observe(member.cluster, way)
            stack.push_async_callback(member.client.close)
            members[member.name] = member
        lists = await stack.enter_async_context(SharedLists())
        peers = PeerAuthenticator(Trust())
        nobody = ApiClient(ApiConfig(server="http://hub.invalid"))
        guard = Guard(Authenticator(lambda: peers), Authorizer(nobody), ["*"])
        source = MembersSource(lambda: members, lists, max_age=max_age)
        application = build_application(source, guard, Health(), Telemetry(lambda: members))
        tls = ServingTls(TlsFiles(folder / "tls.crt", folder / "tls.key"))
        server = await stack.enter_async_context(
            TlsServer(application, tls, host="127.0.0.1", port=0, grace=1.0)
        )
        yield server.port


def _serve_members(ports: Connection, folder: Path) -> None:
    async def serve() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        bound = []
        for index in range(MEMBERS):
            runner = web.AppRunner(_member(index), access_log=None)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
            bound.append(runner.addresses[0][1])
        ports.send(bound)
        await asyncio.Event().wait()

    asyncio.run(serve())


def _member(index: int) -> web.Application:
    per_member = PODS // MEMBERS
    body = msgspec.json.encode({"items": [_pod(index * per_member + pod) for pod in range(per_member)]})

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    application = web.Application()
    application.add_routes([web.get("/{path:.*}", answer)])
    return application


def _pod(number: int) -> Mapping[str, object]:
    return {
        "metadata": {
            "name": f"web-5d9c7b6f4-{number:05}",
            "namespace": f"shop-{number % 50}",
            "creationTimestamp": "2026-03-11T13:23:17Z",
            "labels": {"app": "web", "pod-template-hash": "5d9c7b6f4"},
        },
        "timestamp": "2026-03-11T13:23:00Z",
        "window": "15.123s",
        "containers": [{"name": "web", "usage": {"cpu": f"{123456789 + number}n", "memory": "131072Ki"}}],
    }


def _call(orders: Connection, roots: bytes) -> None:
    async def call() -> None:
        context = ssl.create_default_context(cadata=roots.decode())
        timeout = aiohttp.ClientTimeout(total=DEADLINE)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context), timeout=timeout
        ) as session:
            while True:
                url: str = await asyncio.to_thread(orders.recv)
                async with session.get(url) as response:
                    orders.send(len(await response.read()) if response.status == 200 else 0)

    asyncio.run(call())
