"""The webhook: registered, alone, called by the hub, and giving the right verdicts in dry runs."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from shlex import quote
from typing import Any, Final, NamedTuple

from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.federatedhpa import API_VERSION, GROUP, KIND
from fedhpa.api.free_json import Json, at, entries, text_at
from fedhpa.api.rights import CONTROLLER, WEBHOOK
from fedhpa.doctor.certificates import Certificate, from_bundle, of_server
from fedhpa.doctor.report import names
from fedhpa.doctor.session import Cause, Problem, Right
from fedhpa.doctor.site import Site, listed
from fedhpa.kube import resource_path
from webhook.registration import TIMEOUT_SECONDS

NAME: Final = "fedhpa-doctor"
KINDS: Final = {"federatedhpas": KIND, "cronfederatedhpas": CRON_KIND}
# The hub waits for the mutating and then for the validating webhook, up to timeoutSeconds each.
WEBHOOK_SECONDS: Final = 2.0 * TIMEOUT_SECONDS
# The label with the name of a namespace, by which a registration is limited to some.
NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
# A webhook "denied the request", a ValidatingAdmissionPolicy "denied request".
DENIED: Final = re.compile(r"denied (the )?request|is invalid:")
# The words of a call that failed. Source: k8s.io/apiserver, kube-aggregator, and Go's net and crypto/x509.
_CERTIFICATE: Final = re.compile(r"x509:|tls: |certificate", re.IGNORECASE)
_NO_SERVICE: Final = re.compile(
    r'service "?[\w./-]*"? ?(?:in "[\w.-]*" )?(?:not found|is not present)|lookup '
)
# The query of a call names its timeout, and a path may contain any word.
_URL: Final = re.compile(r'"https?://[^"]*"|https?://\S+')

_EXTERNAL: Final = {"metric": {"name": NAME}, "target": {"type": "AverageValue", "averageValue": "1"}}
_ZERO: Final = {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "0m"}}
_RULE: Final = {"name": "doctor", "targetReplicas": 1, "suspend": True}


class _Trial(NamedTuple):
    """A dry run. `words` must be in the refusal of our webhook, and are "" for a valid object.

    Karmada's webhook refuses the valid FederatedHPA, because it has no metrics of type External.
    """

    kind: str
    spec: Json
    words: str = ""


# The schema accepts 31 February.
TRIALS: Final = (
    _Trial(KIND, {"maxReplicas": 2, "metrics": [{"type": "External", "external": _EXTERNAL}]}),
    _Trial(
        KIND, {"maxReplicas": 2, "metrics": [{"type": "Resource", "resource": _ZERO}]}, "must be positive"
    ),
    _Trial(CRON_KIND, {"rules": [_RULE | {"schedule": "0 0 1 1 *"}]}),
    _Trial(CRON_KIND, {"rules": [_RULE | {"schedule": "0 0 31 2 *"}]}, "invalid cron format"),
)


async def check_admission(site: Site, absent: set[str]) -> list[Certificate]:
    """Checks the webhook for the kinds that are not `absent`. Returns the certificates of our webhook."""
    unread = next((one for one in (site.validating, site.mutating) if isinstance(one, Problem)), None)
    if unread is not None:
        site.report.skip("the registration of the webhook", str(unread))
    ours = [hook for each in listed(site.validating) if _is_ours(each) for hook in entries(each, "webhooks")]
    foreign = [each for each in (*listed(site.validating), *listed(site.mutating)) if _karmadas(site, each)]
    missing = [kind for plural, kind in KINDS.items() if unread is None and plural not in _resources(ours)]
    if missing:
        what = f"No webhook of the configuration {WEBHOOK} validates {'s and '.join(missing)}s."
        site.report.add("webhook-not-registered", WEBHOOK, what, *await _registration(site))
    # A dry run shows nothing of our webhook while another one with the same name may have answered.
    trials = [each for each in TRIALS if each.kind not in absent and each.kind not in missing]
    if not foreign:
        await _verdicts(site, trials, _watched(ours))
    configs = [at(hook, "clientConfig") for hook in ours]
    bundles = [from_bundle(WEBHOOK, f"{WEBHOOK} caBundle", text_at(each, "caBundle")) for each in configs]
    url = next((text_at(each, "url") for each in configs if text_at(each, "url")), "")
    return [one for found in (*bundles, await of_server(site, WEBHOOK, url) if ours else []) for one in found]


def _is_ours(configuration: Json) -> bool:
    return text_at(configuration, "metadata", "name") == WEBHOOK


def _resources(hooks: Sequence[Json]) -> set[str]:
    """Returns the resources of our group that some webhooks are called for."""
    found: set[str] = set()
    for rule in (rule for hook in hooks for rule in entries(hook, "rules")):
        # Karmada has a webhook that guards every object against its deletion.
        if {GROUP, "*"}.intersection(rule.get("apiGroups") or ()) and rule.get("operations") != ["DELETE"]:
            found |= set(rule.get("resources") or ())
    return {*found, *KINDS} if found & {"*", "*/*"} else found & set(KINDS)


def _karmadas(site: Site, configuration: Json) -> bool:
    """Adds a finding if a configuration of Karmada has entries for our kinds. Returns if it has."""
    hooks = list(enumerate(entries(configuration, "webhooks")))
    found = [(place, text_at(hook, "name")) for place, hook in hooks if _resources([hook])]
    found = [(place, name) for place, name in found if name.endswith(".karmada.io")]
    if _is_ours(configuration) or not found:
        return False
    name = text_at(configuration, "metadata", "name")
    kind = "validating" if configuration in listed(site.validating) else "mutating"
    # The last one first, because each removal moves those behind it.
    steps = ",".join(
        f'{{"op":"test","path":"/webhooks/{place}/name","value":"{hook}"}},'
        f'{{"op":"remove","path":"/webhooks/{place}"}}'
        for place, hook in reversed(found)
    )
    words = f"patch {kind}webhookconfiguration {quote(name)} --type=json -p {quote(f'[{steps}]')}"
    what = f"The configuration {name} has the entries {names(hook for _, hook in found)}."
    site.report.add("karmada-webhook-registered", name, what, site.commands.kubectl(words))
    return True


def _watched(hooks: Sequence[Json]) -> str:
    """Returns a namespace that our webhook is limited to; "" where it judges all namespaces."""
    for each in (one for hook in hooks for one in entries(hook, "namespaceSelector", "matchExpressions")):
        if (each.get("key"), each.get("operator")) == (NAMESPACE_LABEL, "In") and at(each, "values", 0):
            return text_at(each, "values", 0)
    return ""


async def _registration(site: Site) -> tuple[str, str]:
    """Returns the command that registers the webhook, or the advice where its CA is unknown."""
    stored = next(filter(_is_ours, listed(site.mutating)), None)
    url = next((text_at(each, "clientConfig", "url") for each in entries(stored, "webhooks")), "")
    place = f"--url={quote(url.rpartition('/')[0])}" if url else f"--service={site.system}/{WEBHOOK}"
    return await site.registered(WEBHOOK, f"webhook-config {place}")


async def _verdicts(site: Site, trials: Sequence[_Trial], watched: str) -> None:
    """Adds what the dry runs show."""
    space, report = watched or site.hub.client.config.namespace, site.report
    answers = await asyncio.gather(*(_trial(site, space, each) for each in trials))
    found = list(zip(trials, answers, strict=True))
    problems = [each for each in answers if isinstance(each, Problem)]
    calls = [each.text for each in problems if each.cause is Cause.FAILED and "calling webhook" in each.text]
    if calls:
        await _call(site, calls[0])
        return
    for each in problems[:1]:
        report.skip("the verdicts of the webhook", str(each))
    verdicts = [(trial, answer) for trial, answer in found if isinstance(answer, str)]
    if problems:
        return
    if wrong := [trial.kind for trial, answer in verdicts if trial.words and not answer]:
        what = f"The hub admitted an invalid {wrong[0]}, although the webhook is registered."
        command, advice = await _registration(site)
        # Neither kubectl nor helm takes away a selector or a condition that somebody else has added.
        delete = site.commands.kubectl(f"delete validatingwebhookconfiguration {WEBHOOK}")
        report.add("webhook-not-asked", WEBHOOK, what, command and f"{delete} && {command}", advice)
    elif other := [answer for trial, answer in verdicts if trial.words not in answer]:
        report.skip("the verdicts of the webhook", f"another plugin refused first: {other[0]}")
    elif refused := [(trial, answer) for trial, answer in verdicts if answer and not trial.words]:
        what = f"The hub refused a valid {refused[0][0].kind}: {refused[0][1]}"
        advice = "Change the policy or the webhook that the message names, or ask its owner."
        report.add("webhook-refuses-valid-objects", WEBHOOK, what, advice=advice)


async def _call(site: Site, text: str) -> None:
    """Adds the finding about a call that failed, from the hub's words."""
    cause = cause_of(text)
    if empty := await _service_without_pods(site):
        # An answer, such as a foreign certificate, is then another server's.
        what = f"The Service {empty} has no ready endpoint: {text}"
        site.report.add("webhook-call-failed", WEBHOOK, what, *site.revived(WEBHOOK))
    elif cause == "certificate":
        stored = [("validatingwebhookconfiguration", each) for each in listed(site.validating)]
        stored += [("mutatingwebhookconfiguration", each) for each in listed(site.mutating)]
        fix = await certificate_fix(site, WEBHOOK, text, [one for one in stored if _is_ours(one[1])])
        site.report.add("webhook-certificate", WEBHOOK, text, *fix)
    else:
        fix = await _registration(site) if cause == "missing" else site.revived(WEBHOOK)
        site.report.add("webhook-call-failed", WEBHOOK, text, *fix)


