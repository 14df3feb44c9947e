"""A list that never ends is given up: its pages, items, bytes and time are bounded."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from benchmarks.world.network import MemoryNetwork
from fedhpa.api.errors import ApiError
from fedhpa.api.wire import Pod
from fedhpa.kube import pages
from fedhpa.kube.client import LIST_SECONDS, ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.pages import MAX_PAGES
from fedhpa.kube.transport import INVALID_RESPONSE, TIMEOUT, TOO_LARGE
from tests.support.memory_network import MemoryListener

pytestmark = pytest.mark.looptime(noop_cycles=0)

PATH = "/api/v1/pods"
POD = '{"metadata":{"name":"a","namespace":"shop"}}'


@asynccontextmanager
async def endless(
    token: Callable[[], str], *, items: int = 1, seconds: float = 0.0
) -> AsyncIterator[ApiClient]:
    """A client of a server whose pages each have some items and one more continue token."""

    async def page(_: web.Request) -> web.Response:
        await asyncio.sleep(seconds)
        head = f'"kind":"PodList","apiVersion":"v1","metadata":{{"continue":"{token()}"}}'
        body = f'{{{head},"items":[{",".join([POD] * items)}]}}'
        return web.Response(text=body, content_type="application/json")

    network = MemoryNetwork()
    app = web.Application()
    app.router.add_get("/{path:.*}", page)
    async with MemoryListener(network, app) as listener:
        config = ApiConfig(server=listener.server, name="member1", connector=network.connector)
        async with ApiClient(config) as client:
            yield client


def counting() -> Callable[[], str]:
    """Returns a function that returns a new token each time."""
    numbers = itertools.count()
    return lambda: f"page{next(numbers)}"


@pytest.mark.parametrize(
    ("token", "words", "reason"),
    [("again", "earlier page", INVALID_RESPONSE), ("x" * 9_000, None, TOO_LARGE)],
    ids=["repeats", "fits no URL"],
)
async def test_a_token_that_cannot_be_sent_is_an_error(token: str, words: str | None, reason: str) -> None:
    """One that comes a second time would repeat the same pages for ever. One of megabytes fits no URL."""
    async with endless(lambda: token) as client:
        with pytest.raises(ApiError, match=words) as failed:
            await client.list(PATH, Pod)

    assert failed.value.reason == reason


async def test_tokens_that_never_end_are_given_up() -> None:
    """New tokens without an end are followed for MAX_PAGES pages."""
    async with endless(counting()) as client:
        with pytest.raises(ApiError, match=f"after {MAX_PAGES + 1} pages") as failed:
            await client.list_leniently(PATH, Pod)

    assert failed.value.reason == TOO_LARGE


@pytest.mark.parametrize(("first", "watched_from"), [("10", "10"), ("", "11")])
async def test_a_watch_begins_with_the_version_of_the_first_page(first: str, watched_from: str) -> None:
    """A server whose version moves on between two pages: no change of an item of the first page is missed."""
    page = ""

    def token() -> str:
        nonlocal page
        version, page = (first, "next") if not page else ("11", "")
        return f'{page}","resourceVersion":"{version}'

    async with endless(token) as client:
        listing = await client.list(PATH, Pod)

    assert (len(listing.items), listing.resource_version) == (2, watched_from)


@pytest.mark.parametrize(
    ("bound", "size", "words"),
    [("MAX_ITEMS", 1_000, "more than"), ("MAX_LIST_BYTES", 100_000, "the list goes on")],
)
async def test_all_pages_together_are_bounded(
    monkeypatch: pytest.MonkeyPatch, bound: str, size: int, words: str
) -> None:
    """The bounds of items and bytes are those of the whole list, not of a page."""
    monkeypatch.setattr(pages, bound, size)
    async with endless(counting(), items=90) as client:
        with pytest.raises(ApiError, match=words) as failed:
            await client.list(PATH, Pod)

    assert failed.value.reason == TOO_LARGE


async def test_the_time_of_all_pages_is_bounded() -> None:
    """Pages that each arrive in time, but never end, are given up after LIST_SECONDS."""
    async with endless(counting(), seconds=2) as client:
        began = asyncio.get_running_loop().time()
        with pytest.raises(ApiError) as failed:
            await client.list(PATH, Pod, idle=3)

        assert asyncio.get_running_loop().time() - began == pytest.approx(LIST_SECONDS, abs=5)
    assert failed.value.reason == TIMEOUT
