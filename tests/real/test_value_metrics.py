"""Custom and external metrics of members behind the real aggregation layers, and Kubernetes' own HPA."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiohttp import web

from realplane import commands
from realplane.plane import Plane
from stage.api import PlaneApi, has_condition
from stage.ports import free_port
from stage.processes import Processes
from stage.registrations import aggregated_api
from stage.waiting import eventually
from tests.real.workloads import deployment, namespace

SHOP = "values"
CUSTOM, EXTERNAL = "custom.metrics.k8s.io", "external.metrics.k8s.io"
HITS = f"/apis/{CUSTOM}/v1beta2/namespaces/{SHOP}/services/web/hits"
DEPTH = f"/apis/{EXTERNAL}/v1beta1/namespaces/{SHOP}/depth"
AGENT = "values-agent"
TIME = "2026-03-11T12:00:00Z"


class Store:
    """A member's own metrics adapter: one custom and one external metric."""

    def __init__(self) -> None:
        self.depth = 4

    def documents(self) -> dict[str, Any]:
        """What it serves, by path."""
        resources = {"kind": "APIResourceList", "apiVersion": "v1"}
        service = {"kind": "Service", "namespace": SHOP, "name": "web", "apiVersion": "v1"}
        hits = {
            "describedObject": service,
            "metric": {"name": "hits", "selector": None},
            "timestamp": TIME,
            "value": "1500m",
        }
        depth = {"metricName": "depth", "metricLabels": {}, "timestamp": TIME, "value": str(self.depth)}
        return {
            f"/apis/{CUSTOM}/v1beta2": {
                **resources,
                "groupVersion": f"{CUSTOM}/v1beta2",
                "resources": [listed("services/hits", "MetricValueList")],
            },
            f"/apis/{EXTERNAL}/v1beta1": {
                **resources,
                "groupVersion": f"{EXTERNAL}/v1beta1",
                "resources": [listed("depth", "ExternalMetricValueList")],
            },
            HITS: {"kind": "MetricValueList", "apiVersion": f"{CUSTOM}/v1beta2", "items": [hits]},
            DEPTH: {
                "kind": "ExternalMetricValueList",
                "apiVersion": f"{EXTERNAL}/v1beta1",
                "items": [depth],
            },
        }

    async def answer(self, request: web.Request) -> web.Response:
        """The document of a path; what it does not serve is 404, also an aggregated discovery."""
        found = self.documents().get(request.path)
        return web.json_response(found) if found else web.Response(status=404, text="404 page not found")


def listed(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["get"]}


@asynccontextmanager
async def stores(plane: Plane, processes: Processes) -> AsyncIterator[dict[str, Store]]:
    """A store in each member, registered there."""
    async with AsyncExitStack() as stack:
        found = {}
        for name, member in plane.members.items():
            folder = processes.folder / f"{AGENT}-{name}"
            processes.ca.issue_server(AGENT, dns=[f"{AGENT}.kube-system.svc"], ips=["127.0.0.1"]).save(folder)
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
            store = found[name] = Store()
            application = web.Application()
            application.router.add_get("/{path:.*}", store.answer)
            runner = web.AppRunner(application, access_log=None)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            port = free_port()
            await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
            api = await stack.enter_async_context(member.api())
            for group, version in ((CUSTOM, "v1beta2"), (EXTERNAL, "v1beta1")):
                registration = aggregated_api(
                    group=group,
                    version=version,
                    service=AGENT,
                    namespace="kube-system",
                    port=port,
                    ca_bundle=processes.ca.bundle_pem,
                )
                await registered(stack, api, registration[-1], registration[:-1])
        yield found


async def registered(
    stack: AsyncExitStack,
    api: PlaneApi,
    registration: dict[str, Any],
    before: Sequence[dict[str, Any]] = (),
) -> None:
    """Apply an APIService, wait until it is Available, and take it away at the end."""
    await api.apply_all([*before, registration])
    path = f"/apis/apiregistration.k8s.io/v1/apiservices/{registration['metadata']['name']}"
    stack.push_async_callback(api.delete, path)
    await api.wait(
        path,
        lambda stored: has_condition(stored, kind="Available"),
        what=f"{registration['metadata']['name']} is Available",
        seconds=90,
    )


async def test_kubectl_reads_values_of_both_members(plane: Plane, processes: Processes) -> None:
    """`kubectl get --raw` of a custom metric is the sum, of an external one a value a cluster; and
    `kubectl api-resources` works with both groups registered.
    """
    async with stores(plane, processes):
        custom = await plane.hub.kubectl("get", "--raw", HITS)

        async def depths() -> bool:
            answer = await plane.hub.kubectl("get", "--raw", DEPTH)
            found = [
                (item["metricLabels"]["cluster"], item["value"]) for item in json.loads(answer.out)["items"]
            ]
            return found == [(name, "4") for name in sorted(plane.members)]

        # Another test's values are given for as long as lists may be old.
        await eventually(depths, what="a value a cluster", seconds=30, every=1)
        resources = await plane.hub.kubectl("api-resources", "--no-headers")

    (hits,) = json.loads(custom.out)["items"]
    assert (hits["describedObject"]["name"], hits["value"]) == ("web", "3"), custom.err
    assert resources.code == 0, resources.err


async def test_kubernetes_own_hpa_scales_a_template_by_our_external_metric(
    plane: Plane, processes: Processes
) -> None:
    """An unmodified kube-controller-manager on the hub: 4 + 4 messages, 2 a replica, are 4 replicas; 4 more
    in one member are 6.
    """
    command = commands.kube_controller_manager(
        "hub", plane.hub.pki, plane.hub.ports, plane.hub.kubeconfig, hub=True
    )
    scaler = [
        *(part for part in command[1:] if not part.startswith(("--controllers=", "--secure-port="))),
        "--controllers=horizontal-pod-autoscaler-controller",
        f"--secure-port={free_port()}",
    ]
    target = {"type": "AverageValue", "averageValue": "2"}
    hpa = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": SHOP},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 20,
            "behavior": {"scaleUp": {"stabilizationWindowSeconds": 0}},
            "metrics": [{"type": "External", "external": {"metric": {"name": "depth"}, "target": target}}],
        },
    }
    name = "hub.horizontal-pod-autoscaler"
    log = plane.hub.folder / "horizontal-pod-autoscaler.log"
    async with stores(plane, processes) as found, plane.hub.api() as api:
        await api.apply_all([namespace(SHOP), deployment("web", SHOP, replicas=1), hpa])
        plane.run.spawn(name, [str(plane.hub.assets / command[0]), *scaler], log)
        try:

            async def size(wanted: int) -> None:
                async def look() -> bool:
                    plane.run.check(name, log)
                    stored = await api.get(f"/apis/apps/v1/namespaces/{SHOP}/deployments/web")
                    return bool(stored["spec"]["replicas"] == wanted)

                await eventually(look, what=f"{wanted} replicas", seconds=90, every=0.5)

            await size(4)
            found["member1"].depth += 4
            await size(6)
        finally:
            plane.run.stop([name])
            await api.delete(f"/apis/autoscaling/v2/namespaces/{SHOP}/horizontalpodautoscalers/web")
            await api.delete(f"/apis/apps/v1/namespaces/{SHOP}/deployments/web")
