"""Kubernetes' own HorizontalPodAutoscaler on the hub, unmodified, scaling templates by our values."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from testbed.real import commands
from testbed.real.plane import Plane
from testbed.stage.ports import free_port
from testbed.stage.processes import Processes
from testbed.stage.waiting import eventually
from tests.real.stores import SHOP, stores
from tests.real.workloads import deployment, namespace

SECONDS = 180
HPA = f"/apis/autoscaling/v2/namespaces/{SHOP}/horizontalpodautoscalers/web"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{SHOP}/deployments/web"
PER_POD = {"type": "AverageValue", "averageValue": "2"}
BY_DEPTH = {"type": "External", "external": {"metric": {"name": "depth"}, "target": PER_POD}}
BY_HITS = {
    "type": "Object",
    "object": {
        "metric": {"name": "hits"},
        "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "web"},
        "target": PER_POD,
    },
}
Until = Callable[[int], Awaitable[None]]


@asynccontextmanager
async def scaled_by(plane: Plane, metric: dict[str, Any]) -> AsyncIterator[Until]:
    """Runs the hub's HPA controller and a template that it scales by the metric. Yields a function that waits
    for a number of replicas.
    """
    command = commands.kube_controller_manager(
        "hub", plane.hub.pki, plane.hub.ports, plane.hub.kubeconfig, hub=True, hpa_sync="1s"
    )
    scaler = [
        *(part for part in command[1:] if not part.startswith(("--controllers=", "--secure-port="))),
        "--controllers=horizontal-pod-autoscaler-controller",
        f"--secure-port={free_port()}",
    ]
    hpa = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": SHOP},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 20,
            # Without windows, values that the adapter cached during the previous test hold no size.
            "behavior": {way: {"stabilizationWindowSeconds": 0} for way in ("scaleUp", "scaleDown")},
            "metrics": [metric],
        },
    }
    name = "hub.horizontal-pod-autoscaler"
    log = plane.hub.folder / "horizontal-pod-autoscaler.log"
    async with plane.hub.api() as api:
        await api.apply_all([namespace(SHOP), deployment("web", SHOP, replicas=1), hpa])
        plane.run.spawn(name, [str(plane.hub.assets / command[0]), *scaler], log)

        async def until(replicas: int) -> None:
            async def poll() -> bool:
                plane.run.check(name, log)
                stored = await api.get(DEPLOYMENT)
                return bool(stored["spec"]["replicas"] == replicas)

            await eventually(poll, what=f"{replicas} replicas", seconds=SECONDS, every=0.5)

        try:
            yield until
        finally:
            plane.run.stop([name])
            await api.delete(HPA)
            await api.delete(DEPLOYMENT)


async def test_a_template_is_scaled_by_our_metric_of_an_object(plane: Plane, processes: Processes) -> None:
    """At 2 hits per replica, 3 and 5 hits of one Service in two members give 4 replicas. 4 more give 6."""
    async with stores(plane, processes) as found:
        found["member1"].hits, found["member2"].hits = 3000, 5000
        async with scaled_by(plane, BY_HITS) as until:
            await until(4)
            found["member2"].hits += 4000
            await until(6)


async def test_a_member_that_hangs_does_not_hold_the_others_up(plane: Plane, processes: Processes) -> None:
    """While a member hangs, the hub's HPA scales by the other member's value alone. Once the member is back,
    its value counts again.
    """
    async with stores(plane, processes) as found, scaled_by(plane, BY_DEPTH) as until:
        await until(4)
        found["member2"].hang()
        found["member1"].depth = 12
        await until(6)
        found["member2"].go_on()
        await until(8)
