"""`fedhpa doctor` on real planes: a test breaks one hop, and exactly that finding is added.

Other tests share the plane, so findings about their objects may exist before. Three breaks run in the suite,
all of them at night.
"""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from certs import CertificateAuthority
from fedhpa.doctor import WHY, Report, diagnose, examine
from fedhpa.kube import ApiClient, load_config
from testbed.real.plane import Plane
from testbed.stage.api import PlaneApi, has_condition
from testbed.stage.processes import CONTROLLER, WEBHOOK, Processes
from testbed.stage.registrations import ADAPTER, CLUSTER_NAMESPACE
from tests.real.settling import done, settled
from tests.real.workloads import deployment, federated_hpa, federated_hpa_path, namespace
from tests.support.nightly import only_at_night

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
OUR_WEBHOOKS = f"{WEBHOOKS}/fedhpa-webhook"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
SECRET = f"/api/v1/namespaces/{CLUSTER_NAMESPACE}/secrets/member1"
CLUSTER = "/apis/cluster.karmada.io/v1alpha1/clusters/member1"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/federatedhpas.autoscaling.karmada.io"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
SPACE, NAME = "doctor", "doctor"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{SPACE}/deployments"
HPAS = f"/apis/autoscaling/v2/namespaces/{SPACE}/horizontalpodautoscalers"


class Patient:
    """The plane and its processes, and what the doctor finds there."""

    def __init__(self, plane: Plane, processes: Processes, hub: PlaneApi) -> None:
        self.plane = plane
        self.processes = processes
        self.hub = hub

    async def report(self) -> Report:
        """Returns the report of the hub's administrator."""
        config = await load_config(str(self.plane.hub.kubeconfig))
        async with ApiClient(config) as client:
            return diagnose(await examine(client, seconds=10.0))

    async def findings(self) -> Counter[tuple[str, str]]:
        """Returns ids and subjects."""
        return Counter((each.id, each.subject) for each in (await self.report()).findings)

    @asynccontextmanager
    async def replaced(self, path: str, change: Callable[[Any], Any]) -> AsyncIterator[None]:
        """Replaces an object of the hub, and writes it back at the end."""
        before = await self.hub.get(path)

        async def put(wanted: Any) -> None:
            version = (await self.hub.get(path))["metadata"]["resourceVersion"]
            metadata = {**wanted["metadata"], "resourceVersion": version}
            await self.hub.send("PUT", path, body={**wanted, "metadata": metadata})

        changed = change(await self.hub.get(path))
        await done(lambda: put(changed), f"{path} is changed")
        try:
            yield
        finally:
            await done(lambda: put(before), f"{path} is as before")

    @asynccontextmanager
    async def deleted(self, path: str) -> AsyncIterator[None]:
        """Deletes an object of the hub, and creates it again at the end."""
        before = await self.hub.get(path)
        await self.hub.delete(path)
        try:
            yield
        finally:
            metadata = {
                key: before["metadata"][key]
                for key in ("name", "namespace", "labels")
                if key in before["metadata"]
            }
            again = {**before, "metadata": metadata}
            await done(lambda: self.hub.apply(again), f"{path} exists again")

    @asynccontextmanager
    async def created(self, *manifests: dict[str, Any], api: PlaneApi | None = None) -> AsyncIterator[None]:
        """Creates objects, and deletes them at the end."""
        target = api or self.hub
        await target.apply_all([namespace(SPACE), *manifests])
        try:
            yield
        finally:
            for manifest in manifests:
                await target.delete(await target.path_of(manifest))


@pytest.fixture
async def patient(plane: Plane, processes: Processes) -> AsyncIterator[Patient]:
    async with plane.hub.api() as hub:
        yield Patient(plane, processes, hub)


Break = Callable[[Patient], AbstractAsyncContextManager[None]]


def foreign_bundle() -> str:
    return base64.b64encode(CertificateAuthority.create("other").bundle_pem).decode()


def webhooks(change: Callable[[dict[str, Any]], object]) -> Break:
    """Changes each entry of our validating webhook."""

    def changed(found: Any) -> Any:
        for hook in found["webhooks"]:
            change(hook)
        return found

    return lambda patient: patient.replaced(OUR_WEBHOOKS, changed)


def to_url(url: str) -> Break:
    return webhooks(lambda hook: hook["clientConfig"].update(url=url))


@asynccontextmanager
async def silent_webhook(patient: Patient) -> AsyncIterator[None]:
    """A server that accepts connections and never answers."""

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
        finally:
            writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with to_url(f"https://127.0.0.1:{port}/validate")(patient):
            yield


@asynccontextmanager
async def killed_webhook(patient: Patient) -> AsyncIterator[None]:
    await patient.processes.kill(WEBHOOK)
    try:
        yield
    finally:
        await patient.processes.start_one(WEBHOOK)
        await patient.processes.webhook_is_called()


