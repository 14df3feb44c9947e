"""Nothing that a member or the hub sends, and no exception, ends a task that serves other members."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest

from fedhpa.api.errors import FedHPAError
from fedhpa.api.json import decode_json
from fedhpa.api.wire import ObjectList, PodMetrics, Scale
from fedhpa.kube.client import ApiClient
from fedhpa.kube.reflector import MAX_BACKOFF_SECONDS
from fedhpa.kube.supervision import FAILURE_OBSERVER
from fedhpa.members.lists import SharedLists, pod_metrics_path
from fedhpa.members.member import Member
from fedhpa.members.metrics import custom_samples, external_samples
from fedhpa.members.watches import PodCache, ScaleCache
from tests.support.fakeapi import CLUSTERS, PODS, SECRETS, Object, eventually
from tests.support.members import FollowedMembers, federation
from tests.support.timing import loop_time

pytestmark = pytest.mark.looptime(noop_cycles=0)

DEPLOYMENTS = ("apps/v1", "deployments")
NAMESPACE = "shop"
DEEP = b'{"x":' * 1_200 + b"1" + b"}" * 1_200
BAD, GOOD = "bad", "good"


def bodies(count: int) -> list[bytes]:
    """Hostile bodies: the known ones, and cuts and mixtures of them at random."""
    known = [
        b"",
        b"null",
        b"{}",
        b"[]",
        b"\xff\xfe\x00",
        DEEP,
        b"[" * 50_000,
        b'{"items":[' + DEEP + b"]}",
        b'{"kind":"Status","message":' + DEEP + b"}",
        b'{"items":' + DEEP + b"}",
        b'{"metadata":{"resourceVersion":"7"},"items":[{"metadata":' + DEEP + b"}]}",
        b'{"metadata":{"resourceVersion":7},"items":{}}',
        b'{"metadata":{"resourceVersion":"7"},"items":[null,1,"x",{}]}',
        b'{"items":[{"metadata":{"name":"\\ud800"}}]}',
        b'{"type":"ADDED","object":' + DEEP + b"}",
        b'{"type":"ERROR","object":' + DEEP + b"}",
        b'{"spec":{"replicas":' + b"9" * 5_000 + b'},"status":{}}',
        b'{"spec":{"replicas":1e400}}',
    ]
    chance = random.Random(13)
    made = [
        chance.choice(known)[: chance.randrange(80)]
        + chance.randbytes(chance.randrange(20))
        + chance.choice(known)[-30:]
        for _ in range(count)
    ]
    return known + made


ERRORS = (
    RecursionError("maximum recursion depth exceeded"),
    UnicodeError("label too long"),
    ValueError("no such thing"),
    TypeError("cannot"),
    KeyError("metadata"),
    AttributeError("'str' object has no attribute 'get'"),
    RuntimeError("boom"),
    OSError(28, "No space left on device"),
    ExceptionGroup("several", [ValueError("one")]),
    asyncio.CancelledError(),
)


@pytest.fixture
def failures() -> Iterator[list[str]]:
    """The names of the tasks that failed."""
    found: list[str] = []
    token = FAILURE_OBSERVER.set(found.append)
    yield found
    FAILURE_OBSERVER.reset(token)


def pod(name: str) -> Object:
    return {"metadata": {"namespace": NAMESPACE, "name": name, "labels": {"app": "web"}}}


def deployment(replicas: int = 3) -> Object:
    return {
        "metadata": {"namespace": NAMESPACE, "name": "web", "labels": {"app": "web"}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"replicas": replicas},
    }


def usage(body: bytes) -> list[PodMetrics]:
    return decode_json(body, ObjectList[PodMetrics]).items or []


class Readers:
    """Everything that reads members in this process."""

    def __init__(self, lists: SharedLists) -> None:
        self.lists = lists
        self.pods: PodCache[str] = PodCache(lambda _, pod: pod.metadata.name, clock=loop_time)
        self.scales = ScaleCache(clock=loop_time)

    async def read(self, member: Member) -> dict[str, object]:
        """Read everything from a member; an error of ours in place of what cannot be read."""
        return {
            "pods": await outcome(self._pods(member)),
            "scale": await outcome(self.scales.read(member, "deployments", NAMESPACE, "web")),
            "usage": await outcome(
                self.lists.get(member, pod_metrics_path(NAMESPACE), None, usage, max_age=0.0)
            ),
            "custom": await outcome(self.lists.get(member, "/apis/c", None, custom_samples, max_age=0.0)),
            "external": await outcome(self.lists.get(member, "/apis/e", None, external_samples, max_age=0.0)),
        }

    async def _pods(self, member: Member) -> list[str]:
        return sorted((await self.pods.reflector(member, NAMESPACE)).store.values())


async def outcome(call: Any) -> object:
    try:
        return await call
    except FedHPAError as error:
        return error


async def good_is_read(world: FollowedMembers, readers: Readers) -> None:
    """The good member is ready, and is read as before."""
    found = await readers.read(world[GOOD])

    assert world[GOOD].state.ready, world[GOOD].state
    assert found["pods"] == ["web-0"]
    assert isinstance(found["scale"], Scale)
    assert found["scale"].spec.replicas == 3


def serve(world: FollowedMembers) -> None:
    for member in world.members.values():
        member.put(PODS, pod("web-0"))
        member.put(DEPLOYMENTS, deployment())


async def with_readers(world: FollowedMembers, check: Any) -> None:
    async with SharedLists(clock=loop_time) as lists:
        readers = Readers(lists)
        tasks = [asyncio.create_task(readers.pods.run()), asyncio.create_task(readers.scales.run())]
        try:
            await asyncio.sleep(0)
            await check(readers)
            assert not any(task.done() for task in tasks), tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


@pytest.mark.parametrize("status", [None, 200, 500])
async def test_a_member_answers_every_request_with_hostile_bytes(status: int | None) -> None:
    """Hostile answers to probes, lists, watches, scales and metrics do not stop reads of other members."""
    async with federation(GOOD, BAD) as world:
        serve(world)

        async def check(readers: Readers) -> None:
            faults = world.members[BAD].faults
            for body in bodies(30):
                faults.clear()
                faults.body["/"] = body
                if status is not None:
                    faults.status["/"] = status
                world.members[BAD].send(body)
                await readers.read(world[BAD])
                await asyncio.sleep(1)
                await good_is_read(world, readers)
            faults.clear()
            await world.ready(BAD)

        await with_readers(world, check)


async def test_a_watch_delivers_hostile_lines() -> None:
    """Hostile lines in an open watch end neither the watch's task nor the reads of other members."""
    async with federation(GOOD, BAD) as world:
        serve(world)

        async def check(readers: Readers) -> None:
            await readers.read(world[BAD])
            for body in bodies(30):
                world.members[BAD].send(body.replace(b"\n", b" "))
                await asyncio.sleep(1)
                await good_is_read(world, readers)
            world.members[BAD].put(PODS, pod("web-1"))
            await asyncio.sleep(MAX_BACKOFF_SECONDS + 1)

            assert (await readers.read(world[BAD]))["pods"] == ["web-0", "web-1"]

        await with_readers(world, check)


