"""Custom and external metrics of members, read through real aggregation layers."""

from __future__ import annotations

import json
import time

from testbed.real.plane import Plane
from testbed.stage.processes import Processes
from testbed.stage.registrations import ADAPTER
from testbed.stage.waiting import eventually
from tests.real.settling import kubectl, settled
from tests.real.stores import DEPTH, HITS, OF_NAMESPACE, OF_NODE, SELECTED, stores

SECONDS = 150
GROUPS = ("custom", "external")


async def hits(plane: Plane) -> list[str]:
    """Returns the value of the Service; none after an error."""
    answer = await plane.hub.kubectl("get", "--raw", HITS)
    return [item["value"] for item in json.loads(answer.out)["items"]] if answer.code == 0 else []


async def depths(plane: Plane) -> dict[str, str]:
    """Returns the value of each cluster; none after an error."""
    answer = await plane.hub.kubectl("get", "--raw", DEPTH)
    if answer.code != 0:
        return {}
    return {item["metricLabels"]["cluster"]: item["value"] for item in json.loads(answer.out)["items"]}


async def both_are_read(plane: Plane) -> None:
    """Waits until the values come from the new stores. Cached lists may still have the values of another
    test.
    """

    async def read() -> bool:
        return await hits(plane) == ["3"] and await depths(plane) == dict.fromkeys(plane.members, "4")

    await eventually(read, what="the values of both members", seconds=SECONDS, every=1)


async def read_discovery_again(plane: Plane) -> None:
    """Makes the hub read the discovery documents now, by a changed registration. It would do so within a
    minute.
    """
    async with plane.hub.api() as api:
        for group in GROUPS:
            path = f"/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.{group}.metrics.k8s.io"
            await api.patch(path, {"metadata": {"annotations": {"example.com/changed": str(time.time())}}})


async def test_kubectl_reads_values_of_both_members(plane: Plane, processes: Processes) -> None:
    """`kubectl get --raw` gives the sum of a custom metric, and one value per cluster of an external metric.

    Each version and each path of the custom API works, and `kubectl api-resources` lists both metrics.
    """
    async with stores(plane, processes):
        # An adapter lists the metrics of its members when it starts, and later once a minute.
        await processes.stop(ADAPTER)
        await processes.start_one(ADAPTER)
        await processes.metrics_are_available()
        await both_are_read(plane)
        # Each path costs one request, and on a busy machine a member may miss its deadline.
        older, *others = [
            await kubectl(plane.hub, "get", "--raw", path, words='"value":"3"')
            for path in (HITS.replace("v1beta2", "v1beta1"), SELECTED, OF_NAMESPACE, OF_NODE)
        ]

        async def listed() -> tuple[list[str], list[str]]:
            async with plane.hub.api() as api:
                found = [await api.get(f"/apis/{group}.metrics.k8s.io/v1beta1") for group in GROUPS]
            custom, external = ([entry["name"] for entry in each["resources"]] for each in found)
            return custom, external

        wanted = (["services/hits"], ["depth"])
        names = await settled(listed, lambda found: found == wanted)

        assert names == wanted

        async def api_resources() -> bool:
            answer = await plane.hub.kubectl("api-resources", "--no-headers", "--cached=false")
            return answer.code == 0 and "external.metrics.k8s.io/v1beta1" in answer.out

        await read_discovery_again(plane)
        await eventually(api_resources, what="kubectl lists the external metric", seconds=180, every=2)

    (item,) = json.loads(older.out)["items"]
    assert (item["metricName"], item["value"]) == ("hits", "3")
    assert [[each["value"] for each in json.loads(answer.out)["items"]] for answer in others] == [["3"]] * 3
