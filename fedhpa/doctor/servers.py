"""Our servers, as the hub calls them: the webhook with dry runs, and the metrics APIs of the adapter."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from shlex import quote
from typing import Final

from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.federatedhpa import API_VERSION, GROUP, KIND
from fedhpa.api.free_json import Json, at, condition, entries, text_at
from fedhpa.api.rights import ADAPTER, WEBHOOK
from fedhpa.doctor.certificates import Certificate, cause_of, certificate_fix, of_server
from fedhpa.doctor.report import names, removals
from fedhpa.doctor.session import Cause, Problem, Right
from fedhpa.doctor.site import KUBE_SYSTEM, MUTATING, TRUST, VALIDATING, Site, name_of, service_of
from fedhpa.kube import resource_path
from metrics_adapter.registration import APIS
from webhook.registration import TIMEOUT_SECONDS

NAME: Final = "fedhpa-doctor"
KINDS: Final = {"federatedhpas": KIND, "cronfederatedhpas": CRON_KIND}
# The hub waits for the mutating and then for the validating webhook, up to timeoutSeconds each.
WEBHOOK_SECONDS: Final = 2.0 * TIMEOUT_SECONDS
# The label with the name of a namespace, by which a registration is limited to some.
NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
# A webhook "denied the request", a ValidatingAdmissionPolicy "denied request".
DENIED: Final = re.compile(r"denied (the )?request|is invalid:")
USAGE: Final = "metrics.k8s.io"
_EXTERNAL: Final = {"metric": {"name": NAME}, "target": {"type": "AverageValue", "averageValue": "1"}}
_ZERO: Final = {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "0m"}}
_RULE: Final = {"name": "doctor", "targetReplicas": 1, "suspend": True}


# Dry runs: a kind, a spec, and the words in the refusal of our webhook, "" for a valid object. Karmada's
# webhook refuses the valid FederatedHPA, because it has no metrics of type External. The schema accepts 31
# February.
_Trial = tuple[str, Json, str]
TRIALS: Final[tuple[_Trial, ...]] = (
    (KIND, {"maxReplicas": 2, "metrics": [{"type": "External", "external": _EXTERNAL}]}, ""),
    (KIND, {"maxReplicas": 2, "metrics": [{"type": "Resource", "resource": _ZERO}]}, "must be positive"),
    (CRON_KIND, {"rules": [_RULE | {"schedule": "0 0 1 1 *"}]}, ""),
    (CRON_KIND, {"rules": [_RULE | {"schedule": "0 0 31 2 *"}]}, "invalid cron format"),
)


async def check_admission(site: Site, absent: set[str]) -> list[Certificate]:
    """Checks the webhook for the kinds that are not `absent`. Returns the certificates of our webhook."""
    unread = site.lists[VALIDATING].problem or site.lists[MUTATING].problem
    if unread:
        site.skip("the registration of the webhook", unread)
    ours = site.hooks(VALIDATING)
    foreign = [
        _karmadas(site, plural, each) for plural in (VALIDATING, MUTATING) for each in site.lists[plural]
    ]
    missing = [kind for plural, kind in KINDS.items() if not unread and plural not in _resources(ours)]
    if missing:
        site.add("webhook-not-registered", WEBHOOK, _registration(site), kinds="s and ".join(missing))
    # A dry run shows nothing of our webhook while another one with the same name may have answered.
    if not any(foreign):
        limits = (one for hook in ours for one in entries(hook, "namespaceSelector", "matchExpressions"))
        keys = (NAMESPACE_LABEL, "In")
        spaces = [
            text_at(one, "values", 0) for one in limits if (one.get("key"), one.get("operator")) == keys
        ]
        space = next(filter(None, spaces), site.hub.client.config.namespace)
        await _verdicts(site, space, [one for one in TRIALS if one[0] not in (*absent, *missing)])
    configs = [at(hook, "clientConfig") for hook in ours]
    url = next((text_at(each, "url") for each in configs if text_at(each, "url")), "")
    bundles = [text_at(each, "caBundle") for each in configs]
    return await of_server(site, WEBHOOK, bundles, url) if ours else []


def _resources(hooks: Sequence[Json]) -> set[str]:
    """Returns the resources of our group that some webhooks are called for."""
    found: set[str] = set()
    for rule in (rule for hook in hooks for rule in entries(hook, "rules")):
        # Karmada has a webhook that guards every object against its deletion.
        if {GROUP, "*"}.intersection(rule.get("apiGroups") or ()) and rule.get("operations") != ["DELETE"]:
            found |= set(rule.get("resources") or ())
    return {*found, *KINDS} if found & {"*", "*/*"} else found & set(KINDS)


def _karmadas(site: Site, plural: str, configuration: Json) -> bool:
    """Adds a finding if a configuration of Karmada has entries for our kinds. Returns if it has."""
    name = name_of(configuration)
    hooks = enumerate(entries(configuration, "webhooks"))
    found = [(place, text_at(hook, "name")) for place, hook in hooks if _resources([hook])]
    found = [(place, hook) for place, hook in found if hook.endswith(".karmada.io")]
    if name == WEBHOOK or not found:
        return False
    patch = removals("/webhooks", "name", found)
    command = site.commands.patched(f"patch {plural.removesuffix('s')} {{}}", name, patch=patch)
    site.add("karmada-webhook-registered", name, command, entries=names(hook for _, hook in found))
    return True


def _registration(site: Site) -> str:
    """Returns the command that registers the webhook, or the advice where its CA is unknown."""
    urls = (text_at(one, "clientConfig", "url") for one in site.hooks(MUTATING))
    url = next(filter(None, urls), "")
    place = f"--url={quote(url.rpartition('/')[0])}" if url else f"--service={site.system}/{WEBHOOK}"
    return site.registered(WEBHOOK, f"webhook-config {place}")


async def _verdicts(site: Site, space: str, trials: Sequence[_Trial]) -> None:
    """Adds what the dry runs show."""
    answers = await asyncio.gather(*(_trial(site, space, kind, spec) for kind, spec, _ in trials))
    problems = [each for each in answers if isinstance(each, Problem)]
    calls = [each.text for each in problems if each.cause is Cause.FAILED and "calling webhook" in each.text]
    if calls:
        await _call(site, calls[0])
    elif problems:
        site.skip("the verdicts of the webhook", problems[0])
    if problems:
        return
    verdicts = [(kind, words, str(answer)) for (kind, _, words), answer in zip(trials, answers, strict=True)]
    if wrong := [kind for kind, words, answer in verdicts if words and not answer]:
        fix = _registration(site)
        if not fix.startswith("Run "):
            # Neither kubectl nor helm takes away a selector or a condition that somebody else has added.
            fix = f"{site.commands.kubectl(f'delete validatingwebhookconfiguration {WEBHOOK}')} && {fix}"
        site.add("webhook-not-asked", WEBHOOK, fix, kind=wrong[0])
    elif other := [answer for _, words, answer in verdicts if words not in answer]:
        site.skip("the verdicts of the webhook", f"another plugin refused first: {other[0]}")
    elif refused := [(kind, answer) for kind, words, answer in verdicts if answer and not words]:
        site.add("webhook-refuses-valid-objects", WEBHOOK, kind=refused[0][0], answer=refused[0][1])


async def _call(site: Site, text: str) -> None:
    """Adds the finding about a call that failed, from the hub's words."""
    cause, kind, fix = cause_of(text), "webhook-call-failed", site.revived(WEBHOOK)
    if empty := await _service_without_pods(site):
        # An answer, such as a foreign certificate, is then another server's.
        text = f"The Service {empty} has no ready endpoint: {text}"
    elif cause == "certificate":
        stored = [(plural.removesuffix("s"), each) for plural, each in site.configurations]
        kind, fix = "webhook-certificate", certificate_fix(site, WEBHOOK, text, stored)
    elif cause == "missing":
        fix = _registration(site)
    site.add(kind, WEBHOOK, fix, what=text)