def cause_of(text: str) -> str:
    """Returns why a call of the hub failed, by its words: "certificate", "missing" for its address, or ""."""
    words = _URL.sub("URL", text)
    # A resolver that refuses connections is an unknown name, too.
    return "missing" if _NO_SERVICE.search(words) else "certificate" if _CERTIFICATE.search(words) else ""


async def certificate_fix(
    site: Site, server: str, words: str, stored: Sequence[tuple[str, Json]]
) -> tuple[str, str]:
    """Returns the command by which the hub trusts a server of ours again, or the advice.

    `stored` are the registrations with their kinds, which name the CA.
    """
    if site.manages_certificates:
        rotation = site.commands.fedhpa(f"certs rotate-ca -n {site.system}")
        return (rotation, "") if "expired" in words else site.revived(CONTROLLER)
    printed = "" if "expired" in words else await site.ca_of(server)
    if printed:
        patches = [site.commands.kubectl(_with_ca(kind, raw, printed)) for kind, raw in stored]
        return site.mended(stored[0][1], " && ".join(patches)), ""
    advice = f"Issue another one: fedhpa certs issue --ca-dir CA --out DIRECTORY --common-name {server}"
    return "", f"{advice} --dns {server}.{site.system}.svc; then publish its CA: fedhpa certs publish"


