"""Breaks of the metrics APIs on the hub, and of the certificates of the adapter."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from certs import CertificateAuthority
from fedhpa.api import rights
from testbed.stage.api import has_condition
from testbed.stage.processes import CONTROLLER
from testbed.stage.registrations import ADAPTER, ADAPTER_SERVICE, NAMESPACE
from tests.real.breaks.controllers import lease
from tests.real.breaks.patient import Break, Patient, bundle_of, foreign_bundle
from tests.real.breaks.servers import answering, hanging, serving

GROUP = "rbac.authorization.k8s.io"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
EXTERNAL = f"{API_SERVICES}/v1beta1.external.metrics.k8s.io"
SERVICE = f"/api/v1/namespaces/{NAMESPACE}/services/{ADAPTER_SERVICE}"
# The hub checks an API that works every 30 seconds.
NOTICED_SECONDS = 180.0


@asynccontextmanager
async def killed_adapter(patient: Patient) -> AsyncIterator[None]:
    await patient.processes.kill(ADAPTER)
    try:
        yield
    finally:
        await patient.processes.start_one(ADAPTER)
        await patient.processes.metrics_are_available()


def noticed(break_: Break, until: str = "False") -> Break:
    """Waits until the hub has checked the API of external metrics again, and at the end until all work."""

    @asynccontextmanager
    async def broken(patient: Patient) -> AsyncIterator[None]:
        async with break_(patient):
            await patient.hub.wait(
                EXTERNAL,
                lambda found: has_condition(found, kind="Available", status=until),
                what="the hub has checked the API",
                seconds=NOTICED_SECONDS,
            )
            yield
        await patient.processes.metrics_are_available()

    return broken


def api_service(**changes: Any) -> Break:
    """Changes the spec of the APIService of external metrics."""
    return noticed(
        lambda patient: patient.replaced(
            EXTERNAL, lambda found: {**found, "spec": {**found["spec"], **changes}}
        )
    )


def to_port(port: int, **changes: Any) -> Break:
    service = {"namespace": NAMESPACE, "name": ADAPTER_SERVICE, "port": port}
    return api_service(service=service, **changes)


@asynccontextmanager
async def silent_adapter(patient: Patient) -> AsyncIterator[None]:
    async with hanging() as port, to_port(port)(patient):
        yield


def adapter_that_answers(status: int, *, days: float = 30) -> Break:
    """Another server answers for the adapter, with one status."""

    @asynccontextmanager
    async def broken(patient: Patient) -> AsyncIterator[None]:
        authority = CertificateAuthority.create("of-the-test")
        context = serving(patient.plane.run.folder, authority, days)
        async with (
            answering(context, status) as port,
            to_port(port, caBundle=bundle_of(authority))(patient),
        ):
            yield

    return broken


@asynccontextmanager
async def no_api_services(patient: Patient) -> AsyncIterator[None]:
    names = [
        each["metadata"]["name"]
        for each in patient.processes.adapter_registrations()
        if each["kind"] == "APIService"
    ]
    async with AsyncExitStack() as stack:
        for name in names:
            await stack.enter_async_context(patient.deleted(f"{API_SERVICES}/{name}"))
        yield
    await patient.processes.metrics_are_available()


def without_pods(found: Any) -> Any:
    """A Service of type ClusterIP has endpoints only for pods."""
    return {
        **found,
        "spec": {"type": "ClusterIP", "ports": found["spec"]["ports"], "selector": {"app": "none"}},
    }


def certificate_in_secret(days: float) -> Break:
    """The Secret of the adapter has another certificate than the one that it serves."""

    @asynccontextmanager
    async def broken(patient: Patient) -> AsyncIterator[None]:
        issued = patient.processes.ca.issue_server(
            ADAPTER,
            dns=[f"{ADAPTER_SERVICE}.{NAMESPACE}.svc"],
            validity=dt.timedelta(days=90),
            now=dt.datetime.now(dt.UTC) - dt.timedelta(days=90 - days),
        )
        data = {"tls.crt": issued.cert_pem, "tls.key": issued.key_pem}
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {"name": f"{ADAPTER}-tls", "namespace": NAMESPACE},
            "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
        }
        async with patient.created(secret):
            yield

    return broken


def shortened(authority: CertificateAuthority, days: float) -> x509.Certificate:
    """Returns a certificate of the same CA that ends sooner, so that the hub still trusts the adapter."""
    found, now = authority.certificate, dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(found.issuer, found.subject, found.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(found.not_valid_before_utc)
    builder = builder.not_valid_after(now + dt.timedelta(days=days))
    for each in found.extensions:
        builder = builder.add_extension(each.value, each.critical)
    return builder.sign(authority.key, hashes.SHA256())


@asynccontextmanager
async def old_managed_ca(patient: Patient) -> AsyncIterator[None]:
    """The controller's Deployment has the flag and its rights, and a CA bundle the last year of the CA."""
    labels = {"app": CONTROLLER}
    container = {"name": "controller", "image": "none", "args": ["--manage-certificates"]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": CONTROLLER, "namespace": NAMESPACE},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }
    switches = rights.Switches(certificates=True)
    manifests = rights.hub_rights(NAMESPACE, switches=switches, components=["controller"])
    binding = await patient.hub.get(f"/apis/{GROUP}/v1/clusterrolebindings/{rights.CONTROLLER_ROLE}")
    head = {"apiVersion": f"{GROUP}/v1", "metadata": {"name": "doctor-certificates"}}
    rules = [rule for each in manifests for rule in each.get("rules") or ()]
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "doctor-certificates"}
    granted = (
        {**head, "kind": "ClusterRole", "rules": rules},
        {**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": binding["subjects"]},
    )
    pem = shortened(patient.processes.ca, 300).public_bytes(serialization.Encoding.PEM)
    async with (
        patient.created(lease("certificates")),
        patient.created(deployment, *granted),
        patient.replaced(
            EXTERNAL,
            lambda found: {
                **found,
                "spec": {**found["spec"], "caBundle": base64.b64encode(pem).decode()},
            },
        ),
    ):
        yield


BREAKS: dict[str, Break] = {
    "apiservice-missing": no_api_services,
    "apiservice-foreign": api_service(service={"namespace": "default", "name": "kubernetes", "port": 443}),
    "apiservice-missing/service": noticed(lambda patient: patient.deleted(SERVICE)),
    "apiservice-unavailable/no-endpoints": noticed(lambda patient: patient.replaced(SERVICE, without_pods)),
    "apiservice-unavailable/refused": killed_adapter,
    "apiservice-unavailable/timeout": silent_adapter,
    "apiservice-certificate/expired": adapter_that_answers(200, days=-1),
    "apiservice-certificate": api_service(caBundle=foreign_bundle()),
    "apiservice-refuses-hub": adapter_that_answers(401),
    "apiservice-unavailable": adapter_that_answers(500),
    "certificate-expires/expired": certificate_in_secret(-3),
    "certificate-expires": certificate_in_secret(3),
    "certificate-expires/managed-ca": old_managed_ca,
}
