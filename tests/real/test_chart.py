"""The chart in real clusters: installed, upgraded, rolled back and removed by real helm, and run."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from certs import CertificateAuthority
from fedhpa.api import rights
from testbed.real.controlplane import ControlPlane
from testbed.real.plane import Plane
from testbed.stage import eventually, free_port, gather
from testbed.stage.api import PlaneApi, has_condition
from testbed.stage.registrations import cron_that_never_fires
from tests.real.helm import COMPONENTS, Helm, RenderedProcess, account_kubeconfig, previous_chart
from tests.real.workloads import (
    BUSY,
    federated_hpa,
    namespace,
    replicas_settle,
    run_everywhere,
    set_usage_everywhere,
)
from tests.support.chart import CHART, NAMESPACE
from tests.support.nightly import only_at_night

SMOKE = "chart-smoke"
APISERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FEDERATED_HPA_CRD = f"{CRDS}/federatedhpas.autoscaling.karmada.io"
HUB_USER = "fedhpa-processes"
GONE_SECONDS = 60.0
BUNDLE = base64.b64encode(CertificateAuthority.create("published").bundle_pem).decode()


async def test_pods_of_the_chart_run_and_leave_nothing(plane: Plane, assets: Path) -> None:
    """Part host starts two restricted pods of each process, changes with an upgrade, and leaves nothing."""
    member = plane.members["member1"]
    helm = Helm(assets / "helm", member, SMOKE)
    restricted = namespace(SMOKE)
    restricted["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "restricted"}
    async with member.api() as api:
        await api.apply_all([restricted])
        try:
            await helm.run("install", "smoke", str(CHART), "--wait", values={"part": "host"})
            pods = await running(api)
            values = {"part": "host", "webhook": {"replicas": 1}}
            await helm.run("upgrade", "smoke", str(CHART), values=values)
            fewer = await deployed(api, "fedhpa-webhook")
            await helm.run("rollback", "smoke", "1")
            again = await deployed(api, "fedhpa-webhook")
            await helm.run("uninstall", "smoke")
            left = await api.get(f"/apis/apps/v1/namespaces/{SMOKE}/deployments")
        finally:
            await api.delete(f"/api/v1/namespaces/{SMOKE}")
        await gone(api, f"/api/v1/namespaces/{SMOKE}")

    assert pods == {f"fedhpa-{component}": 2 for component in COMPONENTS}
    assert (fewer, again) == (1, 2)
    assert left["items"] == []


@pytest.mark.parametrize("name", ["helm", "helm3"])
async def test_an_api_of_another_server_is_not_taken(plane: Plane, assets: Path, name: str) -> None:
    """Where a metrics-server is, the chart refuses to register metrics.k8s.io, and names the owner."""
    helm = Helm(assets / name, plane.members["member1"], SMOKE)
    arguments = ("install", "smoke", str(CHART), "--dry-run=server", "--take-ownership")
    refused = await helm.run(*arguments, values={"apis": {"metrics": True}}, code=1)

    assert (
        "APIService v1beta1.metrics.k8s.io belongs to the Service kube-system/metrics-server: "
        "set apis.metrics=false, or delete the APIService first"
    ) in refused.err

    await helm.run(*arguments, "--create-namespace", values={})


async def running(api: PlaneApi) -> dict[str, int]:
    found = await api.get(f"/api/v1/namespaces/{SMOKE}/pods")
    accounts = [
        pod["spec"]["serviceAccountName"] for pod in found["items"] if pod["status"]["phase"] == "Running"
    ]
    return {name: accounts.count(name) for name in accounts}


async def deployed(api: PlaneApi, name: str) -> int:
    found = await api.get(f"/apis/apps/v1/namespaces/{SMOKE}/deployments/{name}")
    return int(found["spec"]["replicas"])


async def gone(api: PlaneApi, path: str) -> None:
    async def poll() -> bool:
        return await api.find(path) is None

    await eventually(poll, what=f"{path} is gone", seconds=GONE_SECONDS)


@asynccontextmanager
async def empty_plane(assets: Path) -> AsyncIterator[Plane]:
    """A hub and two members that know nothing of fedhpa. The members are registered by the caller."""
    plane = Plane(assets)
    try:
        await gather(plane.hub.start(), *(member.start() for member in plane.members.values()))
        await gather(*(member.metrics_work() for member in plane.members.values()))
        yield plane
    finally:
        plane.end()


async def publish(api: PlaneApi) -> None:
    """Writes a caBundle into all registrations, as a process that owns only this field."""
    for path in await registrations(api):
        found = await api.get(path)
        if "webhooks" in found:
            entries = [
                {"name": one["name"], "clientConfig": {"caBundle": BUNDLE}} for one in found["webhooks"]
            ]
            body: dict[str, Any] = {"webhooks": entries}
        else:
            body = {"spec": {"caBundle": BUNDLE}}
        kind = (
            "application/strategic-merge-patch+json"
            if "webhooks" in found
            else "application/merge-patch+json"
        )
        await api.send("PATCH", path, body=body, content_type=kind, params={"fieldManager": "controller"})


async def registrations(api: PlaneApi) -> list[str]:
    services = (await api.get(APISERVICES))["items"]
    ours = [
        one["metadata"]["name"]
        for one in services
        if one["spec"].get("service", {}).get("name") == rights.ADAPTER
    ]
    kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    return [f"{APISERVICES}/{name}" for name in ours] + [
        f"{WEBHOOKS}/{kind}/{rights.WEBHOOK}" for kind in kinds
    ]


async def bundles(api: PlaneApi) -> list[str]:
    found = [await api.get(path) for path in await registrations(api)]
    return [
        holder.get("caBundle", "")
        for one in found
        for holder in (
            [entry["clientConfig"] for entry in one["webhooks"]] if "webhooks" in one else [one["spec"]]
        )
    ]


async def timeouts(api: PlaneApi) -> set[int]:
    found = await api.get(f"{WEBHOOKS}/validatingwebhookconfigurations/{rights.WEBHOOK}")
    return {entry["timeoutSeconds"] for entry in found["webhooks"]}


def with_one_more_field(folder: Path) -> Path:
    """Returns the chart of a newer release, whose FederatedHPAs have a field that today's lack."""
    newer = folder / "newer"
    shutil.copytree(CHART, newer)
    file = newer / "files" / "crds" / "autoscaling.karmada.io.yaml"
    before = "\n            properties:\n              autoscaleMultiClusterDelay:\n"
    added = before.replace("autoscale", "addedLater: {type: integer}\n              autoscale")
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, added, 1), encoding="utf-8")
    return newer


