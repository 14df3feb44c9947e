"""HTTP to one API server over one keep-alive connection pool; it knows nothing about Kubernetes objects.

Redirects are not followed, because a member could redirect the hub's token anywhere. Cookies are not kept,
proxies of the environment are not used. `bodies` reads what the server answers.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlencode

import aiohttp
from aiohttp.abc import ResolveResult
from multidict import CIMultiDict
from yarl import URL

from fedhpa.api.errors import ApiError
from fedhpa.api.texts import one_line
from fedhpa.kube.config import ApiConfig, is_local_address
from fedhpa.kube.supervision import explain

# Reasons of an ApiError with status 0, for a request without a response.
TIMEOUT: Final = "Timeout"
UNREACHABLE: Final = "Unreachable"
CREDENTIALS: Final = "CredentialsUnavailable"
# Reasons of an ApiError for a response that cannot be used.
TOO_LARGE: Final = "ResponseTooLarge"
TOO_SLOW: Final = "ResponseTooSlow"
INVALID_RESPONSE: Final = "InvalidResponse"

# Longer than the usual sync period (15 s), so that connections are reused, and well below the three minutes
# after which an API server closes an idle connection.
KEEPALIVE_SECONDS = 75.0
CONNECT_SECONDS = 10.0
# aiohttp uses the connection that was idle for longest, so few requests keep all connections of a burst open.
# A request therefore uses the first session that has less than so many requests. The sessions behind it rest,
# and their connections are closed: a pool keeps at most twice as many as are in use at once. The last
# session, after these, has no limit.
TIERS = (1, 1, 2, 4, 8, 16, 32)
# Headers of a response. A hub may send a Warning for each cluster that did not answer.
MAX_HEADERS = 1024
# Characters of the parser's words about an answer that is not HTTP. They quote the answer.
MAX_CAUSE = 100

Params = Mapping[str, str | int | bool] | None


class _Tier:
    """A session that up to `limit` requests use at a time; it is made for the first of them."""

    def __init__(self, config: ApiConfig, limit: float) -> None:
        self._config = config
        self.limit = limit
        self._session: aiohttp.ClientSession | None = None
        self.users = 0

    @property
    def session(self) -> aiohttp.ClientSession:
        """The session."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=(self._config.connector or tcp_connector)(self._config),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                max_headers=MAX_HEADERS,
                auto_decompress=False,  # see _uncompressed
                headers={
                    "User-Agent": "fedhpa",
                    "Accept": "application/json",
                    "Accept-Encoding": "gzip" if self._config.compression else "identity",
                },
            )
        return self._session

    async def close(self) -> None:
        """Close all connections of the session."""
        if self._session is not None:
            await self._session.close()


