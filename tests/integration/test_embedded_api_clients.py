"""What our client takes for granted of an API server (see tests/real), asked of the embedded one."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
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
    """A client of the embedded server, over a plain socket."""
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
    """Run coroutines; they must not end by themselves."""
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
    """A paged list and the watch after it see what is created, changed by two writers, and deleted."""
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


async def test_a_watch_that_comes_too_late_lists_anew(api: ApiServer, client: ApiClient) -> None:
    """When the history is forgotten the reflector's next watch is 410, and the list after it is complete."""
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


async def test_bookmarks_move_a_quiet_watch_on(api: ApiServer, client: ApiClient) -> None:
    """While other collections change, a watch hears of the version, and so is not too old later."""
    api.watches.bookmark_seconds = 0.01
    reflector = Reflector(client, CONFIGMAPS, dict[str, Any], data_of, list_idle=PATIENCE)
    async with in_background(reflector.run()):
        await eventually(lambda: reflector.problem is None)
        api.store.create(("", "secrets"), {"metadata": {"name": "s", "namespace": "default"}})
        await eventually(lambda: reflector.resource_version == str(api.store.version))

    assert reflector.lists == 1


async def test_pages_are_of_one_version(api: ApiServer, client: ApiClient) -> None:
    """What changes between two pages is not in the list; what is forgotten meanwhile is 410."""
    for name in "abc":
        await client.post(CONFIGMAPS, {"metadata": {"name": name}})
    first = await client.get_json(CONFIGMAPS, params={"limit": 1})
    await client.delete(f"{CONFIGMAPS}/b")
    token = first["metadata"]["continue"]
    second = await client.get_json(CONFIGMAPS, params={"limit": 5, "continue": token})
    api.store.compact()
    with pytest.raises(ApiError) as caught:
        await client.get_json(CONFIGMAPS, params={"limit": 5, "continue": token})

    assert first["metadata"]["remainingItemCount"] == 2
    assert [item["metadata"]["name"] for item in second["items"]] == ["b", "c"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert (caught.value.status, caught.value.reason) == (410, "Expired")


async def test_scale_of_a_mapped_kind(client: ApiClient) -> None:
    """Discovery finds the scale of a Deployment; a write on an old version is a Conflict."""
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
    """Of two candidates one leads; when it stops, the other does long before the lease would end."""
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


async def test_events_are_taken_and_counted(client: ApiClient) -> None:
    """Repetitions are a count on one Event."""
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
    """A FederatedHPA gets its defaults; its status is written apart; what its schema refuses is refused."""
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


async def test_a_definition_is_established_at_once_and_takes_its_objects_along(client: ApiClient) -> None:
    """Discovery knows the kind while its definition is there; with it go the objects."""
    await install_crds(client)
    name = "federatedhpas.autoscaling.karmada.io"
    definition = await client.get_json(f"{CRDS}/{name}")
    await client.post(
        federated_hpa_path("", "default").rstrip("/"), federated_hpa("web", "default", low=1, high=5)
    )
    resource = await ResourceMapper(client).resolve("autoscaling.karmada.io/v1alpha1", "FederatedHPA")
    await client.delete(f"{CRDS}/{name}")
    await client.post(CRDS, MANIFESTS["federatedhpas"])
    after = await client.get_json(federated_hpa_path("", "default").rstrip("/"))
    established = {each["type"]: each["status"] for each in definition["status"]["conditions"]}

    assert established["Established"] == "True"
    assert resource.plural == "federatedhpas"
    assert after["items"] == []


async def test_a_patch_is_done_again_when_somebody_was_quicker(client: ApiClient) -> None:
    """Patches without a version all take effect, however many come at once."""
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


async def test_namespaces_take_what_they_hold_with_them(client: ApiClient) -> None:
    """A namespace goes when the last of its objects is gone; until then nothing new comes into it."""
    await client.post("/api/v1/namespaces", {"metadata": {"name": "space"}})
    path = "/api/v1/namespaces/space/configmaps"
    await client.post(path, {"metadata": {"name": "held", "finalizers": ["test/held"]}})
    await client.post(path, {"metadata": {"name": "free"}})
    await client.delete("/api/v1/namespaces/space")
    left = await client.get_json(path)
    with pytest.raises(ApiError) as refused:
        await client.post(path, {"metadata": {"name": "late"}})
    held = left["items"][0]
    await client.put(f"{path}/held", {**held, "metadata": {**held["metadata"], "finalizers": []}})
    with pytest.raises(ApiError) as gone:
        await client.get_json("/api/v1/namespaces/space")

    assert [item["metadata"]["name"] for item in left["items"]] == ["held"]
    assert refused.value.status == 403
    assert "because it is being terminated" in str(refused.value)
    assert gone.value.status == 404


async def test_owned_objects_follow_their_owner(client: ApiClient) -> None:
    """What has another owner that lives stays."""
    owners = [(await client.post(CONFIGMAPS, {"metadata": {"name": name}})).json() for name in ("one", "two")]
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        for owner in owners
    ]
    await client.post(CONFIGMAPS, {"metadata": {"name": "owned", "ownerReferences": references[:1]}})
    await client.post(CONFIGMAPS, {"metadata": {"name": "shared", "ownerReferences": references}})
    await client.delete(f"{CONFIGMAPS}/one")
    found = await client.get_json(CONFIGMAPS)

    assert [item["metadata"]["name"] for item in found["items"]] == ["shared", "two"]


async def test_what_is_too_large_is_refused(client: ApiClient) -> None:
    """413 beyond three megabytes, with a Status body."""
    body = io.BytesIO(b'{"data":{"n":"' + b"x" * 3 * 1024 * 1024 + b'"}}')
    async with (
        aiohttp.ClientSession() as session,
        session.post(client.config.server + CONFIGMAPS, data=body) as answer,
    ):
        status = await answer.json()

    assert answer.status == 413
    assert (status["kind"], status["reason"]) == ("Status", "RequestEntityTooLarge")