@only_at_night
@pytest.mark.parametrize("name", ["helm", "helm3"])
async def test_the_hub_keeps_its_bundle_and_its_crds(assets: Path, tmp_path: Path, name: str) -> None:
    """An upgrade from the previous chart and a rollback keep the published caBundle. With crds.install=false
    the earlier chart leaves newer CRDs alone. After uninstall namespaces can be deleted, the CRDs with their
    objects are still there, and another release takes them over only when told to.
    """
    before = await previous_chart(tmp_path)
    async with empty_plane(assets) as plane, plane.hub.api() as api:
        helm = Helm(assets / name, plane.hub)
        await helm.run("install", "fedhpa", str(before), "--create-namespace", values={"part": "hub"})
        await publish(api)
        installed = await bundles(api)
        changed = {"part": "hub", "webhook": {"timeoutSeconds": 5}}
        await helm.run("upgrade", "fedhpa", str(CHART), values=changed)
        upgraded = await bundles(api), await timeouts(api)
        await helm.run("rollback", "fedhpa", "1")
        rolled_back = await bundles(api), await timeouts(api)
        await helm.run("upgrade", "fedhpa", str(with_one_more_field(tmp_path)), values={"part": "hub"})
        apart = {"part": "hub", "crds": {"install": False}}
        await helm.run("upgrade", "fedhpa", str(before), values=apart)
        newer = await api.get(FEDERATED_HPA_CRD)
        await plane.hub.register(plane.members["member1"])
        await helm.run("uninstall", "fedhpa")
        after = await registered(api)
        await api.apply_all([namespace("short-lived")])
        await api.delete("/api/v1/namespaces/short-lived")
        await gone(api, "/api/v1/namespaces/short-lived")
        kept = await api.find("/apis/cluster.karmada.io/v1alpha1/clusters/member1")
        refused = await helm.run("install", "other", str(CHART), values={"part": "hub"}, code=1)
        await helm.run("install", "other", str(CHART), "--take-ownership", values={"part": "hub"})
        again = await registered(api)

    assert set(installed) == {BUNDLE}
    assert upgraded == (installed, {5})
    assert rolled_back == (installed, {3})
    assert "addedLater" in json.dumps(newer)
    assert after == []
    assert kept is not None
    assert "invalid ownership metadata" in refused.err
    assert len(again) == 6


@only_at_night
@pytest.mark.parametrize("name", ["helm", "helm3"])
async def test_a_karmada_hub_keeps_its_crds(assets: Path, name: str) -> None:
    """The chart refuses to install CRDs on a hub whose Cluster API is aggregated, as Karmada's is."""
    async with empty_plane(assets) as plane, plane.hub.api() as api:
        await api.apply_all([namespace(rights.CLUSTER_NAMESPACE), karmada_api()])
        helm = Helm(assets / name, plane.hub)
        arguments = ("install", "fedhpa", str(CHART), "--create-namespace")
        refused = await helm.run(*arguments, values={"part": "hub"}, code=1)
        await helm.run(*arguments, values={"part": "hub", "propagation": "karmada"})
        definitions = await api.get(CRDS)

    assert "this hub is Karmada's, which owns the CRDs" in refused.err
    assert [one["metadata"]["name"] for one in definitions["items"]] == ["scalingrecords.fedhpa.io"]


