"""What can go wrong with a member's API server, switched on and off while it runs."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Literal, Protocol

import msgspec
from aiohttp import web

from testbed.embedded.api.statuses import status_of
from testbed.embedded.api.types import Refusal
from testbed.embedded.network.pki import Pki

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Fault(StrEnum):
    """Those of the first group hold for the whole server, the others for paths."""

    REFUSE = "refuse"
    DISAPPEAR = "disappear"  # as refuse; who sets it removes the Cluster object too
    WRONG_CA = "wrong-ca"
    EXPIRED = "expired-certificate"

    HANG = "hang"
    DRIP = "drip"
    TOO_MANY_REQUESTS = "429"
    SERVER_ERROR = "500"
    TRUNCATED = "truncated-json"  # a whole answer whose JSON is not
    CUT = "cut"  # the connection ends in the middle of an answer
    NAN = "nan"
    NEGATIVE = "negative"


GONE = frozenset({Fault.REFUSE, Fault.DISAPPEAR})
TLS = frozenset({Fault.WRONG_CA, Fault.EXPIRED})


class Door(Protocol):
    """A listener, on a socket or in memory."""

    async def start(self, context: ssl.SSLContext | None = None) -> None:
        """Listen again, with another certificate if one is given; whoever was connected no longer is."""

    async def stop(self) -> None:
        """Refuse connections and end those that are open."""


class Faults:
    """The switchboard of one server. Answers drip a byte every `drip_seconds`."""

    def __init__(
        self, application: web.Application, listener: Door, pki: Pki | None, *, drip_seconds: float = 0.5
    ) -> None:
        """Goes between the application and its clients; to be made before the listener is entered.

        Without `pki`, for a server without TLS, those of TLS do nothing.
        """
        self._listener = listener
        self._pki = pki
        self._drip_seconds = drip_seconds
        self._paths: dict[Fault, tuple[str, ...]] = {}
        self._changed = asyncio.Event()
        application.middlewares.append(self._middleware)
        application.on_response_prepare.append(self._prepare)

    @property
    def metric_values(self) -> Literal["nan", "negative"] | None:
        """What the metrics APIs should report instead of usage."""
        return "nan" if Fault.NAN in self._paths else "negative" if Fault.NEGATIVE in self._paths else None

    def active(self, path: str) -> list[Fault]:
        """The faults that meet a request for the path."""
        return [fault for fault, prefixes in self._paths.items() if path.startswith(prefixes)]

    async def set(self, name: Fault, paths: Sequence[str] = ("",)) -> None:
        """Switch a fault on, beside those that are, for paths that begin so. Holds when this returns."""
        self._paths[name] = tuple(paths)
        await self._apply(name)

    async def clear(self, name: Fault | None = None) -> None:
        """Switch one fault off, or all."""
        names = list(self._paths) if name is None else [name]
        for each in names:
            self._paths.pop(each, None)
        await self._apply(*names)

    async def _apply(self, *names: Fault) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        if not (GONE | TLS).intersection(names):
            return
        if GONE.intersection(self._paths):
            await self._listener.stop()
        else:
            context = None
            if self._pki is not None and TLS.intersection(self._paths):
                context = self._pki.serving(
                    stranger=Fault.WRONG_CA in self._paths, expired=Fault.EXPIRED in self._paths
                )
            await self._listener.start(context)

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        await self._silence(request.path)
        faults = self.active(request.path)
        if GONE.intersection(faults):  # a connection that was being made when the port was closed
            return _cut(request)
        if Fault.TOO_MANY_REQUESTS in faults:
            # k8s.io/apiserver, server/filters/maxinflight.go.
            text = "Too many requests, please try again later.\n"
            return web.Response(status=429, text=text, headers={"Retry-After": "1"})
        if Fault.SERVER_ERROR in faults:
            error = Refusal(500, "InternalError", "Internal error occurred: etcdserver: request timed out")
            return web.json_response(status_of(error), status=500, dumps=_json)
        answer = await handler(request)
        if answer.prepared or not isinstance(answer, web.Response) or not isinstance(answer.body, bytes):
            return answer
        half = answer.body[: len(answer.body) // 2]
        if Fault.TRUNCATED in faults:
            answer.body = half
        elif Fault.CUT in faults:
            await (await _streamed(request, answer)).write(half)
            return _cut(request)
        elif Fault.DRIP in faults:
            stream = await _streamed(request, answer)
            await stream.write(answer.body)
            return stream
        return answer

    async def _prepare(self, request: web.Request, response: web.StreamResponse) -> None:
        if not isinstance(response, web.Response):
            # Also the watches that are open when a fault is switched on fall silent or drip.
            write = partial(self._write, request.path, response.write)
            response.write = write  # type: ignore[method-assign]  # aiohttp has no hook between chunks

    async def _write(
        self, path: str, write: Callable[[bytes], Awaitable[None]], data: bytes | bytearray | memoryview
    ) -> None:
        rest = bytes(data)
        while rest:
            await self._silence(path)
            dripping = Fault.DRIP in self.active(path)
            now, rest = (rest[:1], rest[1:]) if dripping else (rest, b"")
            await write(now)
            if dripping:
                await self._pause()

    async def _silence(self, path: str) -> None:
        while Fault.HANG in self.active(path):
            await self._changed.wait()

    async def _pause(self) -> None:
        """The time between two drops, or less if the faults change meanwhile."""
        try:
            async with asyncio.timeout(self._drip_seconds):
                await self._changed.wait()
        except TimeoutError:
            pass


async def _streamed(request: web.Request, answer: web.Response) -> web.StreamResponse:
    """Headers sent, body still to be written by hand."""
    headers = {**answer.headers, "Content-Length": str(len(bytes(answer.body or b"")))}  # type: ignore[arg-type]
    stream = web.StreamResponse(status=answer.status, headers=headers)
    await stream.prepare(request)
    return stream


def _cut(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=503)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