async def _service_without_pods(site: Site) -> str:
    """Returns the Service of our registration if no pod is ready behind it, which the hub may not see.

    An API server that dials the cluster IP cannot tell that nothing is behind it.
    """
    services = (at(one, "clientConfig", "service") for one in site.hooks(VALIDATING))
    service = next(filter(None, services), None)
    place, name = text_at(service, "namespace"), text_at(service, "name")
    if not name:
        return ""
    slices = resource_path("discovery.k8s.io/v1", "endpointslices", place)
    stored, found = await asyncio.gather(
        site.hub.get(resource_path("v1", "services", place, name)),
        site.hub.list(slices, Json, labels=f"kubernetes.io/service-name={name}"),
    )
    if isinstance(stored, Problem) or found.problem or text_at(stored, "spec", "type") == "ExternalName":
        return ""
    ends = [one for each in found for one in entries(each, "endpoints")]
    return "" if any(at(one, "conditions", "ready") is not False for one in ends) else f"{place}/{name}"


async def _trial(site: Site, namespace: str, kind: str, spec: Json) -> str | Problem:
    """Returns the refusal of an object; "" if it was admitted, and a problem without a verdict."""
    plural = f"{kind.lower()}s"
    lacking = await site.hub.lacking([Right("create", GROUP, plural, "", namespace)])
    if lacking and not isinstance(lacking, Problem):
        words = f'you cannot create resource "{plural}" in API group "{GROUP}" in {namespace}'
        return Problem(Cause.FORBIDDEN, words)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}
    body = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": NAME, "namespace": namespace}}
    answer = await site.hub.request(
        "POST",
        resource_path(API_VERSION, plural, namespace),
        {**body, "spec": {"scaleTargetRef": target, **spec}},
        patience=WEBHOOK_SECONDS,
        dryRun="All",
        fieldManager=NAME,
    )
    if not isinstance(answer, Problem) or "already exists" in answer.text:
        return ""
    return answer.text if DENIED.search(answer.text) else answer