@pytest.mark.parametrize("error", ERRORS, ids=repr)
async def test_any_exception_of_a_members_calls_stays_with_that_member(
    error: BaseException, failures: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception that nobody foresaw makes the member unready with a reason; it is counted and ends."""
    send = ApiClient._send

    async def sabotaged(self: ApiClient, *args: Any) -> Any:
        if self.config.name == BAD and broken:
            raise error
        return await send(self, *args)

    broken = False
    monkeypatch.setattr(ApiClient, "_send", sabotaged)
    async with federation(GOOD, BAD) as world:
        serve(world)

        async def check(readers: Readers) -> None:
            nonlocal broken
            broken = True
            await eventually(lambda: not world[BAD].state.ready, 30)
            await asyncio.sleep(30)

            assert "internal error" in world[BAD].state.message
            assert "member-probe" in failures
            await good_is_read(world, readers)
            broken = False
            await world.ready(BAD)

        await with_readers(world, check)


@pytest.mark.parametrize("error", ERRORS[:-1], ids=repr)
async def test_any_exception_while_a_cluster_is_applied_stays_with_it(
    error: Exception, failures: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Cluster that cannot be applied for any reason leaves the others alone, and is applied again."""
    observe = Member.observe

    async def sabotaged(self: Member, *args: Any, **more: Any) -> None:
        if self.name == BAD and broken:
            raise error
        await observe(self, *args, **more)

    broken = True
    monkeypatch.setattr(Member, "observe", sabotaged)
    async with federation(GOOD) as world:
        world.hub.put(CLUSTERS, {"metadata": {"name": BAD}, "spec": {"apiEndpoint": "https://x"}})
        world.hub.put(CLUSTERS, {"metadata": {"name": "third"}, "spec": {"apiEndpoint": "https://x"}})
        await eventually(lambda: BAD in world.registry.members and "third" in world.registry.members)
        await asyncio.sleep(5)

        assert world[GOOD].state.ready
        assert not world[BAD].state.ready
        assert "member-access" in failures
        broken = False
        await eventually(lambda: "secretRef" in world[BAD].state.message, 120)


async def test_the_hub_answers_with_hostile_bytes() -> None:
    """Members stay registered and readable, for any answer of the hub for Clusters and Secrets."""
    async with federation(GOOD) as world:
        serve(world)

        async def check(readers: Readers) -> None:
            for body in bodies(30):
                world.hub.faults.body["/"] = body
                world.hub.end_watches()
                world.hub.send(body.replace(b"\n", b" "))
                await asyncio.sleep(1)

                assert world[GOOD].state.ready
            world.hub.faults.clear()
            await asyncio.sleep(60)
            await good_is_read(world, readers)

        await with_readers(world, check)


@pytest.mark.parametrize("data", [{"token": 7}, {"token": "!!"}, {"token": ["x"]}, "text", None, {"x": {}}])
async def test_a_secret_holds_anything(data: object) -> None:
    """A Secret of any content makes at most its own member unready."""
    async with federation(GOOD, BAD) as world:
        serve(world)
        world.hub.put(SECRETS, {"metadata": {"namespace": "creds", "name": BAD}, "data": data})
        await asyncio.sleep(5)

        assert world[GOOD].state.ready
