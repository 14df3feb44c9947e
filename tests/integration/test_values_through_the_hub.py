"""Custom and external metrics of the members, read through the hub's aggregation layer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from testbed.embedded.plane import Plane
from testbed.stage.api import PlaneApi
from testbed.stage.processes import Processes
from testbed.stage.waiting import eventually
from tests.support.embedded_plane import have_patience, run_web, started_adapter, until_ready
from tests.support.plane_faults import Fault, faults_of, may_fail

REQUESTS = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*/http_requests_per_second"
DEPTH = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/depth"


# One plane and one adapter serve all tests of this file.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane() -> AsyncIterator[Plane]:
    """Two members with pods and a queue each."""
    plane = Plane(ready_after=0.0)
    may_fail(*plane.members.values())
    with pytest.MonkeyPatch.context() as patches:
        have_patience(patches)
        await plane.start()
        try:
            for name, milli in (("member1", 2500), ("member2", 500)):
                await run_web(plane, name, 2)
                await until_ready(plane, name, 2)
                plane.members[name].metrics.external["depth"] = [({"queue": "orders"}, milli)]
            yield plane
        finally:
            await plane.end()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def processes(plane: Plane) -> Processes:
    """The adapter's, registered on the hub for all it serves, and available."""
    return await started_adapter(plane)


async def test_values_of_all_members_are_read_through_the_hub(plane: Plane, processes: Processes) -> None:
    """A value a pod and cluster, a value a queue with its cluster; discovery knows both metrics."""
    async with plane.hub.api() as api:
        custom = await api.get(REQUESTS, labelSelector="app=web")
        none = await api.get(REQUESTS, labelSelector="app=web", cluster="member1")
        external = await api.get(DEPTH, labelSelector="queue=orders")
        one = await api.get(DEPTH, labelSelector="queue=orders,cluster=member2")

        async def listed() -> bool:
            found = [
                entry["name"]
                for group in ("custom.metrics.k8s.io", "external.metrics.k8s.io")
                for entry in (await api.get(f"/apis/{group}/v1beta1"))["resources"]
            ]
            return found == ["pods/http_requests_per_second", "depth"]

        await eventually(listed, what="the metrics are discovered", seconds=60)

    assert len(custom["items"]) == 4
    assert len(none["items"]) == 2
    assert values(external) == {"member1": "2500m", "member2": "500m"}
    assert values(one) == {"member2": "500m"}


async def test_a_member_that_is_away_is_named_through_the_hub(plane: Plane, processes: Processes) -> None:
    """The others' values are given; with nobody left it is 503."""
    async with plane.hub.api() as api:
        await faults_of(plane.members["member1"]).set(Fault.REFUSE)
        status, headers, body = await api.request("GET", DEPTH)
        await faults_of(plane.members["member2"]).set(Fault.REFUSE)
        custom, _, _ = await api.request("GET", REQUESTS)
        external, _, _ = await api.request("GET", DEPTH)
        for member in plane.members.values():
            await faults_of(member).clear()
        await eventually(lambda: answers(api), what="both members answer", seconds=60)

    assert (status, values(json.loads(body))) == (200, {"member2": "500m"})
    assert "member1 did not answer" in headers["Warning"]
    assert Counter([custom, external]) == {503: 2}


async def test_the_hub_lists_all_that_the_adapter_serves(plane: Plane, processes: Processes) -> None:
    """Each group with its versions, the preferred first."""
    async with plane.hub.api() as api:
        groups = {
            group["name"]: [version["version"] for version in group["versions"]]
            for group in (await api.get("/apis"))["groups"]
        }
        preferred = (await api.get("/apis/custom.metrics.k8s.io"))["preferredVersion"]["version"]

    assert [
        groups[name] for name in ("metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io")
    ] == [
        ["v1beta1"],
        ["v1beta2", "v1beta1"],
        ["v1beta1"],
    ]
    assert preferred == "v1beta2"


async def test_the_hub_discovers_the_metrics_apis(plane: Plane, processes: Processes) -> None:
    """Discovery lists custom metrics as subresources, and both groups with their versions."""
    async with plane.hub.api() as api:

        async def served() -> Any | None:
            status, _, body = await api.request("GET", "/apis/custom.metrics.k8s.io/v1beta2")
            return (json.loads(body)["resources"] or None) if status == 200 else None

        (pods,) = await eventually(served, what="the metrics are discovered", seconds=60)
        external = await api.get("/apis/external.metrics.k8s.io/v1beta1")
        groups = {group["name"]: group for group in (await api.get("/apis"))["groups"]}

    assert (pods["name"], pods["namespaced"], pods["verbs"]) == (
        "pods/http_requests_per_second",
        True,
        ["get"],
    )
    assert (external["kind"], external["groupVersion"]) == (
        "APIResourceList",
        "external.metrics.k8s.io/v1beta1",
    )
    assert groups["custom.metrics.k8s.io"]["preferredVersion"]["version"] == "v1beta2"
    assert groups["external.metrics.k8s.io"]["preferredVersion"]["version"] == "v1beta1"


async def answers(api: PlaneApi) -> bool:
    """True if both members give values of both APIs."""
    found = {}
    for path in (REQUESTS, DEPTH):
        status, _, body = await api.request("GET", path)
        found[path] = len(json.loads(body)["items"]) if status == 200 else 0
    return found == {REQUESTS: 4, DEPTH: 2}


def values(listing: Any) -> dict[str, str]:
    return {item["metricLabels"]["cluster"]: item["value"] for item in listing["items"]}
