"""What our client takes for granted of an API server, asked of a real one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fedhpa.api.errors import Conflict, InvalidObject
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import load_config
from fedhpa.kube.events import EventRecorder, InvolvedObject
from fedhpa.kube.leases import LeaderElector, LeaseTiming
from fedhpa.kube.mapping import ResourceMapper
from fedhpa.kube.reflector import Reflector
from fedhpa.kube.writes import get_scale, put_scale, update_with_retry
from fedhpa.members.registry import MemberRegistry
from testbed.real.plane import Plane
from tests.real.settling import settled
from tests.real.workloads import deployment, namespace
from tests.support.fakeapi import eventually

CONFIGMAPS = "/api/v1/namespaces/{}/configmaps"
SECONDS = 60.0


@asynccontextmanager
async def hub_client(plane: Plane, space: str) -> AsyncIterator[ApiClient]:
    """A client of the hub, and a namespace of one's own there."""
    async with ApiClient(await load_config(str(plane.hub.kubeconfig))) as client:
        try:
            await client.post("/api/v1/namespaces", namespace(space))
        except Conflict:
            pass
        yield client


@asynccontextmanager
async def in_background(*works: Any) -> AsyncIterator[None]:
    """Run coroutines; they must not end by themselves."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_list_and_watch_follow_a_collection(plane: Plane) -> None:
    """A paged list and the watch after it see what is created, changed by two writers, and deleted."""
    async with hub_client(plane, "client-watch") as client:
        path = CONFIGMAPS.format("client-watch")
        for number in range(5):
            await client.post(path, {"metadata": {"name": f"c{number}"}, "data": {"n": "0"}})
        reflector = Reflector(
            client,
            path,
            dict[str, Any],
            lambda obj: (obj.get("data") or {}).get("n"),
            page_size=2,
            list_idle=SECONDS,
        )
        async with in_background(reflector.run()):
            await eventually(lambda: len(reflector.store) == 5, SECONDS)

            def count(obj: dict[str, Any]) -> dict[str, Any]:
                obj["data"]["n"] = str(int(obj["data"]["n"]) + 1)
                return obj

            await asyncio.gather(*(update_with_retry(client, f"{path}/c0", count) for _ in range(2)))
            await client.delete(f"{path}/c1")
            key = ("client-watch", "c0")
            await eventually(
                lambda: reflector.store[key] == "2" and len(reflector.store) == 4,
                SECONDS,
            )

        assert (reflector.lists, reflector.failures) == (1, 0)


async def test_scale_of_a_mapped_kind(plane: Plane) -> None:
    """Discovery finds the scale of a Deployment; a write on an old version is a Conflict."""
    async with hub_client(plane, "client-scale") as client:
        mapper = ResourceMapper(client)
        resource = await mapper.resolve("apps/v1", "Deployment")
        path = resource.path("client-scale", "web")
        await client.post(resource.path("client-scale"), deployment("web", "client-scale", replicas=2))

        read = await get_scale(client, path)
        written = await put_scale(client, path, read, 3)
        with pytest.raises(Conflict):
            await put_scale(client, path, read, 4)
        with pytest.raises(InvalidObject, match='no matches for kind "Nothing" in group "apps"'):
            await mapper.resolve("apps/v1", "Nothing")

        assert resource.scale
        assert (read.spec.replicas, written.spec.replicas, read.status.selector) == (2, 3, "app=web")


async def test_a_lease_changes_hands(plane: Plane) -> None:
    """Of two candidates one leads; when it stops, the other does, at once."""
    async with hub_client(plane, "client-lease") as client:
        # Long enough that nobody loses it on a busy machine, and that waiting it out would be too long.
        timing = LeaseTiming(lease_duration=2 * SECONDS, renew_deadline=SECONDS, retry_period=0.5)
        electors = [
            LeaderElector(client, "client-lease", "one", identity, timing=timing) for identity in ("a", "b")
        ]

        async def lead() -> None:
            await asyncio.Event().wait()

        async with in_background(electors[1].run(lead)):
            await eventually(lambda: electors[1].is_leader, SECONDS)
            first = asyncio.create_task(electors[0].run(lead))
            await eventually(lambda: electors[0].holder == "b", SECONDS)
            assert not electors[0].is_leader
        await eventually(lambda: electors[0].is_leader, SECONDS)
        lease = await client.get_json("/apis/coordination.k8s.io/v1/namespaces/client-lease/leases/one")
        first.cancel()
        await asyncio.wait([first])

        assert lease["spec"]["holderIdentity"] == "a"
        assert lease["spec"]["leaseTransitions"] == 1


async def test_events_are_taken_and_counted(plane: Plane) -> None:
    """The API server takes our events, repetitions as a count, messages at their full permitted length."""
    async with hub_client(plane, "client-events") as client:
        recorder = EventRecorder(client, "test")
        about = InvolvedObject("v1", "Namespace", "client-events", "client-events", uid="u")
        async with in_background(recorder.run()):
            for _ in range(3):
                recorder.event(about, "Warning", "Long", "ä" * 4000)
            await recorder.flush(SECONDS)
        found = await client.get_json("/api/v1/namespaces/client-events/events")

        assert recorder.dropped == 0
        assert [(item["reason"], item["count"]) for item in found["items"]] == [("Long", 3)]


async def test_registered_members_are_ready(plane: Plane) -> None:
    """The registry reaches both members with the credentials of their registration, and nothing more."""
    async with hub_client(plane, "client-members") as client:
        registry = MemberRegistry(client)
        async with in_background(registry.run()):
            await eventually(
                lambda: (
                    registry.synced()
                    and all(registry.members[name].state.ready for name in ("member1", "member2"))
                ),
                2 * SECONDS,
            )

            async def asked() -> list[str]:
                return [
                    (await member.client.get_json("/version"))["gitVersion"]
                    for member in registry.members.values()
                    if member.name in ("member1", "member2")
                ]

            # Each call has the few seconds that a member is given.
            versions = await settled(asked, lambda found: len(found) == 2)

        assert all(version.startswith("v1.") for version in versions)
        assert len(versions) == 2
