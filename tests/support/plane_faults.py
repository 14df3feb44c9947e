"""Faults of a plane's API server, which tests switch on and off while it runs."""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Final, Literal, Protocol
from weakref import WeakKeyDictionary

from aiohttp import web

from testbed.embedded.api.server import error_response
from testbed.embedded.api.types import StatusError
from testbed.embedded.cluster.load import Load
from testbed.embedded.cluster.metrics import MetricsApis
from testbed.embedded.controlplane import ControlPlane
from testbed.embedded.network.pki import Pki
from testbed.embedded.storage.store import Store

Lie = Literal["nan", "negative"]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Fault(StrEnum):
    """The first group affects the whole server, the second affects paths."""

    REFUSE = "refuse"
    DISAPPEAR = "disappear"  # like REFUSE; the test also removes the Cluster object
    WRONG_CA = "wrong-ca"
    EXPIRED = "expired-certificate"

    HANG = "hang"
    DRIP = "drip"
    TOO_MANY_REQUESTS = "429"
    SERVER_ERROR = "500"
    TRUNCATED = "truncated-json"  # a complete HTTP answer with half of the JSON
    CUT = "cut"  # the connection ends in the middle of an answer
    NAN = "nan"
    NEGATIVE = "negative"


GONE = frozenset({Fault.REFUSE, Fault.DISAPPEAR})
TLS = frozenset({Fault.WRONG_CA, Fault.EXPIRED})


class Restartable(Protocol):
    """A listener on a socket or in memory."""

    async def start(self, context: ssl.SSLContext | None = None) -> None:
        """Listen again, with another certificate if one is given; cuts open connections."""

    async def stop(self) -> None:
        """Refuse new connections and cut open ones."""


class Faults:
    """The active faults of one server. DRIP sends one byte every `drip_seconds`.

    Two lies are set by themselves: watches of the paths `silent` deliver nothing, and lists of the path
    `halved` have every second item only.
    """

    def __init__(
        self,
        application: web.Application,
        listener: Restartable,
        pki: Pki | None,
        *,
        drip_seconds: float = 0.5,
    ) -> None:
        """Adds a middleware; call it before the listener starts. Without `pki`, TLS faults do nothing."""
        self._listener = listener
        self._pki = pki
        self._drip_seconds = drip_seconds
        self.silent: tuple[str, ...] = ()
        self.halved = ""
        self._paths: dict[Fault, tuple[str, ...]] = {}
        self._changed = asyncio.Event()
        application.middlewares.append(self._middleware)
        application.on_response_prepare.append(self._prepare)

    @property
    def metric_values(self) -> Lie | None:
        """The invalid values that the metrics APIs report, if any."""
        return "nan" if Fault.NAN in self._paths else "negative" if Fault.NEGATIVE in self._paths else None

    def active(self, path: str) -> list[Fault]:
        """Returns the faults of a path."""
        return [fault for fault, prefixes in self._paths.items() if path.startswith(prefixes)]

    async def set(self, name: Fault, paths: Sequence[str] = ("",)) -> None:
        """Switch a fault on for paths with these prefixes; other faults stay active."""
        self._paths[name] = tuple(paths)
        await self._apply(name)

    async def clear(self, name: Fault | None = None) -> None:
        """Switch off one fault, or all faults."""
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
                    untrusted=Fault.WRONG_CA in self._paths, expired=Fault.EXPIRED in self._paths
                )
            await self._listener.start(context)

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        await self._wait_while_hanging(request.path)
        faults = self.active(request.path)
        if GONE.intersection(faults):  # the connection was opened just before the listener stopped
            return _abort(request)
        if Fault.TOO_MANY_REQUESTS in faults:
            # k8s.io/apiserver, server/filters/maxinflight.go.
            text = "Too many requests, please try again later.\n"
            return web.Response(status=429, text=text, headers={"Retry-After": "1"})
        if Fault.SERVER_ERROR in faults:
            text = "Internal error occurred: etcdserver: request timed out"
            return error_response(StatusError(500, "InternalError", text))
        answer = await handler(request)
        if answer.prepared or not isinstance(answer, web.Response) or not isinstance(answer.body, bytes):
            return answer
        if request.path == self.halved:
            whole = json.loads(answer.body)
            answer.body = json.dumps({**whole, "items": whole["items"][::2]}).encode()
        half = answer.body[: len(answer.body) // 2]
        if Fault.TRUNCATED in faults:
            answer.body = half
        elif Fault.CUT in faults:
            await (await _streamed(request, answer)).write(half)
            return _abort(request)
        elif Fault.DRIP in faults:
            stream = await _streamed(request, answer)
            await stream.write(answer.body)
            return stream
        return answer

    async def _prepare(self, request: web.Request, response: web.StreamResponse) -> None:
        if not isinstance(response, web.Response):
            # HANG and DRIP also affect watches that are open already.
            write = partial(self._write, request.path, response.write)
            response.write = write  # type: ignore[method-assign]  # aiohttp has no hook between chunks

    async def _write(
        self, path: str, write: Callable[[bytes], Awaitable[None]], data: bytes | bytearray | memoryview
    ) -> None:
        rest = bytes(data)
        while rest:
            await self._wait_while_hanging(path)
            if path.startswith(self.silent):
                return
            dripping = Fault.DRIP in self.active(path)
            now, rest = (rest[:1], rest[1:]) if dripping else (rest, b"")
            await write(now)
            if dripping:
                await self._wait_for_next_byte()

    async def _wait_while_hanging(self, path: str) -> None:
        while Fault.HANG in self.active(path):
            await self._changed.wait()

    async def _wait_for_next_byte(self) -> None:
        """Wait for the drip period, or until the faults change."""
        try:
            async with asyncio.timeout(self._drip_seconds):
                await self._changed.wait()
        except TimeoutError:
            pass


async def _streamed(request: web.Request, answer: web.Response) -> web.StreamResponse:
    """Returns a response whose headers are sent and whose body the caller writes."""
    headers = {**answer.headers, "Content-Length": str(len(bytes(answer.body or b"")))}  # type: ignore[arg-type]
    stream = web.StreamResponse(status=answer.status, headers=headers)
    await stream.prepare(request)
    return stream


def _abort(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=503)


class MetricsThatLie(MetricsApis):
    """The metrics APIs of a member, with the invalid values of its faults."""

    def __init__(
        self, store: Store, load: Load, now: Callable[[], datetime], lie: Callable[[], Lie | None]
    ) -> None:
        super().__init__(store, load, now)
        self._lie = lie

    def _value(self, value: int, suffix: str) -> str:
        match self._lie():
            case "nan":
                return "NaN"
            case "negative":
                return f"-{max(1, value)}{suffix}"
        return super()._value(value, suffix)


_OF: Final[WeakKeyDictionary[ControlPlane, Faults]] = WeakKeyDictionary()


def may_fail(*planes: ControlPlane) -> None:
    """Prepares planes that have not started for `faults_of`."""
    for plane in planes:
        _OF[plane] = Faults(plane.apiserver.app, plane.listener, plane.pki)


def faults_of(plane: ControlPlane) -> Faults:
    """Returns the faults of a plane that `may_fail` has prepared."""
    return _OF[plane]
