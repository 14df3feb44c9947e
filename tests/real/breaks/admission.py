"""Breaks of the webhook and of its registration."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from certs import CertificateAuthority
from testbed.stage.processes import WEBHOOK
from tests.real.breaks.patient import NAME, SPACE, Break, Patient, bundle_of, foreign_bundle
from tests.real.breaks.servers import answering, hanging, serving

ADMISSION = "admissionregistration.k8s.io/v1"
OUR_WEBHOOKS = f"/apis/{ADMISSION}/validatingwebhookconfigurations/fedhpa-webhook"


def webhooks(change: Callable[[dict[str, Any]], object]) -> Break:
    """Changes each entry of our validating webhook."""

    def changed(found: Any) -> Any:
        for hook in found["webhooks"]:
            change(hook)
        return found

    return lambda patient: patient.replaced(OUR_WEBHOOKS, changed)


def to_url(url: str) -> Break:
    return webhooks(lambda hook: hook["clientConfig"].update(url=url))


def to_service(namespace: str, name: str) -> Break:
    def change(hook: dict[str, Any]) -> None:
        bundle = hook["clientConfig"]["caBundle"]
        hook["clientConfig"] = {"caBundle": bundle, "service": {"namespace": namespace, "name": name}}

    return webhooks(change)


@asynccontextmanager
async def silent_webhook(patient: Patient) -> AsyncIterator[None]:
    async with hanging() as port, to_url(f"https://127.0.0.1:{port}/validate")(patient):
        yield


@asynccontextmanager
async def expired_webhook(patient: Patient) -> AsyncIterator[None]:
    authority = CertificateAuthority.create("of-the-test")
    context = serving(patient.plane.run.folder, authority, days=-1)
    async with answering(context, 200) as port:
        own = {"url": f"https://127.0.0.1:{port}/validate", "caBundle": bundle_of(authority)}
        async with webhooks(lambda hook: hook.update(clientConfig=own))(patient):
            yield


@asynccontextmanager
async def service_without_pods(patient: Patient) -> AsyncIterator[None]:
    """The Service exists, and no pod is behind it."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": SPACE},
        "spec": {"selector": {"app": NAME}, "ports": [{"port": 443}]},
    }
    async with patient.created(service), to_service(SPACE, NAME)(patient):
        yield


@asynccontextmanager
async def wrong_path(patient: Patient) -> AsyncIterator[None]:
    url = f"https://127.0.0.1:{patient.processes.ports[WEBHOOK]}/nothing"
    async with to_url(url)(patient):
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
async def karmadas_entries(patient: Patient) -> AsyncIterator[None]:
    ours = await patient.hub.get(OUR_WEBHOOKS)
    theirs = {
        "apiVersion": ADMISSION,
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "validating-config"},
        "webhooks": ours["webhooks"],
    }
    async with patient.created(theirs):
        yield


@asynccontextmanager
async def strict_policy(patient: Patient) -> AsyncIterator[None]:
    """A policy of the hub's owner forbids metrics of type External."""
    rule = {
        "apiGroups": ["autoscaling.karmada.io"],
        "apiVersions": ["*"],
        "resources": ["federatedhpas"],
        "operations": ["CREATE"],
    }
    expression = "!has(object.spec.metrics) || object.spec.metrics.all(each, each.type != 'External')"
    policy = {
        "apiVersion": ADMISSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": expression, "message": "no external metrics here"}],
        },
    }
    binding = {
        "apiVersion": ADMISSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": NAME},
        "spec": {"policyName": NAME, "validationActions": ["Deny"]},
    }
    async with patient.created(policy, binding):
        yield


BREAKS: dict[str, Break] = {
    "karmada-webhook-registered": karmadas_entries,
    "webhook-not-registered": lambda patient: patient.deleted(OUR_WEBHOOKS),
    "webhook-call-failed/service-missing": to_service("default", "absent"),
    "webhook-call-failed/no-endpoints": service_without_pods,
    "webhook-call-failed/name-unknown": to_url("https://fedhpa-webhook.invalid:443/validate"),
    "webhook-call-failed/refused": killed_webhook,
    "webhook-call-failed/timeout": silent_webhook,
    "webhook-certificate/expired": expired_webhook,
    "webhook-certificate": webhooks(lambda hook: hook["clientConfig"].update(caBundle=foreign_bundle())),
    "webhook-call-failed": wrong_path,
    "webhook-not-asked": webhooks(lambda hook: hook.update(objectSelector={"matchLabels": {"never": "so"}})),
    "webhook-refuses-valid-objects": strict_policy,
}
