"""The product's API client against the embedded API server; tests/real runs it against a real one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from fedhpa.admission import crd
from fedhpa.api.errors import ApiError, Conflict, InvalidObject
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.events import EventRecorder, InvolvedObject
from fedhpa.kube.leases import LeaderElector, LeaseTiming
from fedhpa.kube.mapping import ResourceMapper
from fedhpa.kube.reflector import Reflector
from fedhpa.kube.writes import get_scale, patch_status, put_scale, update_with_retry
from testbed.embedded.api.server import ApiServer
from tests.real.workloads import deployment, federated_hpa, federated_hpa_path
from tests.support.fakeapi import PATIENCE, eventually

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
MANIFESTS = {
    each.plural: crd.custom_resource_definition(each) for each in (crd.FEDERATED_HPA, crd.CRON_FEDERATED_HPA)
}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def api() -> ApiServer:
    return ApiServer("hub", now=lambda: datetime.now(UTC))


@pytest.fixture
async def client(api: ApiServer) -> AsyncIterator[ApiClient]:
    """A client of the embedded server over plain HTTP."""
    runner = web.AppRunner(api.app, access_log=None, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        config = ApiConfig(server=f"http://127.0.0.1:{runner.addresses[0][1]}")
        async with ApiClient(config, deadline=PATIENCE) as client:
            yield client
    finally:
        await runner.cleanup()


@asynccontextmanager
async def in_background(*works: Any) -> AsyncIterator[None]:
    """Run coroutines, which must not end before the block does."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def data_of(obj: dict[str, Any]) -> Any:
    return (obj.get("data") or {}).get("n")


async def test_list_and_watch_follow_a_collection(client: ApiClient) -> None:
    """A paged list and its watch see creations, concurrent changes and deletions."""
    for number in range(5):
        await client.post(CONFIGMAPS, {"metadata": {"name": f"c{number}"}, "data": {"n": "0"}})
    reflector = Reflector(client, CONFIGMAPS, dict[str, Any], data_of, page_size=2, list_idle=PATIENCE)
    async with in_background(reflector.run()):
        await eventually(lambda: len(reflector.store) == 5)

        def count(obj: dict[str, Any]) -> dict[str, Any]:
            obj["data"]["n"] = str(int(obj["data"]["n"]) + 1)
            return obj

        await asyncio.gather(*(update_with_retry(client, f"{CONFIGMAPS}/c0", count) for _ in range(3)))
        await client.delete(f"{CONFIGMAPS}/c1")
        await eventually(lambda: reflector.store[("default", "c0")] == "3" and len(reflector.store) == 4)

    assert (reflector.lists, reflector.failures) == (1, 0)


async def test_an_expired_watch_lists_again(api: ApiServer, client: ApiClient) -> None:
    """After a compaction the next watch is 410, and the reflector lists again."""
    reflector = Reflector(client, CONFIGMAPS, dict[str, Any], data_of, list_idle=PATIENCE)
    async with in_background(reflector.run()):
        await eventually(lambda: reflector.problem is None)
        await client.post(CONFIGMAPS, {"metadata": {"name": "a"}, "data": {"n": "1"}})
        await eventually(lambda: len(reflector.store) == 1)
        api.store.create(("", "secrets"), {"metadata": {"name": "s", "namespace": "default"}})
        api.store.compact()
        api.watches.end()
        await client.post(CONFIGMAPS, {"metadata": {"name": "b"}, "data": {"n": "2"}})
        await eventually(lambda: len(reflector.store) == 2)

    assert reflector.lists == 2


async def test_bookmarks_advance_an_idle_watch(api: ApiServer, client: ApiClient) -> None:
    """A bookmark moves the version of an idle watch forward, so that it does not expire."""
    api.watches.bookmark_seconds = 0.01
    reflector = Reflector(client, CONFIGMAPS, dict[str, Any], data_of, list_idle=PATIENCE)
    async with in_background(reflector.run()):
        await eventually(lambda: reflector.problem is None)
        api.store.create(("", "secrets"), {"metadata": {"name": "s", "namespace": "default"}})
        await eventually(lambda: reflector.resource_version == str(api.store.version))

    assert reflector.lists == 1


