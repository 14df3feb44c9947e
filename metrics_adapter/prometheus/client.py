"""One query to a metrics store, over prometheus-api-client, in a thread that can be aborted.

The library is synchronous. It has a timeout for each read but none for the call, follows redirects, reads
without a size limit, and keeps only a part of the response. This module therefore gives it a session without
these flaws. The code that waits for the thread aborts the call by shutting the connection down.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

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
from metrics_adapter.prometheus.results import (
    MatrixResult,
    QueryResult,
    decode_matrix,
    decode_result,
    error_text,
    shown,
)

T = TypeVar("T")

# Bytes. A vector of 100,000 series fits, and a store cannot fill this process's memory.
MAX_RESULT_BYTES = 32 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024
CHUNK = 64 * 1024
# Bytes between two quotes. Labels and numbers are short.
MAX_UNQUOTED_BYTES = 2**20
OK, REDIRECTS, SERVER_ERRORS = 200, 300, 500
# Statuses about the client, the URL or the rate of queries, not about the query itself.
CLIENT_STATUSES = frozenset({401, 403, 404, 407, 429})


class StoreCall:
    """One query: `run` in a thread, `abort` from anywhere."""

    def __init__(self, access: StoreAccess, wall: Callable[[], float]) -> None:
        self._access = access
        self._wall = wall
        self._lock = threading.Lock()
        self._handle: socket.socket | None = None
        self._aborted = False

    def abort(self) -> None:
        """Shuts the connection down, now or as soon as it opens, so that the thread's read fails."""
        with self._lock:
            self._aborted = True
            if self._handle is not None:
                _shut(self._handle)

    def opened(self, connected: socket.socket) -> None:
        """Called with each connection that opens."""
        with self._lock:
            self._release()
            # TLS takes over the original socket. The duplicate stays usable for shutdown.
            self._handle = connected.dup()
            if self._aborted:
                _shut(self._handle)

    def run(self, query: str, parameters: dict[str, str], timeout: float) -> QueryResult:
        """Runs the query. Raises MetricsUnavailable, or StoreUnavailable if the store itself fails."""
        asked_at = self._wall()
        return self._ask(
            lambda library: library.custom_query(query, params=parameters, timeout=timeout),  # type: ignore[arg-type]  # declared as int, and requests accepts fractions
            lambda chunks: decode_result(chunks, asked_at),
        )

    def run_range(self, query: str, start: float, end: float, step: float, timeout: float) -> MatrixResult:
        """Runs the query over a range of time, in Unix seconds. Raises as `run`."""
        first, last = datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC)
        parameters = {"timeout": f"{timeout:g}"}
        return self._ask(
            lambda library: library.custom_query_range(
                query,
                first,
                last,
                f"{step:g}",
                params=parameters,
                timeout=timeout,  # type: ignore[arg-type]  # as in `run`
            ),
            decode_matrix,
        )

    def _ask(self, ask: Callable[[PrometheusConnect], Any], decode: Callable[[list[bytes]], T]) -> T:
        _CALL.set(self)
        try:
            with _Session(self._access) as session:
                library = PrometheusConnect(self._access.url.rstrip("/"), session=session, method="POST")
                # The library mounts its own adapter, and this one replaces it.
                session.mount(library.url, _Adapter(self._access.context()))
                headers = self._access.headers()
                library.headers = headers
                result = ask(library)
            return decode(cast("list[bytes]", result))
        # A shutdown may interrupt urllib3 anywhere, which raises various errors.
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
    with contextlib.suppress(OSError):  # The socket is already closed.
        connected.shutdown(socket.SHUT_RDWR)


def _reason(error: BaseException) -> str:
    # requests and urllib3 wrap errors. The innermost message has no memory addresses of objects in it.
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    text = error.strerror if isinstance(error, OSError) else str(error)
    return shown(text or "") or type(error).__name__


class _Session(requests.Session):
    """Sends requests as `StoreAccess` sets them, and returns the whole body, of bounded size."""

    def __init__(self, access: StoreAccess) -> None:
        super().__init__()
        # Ignores proxies and .netrc of the environment, because requests may carry secrets.
        self.trust_env = False
        self._access = access

    def request(self, method: str, url: str, **given: Any) -> Any:  # type: ignore[override]  # the library's call
        """Sends a request. Returns the part of a response that the library uses."""
        response = super().request(
            method,
            url,
            data=given["params"],  # The library would put a query of any length into the URL.
            headers=given["headers"],
            timeout=given["timeout"],
            allow_redirects=False,
            stream=True,
        )
        authorization = given["headers"].get("Authorization", "")
        with response:
            status = response.status_code
            if status == OK:
                return _WholeBody(_redacted_chunks(_chunks(response, MAX_RESULT_BYTES), authorization))
            if REDIRECTS <= status < 400:
                raise StoreUnavailable(f"it answers with a redirect (HTTP {status}), which is not followed")
            body = b"".join(_chunks(response, MAX_ERROR_BYTES))
            text = error_text(redacted(body, authorization))
        message = f"HTTP {status}" + (f": {text}" if text else "")
        unavailable = status >= SERVER_ERRORS or status in CLIENT_STATUSES
        raise StoreUnavailable(message) if unavailable else MetricsUnavailable(message)


def _chunks(response: requests.Response, limit: int) -> Iterator[bytes]:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise StoreUnavailable("its answer is compressed although the request accepts only identity")
    size = 0
    while size <= limit:
        chunk = response.raw.read(CHUNK, decode_content=False)
        if not chunk:
            return
        size += len(chunk)
        yield chunk
    raise MetricsUnavailable(f"its answer has more than {limit // 1024 // 1024 or 1} MiB: narrow the query")


def _redacted_chunks(chunks: Iterable[bytes], authorization: str) -> list[bytes]:
    """Returns a body in parts, without the credential.

    Parts are cut after quotes, which no credential has, so that no credential is cut.
    """
    found: list[bytes] = []
    rest = b""
    for chunk in chunks:
        text, quote, rest = (rest + chunk).rpartition(b'"')
        found.append(redacted(text + quote, authorization))
        if len(rest) > MAX_UNQUOTED_BYTES:
            raise MetricsUnavailable("its answer cannot be read: it has a text of more than a mebibyte")
    found.append(redacted(rest, authorization))
    return found


class _WholeBody:
    """A response for the library whose `data.result` is the whole body, for typed decoding."""

    status_code = OK

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    def json(self) -> Any:
        """Returns the document from which the library takes `data.result`."""
        return {"data": {"result": self._chunks}}


_CALL: ContextVar[StoreCall] = ContextVar("store call")


class _Connection(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        return _register(super()._new_conn())


class _TlsConnection(HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        return _register(super()._new_conn())


def _register(connected: socket.socket) -> socket.socket:
    _CALL.get().opened(connected)
    return connected


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class _Adapter(HTTPAdapter):
    """Uses one connection, one attempt, and the given TLS context instead of requests' CA bundle."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=Retry(0, redirect=False, read=False))

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Sets the TLS context and the connection classes. Called by the base class."""
        if self._context is not None:
            kwargs["ssl_context"] = self._context
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """Does nothing, because the context verifies with exactly the CAs it was made with."""
