"""The product's API client against the embedded API server; tests/real runs it against a real one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from fedhpa.admission import crd
from fedhpa.api.errors import ApiError, Conflict
from fedhpa.kube import SYSTEM
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.reflector import Reflector
from fedhpa.kube.writes import patch_status
from testbed.embedded.api.server import ApiServer
from tests.real.workloads import federated_hpa, federated_hpa_path
from tests.support.client_checks import CHECKS, data_of
from tests.support.timing import PATIENCE, background, eventually

Check = Callable[[ApiClient, str], Awaitable[None]]

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


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_client_works_with_the_embedded_server(
    client: ApiClient, monkeypatch: pytest.MonkeyPatch, check: Check
) -> None:
    """The same checks run against a real server."""
    monkeypatch.setattr("fedhpa.kube.leases.RELEASE_DEADLINE_SECONDS", PATIENCE)
    await check(client, "default")


async def test_an_expired_watch_lists_again(api: ApiServer, client: ApiClient) -> None:
    """After a compaction the next watch is 410, and the reflector lists again."""
    reflector = Reflector(
        client, CONFIGMAPS, dict[str, Any], data_of, list_idle=PATIENCE, clock=SYSTEM.monotonic
    )
    async with background(reflector.run()):
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
    reflector = Reflector(
        client, CONFIGMAPS, dict[str, Any], data_of, list_idle=PATIENCE, clock=SYSTEM.monotonic
    )
    async with background(reflector.run()):
        await eventually(lambda: reflector.problem is None)
        api.store.create(("", "secrets"), {"metadata": {"name": "s", "namespace": "default"}})
        await eventually(lambda: reflector.resource_version == str(api.store.version))

    assert reflector.lists == 1


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