def _with_ca(kind: str, stored: Json, printed: str) -> str:
    """Returns the words of kubectl that write the CA that a command prints into a registration."""
    hooks = range(len(entries(stored, "webhooks")))
    paths = [f"/webhooks/{place}/clientConfig/caBundle" for place in hooks] or ["/spec/caBundle"]
    steps = [{"op": "add", "path": path, "value": "$CA"} for path in paths]
    patch = json.dumps(steps).replace('"', '\\"').replace("$CA", f"$({printed})")
    return f'patch {kind} {quote(text_at(stored, "metadata", "name"))} --type=json -p "{patch}"'


async def _service_without_pods(site: Site) -> str:
    """Returns the Service of our registration if no pod is ready behind it, which the hub may not see.

    An API server that dials the cluster IP cannot tell that nothing is behind it.
    """
    for hook in (
        one for each in listed(site.validating) if _is_ours(each) for one in entries(each, "webhooks")
    ):
        place, name = (text_at(hook, "clientConfig", "service", key) for key in ("namespace", "name"))
        if not name:
            continue
        stored, slices = await asyncio.gather(
            site.hub.get(resource_path("v1", "services", place, name)),
            site.hub.list(
                resource_path("discovery.k8s.io/v1", "endpointslices", place),
                dict[str, Any],
                labels=f"kubernetes.io/service-name={name}",
            ),
        )
        if isinstance(stored, Problem) or isinstance(slices, Problem):
            return ""
        ready = [
            at(one, "conditions", "ready") is not False
            for each in slices
            for one in entries(each, "endpoints")
        ]
        return "" if any(ready) or text_at(stored, "spec", "type") == "ExternalName" else f"{place}/{name}"
    return ""


async def _trial(site: Site, namespace: str, trial: _Trial) -> str | Problem:
    """Returns the refusal of an object; "" if it was admitted, and a problem without a verdict."""
    plural = f"{trial.kind.lower()}s"
    if await site.hub.allows(Right("create", GROUP, plural, "", namespace)) is False:
        return Problem(Cause.FORBIDDEN, f"you may not create {plural} in {namespace}")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}
    metadata = {"name": NAME, "namespace": namespace}
    body = {"apiVersion": API_VERSION, "kind": trial.kind, "metadata": metadata}
    answer = await site.hub.request(
        "POST",
        resource_path(API_VERSION, plural, namespace),
        body={**body, "spec": {"scaleTargetRef": target, **trial.spec}},
        patience=WEBHOOK_SECONDS,
        dryRun="All",
        fieldManager=NAME,
    )
    if not isinstance(answer, Problem) or "already exists" in answer.text:
        return ""
    return answer.text if DENIED.search(answer.text) else answer
