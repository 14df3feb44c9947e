"""The product's metrics adapter behind the embedded API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fedhpa.admission import crd
from fedhpa.kube import SYSTEM
from fedhpa.serving.flags.parsing import parse_flags
from fedhpa.serving.process import Signals
from metrics_adapter.process import Adapter, serve
from metrics_adapter.settings import FLAGS
from testbed.embedded.api.types import User
from testbed.embedded.controlplane import ControlPlane
from testbed.stage.registrations import (
    ADAPTER,
    NAMESPACE,
    Credentials,
    aggregated_api,
    cluster_objects,
    hub_rights,
)
from tests.support.adapter.process import METRICS, PODS_PATH, pod_metrics, until
from tests.support.embedded_plane import have_patience
from tests.support.fakeapi import PATIENCE, FakeApi, eventually, fake_api

API_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io"
Object = dict[str, Any]


@pytest.fixture
async def plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ControlPlane]:
    have_patience(monkeypatch)
    made = ControlPlane(tmp_path / "hub", "hub")
    await made.start()
    try:
        yield made
    finally:
        await made.end()


@asynccontextmanager
async def adapter(plane: ControlPlane, folder: Path, member: FakeApi) -> AsyncIterator[Adapter]:
    """A running adapter whose hub is the plane."""
    async with plane.api() as api:
        await api.apply_all([crd.custom_resource_definition(crd.CLUSTER), *hub_rights()])
        credentials = Credentials("token", member.ca_pem.encode())
        await api.apply_all(cluster_objects("member1", member.url, credentials))
    plane.pki.ca.issue_server("adapter", dns=[f"{ADAPTER}.{NAMESPACE}.svc"]).save(folder)
    kubeconfig = plane.pki.kubeconfig(folder / "kubeconfig", plane.server, ADAPTER)
    flags = [
        f"--kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        "--secure-port=0",
        f"--cert-dir={folder}",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        "--shutdown-grace-period=1s",
        "--member-deadline=60s",
    ]
    signals = Signals()
    started: asyncio.Queue[Adapter] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(parse_flags(FLAGS, flags, {}), signals, started.put_nowait, clock=SYSTEM))
        async with asyncio.timeout(PATIENCE):
            made = await started.get()
        try:
            await eventually(lambda: made.health.ready)
            yield made
        finally:
            signals.stop.set()


async def test_the_adapter_is_available_and_trusts_the_front_proxy(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """It uses the trust that the plane publishes, and reviews the access of the proxied user."""
    plane.authenticator.tokens["t0k3n"] = User("jane", ("dev",))
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "top"}}
    rule = {"apiGroups": ["metrics.k8s.io"], "resources": ["pods"], "verbs": ["list"]}
    binding = {
        **role,
        "kind": "ClusterRoleBinding",
        "roleRef": {"kind": "ClusterRole", "name": "top", "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [{"kind": "Group", "name": "dev"}],
    }
    (tmp_path / "adapter").mkdir()
    async with (
        fake_api() as member,
        plane.api() as hub,
        adapter(plane, tmp_path / "adapter", member) as running,
    ):
        member.put(METRICS, pod_metrics("web"))
        registration = aggregated_api(
            group="metrics.k8s.io",
            version="v1beta1",
            service=ADAPTER,
            namespace=NAMESPACE,
            port=running.server.port,
            ca_bundle=plane.pki.ca.bundle_pem,
        )
        await hub.apply_all(registration)
        condition: Object = {}

        async def passed() -> bool:
            status = (await hub.get(API_SERVICE)).get("status", {})
            condition.update((status.get("conditions") or [{}])[0])
            return condition.get("reason") == "Passed"

        await until(passed, PATIENCE)
        async with plane.api(token="t0k3n") as jane:
            before = await jane.request("GET", PODS_PATH)
            await hub.apply_all([{**role, "rules": [rule]}, binding])
            after = await jane.get(PODS_PATH)
        discovered = await hub.get("/apis/metrics.k8s.io/v1beta1")
        groups = await hub.get("/apis")

    assert condition["status"] == "True"
    assert condition["message"] == "all checks passed"
    assert before[0] == 403
    assert [item["metadata"]["name"] for item in after["items"]] == ["web"]
    assert {resource["name"] for resource in discovered["resources"]} == {"nodes", "pods"}
    assert "metrics.k8s.io" in {group["name"] for group in groups["groups"]}