@only_at_night
async def test_the_rendered_processes_scale_a_workload(assets: Path, tmp_path: Path) -> None:
    """Part hub on the hub and part host in another cluster give three processes that serve the hub."""
    ports = iter([free_port() for _ in range(8)])
    webhook, adapter = next(ports), next(ports)
    values = {
        "hub": {
            "webhookHost": f"localhost:{webhook}",
            "metricsAdapterHost": f"localhost:{adapter}",
            "users": [HUB_USER],
        },
        "rbac": {"secretsNamespaces": [rights.CLUSTER_NAMESPACE]},
        # The admission policy is for this user, too.
        "controller": {"hubUsers": [HUB_USER], "ports": {"metrics": next(ports), "health": next(ports)}},
        "metricsAdapter": {"ports": {"https": adapter, "metrics": next(ports), "health": next(ports)}},
        "webhook": {"ports": {"https": webhook, "metrics": next(ports), "health": next(ports)}},
    }
    async with empty_plane(assets) as plane:
        host = plane.members["member1"]
        await prepare(plane, host)
        arguments = ("install", "fedhpa", str(CHART))
        await Helm(assets / "helm", plane.hub).run(*arguments, values={**values, "part": "hub"})
        await Helm(assets / "helm3", host).run(*arguments, values={**values, "part": "host"})
        await gather(*(plane.hub.register(member) for member in plane.members.values()))
        controller, *others = await rendered(plane, host)
        account = await account_kubeconfig(host, rights.CONTROLLER, tmp_path / "account")
        await gather(
            controller.start(host, f"--certificates-kubeconfig={account}"),
            *(process.start(host) for process in others),
        )

        await apis_are_available(plane.hub)
        refusal = await plane.hub.kubectl(
            "create", "--dry-run=server", "-f", "-", stdin=json.dumps(cron_that_never_fires("never"))
        )
        await set_usage_everywhere(plane, "web", "charted", BUSY)
        await run_everywhere(plane, "web", "charted", replicas=1)
        async with plane.hub.api() as api:
            await api.apply_all([federated_hpa("web", "charted", low=2, high=6)])
            spread = await replicas_settle(plane, "web", "charted", {"member1": 3, "member2": 3})
            lease = await api.get(
                f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/fedhpa-controller-0-of-1"
            )

    assert spread == {"member1": 3, "member2": 3}
    assert "denied the request" in refusal.err
    assert lease["spec"]["holderIdentity"]


async def registered(api: PlaneApi) -> list[str]:
    """The names of all objects on the hub that carry the chart's label and call a process."""
    selector = "app.kubernetes.io/part-of=fedhpa"
    kinds = (
        APISERVICES,
        f"{WEBHOOKS}/mutatingwebhookconfigurations",
        f"{WEBHOOKS}/validatingwebhookconfigurations",
    )
    found = [await api.get(kind, labelSelector=selector) for kind in kinds]
    return [one["metadata"]["name"] for items in found for one in items["items"]]


def karmada_api() -> dict[str, Any]:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1alpha1.cluster.karmada.io"},
        "spec": {
            "group": "cluster.karmada.io",
            "version": "v1alpha1",
            "groupPriorityMinimum": 2000,
            "versionPriority": 10,
            "insecureSkipTLSVerify": True,
            "service": {"name": "karmada-aggregated-apiserver", "namespace": "karmada-system"},
        },
    }


async def prepare(plane: Plane, host: ControlPlane) -> None:
    """Makes the namespaces on the hub, and the Secret with the kubeconfig of the processes' user there."""
    kubeconfig = base64.b64encode(plane.hub.user_kubeconfig(HUB_USER).read_bytes()).decode()
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "fedhpa-hub-kubeconfig", "namespace": NAMESPACE},
        "data": {"kubeconfig": kubeconfig},
    }
    async with plane.hub.api() as hub, host.api() as api:
        await hub.apply_all([namespace(NAMESPACE), namespace(rights.CLUSTER_NAMESPACE)])
        await api.apply_all([namespace(NAMESPACE), secret])


async def rendered(plane: Plane, host: ControlPlane) -> list[RenderedProcess]:
    async with host.api() as api:
        return [
            RenderedProcess(
                plane.run,
                plane.run.folder / "rendered",
                component,
                await api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/fedhpa-{component}"),
            )
            for component in COMPONENTS
        ]


async def apis_are_available(hub: ControlPlane) -> None:
    async with hub.api() as api:

        async def poll() -> bool:
            names = [path for path in await registrations(api) if path.startswith(APISERVICES)]
            found = [await api.get(path) for path in names]
            return len(found) == 4 and all(has_condition(one, kind="Available") for one in found)

        await eventually(poll, what="the hub's metrics APIs are available", seconds=150)
