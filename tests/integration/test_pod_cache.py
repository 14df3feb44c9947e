"""Pods are watched where they are needed; outdated pods are never returned."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from fedhpa.api.errors import MemberUnavailable
from fedhpa.api.wire import Pod
from fedhpa.kube import Key
from fedhpa.members import Member
from fedhpa.members.watches import PodCache
from tests.support.fakeapi import PODS, eventually, fake_api, join, pod
from tests.support.members import federation
from tests.support.timing import loop_time

pytestmark = pytest.mark.looptime(noop_cycles=0)


def phase(cluster: str, item: Pod) -> str:
    """The record in these tests is the pod's cluster and phase."""
    return f"{cluster} {item.status.phase}"


async def pods_of(
    cache: PodCache[str], member: Member, namespace: str = "", *, wait: float | None = None
) -> Mapping[Key, str]:
    """The records of the pods of a namespace ("" for all), by namespace and name; a live view."""
    return (await cache.reflector(member, namespace, wait=wait)).store


@asynccontextmanager
async def caching(cache: PodCache[str]) -> AsyncIterator[PodCache[str]]:
    """Runs the cache."""
    task = asyncio.create_task(cache.run())
    await asyncio.sleep(0)
    try:
        yield cache
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_pods_are_listed_when_first_needed() -> None:
    """The first call starts a watch; later calls need no further list."""
    async with federation("member1") as world, caching(PodCache(phase, clock=loop_time)) as cache:
        api, member = world.members["member1"], world["member1"]
        api.put(PODS, pod("a", "shop"))
        api.put(PODS, pod("b", "bank"))
        assert not api.queries("/pods")
        pods = await pods_of(cache, member, "shop")
        first = dict(pods)
        await eventually(lambda: api.watching == 1)
        api.put(PODS, pod("c", "shop"))
        await eventually(lambda: len(pods) == 2)

        assert first == {("shop", "a"): "member1 Running"}
        assert await pods_of(cache, member, "shop") == pods
        assert cache.watched == [("member1", "shop")]


async def test_an_unavailable_member_has_no_pods() -> None:
    """While the member does not answer, calls raise; afterwards the pods are up to date."""
    async with federation("member1") as world, caching(PodCache(phase, clock=loop_time)) as cache:
        api, member = world.members["member1"], world["member1"]
        api.put(PODS, pod("a"))
        await pods_of(cache, member, "default")
        await api.stop()
        await world.away("member1")
        with pytest.raises(MemberUnavailable):
            await pods_of(cache, member, "default")
        api.remove(PODS, "a", "default")
        api.put(PODS, pod("b"))
        await api.start()
        await world.ready("member1")

        async def listed() -> set[str]:
            try:
                return {name for _, name in await pods_of(cache, member, "default")}
            except MemberUnavailable:
                return set()

        async with asyncio.timeout(10):
            while await listed() != {"b"}:  # noqa: ASYNC110  # polls a server
                await asyncio.sleep(0.02)


async def test_a_broken_watch_makes_pods_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the pods of a healthy member cannot be watched any more, old pods are not returned."""
    monkeypatch.setattr("fedhpa.members.watches.STALE_SECONDS", 0.1)
    async with (
        federation("member1") as world,
        caching(PodCache(phase, clock=loop_time)) as cache,
    ):
        api, member = world.members["member1"], world["member1"]
        api.put(PODS, pod("a"))
        await pods_of(cache, member, "default")
        await eventually(lambda: api.watching == 1)
        api.faults.status["/api/v1/namespaces/default/pods"] = 403
        api.end_watches()

        async def refusal() -> str:
            try:
                await pods_of(cache, member, "default")
            except MemberUnavailable as error:
                return error.reason
            return ""

        async with asyncio.timeout(5):
            while not (reason := await refusal()):  # noqa: ASYNC110  # polls a server
                await asyncio.sleep(0.02)

        assert reason.startswith("its pods are out of date: the server does not allow this request")
        assert member.state.ready


async def test_a_first_list_that_takes_too_long() -> None:
    """The caller waits for its time, and the list goes on for the next caller."""
    async with federation("member1", deadline=3) as world, caching(PodCache(phase, clock=loop_time)) as cache:
        api, member = world.members["member1"], world["member1"]
        api.put(PODS, pod("a"))
        api.faults.hang.add("/api/v1")
        with pytest.raises(MemberUnavailable, match="its pods are not listed"):
            await pods_of(cache, member, "default", wait=0.1)

        assert cache.watched == [("member1", "default")]


async def test_a_forbidden_list_fails_at_once() -> None:
    """Callers do not wait for a list that was refused."""
    async with (
        federation("member1", deadline=30) as world,
        caching(PodCache(phase, clock=loop_time)) as cache,
    ):
        world.members["member1"].faults.status["/api/v1/pods"] = 403

        async with asyncio.timeout(5):
            with pytest.raises(MemberUnavailable, match="does not allow"):
                await pods_of(cache, world["member1"])


async def test_pods_of_the_old_address_are_not_returned() -> None:
    """After a member moved, only pods of the new address are returned."""
    async with (
        federation("member1") as world,
        fake_api(network=world.network) as moved,
        caching(PodCache(phase, clock=loop_time)) as cache,
    ):
        member = world["member1"]
        world.members["member1"].put(PODS, pod("old"))
        moved.put(PODS, pod("new"))
        moved.token = "t"
        await pods_of(cache, member)
        join(world.hub, "member1", moved)
        await eventually(lambda: member.client.config.server == moved.url)

        async with asyncio.timeout(5):
            while True:
                try:
                    pods = await pods_of(cache, member)
                except MemberUnavailable:
                    await asyncio.sleep(0.01)
                else:
                    break

        assert set(pods) == {("default", "new")}


async def test_unused_watches_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watches of unused namespaces and of members that are gone are stopped."""
    monkeypatch.setattr("fedhpa.members.watches.KEEP_SECONDS", 60.0)
    now = 0.0
    cache = PodCache(phase, clock=lambda: now)
    async with federation("member1", "member2") as world, caching(cache):
        gone = world["member2"]
        await pods_of(cache, world["member1"], "shop")
        await pods_of(cache, world["member1"], "bank")
        await pods_of(cache, gone, "shop")
        now = 50.0
        await pods_of(cache, world["member1"], "shop")
        now = 100.0
        await pods_of(cache, gone, "shop")
        world.hub.remove(("cluster.karmada.io/v1alpha1", "clusters"), "member2")
        await eventually(lambda: gone.closed)
        cache.sweep()

        assert cache.watched == [("member1", "shop")]
        await eventually(lambda: world.members["member2"].watching == 0)
