"""The client of one API server: each request has a deadline and a size limit, and fails with `ApiError`.

Compression is off by default. Close to the server it only adds latency (28 MB of pods in 0.66 s instead of
0.60 s); over a long distance it saves most of the bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from typing import Any, Self, TypeVar, Unpack

import aiohttp
import msgspec

from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
from fedhpa.api.wire import ObjectList
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.outage import Outage
from fedhpa.kube.pages import ListOptions, page_decoder, read_pages, undecoded_page
from fedhpa.kube.pieces import TooLarge
from fedhpa.kube.responses import (
    GONE,
    MAX_BODY,
    MAX_LIST_BODY,
    MULTIPLE_CHOICES,
    UNAUTHORIZED,
    Listing,
    ReadLimits,
    Response,
    read_body,
    read_chunks,
    read_lines,
    retry_after,
    status_error,
)
from fedhpa.kube.server_clock import ServerClock
from fedhpa.kube.supervision import RateLimit, explain
from fedhpa.kube.transport import CREDENTIALS, INVALID_RESPONSE, TIMEOUT, TOO_LARGE, ConnectionPool, Params

T = TypeVar("T")

# An API server gives a request 60 s, but a healthy one answers a small request well within this.
DEFAULT_DEADLINE = 10.0
# Items per page: a page of large pods is about 5 MB and decodes in about 15 ms.
PAGE_SIZE = 500
LIST_IDLE_SECONDS = 3.0
# Restarts after an expired continue token, before the list is requested in one page.
LIST_RESTARTS = 2
# The time for a whole list of 150,000 pods.
LIST_SECONDS = 600.0
# client-go repeats a request that is answered with Retry-After at most ten times.
MAX_RETRIES = 10

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


class ApiClient:
    """Sends requests to one API server over one connection pool.

    `deadline` is in seconds and covers the whole call, with the waits for the client-side rate limit and for
    Retry-After; None means the client's default. All methods raise ApiError (Conflict for 409). Its `status`
    is 0 if no usable response came; `fedhpa.kube.transport` lists the reasons.
    `config` is the present configuration. `generation` is the number of calls of `use`: data from another
    generation may come from another server.
    """

    def __init__(self, config: ApiConfig, *, deadline: float = DEFAULT_DEADLINE) -> None:
        self.config = config
        self._pool: ConnectionPool | None = None
        self._limit = RateLimit(config.qps, config.burst)
        self._deadline = deadline
        self.generation = 0
        self.outage = Outage(config.name)
        self.server_clock = ServerClock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def use(self, config: ApiConfig) -> None:
        """Switch to another configuration. Watches end; other requests under way finish with the old one."""
        old, self._pool = self._pool, None
        self.config = config
        self.server_clock = ServerClock()
        self._limit = RateLimit(config.qps, config.burst)
        self.generation += 1
        if old is not None:
            await old.retire()

    async def close(self) -> None:
        """Close all connections; a later request opens new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params = None,
        body: bytes | None = None,
        deadline: float | None = None,
        idle: bool = False,
        limit: int | None = None,
        is_list: bool = False,
        repeated: bool = False,
        known: bytes | None = None,
    ) -> Response:
        """Send one request. `path` is percent-encoded (`kube.resources`). Raises for statuses from 300.

        With `idle` the deadline counts from the last byte received, within five minutes in total. A list may
        be larger than an object, and its body comes in parts. `repeated` is for a request that was not
        answered before, and that no caller waits for. With `known`, the response has a digest. If it is the
        known one, the response is `unchanged` and has no body.
        """
        seconds = self._deadline if deadline is None else deadline
        if limit is None:
            limit = MAX_LIST_BODY if is_list else MAX_BODY
        async with self.guarded(path, seconds, params, repeated=repeated):
            response = await self._send(method, path, params, body, seconds, idle, limit, known)
        return response if is_list else response.joined()

    @asynccontextmanager
    async def guarded(
        self,
        path: str,  # noqa: ARG002
        seconds: float,  # noqa: ARG002
        params: Params = None,  # noqa: ARG002
        *,
        repeated: bool = False,  # noqa: ARG002
    ) -> AsyncIterator[None]:
        """Wraps each request and each opening of a watch. Subclasses refuse calls or record outcomes."""
        yield

    async def _send(
        self,
        method: str,
        path: str,
        params: Params,
        body: bytes | None,
        seconds: float,
        idle: bool,
        limit: int,
        known: bytes | None = None,
    ) -> Response:
        stage = _Stage()
        try:
            async with asyncio.timeout(seconds) as timer:
                reading = ReadLimits(limit, timer, seconds if idle else None, known)
                return await self._attempts(method, path, params, body, reading, stage)
        except TimeoutError as error:
            raise self._timed_out(method, path, seconds, stage) from error

    async def watch(
        self, path: str, *, params: Params = None, deadline: float | None = None, idle: float
    ) -> AsyncGenerator[bytes, None]:
        """Yields the lines of a watch. The first is empty and means that the server accepted the watch.

        The server must accept within `deadline`. Raises ApiError with reason Timeout after `idle` seconds
        without a byte. Use with `contextlib.aclosing`.
        """
        seconds = self._deadline if deadline is None else deadline
        async with AsyncExitStack() as stack:
            async with self.guarded(path, seconds, params):
                stage = _Stage()
                try:
                    async with asyncio.timeout(seconds):
                        response = await self._open_watch(stack, path, params, stage)
                except TimeoutError as error:
                    raise self._timed_out("GET", path, seconds, stage) from error
            yield b""
            lines = await stack.enter_async_context(aclosing(read_lines(response, idle)))
            try:
                async for line in lines:
                    yield line
            except TimeoutError as error:
                raise self._timed_out("GET", path, idle) from error

    async def get(
        self,
        path: str,
        as_type: type[T],
        *,
        kind: str = "",
        params: Params = None,
        deadline: float | None = None,
    ) -> T:
        """Returns an object decoded as `as_type`. An answer without the kind of the path is an error.

        `kind` is needed if the plural in the path is irregular.
        """
        response = await self.request("GET", path, params=params, deadline=deadline)
        return response.checked(path, kind=kind).decode(as_type)

    async def get_json(
        self, path: str, *, params: Params = None, deadline: float | None = None
    ) -> dict[str, Any]:
        """Returns an object as decoded JSON. An answer without the kind of the path is an error."""
        return (await self.request("GET", path, params=params, deadline=deadline)).checked(path).json()

    async def post(
        self, path: str, body: Any, *, manager: str = "", deadline: float | None = None
    ) -> Response:
        """Create an object; `body` is anything that msgspec can encode. The answer must be of its kind.

        `manager` is the field manager. The API server derives one from the User-Agent if it is "".
        """
        return await self._write("POST", path, body, manager, deadline)

    async def put(
        self, path: str, body: Any, *, manager: str = "", deadline: float | None = None
    ) -> Response:
        """Replace an object. Raises Conflict if it has changed since the resourceVersion in the body."""
        return await self._write("PUT", path, body, manager, deadline)

    async def patch(
        self, path: str, body: Any, *, manager: str = "", deadline: float | None = None
    ) -> Response:
        """Change an object with a merge patch."""
        return await self._write("PATCH", path, body, manager, deadline)

    async def delete(
        self, path: str, *, only: Mapping[str, str] | None = None, deadline: float | None = None
    ) -> Response:
        """Delete an object. Raises ApiError with status 404 if it does not exist.

        `only` has the uid or the resourceVersion that the object must have; otherwise Conflict is raised.
        """
        if only is None:
            return await self.request("DELETE", path, deadline=deadline)
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": only}
        body = msgspec.json.encode(options)
        return await self.request("DELETE", path, body=body, deadline=deadline)

    async def _write(
        self, method: str, path: str, body: Any, manager: str, deadline: float | None
    ) -> Response:
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        params = {"fieldManager": manager} if manager else None
        response = await self.request(method, path, params=params, body=raw, deadline=deadline)
        return response.checked(path, created=method == "POST")

    async def list(self, path: str, item: type[T], **options: Unpack[ListOptions]) -> Listing[T]:
        """Returns all items of a collection, fetched page by page, each decoded as `item`.

        If a continue token expires (410), the list starts again. The last try requests all items in one page.
        """
        return Listing(*await self._list(path, page_decoder(item), None, options))

    async def list_leniently(
        self, path: str, item: type[T], **options: Unpack[ListOptions]
    ) -> tuple[Sequence[T | msgspec.Raw], str]:
        """Like `list`, but an item that cannot be decoded is returned as its text, and spoils no other.

        Returns the items, and the resourceVersion from which to watch.
        """
        return await self._list(path, page_decoder(item), undecoded_page, options)

    async def _list(
        self,
        path: str,
        decode: Callable[[bytes], ObjectList[Any]],
        salvage: Callable[[Sequence[bytes], bytes], ObjectList[Any]] | None,
        options: ListOptions,
    ) -> tuple[Sequence[Any], str]:
        page_size, idle = options.get("page_size", PAGE_SIZE), options.get("idle", LIST_IDLE_SECONDS)
        selectors = {
            "labelSelector": options.get("label_selector", ""),
            "fieldSelector": options.get("field_selector", ""),
        }
        for restart in range(LIST_RESTARTS + 1):
            params = {**selectors, "limit": page_size if restart < LIST_RESTARTS else ""}
            try:
                async with asyncio.timeout(LIST_SECONDS):
                    return await read_pages(
                        lambda page: self.request(
                            "GET", path, params=page, deadline=idle, idle=True, is_list=True
                        ),
                        path,
                        decode,
                        salvage,
                        params,
                    )
            except TimeoutError as error:
                raise self._timed_out("GET", path, LIST_SECONDS) from error
            except InvalidObject as error:
                reason = TOO_LARGE if isinstance(error, TooLarge) else INVALID_RESPONSE
                raise ApiError(f"answer cannot be read: {error}", status=200, reason=reason) from error
            except ApiError as error:
                if error.status != GONE or restart == LIST_RESTARTS:
                    raise
        raise AssertionError("the last try returns or raises")

    def _connections(self) -> ConnectionPool:
        if self._pool is None:
            self._pool = ConnectionPool(self.config)
        return self._pool

    async def _open_watch(
        self, stack: AsyncExitStack, path: str, params: Params, stage: _Stage
    ) -> aiohttp.ClientResponse:
        headers = await self._authorized({}, stage)
        response = await stack.enter_async_context(
            self._connections().exchange("GET", path, params=params, headers=headers, stream=True)
        )
        if response.status >= MULTIPLE_CHOICES:
            body = await read_body(response, MAX_BODY)
            if response.status == UNAUTHORIZED:
                await self._renewed(stage)  # for the next attempt
            raise status_error("GET", path, response.status, body)
        return response

    async def _attempts(
        self,
        method: str,
        path: str,
        params: Params,
        body: bytes | None,
        reading: ReadLimits,
        stage: _Stage,
    ) -> Response:
        kind = MERGE_PATCH if method == "PATCH" else JSON
        headers = {} if body is None else {"Content-Type": kind}
        renewed = False
        for attempt in range(MAX_RETRIES + 1):
            await self._wait_turn()
            sent = await self._authorized(headers, stage)
            async with self._connections().exchange(
                method, path, params=params, body=body, headers=sent
            ) as answer:
                self.server_clock.seen = answer.headers.get("Date", ""), asyncio.get_running_loop().time()
                failed = answer.status >= MULTIPLE_CHOICES
                limit = min(reading.limit, MAX_BODY) if failed else reading.limit
                chunks, digest = await read_chunks(answer, reading, limit)
            if not failed:
                unchanged = bool(digest) and digest == reading.known
                return Response(answer.status, answer.headers, b"", chunks, digest, unchanged)
            if answer.status == UNAUTHORIZED and not renewed and await self._renewed(stage):
                renewed = True
                continue
            delay = retry_after(answer.status, answer.headers)
            if delay is None or attempt == MAX_RETRIES or reading.ends_before(delay):
                raise status_error(method, path, answer.status, b"".join(chunks))
            await asyncio.sleep(delay)
        raise AssertionError("the last attempt returns or raises")

    async def _authorized(self, headers: dict[str, str], stage: _Stage) -> dict[str, str]:
        with self._credentials(stage):
            value = await self.config.credentials.authorization()
        return headers if value is None else {**headers, "Authorization": value}

    async def _renewed(self, stage: _Stage) -> bool:
        with self._credentials(stage):
            return await self.config.credentials.renew()

    @contextmanager
    def _credentials(self, stage: _Stage) -> Iterator[None]:
        """Wraps each use of the credentials, so that an error names them and not the server."""
        stage.waits_for_credentials = True
        try:
            yield
        except ApiError:
            raise
        except Exception as error:
            text = str(error) if isinstance(error, FedHPAError) else explain(error)
            raise ApiError(f"{self.config.name}: {text}", status=0, reason=CREDENTIALS) from error
        stage.waits_for_credentials = False

    async def _wait_turn(self) -> None:
        delay = self._limit.wait_seconds(asyncio.get_running_loop().time())
        if delay:
            await asyncio.sleep(delay)

    def _timed_out(self, method: str, path: str, seconds: float, stage: _Stage | None = None) -> ApiError:
        if stage is not None and stage.waits_for_credentials:
            return ApiError(
                f"{self.config.name}: {method} {path}: not sent, because its credentials took longer than"
                f" {seconds:g} s: check the exec plugin or the identity provider",
                status=0,
                reason=CREDENTIALS,
            )
        return ApiError(
            f"{self.config.name}: {method} {path}: no answer within {seconds:g} s", status=0, reason=TIMEOUT
        )


class _Stage:
    """The step of a call that is under way."""

    waits_for_credentials = False