@asynccontextmanager
async def killed_adapter(patient: Patient) -> AsyncIterator[None]:
    await patient.processes.kill(ADAPTER)
    try:
        yield
    finally:
        await patient.processes.start_one(ADAPTER)
        await patient.processes.metrics_are_available()


@asynccontextmanager
async def stopped_controller(patient: Patient) -> AsyncIterator[None]:
    await patient.processes.stop(CONTROLLER)
    try:
        yield
    finally:
        await patient.processes.start_one(CONTROLLER)


@asynccontextmanager
async def controller_without_rules(patient: Patient) -> AsyncIterator[None]:
    """The hub has a CronFederatedHPA, and nobody runs rules."""
    rule = {"name": "night", "schedule": "0 22 * * *", "targetReplicas": 1, "suspend": True}
    cron = {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "CronFederatedHPA",
        "metadata": {"name": NAME, "namespace": SPACE},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
            "rules": [rule],
        },
    }
    async with patient.created(deployment(NAME, SPACE, replicas=0), cron):
        await patient.processes.stop(CONTROLLER)
        await patient.processes.start_one(CONTROLLER, "--controllers=federatedhpa")
        try:
            yield
        finally:
            await patient.processes.stop(CONTROLLER)
            await patient.processes.start_one(CONTROLLER)


@asynccontextmanager
async def lost_member(patient: Patient) -> AsyncIterator[None]:
    await patient.plane.lose("member1")
    try:
        yield
    finally:
        await patient.plane.bring_back("member1")


def secret(**data: str | None) -> Break:
    """Changes the Secret of member1."""

    def changed(found: Any) -> Any:
        merged = {**found["data"], **data}
        return {**found, "data": {key: value for key, value in merged.items() if value is not None}}

    return lambda patient: patient.replaced(SECRET, changed)


@asynccontextmanager
async def member_without_rights(patient: Patient) -> AsyncIterator[None]:
    async with patient.plane.members["member1"].api() as api:
        inside = Patient(patient.plane, patient.processes, api)

        def fewer(found: Any) -> Any:
            rules = [rule for rule in found["rules"] if "pods" not in rule.get("resources", ())]
            return {**found, "rules": rules}

        async with inside.replaced(f"{ROLES}/fedhpa:member", fewer):
            yield


@asynccontextmanager
async def member_without_metrics(patient: Patient) -> AsyncIterator[None]:
    async with patient.plane.members["member1"].api() as api:
        inside = Patient(patient.plane, patient.processes, api)
        async with inside.deleted(f"{API_SERVICES}/v1beta1.metrics.k8s.io"):
            yield
        await patient.plane.members["member1"].metrics_work()


def api_service(change: Callable[[Any], Any], until: str = "False") -> Break:
    """Changes the APIService of external metrics, and waits until the hub has noticed."""
    path = f"{API_SERVICES}/v1beta1.external.metrics.k8s.io"

    @asynccontextmanager
    async def broken(patient: Patient) -> AsyncIterator[None]:
        async with patient.replaced(path, change):
            await patient.hub.wait(
                path,
                lambda found: has_condition(found, kind="Available", status=until),
                what="the hub has checked the API",
                seconds=90,
            )
            yield
        await patient.processes.metrics_are_available()

    return broken


def other_service(found: Any) -> Any:
    return {
        **found,
        "spec": {**found["spec"], "service": {"namespace": "default", "name": "kubernetes", "port": 443}},
    }


def without_field(found: Any) -> Any:
    """Karmada's CRD has no dryRun."""
    for version in found["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"].pop("dryRun")
    return found


def without_condition(found: Any) -> Any:
    """A field of the last release only."""
    for version in found["spec"]["versions"]:
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
        status["summary"]["properties"].pop("reason")
        version["additionalPrinterColumns"] = [
            each
            for each in version["additionalPrinterColumns"]
            if not each["jsonPath"].endswith("summary.reason")
        ]
    return found


def first_rule_removed(found: Any) -> Any:
    return {
        **found,
        "rules": [rule for rule in found["rules"] if "clusters" not in rule.get("resources", ())],
    }


@asynccontextmanager
async def karmadas_entries(patient: Patient) -> AsyncIterator[None]:
    ours = await patient.hub.get(OUR_WEBHOOKS)
    theirs = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "validating-config"},
        "webhooks": ours["webhooks"],
    }
    async with patient.created(theirs):
        yield