async def test_scale_of_a_mapped_kind(client: ApiClient) -> None:
    """Discovery finds the scale of a Deployment; a write with an old version is a Conflict."""
    mapper = ResourceMapper(client)
    resource = await mapper.resolve("apps/v1", "Deployment")
    path = resource.path("default", "web")
    await client.post(resource.path("default"), deployment("web", "default", replicas=2))

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


async def test_a_lease_changes_hands(client: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two candidates leads; when it stops, the other acquires the lease before it expires."""
    monkeypatch.setattr("fedhpa.kube.leases.RELEASE_DEADLINE_SECONDS", PATIENCE)
    timing = LeaseTiming(lease_duration=10 * PATIENCE, renew_deadline=5 * PATIENCE, retry_period=0.1)
    electors = [LeaderElector(client, "default", "one", identity, timing=timing) for identity in ("a", "b")]

    async def lead() -> None:
        await asyncio.Event().wait()

    async with in_background(electors[0].run(lead)):
        async with in_background(electors[1].run(lead)):
            await eventually(lambda: electors[0].is_leader or electors[1].is_leader)
            loser = electors[0] if electors[1].is_leader else electors[1]
            await eventually(lambda: bool(loser.holder))
            assert not loser.is_leader
        await eventually(lambda: electors[0].is_leader)
        lease = await client.get_json("/apis/coordination.k8s.io/v1/namespaces/default/leases/one")

    assert lease["spec"]["holderIdentity"] == "a"


async def test_events_are_counted(client: ApiClient) -> None:
    """Repeated events increase the count of one Event."""
    recorder = EventRecorder(client, "test")
    about = InvolvedObject("v1", "Namespace", "default", "default", uid="u")
    async with in_background(recorder.run()):
        for _ in range(3):
            recorder.event(about, "Warning", "Long", "ä" * 4000)
        await recorder.flush(PATIENCE)
    selected = {"fieldSelector": "involvedObject.name=default,reason=Long"}
    found = await client.get_json("/api/v1/namespaces/default/events", params=selected)
    others = await client.get_json(
        "/api/v1/namespaces/default/events", params={"fieldSelector": "type=Normal"}
    )

    assert recorder.dropped == 0
    assert [(item["reason"], item["count"]) for item in found["items"]] == [("Long", 3)]
    assert others["items"] == []


async def install_crds(client: ApiClient) -> None:
    for manifest in MANIFESTS.values():
        await client.post(CRDS, manifest)


async def test_our_kinds_are_served_with_their_schema(client: ApiClient) -> None:
    """A FederatedHPA gets its defaults, has a status subresource, and is checked against its schema."""
    await install_crds(client)
    path = federated_hpa_path("web", "default")
    collection = path.rpartition("/")[0]
    made = (await client.post(collection, federated_hpa("web", "default", low=1, high=5))).json()
    status = {"currentReplicas": 3, "desiredReplicas": 4}
    await patch_status(client, path, status, resource_version=made["metadata"]["resourceVersion"])
    after = await client.get_json(path)
    wrong = federated_hpa("wrong", "default", low=1, high=5)
    wrong["spec"]["maxReplicas"] = "five"
    with pytest.raises(ApiError) as caught:
        await client.post(collection, wrong)

    assert after["status"] == status
    assert after["metadata"]["generation"] == 1
    assert made["spec"]["behavior"]["scaleUp"]["selectPolicy"] == "Max"
    assert caught.value.status == 422
    assert "spec.maxReplicas in body must be of type integer" in str(caught.value)


async def test_concurrent_patches_are_retried(client: ApiClient) -> None:
    """All concurrent patches without a version take effect."""
    await client.post(CONFIGMAPS, {"metadata": {"name": "a"}, "data": {}})
    await asyncio.gather(
        *(client.patch(f"{CONFIGMAPS}/a", {"data": {f"k{number}": "1"}}) for number in range(20))
    )
    found = await client.get_json(f"{CONFIGMAPS}/a")
    with pytest.raises(Conflict):
        await client.patch(f"{CONFIGMAPS}/a", {"metadata": {"resourceVersion": "1"}, "data": {"x": "1"}})
    body = [{"op": "test", "path": "/data/k0", "value": "2"}]
    with pytest.raises(ApiError) as caught:
        await client.patch(f"{CONFIGMAPS}/a", body, content_type="application/json-patch+json")

    assert len(found["data"]) == 20
    assert caught.value.status == 422
