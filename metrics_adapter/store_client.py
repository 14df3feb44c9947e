"""One query to a metrics store, over prometheus-api-client, in a thread that can be called off.

The library is synchronous: it has a time-out for each read and none for the whole call, follows redirects,
reads without bound and keeps only a part of the answer. So it is given a session that does otherwise, and
who waits for the thread may end the connection under it.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import threading
import time
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import requests
from prometheus_api_client.prometheus_connect import PrometheusConnect
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

from fedhpa.api.errors import ConfigError, FedHPAError, MetricsUnavailable
from fedhpa.api.texts import redacted
from metrics_adapter.store_answer import Answer, decode_answer, error_text, shown

# A vector of a hundred thousand series; a store may not fill this process' memory.
MAX_ANSWER = 32 * 1024 * 1024
MAX_ERROR = 64 * 1024
MAX_SECRET = 64 * 1024
CHUNK = 64 * 1024
OK, REDIRECTS, SERVER_ERRORS = 200, 300, 500
# What speaks of who asks, where and how often, not of what is asked.
OF_WHO_ASKS = frozenset({401, 403, 404, 407, 429})
TENANT_HEADER = "X-Scope-OrgID"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class StoreSilent(MetricsUnavailable):
    """The store could not be asked, did not answer or is out of order: another question would not help."""


@dataclass(frozen=True)
class StoreAccess:
    """Where the store is and who asks. Secrets are files, read at each query: who rotates them need not tell.

    `url` may have a path (Mimir's is /prometheus). Raises ConfigError for what cannot be used or would
    send a secret in the clear.
    """

    url: str
    ca_file: str = ""
    token_file: str = ""
    username: str = ""
    password_file: str = ""
    tenant: str = ""

    def __post_init__(self) -> None:
        if "@" in self.url:
            raise ConfigError("--metrics-store-url holds credentials: expected files, by flags of their own")
        if not _is_base(self.url):
            raise ConfigError(f'--metrics-store-url="{self.url}": expected http(s)://HOST[:PORT][/PATH]')
        parts = urlsplit(self.url)
        if bool(self.username) != bool(self.password_file):
            raise ConfigError("expected both --metrics-store-username and --metrics-store-password-file")
        if self.username and self.token_file:
            raise ConfigError("expected --metrics-store-token-file or --metrics-store-username, not both")
        secret = self.username or self.token_file
        if secret and parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise ConfigError(
                f'--metrics-store-url="{self.url}": expected https, or credentials are sent in the clear'
            )
        if not (self.tenant.isascii() and self.tenant.isprintable() and self.tenant == self.tenant.strip()):
            raise ConfigError("--metrics-store-tenant: expected printable ASCII, without spaces around it")

    def check(self) -> None:
        """Read all files once. Raises ConfigError naming the one that cannot be read."""
        try:
            self.headers()
            self.context()
        except FedHPAError as error:
            raise ConfigError(str(error)) from error

    def headers(self) -> dict[str, str]:
        """The headers of a query; raises StoreSilent naming a file that cannot be read."""
        # Compressed, a small answer could become one that fills the memory.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "Connection": "close"}
        if self.tenant:
            headers[TENANT_HEADER] = self.tenant
        if self.token_file:
            headers["Authorization"] = f"Bearer {_secret('token', self.token_file)}"
        elif self.username:
            pair = f"{self.username}:{_secret('password', self.password_file)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return headers

    def context(self) -> ssl.SSLContext | None:
        """How the store is known; raises StoreSilent naming a CA file that cannot be used."""
        if not self.url.startswith("https:"):
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
        except OSError as error:  # an SSLError is one, too
            reason = error.strerror or type(error).__name__
            raise StoreSilent(f"cannot use {self.ca_file} of --metrics-store-ca-file: {reason}") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


def _is_base(url: str) -> bool:
    try:
        parts = urlsplit(url)
        bare = not (parts.query or parts.fragment) and parts.port != 0
    except ValueError:  # an address or a port that is none
        return False
    return bare and parts.scheme in ("http", "https") and bool(parts.hostname)


def _secret(name: str, file: str) -> str:
    which = f"{file} of --metrics-store-{name}-file"
    try:
        with Path(file).open("rb") as stream:
            text = stream.read(MAX_SECRET).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no ASCII text"
        raise StoreSilent(f"cannot read {which}: {reason}") from None
    if not text or not text.isprintable():
        raise StoreSilent(f"cannot use {which}: expected one line of text")
    return text


class StoreCall:
    """One query: `run` in a thread, `abort` from anywhere."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._handle: socket.socket | None = None
        self._aborted = False

    def abort(self) -> None:
        """End the connection, now or as soon as there is one; what reads from it then fails."""
        with self._lock:
            self._aborted = True
            if self._handle is not None:
                _shut(self._handle)

    def opened(self, connected: socket.socket) -> None:
        """The connection there is from now on."""
        with self._lock:
            self._release()
            # TLS takes the socket over, and this one stays.
            self._handle = connected.dup()
            if self._aborted:
                _shut(self._handle)

    def run(self, query: str, parameters: dict[str, str], timeout: float) -> Answer:
        """Ask. Raises MetricsUnavailable; StoreSilent if it is the store that is out of order."""
        _CALL.set(self)
        asked_at = time.time()
        try:
            with _Session(self._access) as session:
                library = PrometheusConnect(self._access.url.rstrip("/"), session=session, method="POST")
                # The library has put an adapter of its own in front of the session's.
                session.mount(library.url, _Adapter(self._access.context()))
                headers = self._access.headers()
                library.headers = headers
                result: Any = library.custom_query(query, params=parameters, timeout=timeout)  # type: ignore[arg-type]  # whole seconds, it says; requests takes fractions
                return decode_answer(cast("bytes", result), asked_at)
        # urllib3 may be cut off anywhere in its work, and says so in many ways.
        except (requests.RequestException, HTTPError, OSError, AttributeError) as error:
            raise StoreSilent(_reason(error)) from error
        finally:
            with self._lock:
                self._release()

    def _release(self) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None


def _shut(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it was closed already
        connected.shutdown(socket.SHUT_RDWR)


def _reason(error: BaseException) -> str:
    # requests and urllib3 wrap one error in another; the innermost says it without addresses of objects.
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    text = error.strerror if isinstance(error, OSError) else str(error)
    return shown(text or "") or type(error).__name__


class _Session(requests.Session):
    """Asks as `StoreAccess` says and gives the library the whole body, bounded, where it expects its part."""

    def __init__(self, access: StoreAccess) -> None:
        super().__init__()
        # Neither proxies nor a .netrc of this process' environment: the store may be sent secrets.
        self.trust_env = False
        self._access = access

    def request(self, method: str, url: str, **given: Any) -> Any:  # type: ignore[override]  # what the library calls
        """The answer, as far as the library looks at it."""
        response = super().request(
            method,
            url,
            data=given["params"],  # the library would put the query, of any length, into the URL
            headers=given["headers"],
            timeout=given["timeout"],
            allow_redirects=False,
            stream=True,
        )
        authorization = given["headers"].get("Authorization", "")
        with response:
            status = response.status_code
            if status == OK:
                return _Whole(redacted(_body(response, MAX_ANSWER), authorization))
            if REDIRECTS <= status < 400:
                raise StoreSilent(f"it answers with a redirect (HTTP {status}), which is not followed")
            text = error_text(redacted(_body(response, MAX_ERROR), authorization))
        message = f"HTTP {status}" + (f": {text}" if text else "")
        silent = status >= SERVER_ERRORS or status in OF_WHO_ASKS
        raise StoreSilent(message) if silent else MetricsUnavailable(message)


def _body(response: requests.Response, limit: int) -> bytes:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise StoreSilent("its answer is compressed, which was not asked for")
    found = bytearray()
    while len(found) <= limit:
        chunk = response.raw.read(CHUNK, decode_content=False)
        if not chunk:
            return bytes(found)
        found += chunk
    raise MetricsUnavailable(f"its answer has more than {limit // 1024 // 1024 or 1} MiB: narrow the query")


class _Whole:
    """What the library takes for a response: its `data.result` is the whole body, to be decoded typed."""

    status_code = OK

    def __init__(self, body: bytes) -> None:
        self._body = body

    def json(self) -> Any:
        """As the library reads it."""
        return {"data": {"result": self._body}}


_CALL: ContextVar[StoreCall] = ContextVar("store call")


class _Connection(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        return _told(super()._new_conn())


class _TlsConnection(HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        return _told(super()._new_conn())


def _told(connected: socket.socket) -> socket.socket:
    _CALL.get().opened(connected)
    return connected


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class _Adapter(HTTPAdapter):
    """One connection, one attempt, and the CA that was given in place of requests' own bundle."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=Retry(0, redirect=False, read=False))

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Called by the base class."""
        if self._context is not None:
            kwargs["ssl_context"] = self._context
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """Nothing to add: the context verifies, against exactly the CAs it was made with."""
