"""The embedded plane in tests: a workload in a member, the adapter on the hub, long deadlines."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.embedded.plane import Plane
from testbed.stage.processes import Processes
from testbed.stage.registrations import ADAPTER, hub_rights
from tests.support.fakeapi import PATIENCE, Object

DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments"
# The longest timeout that Kubernetes allows for a webhook.
WEBHOOK_SECONDS = 30


def have_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give aggregated servers and webhooks much longer than the 5 s of Kubernetes to answer."""
    monkeypatch.setattr("testbed.embedded.extensions.outgoing.CONNECT_SECONDS", PATIENCE)
    monkeypatch.setattr("testbed.embedded.extensions.aggregation.CHECK_SECONDS", PATIENCE)


def with_timeout(configurations: list[dict[str, Any]], seconds: int = WEBHOOK_SECONDS) -> list[Object]:
    """Returns the webhook registrations with another timeout, by default the longest."""
    return [
        {**each, "webhooks": [{**webhook, "timeoutSeconds": seconds} for webhook in each["webhooks"]]}
        for each in configurations
    ]


async def run_web(plane: Plane, member: str, replicas: int, cpu: str = "200m") -> None:
    """Applies the Deployment shop/web in a member."""
    container = {"name": "web", "image": "registry.invalid/web", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    async with plane.members[member].api() as api:
        await api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        await api.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "web", "namespace": "shop"},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": template,
                },
            }
        )


async def until_ready(plane: Plane, member: str, replicas: int) -> Any:
    """Waits until shop/web has this many ready pods in a member; returns the Deployment."""
    async with plane.members[member].api() as api:
        return await api.wait(
            f"{DEPLOYMENTS}/web",
            lambda found: found.get("status", {}).get("readyReplicas", 0) == replicas,
            what=f"{replicas} ready pods in {member}",
            seconds=60,
            every=0.02,
        )


async def started_adapter(plane: Plane) -> Processes:
    """Starts the adapter's process, registers it on the hub, and waits until all its APIs are available."""
    # No member hangs, so a slow one is waited for.
    processes = Processes(plane, adapter_flags=["--metrics-max-age=0s", "--member-deadline=60s"])
    async with plane.hub.api() as api:
        await api.apply_all(hub_rights())
        await processes.start_one(ADAPTER)
        await api.apply_all(processes.adapter_registrations())
    await processes.metrics_are_available()
    return processes
