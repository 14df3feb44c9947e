"""The webhook configurations, and dry runs of objects that the webhook must admit or refuse."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.federatedhpa import API_VERSION, GROUP, KIND
from fedhpa.doctor.checks.admission import KINDS, OURS
from fedhpa.doctor.observations import Admission, Cause, Certificate, Entry, Problem, Right, Trial
from fedhpa.doctor.reading.certificates import from_bundle, in_secret, served, together
from fedhpa.doctor.reading.session import Session
from fedhpa.kube import resource_path
from webhook.registration import TIMEOUT_SECONDS

NAME: Final = "fedhpa-doctor"
REGISTRATION: Final = "admissionregistration.k8s.io/v1"
VALIDATING: Final = "validatingwebhookconfigurations"
MUTATING: Final = "mutatingwebhookconfigurations"
# The hub waits for the mutating and then for the validating webhook, up to timeoutSeconds each.
WEBHOOK_SECONDS: Final = 2.0 * TIMEOUT_SECONDS
# The label with the name of a namespace, by which a registration is limited to some.
NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
# A webhook "denied the request", a ValidatingAdmissionPolicy "denied request".
DENIED: Final = re.compile(r"denied (the )?request")
EXTERNAL_NAME: Final = "ExternalName"


class _Rule(msgspec.Struct, frozen=True):
    apiGroups: list[str] | None = None
    resources: list[str] | None = None
    operations: list[str] | None = None


class _Service(msgspec.Struct, frozen=True):
    namespace: str = ""
    name: str = ""


class _ServiceSpec(msgspec.Struct, frozen=True):
    type: str = ""


class _StoredService(msgspec.Struct, frozen=True):
    spec: _ServiceSpec = _ServiceSpec()


class _EndpointConditions(msgspec.Struct, frozen=True):
    ready: bool | None = None


class _Endpoint(msgspec.Struct, frozen=True):
    conditions: _EndpointConditions = _EndpointConditions()


class _Slice(msgspec.Struct, frozen=True):
    endpoints: list[_Endpoint] | None = None


class _ClientConfig(msgspec.Struct, frozen=True):
    url: str | None = None
    service: _Service | None = None
    caBundle: str | None = None


class _Expression(msgspec.Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Selector(msgspec.Struct, frozen=True):
    matchExpressions: list[_Expression] | None = None


class _Webhook(msgspec.Struct, frozen=True):
    name: str = ""
    namespaceSelector: _Selector = _Selector()
    rules: list[_Rule] | None = None
    clientConfig: _ClientConfig = _ClientConfig()


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""


class Configuration(msgspec.Struct, frozen=True):
    """A MutatingWebhookConfiguration or a ValidatingWebhookConfiguration."""

    metadata: _Meta = _Meta()
    webhooks: list[_Webhook] | None = None


async def read_admission(hub: Session, namespace: str) -> tuple[Admission, tuple[Certificate, ...]]:
    """Returns the webhooks for our kinds with the dry runs, and the certificates of our webhook."""
    validating, mutating = await asyncio.gather(
        hub.list(resource_path(REGISTRATION, VALIDATING), Configuration),
        hub.list(resource_path(REGISTRATION, MUTATING), Configuration),
    )
    chosen = "" if isinstance(validating, Problem) else _watched_namespace(validating)
    trials = await _trials(hub, chosen or hub.client.config.namespace)
    if isinstance(validating, Problem) or isinstance(mutating, Problem):
        problem = validating if isinstance(validating, Problem) else mutating
        assert isinstance(problem, Problem)
        return Admission(problem, trials), ()
    ready, certificates = await asyncio.gather(
        _ready_endpoints(hub, (*validating, *mutating)),
        _certificates(hub, namespace, (*validating, *mutating)),
    )
    entries = (
        *_entries(hub, validating, ready, validates=True),
        *_entries(hub, mutating, ready, validates=False),
    )
    return Admission(entries, trials), certificates


async def _ready_endpoints(hub: Session, found: tuple[Configuration, ...]) -> dict[_Service, int]:
    """Returns the number of ready endpoints of each Service of our registrations, where it can be seen.

    An API server that dials the cluster IP of such a Service cannot tell that nothing is behind it.
    """
    services = {
        hook.clientConfig.service
        for each in found
        for hook in each.webhooks or ()
        if each.metadata.name == OURS and hook.clientConfig.service is not None
    }
    ready = {}
    for service in services:
        stored, slices = await asyncio.gather(
            hub.get(resource_path("v1", "services", service.namespace, service.name), _StoredService),
            hub.list(
                resource_path("discovery.k8s.io/v1", "endpointslices", service.namespace),
                _Slice,
                labels=f"kubernetes.io/service-name={service.name}",
            ),
        )
        if isinstance(stored, Problem) or isinstance(slices, Problem) or stored.spec.type == EXTERNAL_NAME:
            continue
        ready[service] = sum(
            endpoint.conditions.ready is not False for each in slices for endpoint in each.endpoints or ()
        )
    return ready


def _entries(
    hub: Session, found: tuple[Configuration, ...], ready: Mapping[_Service, int], *, validates: bool
) -> list[Entry]:
    return [
        Entry(
            hub.line(configuration.metadata.name),
            hub.line(webhook.name),
            tuple(resources),
            validates,
            hub.line(_place(webhook.clientConfig)),
            None if webhook.clientConfig.service is None else ready.get(webhook.clientConfig.service),
        )
        for configuration in found
        for webhook in configuration.webhooks or ()
        if (resources := _our_resources(webhook))
    ]


def _our_resources(webhook: _Webhook) -> list[str]:
    """Returns the resources of our group that a webhook is called for."""
    ours = {*KINDS, "*", "*/*"}
    return [
        resource
        for rule in webhook.rules or ()
        if {GROUP, "*"}.intersection(rule.apiGroups or ())
        # Karmada has a webhook that guards every object against its deletion.
        and rule.operations != ["DELETE"]
        for resource in rule.resources or ()
        if resource in ours
    ]


def _place(config: _ClientConfig) -> str:
    service = config.service
    return f"{service.namespace}/{service.name}" if service is not None else config.url or ""


async def _certificates(
    hub: Session, namespace: str, found: tuple[Configuration, ...]
) -> tuple[Certificate, ...]:
    ours = [hook.clientConfig for each in found if each.metadata.name == OURS for hook in each.webhooks or ()]
    groups = [from_bundle("webhook caBundle", config.caBundle) for config in ours]
    urls = sorted({config.url for config in ours if config.url})
    if urls:
        groups.append(await served("webhook certificate", urls[0], hub.seconds))
    elif ours:
        groups.append(await in_secret(hub, "webhook certificate", namespace, f"{OURS}-tls"))
    return together(groups)


def _watched_namespace(found: tuple[Configuration, ...]) -> str:
    """Returns a namespace that our webhook is limited to, where it does not judge all namespaces."""
    for configuration in found:
        for webhook in configuration.webhooks or () if configuration.metadata.name == OURS else ():
            for each in webhook.namespaceSelector.matchExpressions or ():
                if (each.key, each.operator) == (NAMESPACE_LABEL, "In") and each.values:
                    return each.values[0]
    return ""


async def _trials(hub: Session, namespace: str) -> tuple[Trial, ...]:
    wanted = [*_federated(namespace), *_cron(namespace)]
    return tuple(await asyncio.gather(*(_trial(hub, namespace, *each) for each in wanted)))


def _federated(namespace: str) -> list[tuple[dict[str, Any], str]]:
    """Returns a valid and an invalid FederatedHPA, with the words of the refusal.

    Karmada's webhook refuses the valid one, because it has no metrics of type External.
    """
    external = {"metric": {"name": "fedhpa-doctor"}, "target": {"type": "AverageValue", "averageValue": "1"}}
    resource = {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "0m"}}
    valid = {"maxReplicas": 2, "metrics": [{"type": "External", "external": external}]}
    invalid = {"maxReplicas": 2, "metrics": [{"type": "Resource", "resource": resource}]}
    return [
        (_object(KIND, namespace, valid), ""),
        (_object(KIND, namespace, invalid), "must be positive"),
    ]


def _cron(namespace: str) -> list[tuple[dict[str, Any], str]]:
    """Returns a valid and an invalid CronFederatedHPA. The schema accepts 31 February."""

    def rules(schedule: str) -> dict[str, Any]:
        return {"rules": [{"name": "doctor", "schedule": schedule, "targetReplicas": 1, "suspend": True}]}

    return [
        (_object(CRON_KIND, namespace, rules("0 0 1 1 *")), ""),
        (_object(CRON_KIND, namespace, rules("0 0 31 2 *")), "invalid cron format"),
    ]


def _object(kind: str, namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}
    metadata = {"name": NAME, "namespace": namespace}
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": metadata,
        "spec": {"scaleTargetRef": target, **spec},
    }


async def _trial(hub: Session, namespace: str, wanted: dict[str, Any], words: str) -> Trial:
    kind, plural = wanted["kind"], f"{wanted['kind'].lower()}s"
    may = await hub.allows(Right("create", GROUP, plural, "", namespace))
    if may is False:
        text = f"you may not create {plural} in {namespace}"
        return Trial(kind, not words, words, problem=Problem(Cause.FORBIDDEN, text))
    answer = await hub.request(
        "POST",
        resource_path(API_VERSION, plural, namespace),
        body=wanted,
        patience=WEBHOOK_SECONDS,
        dryRun="All",
        fieldManager=NAME,
    )
    if not isinstance(answer, Problem) or "already exists" in answer.text:
        return Trial(kind, not words, words)
    if DENIED.search(answer.text) or "is invalid:" in answer.text:
        return Trial(kind, not words, words, answer.text)
    return Trial(kind, not words, words, problem=answer)