@asynccontextmanager
async def scaled(
    patient: Patient, *hub_manifests: Mapping[str, Any], in_member: bool = True
) -> AsyncIterator[None]:
    """A FederatedHPA, with its workload in member1 unless told otherwise, once the controller has decided."""
    async with patient.plane.members["member1"].api() as api:
        inner = [deployment(NAME, SPACE, replicas=1)] if in_member else []
        async with (
            patient.created(*inner, api=api),
            patient.created(federated_hpa(NAME, SPACE, low=1, high=2), *map(dict, hub_manifests)),
        ):
            await patient.hub.wait(
                federated_hpa_path(NAME, SPACE),
                lambda found: bool((found.get("status") or {}).get("summary", {}).get("propagation")),
                what="the controller has decided",
                seconds=120,
            )
            yield


@asynccontextmanager
async def second_owner(patient: Patient) -> AsyncIterator[None]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}
    hpa = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": NAME, "namespace": SPACE},
        "spec": {"scaleTargetRef": target, "maxReplicas": 2},
    }
    async with scaled(patient), patient.plane.members["member1"].api() as api, patient.created(hpa, api=api):
        yield


SMOKE: dict[str, Break] = {
    "webhook-certificate-untrusted": webhooks(
        lambda hook: hook["clientConfig"].update(caBundle=foreign_bundle())
    ),
    "member-token-refused": secret(token=base64.b64encode(b"a-token-of-nobody").decode()),
    "webhook-not-registered": lambda patient: patient.deleted(OUR_WEBHOOKS),
}
NIGHT: dict[str, Break] = {
    "component-rights-missing": lambda patient: patient.replaced(
        f"{ROLES}/fedhpa:metrics-adapter", first_rule_removed
    ),
    "crd-fields-pruned": lambda patient: patient.replaced(CRD, without_field),
    "crd-outdated": lambda patient: patient.replaced(CRD, without_condition),
    "karmada-webhook-registered": karmadas_entries,
    "webhook-service-missing": webhooks(
        lambda hook: hook.update(
            clientConfig={
                "caBundle": hook["clientConfig"]["caBundle"],
                "service": {"namespace": "default", "name": "absent"},
            }
        )
    ),
    "webhook-name-unknown": to_url("https://fedhpa-webhook.invalid:443/validate"),
    "webhook-connection-refused": killed_webhook,
    "webhook-timeout": silent_webhook,
    "webhook-not-asked": webhooks(lambda hook: hook.update(objectSelector={"matchLabels": {"never": "so"}})),
    "apiservice-foreign": api_service(other_service),
    "apiservice-connection-refused": killed_adapter,
    "apiservice-certificate-untrusted": api_service(
        lambda found: {**found, "spec": {**found["spec"], "caBundle": foreign_bundle()}}
    ),
    "member-secret-unset": lambda patient: patient.replaced(
        CLUSTER, lambda found: {**found, "spec": {**found["spec"], "secretRef": None}}
    ),
    "member-secret-missing": lambda patient: patient.deleted(SECRET),
    "member-access-invalid": secret(caBundle=None),
    "member-unreachable": lost_member,
    "member-certificate-untrusted": secret(caBundle=foreign_bundle()),
    "member-rights-missing": member_without_rights,
    "member-metrics-not-served": member_without_metrics,
    "controller-not-running": stopped_controller,
    "cronfederatedhpa-controller-not-running": controller_without_rules,
    "target-missing": lambda patient: scaled(patient, in_member=False),
    "target-on-hub": lambda patient: scaled(patient, deployment(NAME, SPACE, replicas=0)),
    "second-owner": second_owner,
}


async def breaks_into(patient: Patient, kind: str, cut: Break) -> tuple[list[str], list[str]]:
    """Returns the ids that are added while a hop is broken, and those that are left after it was mended."""
    before = await patient.findings()
    async with cut(patient):
        # The hub learns of registrations and roles by watches, so the first look may be too early.
        broken = await settled(patient.findings, lambda found: kind in {id_ for id_, _ in found - before})
    after = await settled(patient.findings, lambda found: not found - before)
    return [id_ for id_, _ in (broken - before).elements()], [id_ for id_, _ in (after - before).elements()]


async def test_a_sound_installation_is_silent(patient: Patient) -> None:
    """Nothing is broken on a plane with all processes, except objects that other tests left behind."""
    report = await patient.report()

    assert [each for each in report.findings if each.id not in ("target-missing", "second-owner")] == []
    hops = [each.hop for each in report.not_checked]
    assert hops == [hop for hop in hops if hop == "the rights of fedhpa-webhook"]


@pytest.mark.parametrize("kind", SMOKE)
async def test_a_broken_hop_is_found(patient: Patient, kind: str) -> None:
    """Exactly its finding is added, and goes when the hop is mended."""
    assert await breaks_into(patient, kind, SMOKE[kind]) == ([kind], [])


@only_at_night
@pytest.mark.parametrize("kind", NIGHT)
async def test_each_broken_hop_is_found(patient: Patient, kind: str) -> None:
    """Exactly its finding is added, and goes when the hop is mended."""
    assert kind in WHY
    assert await breaks_into(patient, kind, NIGHT[kind]) == ([kind], [])
