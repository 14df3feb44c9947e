"""A simulated metrics adapter in each member, with one custom and one external metric."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiohttp import web

from testbed.real.plane import Plane
from testbed.stage.api import PlaneApi, has_condition
from testbed.stage.ports import free_port
from testbed.stage.processes import Processes
from testbed.stage.registrations import aggregated_api

SHOP = "values"
CUSTOM, EXTERNAL = "custom.metrics.k8s.io", "external.metrics.k8s.io"
HITS = f"/apis/{CUSTOM}/v1beta2/namespaces/{SHOP}/services/web/hits"
# The other paths of the custom API: of all selected objects, of a namespace, of a cluster-scoped object.
SELECTED = f"/apis/{CUSTOM}/v1beta2/namespaces/{SHOP}/services/*/hits"
OF_NAMESPACE = f"/apis/{CUSTOM}/v1beta2/namespaces/{SHOP}/metrics/hits"
OF_NODE = f"/apis/{CUSTOM}/v1beta2/nodes/n1/hits"
DEPTH = f"/apis/{EXTERNAL}/v1beta1/namespaces/{SHOP}/depth"
AGENT = "values-agent"
TIME = "2026-03-11T12:00:00Z"


class Store:
    """A member's values: `depth` messages, `hits` in milli-units. It serves nothing while it hangs."""

    def __init__(self) -> None:
        self.depth = 4
        self.hits = 1500
        self._answers = asyncio.Event()
        self._answers.set()

    def hang(self) -> None:
        """From now on requests for values are accepted and not answered."""
        self._answers.clear()

    def go_on(self) -> None:
        """Answers again, also the requests that hang."""
        self._answers.set()

    def values(self) -> dict[str, Any]:
        """The values, by path."""
        service = {"kind": "Service", "namespace": SHOP, "name": "web", "apiVersion": "v1"}
        depth = {"metricName": "depth", "metricLabels": {}, "timestamp": TIME, "value": str(self.depth)}
        return {
            HITS: self._hits(service),
            SELECTED: self._hits(service),
            OF_NAMESPACE: self._hits({"kind": "Namespace", "name": SHOP, "apiVersion": "v1"}),
            OF_NODE: self._hits({"kind": "Node", "name": "n1", "apiVersion": "v1"}),
            DEPTH: {
                "kind": "ExternalMetricValueList",
                "apiVersion": f"{EXTERNAL}/v1beta1",
                "items": [depth],
            },
        }

    def _hits(self, described: dict[str, Any]) -> dict[str, Any]:
        item = {
            "describedObject": described,
            "metric": {"name": "hits", "selector": None},
            "timestamp": TIME,
            "value": f"{self.hits}m",
        }
        return {"kind": "MetricValueList", "apiVersion": f"{CUSTOM}/v1beta2", "items": [item]}

    def discovery(self) -> dict[str, Any]:
        """The discovery documents, by path."""
        return {
            f"/apis/{CUSTOM}/v1beta2": resources(CUSTOM, "v1beta2", "services/hits", "MetricValueList"),
            f"/apis/{EXTERNAL}/v1beta1": resources(EXTERNAL, "v1beta1", "depth", "ExternalMetricValueList"),
        }

    async def answer(self, request: web.Request) -> web.Response:
        """Returns the document of a path. Other paths are 404, also aggregated discovery."""
        found = self.discovery().get(request.path)
        if found is None:
            await self._answers.wait()
            found = self.values().get(request.path)
        if found is None and len(request.path.split("/")) > 4:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound"}
            return web.json_response({**status, "code": 404, "message": "no such metric"}, status=404)
        return web.json_response(found) if found else web.Response(status=404, text="404 page not found")


def resources(group: str, version: str, name: str, kind: str) -> dict[str, Any]:
    """A list with one resource."""
    entry = {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["get"]}
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/{version}"}
    return {**head, "resources": [entry]}


@asynccontextmanager
async def stores(plane: Plane, processes: Processes) -> AsyncIterator[dict[str, Store]]:
    """Yields a store for each member, registered there until the end."""
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
            runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            stack.callback(store.go_on)
            port = free_port()
            await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
            api = await stack.enter_async_context(member.api())
            for group, version in ((CUSTOM, "v1beta2"), (EXTERNAL, "v1beta1")):
                objects = aggregated_api(
                    group=group,
                    version=version,
                    service=AGENT,
                    namespace="kube-system",
                    port=port,
                    ca_bundle=processes.ca.bundle_pem,
                )
                await registered(stack, api, objects)
        yield found


async def registered(stack: AsyncExitStack, api: PlaneApi, objects: list[dict[str, Any]]) -> None:
    """Applies a Service and its APIService, waits until the APIService is available, and removes both at the
    end.
    """
    await api.apply_all(objects)
    registration = objects[-1]
    path = f"/apis/apiregistration.k8s.io/v1/apiservices/{registration['metadata']['name']}"
    stack.push_async_callback(api.delete, path)
    await api.wait(
        path,
        lambda stored: has_condition(stored, kind="Available"),
        what=f"{registration['metadata']['name']} is Available",
        seconds=150,
    )
