"""Scales come from one watch per member, namespace and kind, and never from before a known write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from fedhpa.api.errors import ApiError
from fedhpa.kube.resources import get_scale, put_scale
from fedhpa.members.watches import MAX_NOTED, ScaleCache, is_at_least
from tests.support.fakeapi import FakeApi, Object, eventually
from tests.support.members import federation
from tests.support.timing import loop_time

pytestmark = pytest.mark.looptime(noop_cycles=0)

DEPLOYMENTS = ("apps/v1", "deployments")
PATH = "/apis/apps/v1/namespaces/shop/deployments/web"


def deployment(replicas: int | None = 3, name: str = "web", **labels: str) -> Object:
    spec = {"selector": {"matchLabels": labels or {"app": "web"}}, "replicas": replicas}
    metadata = {"name": name, "namespace": "shop", "uid": "u"}
    return {"metadata": metadata, "spec": spec, "status": {"replicas": 2}}


def refuse_lists(api: FakeApi) -> None:
    """Refuse lists and watches from now on; single objects and their scales can be read."""

    def refused(*_: object) -> web.Response:
        return web.json_response({"kind": "Status", "code": 403, "message": "not for you"}, status=403)

    async def unwatched(*_: object) -> web.StreamResponse:
        return refused()

    api._list = refused  # type: ignore[method-assign, assignment]  # rights that the fake does not know
    api._watch = unwatched  # type: ignore[method-assign, assignment]  # as above


@asynccontextmanager
async def caching() -> AsyncIterator[ScaleCache]:
    """Runs the cache."""
    cache = ScaleCache(clock=loop_time)
    task = asyncio.create_task(cache.run())
    await asyncio.sleep(0.01)
    try:
        yield cache
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_many_reads_cost_one_list_and_one_watch() -> None:
    """The scales of a hundred workloads are read repeatedly without single requests."""
    async with federation("member1") as world, caching() as cache:
        api, member = world.members["member1"], world["member1"]
        for number in range(100):
            api.put(DEPLOYMENTS, deployment(number, f"web-{number}"))
        for _ in range(3):
            read = [
                (await cache.read(member, "deployments", "shop", f"web-{n}")).spec.replicas
                for n in range(100)
            ]
        await eventually(lambda: api.watching == 1)
        api.put(DEPLOYMENTS, deployment(7, "web-1"))
        await asyncio.sleep(0.1)
        changed = cache.cached(member, "deployments", "shop", "web-1")

        assert read == list(range(100))
        assert changed is not None
        assert changed.spec.replicas == 7
        assert api.queries("/scale") == []
        assert cache.watched == [("deployments", "member1", "shop")]


async def test_a_scale_equals_the_subresource() -> None:
    """Name, uid, version, replicas and the selector as text are the same."""
    async with federation("member1") as world, caching() as cache:
        api, member = world.members["member1"], world["member1"]
        stored = api.put(DEPLOYMENTS, deployment(3, tier="front", app="web"))
        scale = await cache.read(member, "deployments", "shop", "web")

        assert scale.metadata.resourceVersion == stored["metadata"]["resourceVersion"]
        assert (scale.metadata.name, scale.metadata.namespace, scale.metadata.uid) == ("web", "shop", "u")
        assert (scale.spec.replicas, scale.status.replicas) == (3, 2)
        assert scale.status.selector == "app=web,tier=front"


async def test_a_missing_workload_is_not_found() -> None:
    """The error is the API server's, without a request."""
    async with federation("member1") as world, caching() as cache:
        api = world.members["member1"]

        with pytest.raises(ApiError, match=r'^deployments.apps "web" not found$') as caught:
            await cache.read(world["member1"], "deployments", "shop", "web")

        assert caught.value.status == 404
        assert api.queries("/scale") == []


@pytest.mark.parametrize("others", [0, 3 * MAX_NOTED])
async def test_a_write_is_visible_before_the_watch_has_it(others: int) -> None:
    """After a write the scale is read from the server until the watch has reached its version, also after
    many other writes.
    """
    async with federation("member1") as world, caching() as cache:
        api, member = world.members["member1"], world["member1"]
        api.put(DEPLOYMENTS, deployment(3))
        scale = await cache.read(member, "deployments", "shop", "web")
        await eventually(lambda: api.watching == 1)
        publish, late = api._publish, []
        api._publish = lambda *event: late.append(event)  # type: ignore[method-assign]  # a watch that is behind
        written = await put_scale(member.client, PATH, scale, 5)
        cache.note(member, PATH, written)
        for number in range(others):
            cache.note(member, f"{PATH}-{number}", written)
        behind = cache.cached(member, "deployments", "shop", "web")
        asked = await cache.read(member, "deployments", "shop", "web")
        for event in late:
            publish(*event)
        await asyncio.sleep(0.1)
        told = cache.cached(member, "deployments", "shop", "web")

        assert behind is None
        assert asked.spec.replicas == 5
        assert told is not None
        assert told.spec.replicas == 5
        assert len(api.queries("/scale")) == 2  # the write and the question after it
        assert len(cache.pending) <= MAX_NOTED


async def test_a_forbidden_watch_is_logged_once() -> None:
    """Without permission to list, scales are read one by one, and the log says why, once."""
    async with federation("member1") as world, caching() as cache:
        api, member = world.members["member1"], world["member1"]
        api.put(DEPLOYMENTS, deployment(3))
        refuse_lists(api)
        with capture_logs() as logs:
            read = [(await cache.read(member, "deployments", "shop", "web")).spec.replicas for _ in range(3)]

        told = [entry for entry in logs if "one by one" in entry["event"]]
        assert read == [3, 3, 3]
        assert [(entry["cluster"], entry["collection"]) for entry in told] == [("member1", "deployments")]


async def test_a_broken_watch_is_not_used() -> None:
    """While the watch fails, scales are read from the server."""
    async with federation("member1") as world, caching() as cache:
        api, member = world.members["member1"], world["member1"]
        api.put(DEPLOYMENTS, deployment(3))
        await cache.read(member, "deployments", "shop", "web")
        await eventually(lambda: api.watching == 1)
        await asyncio.sleep(2)
        refuse_lists(api)
        api.end_watches()
        await asyncio.sleep(3)
        api.put(DEPLOYMENTS, deployment(8))

        assert (await cache.read(member, "deployments", "shop", "web")).spec.replicas == 8


async def test_an_incomplete_workload_is_read_from_the_server() -> None:
    """A workload without replicas or selector has the scale that its subresource returns."""
    async with federation("member1") as world, caching() as cache:
        api, member = world.members["member1"], world["member1"]
        api.put(DEPLOYMENTS, {**deployment(4), "spec": {"replicas": 4}})
        direct = await get_scale(member.client, PATH)

        assert await cache.read(member, "deployments", "shop", "web") == direct
        assert len(api.queries("/scale")) == 2


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        ("7", "7", True),
        ("10", "9", True),
        ("9", "10", False),
        ("a", "a", True),
        ("b", "a", False),
        ("9" * 5_000, "9", False),
    ],
)
def test_versions_are_compared_as_numbers(version: str, wanted: str, expected: bool) -> None:
    """Versions that are not numbers are compared for equality."""
    assert is_at_least(version, wanted) == expected
