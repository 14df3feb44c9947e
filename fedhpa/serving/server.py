"""The listeners of a process: one with TLS, and plain HTTP listeners for health and Prometheus metrics."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from typing import Final

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from fedhpa.kube import background
from fedhpa.serving.flags import common
from fedhpa.serving.flags.types import Values, split_address
from fedhpa.serving.health import Health
from fedhpa.serving.listener import served
from fedhpa.serving.peers import Peers
from fedhpa.serving.process_series import ProcessSeries
from fedhpa.serving.tls import ServingTls

logger = structlog.get_logger(__name__)


class TlsServer:
    """An aiohttp application served over TLS, as an async context manager.

    Entering binds the port and starts to watch the certificate files. With port 0 the system chooses a port,
    and `port` has it. Leaving stops accepting connections, gives running requests `grace` seconds to finish,
    and then cancels them.
    """

    def __init__(
        self,
        application: web.Application,
        tls: ServingTls,
        *,
        host: str,
        port: int,
        grace: float = 60.0,
        peers: Peers | None = None,
    ) -> None:
        self._application = application
        self._tls = tls
        self._host = host
        self._port = port
        self._grace = grace
        self._peers = Peers() if peers is None else peers
        self._stack = AsyncExitStack()
        self.port = 0

    @classmethod
    def of(
        cls, application: web.Application, tls: ServingTls, values: Values, peers: Peers | None = None
    ) -> TlsServer:
        """Returns the server that the serving flags describe. `peers` are the connections of the process."""
        return cls(
            application,
            tls,
            host=values[common.BIND_ADDRESS],
            port=values[common.SECURE_PORT],
            grace=values[common.SHUTDOWN_GRACE],
            peers=peers,
        )

    async def __aenter__(self) -> TlsServer:
        async with AsyncExitStack() as stack:
            serving = served(
                self._application,
                (self._host, self._port),
                self._peers,
                self._tls.listening_context,
                grace=self._grace,
                remedy=f": choose another port with --{common.SECURE_PORT.name}",
            )
            self.port = await stack.enter_async_context(serving)
            await stack.enter_async_context(background(self._tls.watch()))
            self._stack = stack.pop_all()
        logger.info("serving", host=self._host, port=self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()


@asynccontextmanager
async def http_listeners(
    values: Values,
    health: Health,
    registry: CollectorRegistry,
    more: Sequence[web.RouteDef] = (),
    *,
    peers: Peers | None = None,
    measures_lag: bool = True,
) -> AsyncIterator[list[int]]:
    """Serves --metrics-bind-address and --health-probe-bind-address; yields the ports in use.

    If both flags name the same address, one listener serves all paths. The routes in `more` are served next
    to /metrics, or next to the health paths if metrics are off. `peers` are the connections of the process.
    Registers the series that all processes have, and measures the lag of the event loop unless `measures_lag`
    is False.
    """
    series = ProcessSeries(registry)
    peers = Peers() if peers is None else peers
    registry.register(peers)
    routes: dict[str, list[web.RouteDef]] = {}
    routes.setdefault(values[common.METRICS_BIND_ADDRESS], []).append(metrics_route(registry))
    routes.setdefault(values[common.HEALTH_PROBE_BIND_ADDRESS], []).extend(health.routes())
    flags = {values[flag]: flag.name for flag in reversed(common.OBSERVING)}
    first = next((text for text in routes if split_address(text) is not None), None)
    if first is not None:
        routes[first].extend(more)
    async with AsyncExitStack() as stack:
        ports = []
        for text, own in routes.items():
            address = split_address(text)
            if address is None:
                continue
            application = web.Application()
            application.add_routes(own)
            serving = served(
                application, address, peers, grace=1.0, remedy=_other_port(flags[text], *address)
            )
            ports.append(await stack.enter_async_context(serving))
        if measures_lag:
            await stack.enter_async_context(background(series.measure_lag()))
        yield ports


def _other_port(flag: str, host: str, port: int) -> str:
    """Returns the remedy if the address of a flag is in use. All processes have the same default."""
    shown = f"[{host}]" if ":" in host else host
    return f": choose another port, for example --{flag}={shown}:{port % 65535 + 1}, or --{flag}=0 for none"


def metrics_route(registry: CollectorRegistry) -> web.RouteDef:
    """Returns the route GET /metrics, in Prometheus' text format.

    Series are collected and rendered in a thread, because 100,000 of them take a second. One scrape at a
    time, because the event loop waits 5 ms for each busy thread.
    """
    turn = asyncio.Lock()

    async def metrics(_: web.Request) -> web.Response:
        async with turn:
            body = await asyncio.to_thread(exposition, registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return web.get("/metrics", metrics)


@web.middleware
async def access_log(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Middleware that logs one debug line per request, without query, body and headers."""
    started = time.perf_counter()
    status = 500
    try:
        response = await handler(request)
        status = response.status
        return response
    except web.HTTPException as error:
        status = error.status
        raise
    finally:
        milliseconds = round((time.perf_counter() - started) * 1000, 3)
        logger.debug("request", method=request.method, path=request.path, status=status, ms=milliseconds)


_ESCAPES: Final = {"\\": r"\\", "\n": r"\n", '"': r"\""}
_escaped_characters = re.compile(r'[\\\n"]')


class RowGauge(Metric):
    """A gauge of very many samples, kept as rows of label values, from which its lines are made directly.

    prometheus_client takes 11 µs of CPU for a sample. A controller with 2,500 objects shows 40,000 of them.
    """

    def __init__(self, name: str, documentation: str, labels: Sequence[str]) -> None:
        self.labels = tuple(labels)
        self._rows: list[tuple[tuple[str, ...], float]] = []
        super().__init__(name, documentation, "gauge")

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, values: tuple[str, ...], value: float) -> None:
        """Add a sample with the values of all labels, in their order."""
        self._rows.append((values, value))

    @property
    def samples(self) -> list[Sample]:
        """The samples as the library has them, made at each read."""
        return [
            Sample(self.name, dict(zip(self.labels, row, strict=True)), value) for row, value in self._rows
        ]

    @samples.setter
    def samples(self, samples: list[Sample]) -> None:
        """Metric begins with none."""
        if samples:
            raise ValueError("a RowGauge has samples by `add` only")

    def lines(self) -> Iterator[str]:
        """Yields the lines of the samples, with the labels in the library's order."""
        labels = ",".join(f'{name}="{{{place}}}"' for name, place in sorted(zip(self.labels, count())))
        head = f"{self.name}{{{{{labels}}}}} ".format
        for row, value in self._rows:
            shown = map(_escape, row) if _escaped_characters.search("".join(row)) else row
            yield f"{head(*shown)}{float(value)!r}\n"


class _Families(Collector):
    """Metric families that were collected already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def exposition(registry: Collector) -> bytes:
    """Returns all series of a registry in Prometheus' text format."""
    families = list(registry.collect())
    wide = [each for each in families if isinstance(each, RowGauge)]
    texts = [generate_latest(_Families(each for each in families if not isinstance(each, RowGauge)))]
    for gauge in wide:
        texts.append(generate_latest(_Families([Metric(gauge.name, gauge.documentation, gauge.type)])))
        texts.append("".join(gauge.lines()).encode())
    return b"".join(texts)


def _escape(value: str) -> str:
    return _escaped_characters.sub(lambda found: _ESCAPES[found[0]], value)
