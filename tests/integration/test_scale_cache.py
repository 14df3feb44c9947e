"""Scales come from one watch per member, namespace and kind, never from behind what is known otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from fedhpa.api.errors import ApiError
from fedhpa.kube.writes import get_scale, put_scale
from fedhpa.members.scales import ScaleCache, is_at_least
from tests.support.fakeapi import FakeApi, Object, eventually
from tests.support.membership import federation, loop_time

pytestmark = pytest.mark.looptime(noop_cycles=0)

DEPLOYMENTS = ("apps/v1", "deployments")
PATH = "/apis/apps/v1/namespaces/shop/deployments/web"


def deployment(replicas: int | None = 3, name: str = "web", **labels: str) -> Object:
    spec = {"selector": {"matchLabels": labels or {"app": "web"}}, "replicas": replicas}
    metadata = {"name": name, "namespace": "shop", "uid": "u"}
    return {"metadata": metadata, "spec": spec, "status": {"replicas": 2}}


def refuse_lists(api: FakeApi) -> None:
    """From now on nothing can be listed or watched; single objects and their scales can be read."""

    def refused(*_: object) -> web.Response:
        return web.json_response({"kind": "Status", "code": 403, "message": "not for you"}, status=403)

    async def unwatched(*_: object) -> web.StreamResponse:
        return refused()

    api._list = refused  # type: ignore[method-assign, assignment]  # rights that the fake does not know
    api._watch = unwatched  # type: ignore[method-assign, assignment]  # as above


@asynccontextmanager
async def caching() -> AsyncIterator[ScaleCache]:
    """The cache while it runs."""
    cache = ScaleCache(clock=loop_time)
    task = asyncio.create_task(cache.run())
    await asyncio.sleep(0.01)
    try:
        yield cache
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_many_looks_cost_one_list_and_one_watch() -> None:
    """A hundred workloads, looked at again and again, are not asked for one by one."""
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


async def test_a_scale_is_what_the_sub_resource_says() -> None:
    """Name, uid, version, replicas and the selector in its string form are the same."""
    async with federation("member1") as world, caching() as cache:
        api, member = world.members["member1"], world["member1"]
        stored = api.put(DEPLOYMENTS, deployment(3, tier="front", app="web"))
        scale = await cache.read(member, "deployments", "shop", "web")

        assert scale.metadata.resourceVersion == stored["metadata"]["resourceVersion"]
        assert (scale.metadata.name, scale.metadata.namespace, scale.metadata.uid) == ("web", "shop", "u")
        assert (scale.spec.replicas, scale.status.replicas) == (3, 2)
        assert scale.status.selector == "app=web,tier=front"


async def test_what_is_not_there_is_not_found() -> None:
    """As the API server would say it, and without asking for it."""
    async with federation("member1") as world, caching() as cache:
        api = world.members["member1"]

        with pytest.raises(ApiError, match=r'^deployments.apps "web" not found$') as caught:
            await cache.read(world["member1"], "deployments", "shop", "web")

        assert caught.value.status == 404
        assert api.queries("/scale") == []


async def test_own_write_is_seen_before_the_watch_tells_it() -> None:
    """After a write the workload is asked for until the watch has caught up with it."""
    async with federation("member1") as world, caching() as cache:
        api, member = world.members["member1"], world["member1"]
        api.put(DEPLOYMENTS, deployment(3))
        scale = await cache.read(member, "deployments", "shop", "web")
        await eventually(lambda: api.watching == 1)
        publish, late = api._publish, []
        api._publish = lambda *event: late.append(event)  # type: ignore[method-assign]  # a watch that is behind
        cache.note(member, PATH, await put_scale(member.client, PATH, scale, 5))
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


async def test_a_watch_that_is_not_allowed_is_said_once() -> None:
    """Without the right to list, scales are read one by one, and the log says why, once."""
    async with federation("member1") as world, caching() as cache:
        api, member = world.members["member1"], world["member1"]
        api.put(DEPLOYMENTS, deployment(3))
        refuse_lists(api)
        with capture_logs() as logs:
            read = [(await cache.read(member, "deployments", "shop", "web")).spec.replicas for _ in range(3)]

        told = [entry for entry in logs if "one by one" in entry["event"]]
        assert read == [3, 3, 3]
        assert [(entry["cluster"], entry["collection"]) for entry in told] == [("member1", "deployments")]


async def test_a_broken_watch_is_not_believed() -> None:
    """While the watch fails the workload is asked for, at once."""
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


async def test_what_cannot_be_told_is_asked_for() -> None:
    """A workload without replicas or selector is what its scale says, not what is missing in it."""
    async with federation("member1") as world, caching() as cache:
        api, member = world.members["member1"], world["member1"]
        api.put(DEPLOYMENTS, {**deployment(4), "spec": {"replicas": 4}})
        direct = await get_scale(member.client, PATH)

        assert await cache.read(member, "deployments", "shop", "web") == direct
        assert len(api.queries("/scale")) == 2


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [("7", "7", True), ("10", "9", True), ("9", "10", False), ("a", "a", True), ("b", "a", False)],
)
def test_versions_are_compared_as_numbers(version: str, wanted: str, expected: bool) -> None:
    """What is no number is only ever equal."""
    assert is_at_least(version, wanted) == expected