class ConnectionPool:
    """The connections made under one ApiConfig. Another configuration replaces the whole pool."""

    def __init__(self, config: ApiConfig) -> None:
        self.config = config
        self._retired = False
        self._streams: set[aiohttp.ClientResponse] = set()
        self._tiers = [_Tier(config, limit) for limit in (*TIERS, float("inf"))]
        self._watches = _Tier(config, float("inf"))

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        path: str,
        *,
        params: Params = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send one request and yield the response when its headers are there; the caller reads the body.

        Raises ApiError with status 0 if the transport fails, also while the caller reads the body.
        """
        tier = self._watches if stream else next(tier for tier in self._tiers if tier.users < tier.limit)
        tier.users += 1
        try:
            async with self._requested(tier, method, path, params, body, headers) as response:
                if stream:
                    if self._retired:
                        raise ApiError(
                            f"{self.config.name}: {method} {path}: the configuration was changed meanwhile",
                            status=0,
                            reason=UNREACHABLE,
                        )
                    self._streams.add(response)
                try:
                    yield response
                finally:
                    self._streams.discard(response)
        except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
            if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientError):
                raise  # the caller's deadline, not the transport
            raise ApiError(
                f"{self.config.name}: {method} {path}: {describe(error)}", status=0, reason=UNREACHABLE
            ) from error
        except RuntimeError as error:
            # aiohttp raises this to a reader whose connection or session was closed.
            if not self._retired:
                raise
            raise ApiError(
                f"{self.config.name}: {method} {path}: the connection was closed",
                status=0,
                reason=UNREACHABLE,
            ) from error
        finally:
            tier.users -= 1
            await self._close_when_idle()

    @asynccontextmanager
    async def _requested(
        self,
        tier: _Tier,
        method: str,
        path: str,
        params: Params,
        body: bytes | None,
        headers: Mapping[str, str] | None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            response = await tier.session.request(
                method,
                target(self.config.server, path, params),
                data=body,
                headers=headers,
                allow_redirects=False,
                proxy=self.config.proxy,
                proxy_headers=CIMultiDict(self.config.proxy_headers) if self.config.proxy else None,
                server_hostname=self.config.server_hostname,
            )
        except (aiohttp.ClientError, OSError, RuntimeError):
            raise
        except Exception as error:
            # Addresses and headers come from objects that others write. For those that cannot be used, the
            # libraries raise errors of any kind: UnicodeError for a label of a host that is too long.
            raise ApiError(
                f"{self.config.name}: {method} {path}: cannot send: {explain(error)}",
                status=0,
                reason=UNREACHABLE,
            ) from error
        async with response:
            yield response

    async def retire(self) -> None:
        """Refuse new requests, end the watches, let the other requests finish, then close."""
        self._retired = True
        for response in tuple(self._streams):
            response.close()
        await self._close_when_idle()

    async def close(self) -> None:
        """Close every connection at once."""
        self._retired = True
        for tier in (*self._tiers, self._watches):
            await tier.close()

    async def _close_when_idle(self) -> None:
        if self._retired and not any(tier.users for tier in (*self._tiers, self._watches)):
            await self.close()


def tcp_connector(config: ApiConfig) -> aiohttp.BaseConnector:
    """Returns the connector for TCP, with TLS for https URLs."""
    return aiohttp.TCPConnector(
        limit=0,  # each watch holds one connection; the callers limit the others
        ssl=config.ssl if config.ssl is not None else True,
        keepalive_timeout=KEEPALIVE_SECONDS,
        resolver=_RemoteResolver() if config.avoids_local else None,
    )


class _RemoteResolver(aiohttp.ThreadedResolver):
    """Refuses host names that resolve to this machine or its link, as their owner may let them any time."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Returns the addresses of a host. Raises OSError."""
        found = await super().resolve(host, port, family)
        if any(is_local_address(one["host"]) for one in found):
            raise OSError(None, "the name resolves to a loopback or link-local address")
        return found


def target(server: str, path: str, params: Params) -> URL:
    """Returns the URL of a percent-encoded path below the server's base URL, which may have a path itself."""
    query = ""
    if params:
        pairs = [(key, _text(value)) for key, value in params.items() if value != ""]
        query = "?" + urlencode(pairs) if pairs else ""
    return URL(server + path + query, encoded=True)


def _text(value: str | int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def describe(error: BaseException) -> str:
    """Returns a short text for a transport error, without library names and addresses."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"certificate not accepted: {_verify_message(error.certificate_error)}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        refused = error.os_error.errno is None and error.os_error.strerror
        return f"name {error.host}: {refused}" if refused else f"name {error.host} does not resolve"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"proxy answered {error.status}"
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed: {cause.reason or cause}"
        return f"cannot connect: {_os_message(cause)}"
    if isinstance(error, aiohttp.ServerTimeoutError):
        return "no answer to the connection attempt"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "connection closed without an answer"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "answer cut off"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"answer is not HTTP: {one_line(error.message, MAX_CAUSE)}"
    if isinstance(error, OSError) and error.strerror:
        return f"connection failed: {error.strerror}"
    if isinstance(error, ValueError):
        return f"connection failed: {explain(error)}"
    return f"connection failed: {type(error).__name__}"


def _os_message(error: OSError) -> str:
    """Returns the system's text for an error number; asyncio's own text contains an address."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error) or type(error).__name__


def _verify_message(error: BaseException) -> str:
    return str(getattr(error, "verify_message", "") or error)[:200]
