"""No answer of a member blocks the event loop, even if it is large after decompression."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from controller.federatedhpa.metric_reader import decode_usage
from fedhpa.api.errors import ApiError, FedHPAError
from fedhpa.api.wire import Pod
from fedhpa.kube import SYSTEM
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.members.lists import SharedLists
from fedhpa.members.metrics import custom_samples, external_samples
from metrics_adapter.members.resource_metrics import decode_list
from tests.support.collector import collecting_as_processes
from tests.support.costs import quiet_seconds
from tests.support.nightly import NIGHTLY

# The bound is of processor time, because a machine that shares its processors may stand still for longer.
MOST_SECONDS = 0.05
PATH = "/apis/metrics.k8s.io/v1beta1/pods"
USAGE = ("PodMetricsList", "metrics.k8s.io/v1beta1")
TYPES = {
    "controller": USAGE,
    "adapter": USAGE,
    "custom": ("MetricValueList", "custom.metrics.k8s.io/v1beta2"),
    "external": ("ExternalMetricValueList", "external.metrics.k8s.io/v1beta1"),
}


def head(kind: str, version: str) -> bytes:
    text = f'{{"kind":"{kind}","apiVersion":"{version}","metadata":{{"resourceVersion":"7"}},"items":['
    return text.encode()


HEAD = head(*USAGE)


def usage_item(number: int) -> bytes:
    return (
        b'{"metadata":{"name":"web-%d","namespace":"shop"},"timestamp":"2026-03-11T13:23:17Z","window":"15s",'
        b'"containers":[{"name":"web","usage":{"cpu":"12m","memory":"123456Ki"}}]}' % number
    )


def listing(*items: bytes) -> bytes:
    return HEAD + b",".join(items) + b"]}"


HOSTILE: dict[str, Callable[[], bytes]] = {
    "empty objects": lambda: HEAD + b"{}," * 38_000_000 + b"{}]}",
    "nulls": lambda: HEAD + b"null," * 4_000_000 + b"null]}",
    "numbers": lambda: HEAD + b"1," * 10_000_000 + b"1]}",
    "one string": lambda: HEAD + b'"' + b"x" * 20_000_000 + b'"]}',
    "one item": lambda: HEAD + b'{"metadata":{"name":"a"},"containers":[' + b"{}," * 6_000_000 + b"{}]}]}",
    "brackets": lambda: HEAD + b"[" * 20_000_000,
    "blanks": lambda: HEAD + b" " * 20_000_000 + b"]}",
    "no list": lambda: b"[" + b"{}," * 6_000_000 + b"{}]",
    "false ends": lambda: HEAD + b",".join([b'{"x":[{"metadata":1},{"metadata":2}]}'] * 500_000) + b"]}",
    "long head": lambda: b'{"x":"' + b"y" * 20_000_000 + b'",' + HEAD[1:] + b"]}",
    "beyond the limit": lambda: HEAD + b",".join([usage_item(1)] * 160_000) + b"]}",
}
DECODERS: dict[str, Callable[[bytes], Any]] = {
    "controller": lambda body: decode_usage("member1", body),
    "adapter": lambda body: decode_list(body, "member1"),
    "custom": custom_samples,
    "external": external_samples,
}


class Holds:
    """The longest times, in seconds of processor time, for which no other task could run."""

    def __init__(self) -> None:
        self.all: list[float] = []

    async def watch(self) -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            self.all.append(time.thread_time() - began)

    @property
    def longest(self) -> float:
        return quiet_seconds(max(self.all), MOST_SECONDS)


@asynccontextmanager
async def answering(body: bytes) -> AsyncIterator[ApiClient]:
    """A client of a server that answers every request with this body, compressed."""
    packed = await asyncio.to_thread(gzip.compress, body, 1)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(
            body=packed, content_type="application/json", headers={"Content-Encoding": "gzip"}
        )

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    config = ApiConfig(server=f"http://127.0.0.1:{runner.addresses[0][1]}", name="member1", compression=True)
    async with ApiClient(config, deadline=60) as client:
        yield client
    await runner.cleanup()


class Server:
    """An upstream of shared lists."""

    def __init__(self, client: ApiClient) -> None:
        self.name = "member1"
        self.client = client

    def check(self) -> None:
        """Always available."""


@asynccontextmanager
async def holds() -> AsyncIterator[Holds]:
    found = Holds()
    task = asyncio.create_task(found.watch())
    try:
        with collecting_as_processes():
            yield found
    finally:
        task.cancel()
        await asyncio.wait([task])


ALL = [*((kind, "controller") for kind in HOSTILE), *(("nulls", reader) for reader in DECODERS)]
# By day each reader once, and the answers that take most time in one piece.
BY_DAY = [each for each in ALL if each[0] in ("nulls", "empty objects", "one item", "false ends")]


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "reader"), ALL if NIGHTLY else BY_DAY)
async def test_a_hostile_answer_is_refused_in_pieces(kind: str, reader: str) -> None:
    """An answer that inflates to up to 114 MB is refused, and other tasks run all the while."""
    body = HOSTILE[kind]()
    if body.startswith(HEAD):
        body = head(*TYPES[reader]) + body[len(HEAD) :]
    async with answering(body) as client, SharedLists(clock=SYSTEM.monotonic) as lists, holds() as found:
        with pytest.raises(FedHPAError):
            await lists.get(Server(client), PATH, None, DECODERS[reader], max_age=0.0, deadline=60)

    assert found.longest < MOST_SECONDS


@pytest.mark.parametrize("reader", ["controller", "adapter"])
async def test_a_large_list_is_decoded_in_pieces(reader: str) -> None:
    """A list of 100,000 pods is read completely, and other tasks run all the while."""
    body = listing(*map(usage_item, range(100_000)))
    async with answering(body) as client, SharedLists(clock=SYSTEM.monotonic) as lists, holds() as found:
        value = await lists.get(Server(client), PATH, None, DECODERS[reader], max_age=0.0, deadline=60)

    assert len(value.value) == 100_000
    assert found.longest < MOST_SECONDS


@pytest.mark.nightly
@pytest.mark.parametrize(
    "kind",
    ["nulls", "one item", "one string", "false ends", "beyond the limit"] if NIGHTLY else ["one item"],
)
async def test_a_hostile_list_is_refused_by_a_watch_in_pieces(kind: str) -> None:
    """A reflector that lists a hostile collection fails, and other tasks run all the while."""
    async with answering(HOSTILE[kind]()) as client, holds() as found:
        with pytest.raises(ApiError):
            await client.list_leniently(PATH, Pod, idle=60)

    assert found.longest < MOST_SECONDS


async def test_annotations_that_consist_of_commas_hide_no_pod() -> None:
    """A list of pods is read completely, even if people fill the annotations of many pods with commas."""
    pod = '{{"metadata":{{"name":"web-{}","namespace":"shop","annotations":{{"x":"{}"}}}}}}'
    items = [pod.format(number, "," * 262_100).encode() for number in range(70)]
    body = head("PodList", "v1") + b",".join(items) + b"]}"
    async with answering(body) as client, holds() as found:
        listed, _ = await client.list_leniently("/api/v1/pods", Pod, idle=60)

    names = [item.metadata.name for item in listed if isinstance(item, Pod)]
    assert [f"web-{number}" for number in range(70)] == names
    assert found.longest < MOST_SECONDS
