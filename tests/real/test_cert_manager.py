"""cert-manager keeps the certificates of an installation with `tls.source=certManager`.

Its own controllers and CA injector run (testbed/real/tools/cert-manager), without its webhook.
"""

from __future__ import annotations

import asyncio
import base64
import functools
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from testbed.real.assets import ensure_program, module_sources
from testbed.real.controlplane import ControlPlane
from testbed.real.tools import CERT_MANAGER
from testbed.stage import Run, eventually, gather, has_condition
from testbed.stage.api import PlaneApi
from testbed.stage.registrations import cron_that_never_fires, namespace
from tests.real.helm import Helm
from tests.real.pods import HubWithPods, empty_clusters
from tests.real.settling import settled
from tests.support.chart import CHART, NAMESPACE, render
from tests.support.nightly import only_at_night
from tests.support.timing import background

CERTIFICATES = f"/apis/cert-manager.io/v1/namespaces/{NAMESPACE}/certificates"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
CRONS = "/apis/autoscaling.karmada.io/v1alpha1/namespaces/default/cronfederatedhpas"
APISERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"
APIS = "/apis/custom.metrics.k8s.io/v1beta2"
VALUES: dict[str, Any] = {"tls": {"source": "certManager"}}
RENDERED: tuple[dict[str, Any], ...] = (
    VALUES,
    {"tls": {**VALUES["tls"], "hosts": ["hub.example", "192.0.2.1", "2001:db8::1"]}, "part": "host"},
    {"tls": {**VALUES["tls"], "certManager": {"issuerRef": {"name": "ours", "kind": "ClusterIssuer"}}}},
)
SERVERS = ("webhook", "metrics-adapter")
WAITING = "waiting for the serving certificate"
SECONDS = 180.0
EVERY = 0.1
# Calls with which the hub must still trust the certificate that the pods serve, before they get a new one.
CALLS_OF_A_LATE_KUBELET = 30


async def install_crds(api: PlaneApi) -> None:
    """Applies cert-manager's CRDs, and waits until the hub serves them."""
    files = sorted((module_sources(CERT_MANAGER) / "deploy" / "crds").glob("*.yaml"))
    manifests = [
        each for file in files for each in yaml.safe_load_all(file.read_text(encoding="utf-8")) if each
    ]
    await api.apply_all(manifests)
    for manifest in manifests:
        name = manifest["metadata"]["name"]
        await api.wait(
            f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}",
            functools.partial(has_condition, kind="Established"),
            what=f"CRD {name} is served",
            seconds=SECONDS,
        )


@only_at_night
async def test_the_rendered_objects_have_only_fields_that_cert_manager_knows(assets: Path) -> None:
    """A real API server with cert-manager's CRDs validates them strictly."""
    run = Run.begin()
    try:
        plane = ControlPlane(run, assets, "bare")
        await plane.start_store_and_api()
        async with plane.api() as api:
            await install_crds(api)
            await api.apply_all([namespace(NAMESPACE)])
        for values in RENDERED:
            rendered = render(assets / "helm", values)
            ours = [each for (kind, _), each in rendered.items() if kind in ("Certificate", "Issuer")]
            answer = await plane.kubectl(
                "apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(ours)
            )
            said = len(answer.out.splitlines())

            assert (answer.code, answer.err) == (0, "")
            assert said == len(ours) >= len(SERVERS)
    finally:
        run.end()


@only_at_night
async def test_cert_manager_issues_and_renews_what_the_hub_trusts(assets: Path) -> None:
    """The processes start before their Secrets exist, say so, and serve as soon as cert-manager issued. While
    certificates and then the CA are renewed, the hub calls webhook and adapter without a failure.
    """
    program = ensure_program(CERT_MANAGER)
    async with empty_clusters(assets) as (hub, _), hub.cluster.api() as api:
        await install_crds(api)
        await Helm(assets / "helm", hub.cluster).run(
            "install", "fedhpa", str(CHART), "--create-namespace", values=VALUES
        )
        starting = asyncio.create_task(hub.run_pods())
        await eventually(
            lambda: holds(all(WAITING in hub.log(each) for each in SERVERS)),
            what="the servers say that they wait",
            seconds=SECONDS,
        )
        early = [await api.find(f"{SECRETS}/fedhpa-{each}-tls") for each in SERVERS]
        hub.cluster.run.spawn(
            "cert-manager",
            [str(program), f"--kubeconfig={hub.cluster.kubeconfig}"],
            hub.cluster.log("cert-manager"),
        )
        await starting
        assert await settled(lambda: call(api), lambda found: not found, seconds=SECONDS) == ""
        first, root = await served(hub, api), await stored(api, "webhook", "ca.crt")
        async with calling(api) as calls:
            for also_the_root in (False, True):
                if also_the_root:
                    await renew(api, "fedhpa-ca")
                await gather(*(renew(api, f"fedhpa-{each}") for each in SERVERS))
                await roots_are_published(api)
                await made(calls, CALLS_OF_A_LATE_KUBELET)
                await hub.mount_secrets()
                await secrets_are_served(hub, api)
                await made(calls, CALLS_OF_A_LATE_KUBELET)
        last, new_root = await served(hub, api), await stored(api, "webhook", "ca.crt")

    assert early == [None, None]
    assert not set(first) & set(last)
    assert root != new_root
    assert {problem for problem in calls if problem} == set()


