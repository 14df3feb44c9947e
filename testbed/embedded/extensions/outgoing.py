"""The connection pool of an API server for webhooks and aggregated API servers."""

import errno
import os
import ssl
from base64 import b64decode
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import quote

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from testbed.embedded.api.types import Object, User
from testbed.embedded.network.pki import Pki
from testbed.embedded.storage.store import Store

SERVICES = ("", "services")
CONNECT_SECONDS = 5.0


class Unreachable(Exception):
    """A server gave no usable answer; the message is worded as Go's, which the doctor reads."""


class Outgoing:
    """One connection pool; callers `close` it. Bodies are not decompressed, redirects are not followed."""

    def __init__(self, store: Store, pki: Pki) -> None:
        self._store = store
        self._pki = pki
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """The session; each call passes its own TLS context."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("Accept-Encoding", "Accept", "User-Agent"),
                timeout=aiohttp.ClientTimeout(total=60.0, sock_connect=CONNECT_SECONDS),
            )
        return self._session

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def resolve(self, reference: Object) -> str:
        """Returns https://HOST:PORT of a Service. Raises Unreachable unless it is an ExternalName Service."""
        service = self._store.find(SERVICES, reference["namespace"], reference["name"])
        if service is None:
            raise Unreachable(f'service "{reference["name"]}" not found')
        spec = service.get("spec") or {}
        if spec.get("type") != "ExternalName":
            why = "the embedded plane only reaches Services of type ExternalName"
            raise Unreachable(f'service "{reference["name"]}": {why}')
        return f"https://{spec['externalName']}:{reference.get('port') or 443}"

    def aggregated(
        self,
        service: Object,
        url: str,
        user: User,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        data: Any = None,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Calls the server of an APIService as the front proxy on behalf of a user."""
        spec = service["spec"]
        return self.session.request(
            method,
            URL(url, encoded=True),
            headers=_with_user(headers or {}, user),
            data=data,
            ssl=self._pki.front_proxy(ca_bundle(spec)),
            server_hostname=server_name(spec["service"]),
            allow_redirects=False,
        )


def _with_user(headers: Mapping[str, str], user: User) -> CIMultiDict[str]:
    """k8s.io/client-go, transport.SetAuthProxyHeaders."""
    found = CIMultiDict((k, v) for k, v in headers.items() if not k.lower().startswith("x-remote-"))
    found["X-Remote-User"] = user.name
    for group in user.groups:
        found.add("X-Remote-Group", group)
    for key, values in user.extra.items():
        for value in values:
            found.add("X-Remote-Extra-" + quote(key, safe="!#$&'*+^`|"), value)
    return found


def server_name(reference: Object) -> str:
    """Returns the name that the certificate of a Service's server must have."""
    return f"{reference['name']}.{reference['namespace']}.svc"


def ca_bundle(config: Object) -> str:
    """Returns the PEM text of a caBundle field, or ""."""
    return b64decode(config.get("caBundle") or "").decode()


def go_words(error: BaseException) -> str:
    """Returns the message of Go's net, crypto/tls or context for a Python error."""
    if isinstance(error, TimeoutError):
        return "context deadline exceeded"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        error = error.certificate_error
    if isinstance(error, ssl.SSLCertVerificationError):
        causes = {10: "certificate has expired or is not yet valid", 62: "certificate is for other names"}
        cause = causes.get(error.verify_code, "certificate signed by unknown authority")
        return f"tls: failed to verify certificate: x509: {cause}"
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, ssl.SSLError):
        reason = os.strerror(error.os_error.errno or errno.ECONNREFUSED).lower()
        host = "127.0.0.1" if error.host == "localhost" else error.host
        return f"dial tcp {host}:{error.port}: connect: {reason}"
    return "EOF" if isinstance(error, aiohttp.ServerDisconnectedError) else str(error)
