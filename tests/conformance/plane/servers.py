"""Webhook servers and aggregated API servers in this event loop, over TLS."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.x509.oid import NameOID

from certs import CertificateAuthority

Handler = Callable[["Received"], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Received:
    """A received request; `peer` is the common name of the client certificate."""

    request: web.Request
    body: bytes
    peer: str | None

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)


@dataclass
class LocalServer:
    """A server on the loopback interface. Checks may replace `answer`; `received` has the requests."""

    port: int
    ca: CertificateAuthority
    answer: Handler
    received: list[Received] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca_bundle(self) -> str:
        """The caBundle of a registration."""
        return base64.b64encode(self.ca.bundle_pem).decode()


@asynccontextmanager
async def local_server(
    answer: Handler, *, dns: str = "localhost", client_ca: bytes = b""
) -> AsyncIterator[LocalServer]:
    """A running server with a certificate for `dns`; it requests client certificates of `client_ca`."""
    ca = CertificateAuthority.create("conformance-servers")
    server = LocalServer(0, ca, answer)

    async def handle(request: web.Request) -> web.StreamResponse:
        received = Received(request, await request.read(), _peer(request))
        server.received.append(received)
        return await server.answer(received)

    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=_context(ca, dns, client_ca)).start()
        server.port = runner.addresses[0][1]
        yield server
    finally:
        await runner.cleanup()


def _context(ca: CertificateAuthority, dns: str, client_ca: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as folder:
        ca.issue_server("conformance", dns=[dns, "localhost"], ips=["127.0.0.1"]).save(Path(folder))
        context.load_cert_chain(Path(folder) / "tls.crt", Path(folder) / "tls.key")
    if client_ca:
        context.load_verify_locations(cadata=client_ca.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _peer(request: web.Request) -> str | None:
    connection: Any = request.get_extra_info("ssl_object")
    leaf = connection.getpeercert(binary_form=True)
    if not leaf:
        return None
    names = x509.load_der_x509_certificate(leaf).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else None


async def hang(_received: Received) -> web.StreamResponse:
    """Never answers."""
    await asyncio.Event().wait()
    raise AssertionError("waits forever")


def review(**response: Any) -> Handler:
    """Returns a handler of admission reviews; the uid is the request's unless given."""

    async def answer(received: Received) -> web.StreamResponse:
        request = received.json["request"]
        content = {"uid": request["uid"], "allowed": True, **response}
        return web.json_response(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": content}
        )

    return answer


def raw(body: bytes, *, status: int = 200, content_type: str = "application/json") -> Handler:
    """Returns a handler that answers with a fixed body."""

    async def answer(_received: Received) -> web.StreamResponse:
        return web.Response(body=body, status=status, content_type=content_type)

    return answer
