"""Servers that stand in the place of another one: silent, failing, expired, or changing its answers."""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp import web

from certs import CertificateAuthority
from testbed.stage.registrations import ADAPTER_SERVICE, NAMESPACE

NAMES = ("localhost", f"{ADAPTER_SERVICE}.{NAMESPACE}.svc")
# Headers of one connection, and those that the passage sets itself.
OWN_HEADERS = frozenset(
    {"host", "connection", "transfer-encoding", "content-length", "content-encoding", "accept-encoding"}
)
_count = itertools.count()

# Returns the status and the body of an answer, from the path and what the server behind answered.
Twist = Callable[[str, int, bytes], tuple[int, bytes]]


def serving(folder: Path, authority: CertificateAuthority, days: float = 30) -> ssl.SSLContext:
    """Returns a server context. Its certificate ends in `days` days, or ended before if negative."""
    leaf = authority.issue_server(
        "stand-in",
        dns=NAMES,
        ips=["127.0.0.1"],
        validity=dt.timedelta(days=365),
        now=dt.datetime.now(dt.UTC) - dt.timedelta(days=365 - days),
    )
    own = folder / f"stand-in-{next(_count)}"
    own.mkdir()
    leaf.save(own)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own / "tls.crt", own / "tls.key")
    return context


@asynccontextmanager
async def hanging() -> AsyncIterator[int]:
    """A server that accepts connections and never answers. Yields its port."""

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
        finally:
            writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def answering(context: ssl.SSLContext, status: int) -> AsyncIterator[int]:
    """A server that answers each request with one status. Yields its port."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status)

    async with _running(context, answer) as port:
        yield port


@asynccontextmanager
async def passage(
    context: ssl.SSLContext,
    upstream: str,
    client: ssl.SSLContext,
    twist: Twist = lambda _, status, body: (status, body),
    *,
    ahead: float = 0.0,
    dropped: Sequence[str] = (),
) -> AsyncIterator[int]:
    """A server that passes requests on to another one, and changes answers by `twist`. Yields its port.

    The clock in its answers is `ahead` seconds ahead. It leaves out the `dropped` headers of requests.
    Watches are refused, so that each answer is whole.
    """
    hidden = OWN_HEADERS | {each.lower() for each in dropped}
    async with aiohttp.ClientSession(upstream, connector=aiohttp.TCPConnector(ssl=client)) as session:

        async def answer(request: web.Request) -> web.Response:
            if request.query.get("watch"):
                return web.Response(status=503)
            headers = {name: value for name, value in request.headers.items() if name.lower() not in hidden}
            async with session.request(
                request.method, request.raw_path, headers=headers, data=await request.read() or None
            ) as response:
                status, body = twist(request.path, response.status, await response.read())
            moment = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=ahead)
            return web.Response(
                status=status,
                body=body,
                headers={
                    "Content-Type": response.headers.get("Content-Type", "application/json"),
                    "Date": f"{moment:%a, %d %b %Y %H:%M:%S} GMT",
                },
            )

        async with _running(context, answer) as port:
            yield port


@asynccontextmanager
async def _running(context: ssl.SSLContext, answer: Callable[[web.Request], object]) -> AsyncIterator[int]:
    application = web.Application(client_max_size=16 * 1024**2)
    application.router.add_route("*", "/{path:.*}", answer)  # type: ignore[arg-type]
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
