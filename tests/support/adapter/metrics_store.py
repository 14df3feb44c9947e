"""A fake metrics store that sends what a test sets, valid or not, and the adapter over it."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

from prometheus_client import CollectorRegistry

from fedhpa.kube import SYSTEM
from metrics_adapter.members.discovery_cache import MetricDiscoveryCache
from metrics_adapter.prometheus.access import StoreAccess
from metrics_adapter.prometheus.rules.file import read_rules
from metrics_adapter.prometheus.source import PrometheusSource
from metrics_adapter.prometheus.store import MetricsStore
from metrics_adapter.prometheus.store_series import StoreTelemetry
from tests.support.adapter.application import Client, StubMember, client_of, members_source

EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1/namespaces"
CUSTOM = "/apis/custom.metrics.k8s.io/v1beta2/namespaces"
USAGE = "/apis/metrics.k8s.io/v1beta1"

RULES = """
external:
- metric: queue_depth
  query: sum by (<<.GroupBy>>, queue) (queue_depth{<<.LabelMatchers>>})
- metric: busiest
  query: max by (<<.GroupBy>>) (busy{<<.LabelMatchers>>})
  namespaced: false
  aggregation: Max
- metric: demanded
  query: demanded{<<.LabelMatchers>>}
  clusters: ["*"]
custom:
- metric: hits
  resource: pods
  query: sum by (<<.GroupBy>>) (rate(hits_total{<<.LabelMatchers>>}[2m]))
  window: 2m
  selectorLabels: {app.kubernetes.io/name: app}
- metric: hits
  resource: services
  query: sum by (<<.GroupBy>>) (hits{<<.LabelMatchers>>})
resources:
  pods:
    cpu: sum by (<<.GroupBy>>) (rate(cpu{<<.LabelMatchers>>}[2m]))
    memory: sum by (<<.GroupBy>>) (memory{<<.LabelMatchers>>})
"""


def series(amount: Any, at: float | None = None, /, **labels: str) -> dict[str, Any]:
    """Returns one series of an instant vector."""
    return {"metric": labels, "value": [time.time() if at is None else at, amount]}


def vector(*found: Mapping[str, Any], **more: Any) -> bytes:
    """Returns a whole response body."""
    return json.dumps(
        {"status": "success", "data": {"resultType": "vector", "result": list(found)}, **more}
    ).encode()


# Longer than any machine takes for an immediate answer.
DEADLINE = 60.0


class Raw(bytes):
    """Bytes that are sent unchanged."""


class FakeStore:
    """Answers each query with `answer(query)`: a body, or `Raw` bytes of HTTP.

    `answer` may also return a list of parts. A number waits for so many seconds, and None waits for ever.
    """

    def __init__(self) -> None:
        self.answer: Callable[[str], Any] = lambda _: vector()
        self.queries: list[str] = []
        self.parameters: list[dict[str, str]] = []
        self.heads: list[str] = []
        self._server: asyncio.Server | None = None
        self._ended = asyncio.Event()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._ended.set()
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(
                int(line.split(":")[1])
                for line in head.lower().splitlines()
                if line.startswith("content-length")
            )
            form = parse_qs((await reader.readexactly(length)).decode())
            self.heads.append(head)
            self.parameters.append({name: values[0] for name, values in form.items()})
            self.queries.append(form["query"][0])
            answer = self.answer(form["query"][0])
            for part in answer if isinstance(answer, list) else [answer]:
                await self._send(writer, part)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # The client went away.
        finally:
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter, part: Any) -> None:
        if part is None or isinstance(part, float):
            try:
                async with asyncio.timeout(part):
                    await self._ended.wait()
            except TimeoutError:
                return
        else:
            writer.write(part if isinstance(part, Raw) else _http(part))
            await writer.drain()


def _http(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {text}\r\n" for name, text in headers.items())
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
    ).encode() + body


def failing(status: str, body: bytes = b"", **headers: str) -> Raw:
    """Returns an HTTP error or redirect."""
    return Raw(_http(body, status, **headers))


def crawling() -> Callable[[], float]:
    """Returns a clock that advances by a microsecond for each reading.

    A slow machine does not age cached results.
    """
    reads = itertools.count()
    return lambda: next(reads) / 1e6


@asynccontextmanager
async def store_of(
    fake: FakeStore,
    *,
    deadline: float = DEADLINE,
    max_age: float = 0.0,
    clock: Callable[[], float] | None = None,
    **access: str,
) -> AsyncIterator[MetricsStore]:
    """Starts a client of the store. `clock` decides the age of cached results, and crawls by default."""
    known = StoreAccess(fake.url, **access)
    async with MetricsStore(
        known, deadline=deadline, max_age=max_age, clock=clock or crawling(), wall=SYSTEM.wall
    ) as store:
        yield store


class Rules:
    """Rules that a test can replace."""

    def __init__(self, text: str) -> None:
        self.current = read_rules(text)


class StoreWorld:
    """The adapter, the fake store and the members of a test."""

    def __init__(
        self, client: Client, fake: FakeStore, stubs: dict[str, StubMember], registry: CollectorRegistry
    ) -> None:
        self.client = client
        self.fake = fake
        self.stubs = stubs
        self.registry = registry

    async def get(self, path: str, **params: str) -> tuple[int, Any, list[str]]:
        """Returns status, body and warnings."""
        response = await self.client.get(path, params=params)
        warnings = [text.split('"', 1)[1][:-1] for text in response.headers.getall("Warning", [])]
        return response.status, await response.json(), warnings

    def dropped(self, reason: str) -> float | None:
        return self.registry.get_sample_value("fedhpa_adapter_store_dropped_series_total", {"reason": reason})


@asynccontextmanager
async def store_world(
    members: Mapping[str, Mapping[str, Any] | None] | None = None,
    *,
    rules: str = RULES,
    deadline: float = DEADLINE,
    max_age: float = 0.0,
) -> AsyncIterator[StoreWorld]:
    """Starts the adapter over a fake store and stub members, by default member1 and member2."""
    registry = CollectorRegistry()
    telemetry = StoreTelemetry(registry)
    async with AsyncExitStack() as stack:
        fake = await stack.enter_async_context(FakeStore())
        given = {"member1": {}, "member2": {}} if members is None else members
        over, stubs = await stack.enter_async_context(members_source(given, max_age=max_age))
        store = MetricsStore(
            StoreAccess(fake.url),
            deadline=deadline,
            max_age=max_age,
            telemetry=telemetry,
            clock=SYSTEM.monotonic,
            wall=SYSTEM.wall,
        )
        await stack.enter_async_context(store)
        source = PrometheusSource(over, store, Rules(rules), telemetry)
        client = await stack.enter_async_context(
            client_of(source, MetricDiscoveryCache(source, clock=SYSTEM.monotonic))
        )
        yield StoreWorld(client, fake, stubs, registry)


def secret(folder: Path, text: str) -> str:
    """Returns a file with a secret in it."""
    file = folder / "secret"
    file.write_text(text + "\n", encoding="utf-8")
    return str(file)
