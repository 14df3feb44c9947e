"""The embedded plane as a whole: registered members, shared load, capacity, lost members."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from fedhpa.api.errors import ApiError
from testbed.embedded.plane import Plane
from testbed.stage.waiting import eventually
from tests.support.embedded_plane import DEPLOYMENTS, run_web, until_ready

PODS = "/api/v1/namespaces/shop/pods"
POD_METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    """Two members whose pods become ready immediately."""
    plane = Plane(ready_after=0.0)
    await plane.start()
    try:
        yield plane
    finally:
        await plane.end()


async def usage(plane: Plane, member: str) -> list[str]:
    async with plane.members[member].api() as api:
        return [item["containers"][0]["usage"]["cpu"] for item in (await api.get(POD_METRICS))["items"]]


async def test_members_are_registered_as_karmada_does(plane: Plane) -> None:
    """Each member has a Cluster and a Secret; the token has exactly the rights that a hub needs."""
    await run_web(plane, "member1", 1)
    token = plane.members["member1"].credentials().token

    async with plane.hub.api() as hub:
        clusters = await hub.get("/apis/cluster.karmada.io/v1alpha1/clusters")
        secret = await hub.get("/api/v1/namespaces/karmada-cluster/secrets/member1")

    assert {"member1", "member2"} == {item["metadata"]["name"] for item in clusters["items"]}
    assert {"token", "caBundle"} == set(secret["data"])
    async with plane.members["member1"].api(token=token) as api:
        assert (await api.get(f"{DEPLOYMENTS}/web/scale"))["spec"] == {"replicas": 1}
        assert (await api.get("/version"))["major"] == "1"
        assert "items" in await api.get(POD_METRICS)
        for path in (f"{DEPLOYMENTS}/web", "/api/v1/secrets"):
            with pytest.raises(ApiError, match="forbidden"):
                await api.get(path)


async def test_load_is_shared_over_members(plane: Plane) -> None:
    """The pods of both members use equal parts of the demand."""
    await run_web(plane, "member1", 1)
    await run_web(plane, "member2", 2)
    await until_ready(plane, "member1", 1)
    await until_ready(plane, "member2", 2)
    plane.set_demand("shop", "web", 900)

    assert await usage(plane, "member1") == ["300m"]
    assert await usage(plane, "member2") == ["300m", "300m"]


async def test_scale_is_followed_and_stops_at_capacity(plane: Plane) -> None:
    """A write of the scale creates pods; pods above the capacity stay Pending until it grows."""
    member = plane.members["member1"]
    member.set_capacity({"cpu": "1"})
    await run_web(plane, "member1", 1, cpu="400m")
    async with member.api() as api:
        scale = await api.get(f"{DEPLOYMENTS}/web/scale")
        await api.send("PUT", f"{DEPLOYMENTS}/web/scale", body=scale | {"spec": {"replicas": 3}})
        full = await until_ready(plane, "member1", 2)
        pods = (await api.get(PODS))["items"]
        member.set_capacity({"cpu": "2"})
        await until_ready(plane, "member1", 3)

    assert full["status"]["replicas"] == 3
    assert sorted(pod["status"]["phase"] for pod in pods) == ["Pending", "Running", "Running"]


async def test_lost_member_refuses_and_comes_back_unchanged(plane: Plane) -> None:
    """Its port refuses connections meanwhile; its pods keep running and take their share."""
    await run_web(plane, "member1", 1)
    await run_web(plane, "member2", 1)
    await until_ready(plane, "member1", 1)
    await until_ready(plane, "member2", 1)
    plane.set_demand("shop", "web", 400)
    await plane.lose("member2")

    async with plane.members["member2"].api() as api:
        with pytest.raises(aiohttp.ClientConnectorError):
            await api.get("/readyz")
    assert await usage(plane, "member1") == ["200m"]
    await plane.bring_back("member2")
    assert await usage(plane, "member2") == ["200m"]


async def test_plane_ends_without_a_trace() -> None:
    """Ports are closed and files are removed, also of a plane that never started."""
    plane, other = Plane(), Plane(["only"])
    await plane.start()
    folder, server = plane.run.folder, plane.hub.server
    await plane.end()
    await other.end()

    assert not folder.exists()
    assert not other.run.folder.exists()

    async def refused() -> bool:
        async with aiohttp.ClientSession() as session:
            try:
                await session.get(server)
            except aiohttp.ClientConnectorError as error:
                return isinstance(error.os_error, ConnectionRefusedError)
        return False

    await eventually(refused, what="the port is closed", seconds=60)
