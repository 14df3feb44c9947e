"""One query to a metrics store, over prometheus-api-client, in a thread that can be called off.

The library is synchronous: it has a time-out for each read and none for the whole call, follows redirects,
reads without bound and keeps only a part of the answer. So it is given a session that does otherwise, and
who waits for the thread may end the connection under it.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from contextvars import ContextVar
from typing import Any, cast

import requests
from prometheus_api_client.prometheus_connect import PrometheusConnect
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.texts import redacted
from metrics_adapter.prometheus.access import StoreAccess, StoreUnavailable
from metrics_adapter.prometheus.results import QueryResult, decode_result, error_text, shown

# A vector of a hundred thousand series; a store may not fill this process' memory.
MAX_ANSWER = 32 * 1024 * 1024
MAX_ERROR = 64 * 1024
CHUNK = 64 * 1024
OK, REDIRECTS, SERVER_ERRORS = 200, 300, 500
# What speaks of who asks, where and how often, not of what is asked.
OF_WHO_ASKS = frozenset({401, 403, 404, 407, 429})


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

    def run(self, query: str, parameters: dict[str, str], timeout: float) -> QueryResult:
        """Ask. Raises MetricsUnavailable; StoreUnavailable if it is the store that is out of order."""
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
                return decode_result(cast("bytes", result), asked_at)
        # urllib3 may be cut off anywhere in its work, and says so in many ways.
        except (requests.RequestException, HTTPError, OSError, AttributeError) as error:
            raise StoreUnavailable(_reason(error)) from error
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
                raise StoreUnavailable(f"it answers with a redirect (HTTP {status}), which is not followed")
            text = error_text(redacted(_body(response, MAX_ERROR), authorization))
        message = f"HTTP {status}" + (f": {text}" if text else "")
        silent = status >= SERVER_ERRORS or status in OF_WHO_ASKS
        raise StoreUnavailable(message) if silent else MetricsUnavailable(message)


def _body(response: requests.Response, limit: int) -> bytes:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise StoreUnavailable("its answer is compressed, which was not asked for")
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
