"""Servers that an API server calls: webhooks and aggregated APIs, in this event loop, over real TLS."""

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

Handler = Callable[["Heard"], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Heard:
    """A request as it arrived; `peer` is the common name of the caller's certificate."""

    request: web.Request
    body: bytes
    peer: str | None

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)


@dataclass
class LocalServer:
    """A server on the loop-back. `answer` says what it answers and may be changed; `heard` is what came."""

    port: int
    ca: CertificateAuthority
    answer: Handler
    heard: list[Heard] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Its address."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca_bundle(self) -> str:
        """What a registration has as caBundle."""
        return base64.b64encode(self.ca.bundle_pem).decode()


@asynccontextmanager
async def local_server(
    answer: Handler, *, dns: str = "localhost", client_ca: bytes = b""
) -> AsyncIterator[LocalServer]:
    """A running server with a certificate for `dns`; it asks for clients' certificates of `client_ca`."""
    ca = CertificateAuthority.create("conformance-servers")
    server = LocalServer(0, ca, answer)

    async def handle(request: web.Request) -> web.StreamResponse:
        heard = Heard(request, await request.read(), _peer(request))
        server.heard.append(heard)
        return await server.answer(heard)

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


async def hang(_heard: Heard) -> web.StreamResponse:
    """Never answers."""
    await asyncio.Event().wait()
    raise AssertionError("waits for ever")


def review(**response: Any) -> Handler:
    """Answers admission reviews with this; the uid is the request's unless given."""

    async def answer(heard: Heard) -> web.StreamResponse:
        request = heard.json["request"]
        said = {"uid": request["uid"], "allowed": True, **response}
        return web.json_response(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": said}
        )

    return answer


def raw(body: bytes, *, status: int = 200, content_type: str = "application/json") -> Handler:
    """Answers everything with this body."""

    async def answer(_heard: Heard) -> web.StreamResponse:
        return web.Response(body=body, status=status, content_type=content_type)

    return answer
