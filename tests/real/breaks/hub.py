"""Breaks of the hub itself, of the rights of our accounts there, and of the CRDs."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from certs import CertificateAuthority
from testbed.stage import free_port
from testbed.stage.api import has_condition
from testbed.stage.kubeconfig import write_kubeconfig
from tests.real.breaks.patient import Break, Patient, anew
from tests.real.breaks.servers import Twist, answering, passage, serving
from tests.real.settling import done

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = f"{CRDS}/federatedhpas.autoscaling.karmada.io"
CRON_CRD = f"{CRDS}/cronfederatedhpas.autoscaling.karmada.io"
CRONS = "/apis/autoscaling.karmada.io/v1alpha1/cronfederatedhpas"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
TRUST = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


@asynccontextmanager
async def reached_by(
    patient: Patient, server: str = "", *, authority: bytes = b"", token: str = "nobody"
) -> AsyncIterator[None]:
    """The doctor's kubeconfig has another server, another CA, or a token."""
    hub = patient.plane.hub
    path = hub.folder / "doctor.kubeconfig"
    before = patient.kubeconfig
    patient.kubeconfig = write_kubeconfig(
        path, server or hub.server, authority or hub.pki.ca.bundle_pem, {"token": token}
    )
    try:
        yield
    finally:
        patient.kubeconfig = before


@asynccontextmanager
async def seen_through(patient: Patient, twist: Twist) -> AsyncIterator[None]:
    """The doctor reads the hub through a server that changes answers. It is still the administrator."""
    hub = patient.plane.hub
    context = serving(hub.folder, hub.pki.ca)
    client = hub.pki.client_context("admin")
    async with (
        passage(context, hub.server, client, twist, dropped=["Authorization"]) as port,
        reached_by(patient, f"https://127.0.0.1:{port}"),
    ):
        yield


def unreachable(patient: Patient) -> Any:
    return reached_by(patient, f"https://127.0.0.1:{free_port()}")


def untrusted(patient: Patient) -> Any:
    return reached_by(patient, authority=CertificateAuthority.create("other").bundle_pem)


def stranger(patient: Patient) -> Any:
    return reached_by(patient, token="a-token-of-nobody")


@asynccontextmanager
async def expired(patient: Patient) -> AsyncIterator[None]:
    hub = patient.plane.hub
    context = serving(hub.folder, hub.pki.ca, days=-1)
    async with answering(context, 200) as port, reached_by(patient, f"https://127.0.0.1:{port}"):
        yield


def failing(patient: Patient) -> Any:
    return seen_through(patient, lambda *_: (500, b"{}"))


@asynccontextmanager
async def slow_clock(patient: Patient) -> AsyncIterator[None]:
    """The clock of the doctor's machine is 90 seconds behind."""
    patient.wall = lambda: time.time() - 90.0
    try:
        yield
    finally:
        patient.wall = time.time


def without_request_header_ca(patient: Patient) -> Any:
    """The API server writes this ConfigMap again at once, so only the doctor sees it changed."""

    def twist(path: str, status: int, body: bytes) -> tuple[int, bytes]:
        if path != TRUST:
            return status, body
        found = json.loads(body)
        found["data"].pop("requestheader-client-ca-file")
        return status, json.dumps(found).encode()

    return seen_through(patient, twist)


def without_rule_of_clusters(found: Any) -> Any:
    rules = [rule for rule in found["rules"] if "clusters" not in rule.get("resources", ())]
    return {**found, "rules": rules}


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


@asynccontextmanager
async def without_crd(patient: Patient) -> AsyncIterator[None]:
    """The hub deletes all objects of a kind with its CRD, so they are written again."""
    hub = patient.hub
    objects = (await hub.get(CRONS))["items"]
    try:
        async with patient.deleted(CRON_CRD):
            yield
    finally:
        await hub.wait(
            CRON_CRD,
            lambda found: has_condition(found, kind="Established"),
            what="the kind is served",
            seconds=180,
        )
        for each in objects:
            kind = {"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "CronFederatedHPA"}
            again = anew({**each, **kind})
            await done(lambda again=again: hub.apply(again), "a CronFederatedHPA exists again")  # type: ignore[misc]


BREAKS: dict[str, Break] = {
    "hub-unreachable": unreachable,
    "hub-certificate": untrusted,
    "hub-certificate/expired": expired,
    "hub-login-refused": stranger,
    "hub-failing": failing,
    "hub-clock-skew": slow_clock,
    "component-rights-missing": lambda patient: patient.replaced(
        f"{ROLES}/fedhpa:metrics-adapter", without_rule_of_clusters
    ),
    "crd-missing": without_crd,
    "crd-fields-pruned": lambda patient: patient.replaced(CRD, without_field),
    "crd-outdated": lambda patient: patient.replaced(CRD, without_condition),
    "request-header-ca-missing": without_request_header_ca,
}