async def holds(condition: bool) -> bool:
    return condition


async def call(api: PlaneApi) -> str:
    """Has the hub call webhook and adapter. Returns what failed, "" if nothing did."""
    never = cron_that_never_fires("never")
    _, _, refusal = await api.request("POST", CRONS, body=never, params={"dryRun": "All"})
    status, _, served = await api.request("GET", APIS)
    refused = b"denied the request" in refusal
    return "" if refused and status == 200 else f"{refusal.decode()[:300]} / {status} {served.decode()[:300]}"


@asynccontextmanager
async def calling(api: PlaneApi) -> AsyncIterator[Counter[str]]:
    """Counts the answers of continuous calls by what failed."""
    calls: Counter[str] = Counter()

    async def run() -> None:
        while True:
            calls[await call(api)] += 1
            await asyncio.sleep(EVERY)

    async with background(run()):
        yield calls


async def made(calls: Counter[str], more: int) -> None:
    """Waits for further calls."""
    before = calls.total()
    await eventually(lambda: holds(calls.total() >= before + more), what="further calls", seconds=SECONDS)


async def renew(api: PlaneApi, name: str) -> None:
    """Asks for a new certificate as `cmctl renew` does, and waits until it is issued."""
    path = f"{CERTIFICATES}/{name}"
    found = await api.get(path)
    status = found["status"]
    wanted = {
        "type": "Issuing",
        "status": "True",
        "reason": "ManuallyTriggered",
        "message": "a test renews it",
        "observedGeneration": found["metadata"]["generation"],
        "lastTransitionTime": status["notBefore"],
    }
    body = {"status": {"conditions": [*status["conditions"], wanted]}}
    await api.send("PATCH", f"{path}/status", body=body, content_type="application/merge-patch+json")

    def issued(certificate: Any) -> bool:
        now = certificate["status"]
        return now["revision"] > status["revision"] and not has_condition(certificate, kind="Issuing")

    await api.wait(path, issued, what=f"{name} is issued again", seconds=SECONDS)


async def stored(api: PlaneApi, component: str, key: str) -> bytes:
    found = await api.get(f"{SECRETS}/fedhpa-{component}-tls")
    return base64.b64decode(found["data"][key])


async def published(api: PlaneApi) -> dict[str, bytes]:
    """Returns the caBundle with which the hub calls each server."""
    webhooks = (await api.get(f"{WEBHOOKS}/validatingwebhookconfigurations/fedhpa-webhook"))["webhooks"]
    (of_webhook,) = {each["clientConfig"]["caBundle"] for each in webhooks}
    found = await api.get(f"{APISERVICES}/v1beta2.custom.metrics.k8s.io")
    bundles = zip(SERVERS, (of_webhook, found["spec"]["caBundle"]), strict=True)
    return {name: base64.b64decode(bundle) for name, bundle in bundles}


async def roots_are_published(api: PlaneApi) -> None:
    """Waits until each bundle has the root of its Secret. The CA injector keeps earlier roots beside it."""

    async def poll() -> bool:
        bundles = await published(api)
        return all([(await stored(api, name, "ca.crt")).strip() in bundles[name] for name in SERVERS])

    await eventually(poll, what="the roots are published", seconds=SECONDS)


async def served(hub: HubWithPods, api: PlaneApi) -> list[str]:
    """Returns the certificates of both servers. The published bundles verify them."""
    bundles = await published(api)
    return [await hub.certificate(name, bundles[name]) for name in SERVERS]


async def secrets_are_served(hub: HubWithPods, api: PlaneApi) -> None:
    """Waits until both servers serve the certificates of their Secrets."""

    async def poll() -> bool:
        wanted = [(await stored(api, name, "tls.crt")).decode().strip() for name in SERVERS]
        return [each.strip() for each in await served(hub, api)] == wanted

    await eventually(poll, what="the new certificates are served", seconds=SECONDS)
