"""Members join, leave, move, and change token and CA. Each API of a running adapter follows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.adapter.application import CUSTOM, EXTERNAL, NOON, StubMember, items, serving, value
from tests.support.adapter.process import JANE, AdapterWorld, Answer, Caller, until, world
from tests.support.fakeapi import CLUSTERS, join

PODS = "/apis/metrics.k8s.io/v1beta1/pods"
HITS = f"{CUSTOM}/v1beta2/namespaces/shop/services/web/hits"
DEPTH = f"{EXTERNAL}/namespaces/shop/depth"
# Waits are generous: an event that a busy machine delays is late, not wrong.
SECONDS = 60.0
APIS = (PODS, HITS, DEPTH)


def member(name: str) -> StubMember:
    """Returns a member with one pod, one hit and one message. The pod has the member's name."""
    usage = {"name": "web", "usage": {"cpu": "1m", "memory": "1Ki"}}
    pod = {"metadata": {"name": name, "namespace": "shop"}, "timestamp": NOON, "window": "10s"}
    made = StubMember(
        {
            "/readyz": "ok",
            "/version": {"gitVersion": "v1.36.3"},
            **serving("v1beta2"),
            PODS: {"kind": "PodMetricsList", "metadata": {}, "items": [{**pod, "containers": [usage]}]},
            HITS: items(value("web", "1", kind="Service")),
            DEPTH: {"items": [{"metricName": "depth", "metricLabels": {}, "timestamp": NOON, "value": "1"}]},
        },
        tls=True,
    )
    made.token = f"{name}-token"
    return made


class Fleet:
    """A hub, a running adapter, and members by name."""

    def __init__(self, world: AdapterWorld, members: dict[str, StubMember], caller: Caller) -> None:
        self.hub = world.hub
        self.members = members
        self._caller = caller

    async def get(self, path: str) -> Answer:
        """Returns the response for jane."""
        return await self._caller.call("GET", path, JANE)

    async def until(self, here: int, *missing: str) -> None:
        """Waits until each API serves this many members' values, and names these members as missing."""
        for path in APIS:

            async def poll(path: str = path) -> bool:
                answer = await self.get(path)
                if answer.status != 200:
                    return False
                named = [text.split('"')[1].split(" ")[0] for text in answer.warnings]
                return (parts(path, answer.json), named) == (here, list(missing))

            await until(poll, SECONDS)


def parts(path: str, body: Any) -> int:
    """Returns the number of members whose metrics are in an answer."""
    if path == HITS:
        return sum(int(item["value"]) for item in body["items"])
    return len(body["items"])


@asynccontextmanager
async def fleet_of(folder: Path, *names: str) -> AsyncIterator[Fleet]:
    """Starts members that are registered before the adapter starts."""
    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(world(folder))
        members = {name: member(name) for name in names}
        for name, api in members.items():
            await api.start()
            stack.push_async_callback(api.stop)
            join(made.hub, name, api)
        # No member hangs here, so a slow one is waited for. A failed list would be requested again.
        adapter = await stack.enter_async_context(made.adapter("--member-deadline=60s"))
        yield Fleet(made, members, await stack.enter_async_context(made.caller(adapter)))


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet_of(tmp_path, "m1", "m2") as made:
        yield made


async def test_a_member_that_comes_is_asked_and_one_that_goes_is_not(fleet: Fleet) -> None:
    """It takes moments and no restart. An unregistered member is no longer expected."""
    third = member("m3")
    await third.start()
    try:
        await fleet.until(2)
        join(fleet.hub, "m3", third)
        await fleet.until(3)
        fleet.hub.remove(CLUSTERS, "m3")
        await fleet.until(2)
    finally:
        await third.stop()


async def test_a_member_that_fails_at_the_start_is_tried_again(tmp_path: Path) -> None:
    """The adapter is ready without the member, names it, and serves its values once it answers."""
    async with world(tmp_path) as made:
        first, second = member("m1"), member("m2")
        await first.start()
        try:
            await second.start()
            await second.stop()
            join(made.hub, "m1", first)
            join(made.hub, "m2", second)
            async with made.adapter() as adapter, made.caller(adapter) as caller:
                fleet = Fleet(made, {}, caller)
                await fleet.until(1, "m2")
                await second.start()
                await fleet.until(2)
        finally:
            await second.stop()
            await first.stop()


async def test_the_first_who_discovers_finds_what_is_there(fleet: Fleet) -> None:
    """Members are listed when they join, so the first discovery request neither waits nor lists again."""

    async def listed() -> bool:
        answer = await fleet.get(f"{CUSTOM}/v1beta2")
        return [entry["name"] for entry in answer.json["resources"]] == ["services/hits"]

    for api in fleet.members.values():
        api.responses[f"{CUSTOM}/v1beta2"] = {"resources": [{"name": "services/hits", "namespaced": True}]}
    third = member("m3")
    third.responses[f"{CUSTOM}/v1beta2"] = fleet.members["m1"].responses[f"{CUSTOM}/v1beta2"]
    await third.start()
    try:
        join(fleet.hub, "m3", third)
        await until(listed, SECONDS)
        before = len(third.queries(f"{CUSTOM}/v1beta2"))
        for _ in range(5):
            assert await listed()

        assert len(third.queries(f"{CUSTOM}/v1beta2")) == before == 1
    finally:
        await third.stop()