async def check_aggregation(site: Site) -> list[Certificate]:
    """Checks the metrics APIs. Returns the certificates that they depend on."""
    service = f"{site.system}/{ADAPTER}"
    if site.lists["apiservices"].problem:
        site.skip("the metrics APIs of the hub", site.lists["apiservices"].problem)
        return []
    stored, ours = site.found["services"][ADAPTER], site.our_apis
    is_installed = isinstance(stored, dict) or site.has_adapter
    taken = [each for each in site.lists["apiservices"] if _is_taken(each, service, is_installed)]
    for each in taken:
        owner, name = (
            f"the Service {service_of(each)}" if service_of(each) else "the hub itself",
            name_of(each),
        )
        delete = site.commands.kubectl("delete apiservice {}", name)
        site.add("apiservice-foreign", name, owner=owner, service=service, delete=delete)
    if is_installed and not ours and not taken:
        what = f"The adapter is installed, but no APIService names the Service {service}."
        site.add("apiservice-missing", ADAPTER, _api_registration(site), what=what)
    if not ours:
        return []
    trust = site.found["configmaps"][TRUST]
    trusts = bool(text_at(trust, "data", "requestheader-client-ca-file").strip())
    if isinstance(trust, Problem) and trust.cause is not Cause.ABSENT:
        site.skip("the request-header CA", trust)
        trusts = True
    elif not trusts:
        site.add("request-header-ca-missing", f"{KUBE_SYSTEM}/{TRUST}")
    # One finding for each cause, because all APIs have the same adapter.
    causes: dict[str, list[tuple[Json, str]]] = {}
    for api, (cause, text) in zip(
        ours, await asyncio.gather(*(_cause(site, one) for one in ours)), strict=True
    ):
        if cause and (trusts or cause != "refuses-hub"):
            causes.setdefault(cause, []).append((api, text))
    for cause, broken in causes.items():
        text, fix = broken[0][1], site.revived(ADAPTER)
        if cause == "certificate":
            fix = certificate_fix(site, ADAPTER, text, [("apiservice", api) for api, _ in broken])
        elif cause == "missing":
            fix = _api_registration(site)
        site.add(f"apiservice-{cause}", names(name_of(api) for api, _ in broken), fix, what=text)
    return await of_server(site, ADAPTER, [text_at(each, "spec", "caBundle") for each in ours])


def _is_taken(api: Json, service: str, installed: bool) -> bool:
    """True if another server answers for an API that our adapter should serve.

    A hub that runs pods has a metrics-server for metrics.k8s.io, which is right.
    """
    place, group = service_of(api), text_at(api, "spec", "group")
    is_labelled = text_at(api, "metadata", "labels", "app.kubernetes.io/name") == "fedhpa"
    is_usage = group == USAGE and not place.endswith("/karmada-metrics-adapter")
    return group in APIS.values() and place != service and (is_labelled or (installed and not is_usage))


def _api_registration(site: Site) -> str:
    """Returns the command that registers the adapter at its Service, or the advice."""
    service = site.found["services"][ADAPTER]
    words = f"apiservice -n {quote(site.system)} --without-rights"
    if name := text_at(service, "spec", "externalName"):
        port = at(service, "spec", "ports", 0, "port") or 443
        words += f" --external-name={quote(name)} --port={port}"
    return site.registered(ADAPTER, words)


async def _cause(site: Site, api: Json) -> tuple[str, str]:
    """Returns the suffix of the finding about an APIService, and the words for it; ("", "") if it works."""
    found = condition(api, "Available")
    text = text_at(found, "message") or text_at(found, "reason")
    refuses = "bad status" in text and text.rstrip(". ").endswith(("401", "403"))
    if found.get("status") == "True":
        group, version = text_at(api, "spec", "group"), text_at(api, "spec", "version")
        answer = await site.hub.request("GET", f"/apis/{group}/{version}")
        if not isinstance(answer, Problem) or answer.cause is Cause.FORBIDDEN:
            return "", ""
        refuses, text = answer.cause is Cause.UNAUTHORIZED, answer.text
    if refuses:
        return "refuses-hub", text
    missing = found.get("reason") == "ServiceNotFound"
    words = text or "The hub has not checked this API yet."
    return "missing" if missing else cause_of(text) or "unavailable", words
