"""Checks of the product's API client that hold against any API server, embedded or real."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fedhpa.api.errors import Conflict, InvalidObject
from fedhpa.kube import SYSTEM
from fedhpa.kube.client import ApiClient
from fedhpa.kube.events import EventRecorder, InvolvedObject
from fedhpa.kube.leases import LeaderElector, LeaseTiming
from fedhpa.kube.reflector import Reflector
from fedhpa.kube.resources import ResourceMapper, get_scale, put_scale, update_with_retry
from tests.real.workloads import deployment
from tests.support.timing import PATIENCE, background, eventually

WRITERS = 3
# No candidate loses the lease on a busy machine, and nobody waits for its expiry.
TIMING = LeaseTiming(lease_duration=10 * PATIENCE, renew_deadline=5 * PATIENCE, retry_period=0.1)


def data_of(obj: dict[str, Any]) -> Any:
    """Returns the entry `n` of a ConfigMap."""
    return (obj.get("data") or {}).get("n")


async def list_and_watch_follow_a_collection(client: ApiClient, namespace: str) -> None:
    """A paged list and its watch see creations, concurrent changes and deletions."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for number in range(5):
        await client.post(path, {"metadata": {"name": f"c{number}"}, "data": {"n": "0"}})
    reflector = Reflector(
        client, path, dict[str, Any], data_of, page_size=2, list_idle=PATIENCE, clock=SYSTEM.monotonic
    )
    async with background(reflector.run()):
        await eventually(lambda: len(reflector.store) == 5)

        def count(obj: dict[str, Any]) -> dict[str, Any]:
            obj["data"]["n"] = str(int(obj["data"]["n"]) + 1)
            return obj

        await asyncio.gather(*(update_with_retry(client, f"{path}/c0", count) for _ in range(WRITERS)))
        await client.delete(f"{path}/c1")
        changed = (namespace, "c0")
        await eventually(lambda: reflector.store.get(changed) == str(WRITERS) and len(reflector.store) == 4)

    assert (reflector.lists, reflector.failures) == (1, 0)


async def scale_of_a_mapped_kind(client: ApiClient, namespace: str) -> None:
    """Discovery finds the scale of a Deployment; a write with an old version is a Conflict."""
    mapper = ResourceMapper(client, clock=SYSTEM.monotonic)
    resource = await mapper.resolve("apps/v1", "Deployment")
    path = resource.path(namespace, "web")
    await client.post(resource.path(namespace), deployment("web", namespace, replicas=2))

    read = await get_scale(client, path)
    written = await put_scale(client, path, read, 3)
    with pytest.raises(Conflict):
        await put_scale(client, path, read, 4)
    with pytest.raises(InvalidObject, match='no matches for kind "Nothing" in group "apps"'):
        await mapper.resolve("apps/v1", "Nothing")
    zero = await put_scale(client, path, written, 0)

    assert resource.scale
    assert (read.spec.replicas, written.spec.replicas, read.status.selector) == (2, 3, "app=web")
    assert zero.spec.replicas == 0


async def a_lease_changes_hands(client: ApiClient, namespace: str) -> None:
    """One of two candidates leads; when it stops, the other acquires the lease before it expires."""
    electors = [
        LeaderElector(
            client, namespace, "one", identity, timing=TIMING, clock=SYSTEM.monotonic, wall=SYSTEM.wall
        )
        for identity in ("a", "b")
    ]

    async def lead() -> None:
        await asyncio.Event().wait()

    async with background(electors[1].run(lead)):
        await eventually(lambda: electors[1].leads())
        second = asyncio.create_task(electors[0].run(lead))
        await eventually(lambda: electors[0].holder == "b")
        assert not electors[0].leads()
    await eventually(lambda: electors[0].leads())
    lease = await client.get_json(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/one")
    second.cancel()
    await asyncio.wait([second])

    assert lease["spec"]["holderIdentity"] == "a"
    assert lease["spec"]["leaseTransitions"] == 1


async def events_are_counted(client: ApiClient, namespace: str) -> None:
    """Repeated events increase the count of one Event, with a message of the greatest permitted length."""
    recorder = EventRecorder(client, "test", wall=SYSTEM.wall)
    about = InvolvedObject("v1", "Namespace", namespace, namespace, uid="u")
    path = f"/api/v1/namespaces/{namespace}/events"
    async with background(recorder.run()):
        for _ in range(3):
            recorder.event(about, "Warning", "Long", "ä" * 4000)
        await recorder.flush(PATIENCE)
    selected = {"fieldSelector": f"involvedObject.name={namespace},reason=Long"}
    found = await client.get_json(path, params=selected)
    others = await client.get_json(path, params={"fieldSelector": "type=Normal"})

    assert recorder.dropped == 0
    assert [(item["reason"], item["count"]) for item in found["items"]] == [("Long", 3)]
    assert others["items"] == []


CHECKS = (
    list_and_watch_follow_a_collection,
    scale_of_a_mapped_kind,
    a_lease_changes_hands,
    events_are_counted,
)
