"""Recovery between tests: all processes and members work again."""

from __future__ import annotations

import json

from testbed.real.plane import Plane
from testbed.stage.api import PlaneApi, has_condition
from testbed.stage.processes import CONTROLLER, Processes
from testbed.stage.waiting import eventually, gather

NODES = "/apis/metrics.k8s.io/v1beta1/nodes"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
SECONDS = 150.0


async def all_is_well(plane: Plane, processes: Processes) -> None:
    """Waits until the hub reaches webhook and adapter, and adapter and controller have all members."""
    await gather(
        processes.webhook_is_called(), processes.metrics_are_available(), processes.ready(CONTROLLER)
    )
    async with plane.hub.api() as api:

        async def recovered() -> bool:
            return await _adapter_is_well(plane, api) and await _controller_is_well(plane, api)

        await eventually(
            recovered, what="adapter and controller have all members", seconds=SECONDS, every=0.5
        )


async def _adapter_is_well(plane: Plane, api: PlaneApi) -> bool:
    status, headers, body = await api.request("GET", NODES)
    if status != 200 or "Warning" in headers:
        return False
    found = sorted(item["metadata"]["name"] for item in json.loads(body)["items"])
    return found == sorted(f"{name}-node1" for name in plane.members)


async def _controller_is_well(plane: Plane, api: PlaneApi) -> bool:
    """Checks the status of each Cluster, which the controller writes."""
    clusters = (await api.get(CLUSTERS))["items"]
    names = {cluster["metadata"]["name"] for cluster in clusters}
    return names == set(plane.members) and all(has_condition(each, kind="Ready") for each in clusters)
