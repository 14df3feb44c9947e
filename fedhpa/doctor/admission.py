"""The webhook: registered, alone, called by the hub, and giving the right verdicts in dry runs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from shlex import quote
from typing import Final, NamedTuple

from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.federatedhpa import API_VERSION, GROUP, KIND
from fedhpa.api.free_json import Json, at, entries, text_at
from fedhpa.api.rights import WEBHOOK
from fedhpa.doctor.certificates import Certificate, cause_of, certificate_fix, of_server
from fedhpa.doctor.report import Fix, names, removals
from fedhpa.doctor.session import Cause, Problem, Right
from fedhpa.doctor.site import Site, is_named
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
    unread = site.validating.problem or site.mutating.problem
    if unread:
        site.report.skip("the registration of the webhook", unread)
    ours = _hooks(site.validating)
    is_foreign = [
        _karmadas(site, kind, each)
        for kind, stored in (("validating", site.validating), ("mutating", site.mutating))
        for each in stored
    ]
    missing = [kind for plural, kind in KINDS.items() if not unread and plural not in _resources(ours)]
    if missing:
        what = f"No webhook of the configuration {WEBHOOK} validates {'s and '.join(missing)}s."
        site.report.add("webhook-not-registered", WEBHOOK, what, *await _registration(site))
    # A dry run shows nothing of our webhook while another one with the same name may have answered.
    if not any(is_foreign):
        trials = [each for each in TRIALS if each.kind not in absent and each.kind not in missing]
        await _verdicts(site, trials, _watched(ours))
    configs = [at(hook, "clientConfig") for hook in ours]
    url = next((text_at(each, "url") for each in configs if text_at(each, "url")), "")
    bundles = [text_at(each, "caBundle") for each in configs]
    return await of_server(site, WEBHOOK, bundles, url) if ours else []


def _hooks(stored: Sequence[Json]) -> list[Json]:
    """Returns the webhooks of our configuration."""
    return [hook for each in stored if is_named(each, WEBHOOK) for hook in entries(each, "webhooks")]


def _resources(hooks: Sequence[Json]) -> set[str]:
    """Returns the resources of our group that some webhooks are called for."""
    found: set[str] = set()
    for rule in (rule for hook in hooks for rule in entries(hook, "rules")):
        # Karmada has a webhook that guards every object against its deletion.
        if {GROUP, "*"}.intersection(rule.get("apiGroups") or ()) and rule.get("operations") != ["DELETE"]:
            found |= set(rule.get("resources") or ())
    return {*found, *KINDS} if found & {"*", "*/*"} else found & set(KINDS)


def _karmadas(site: Site, kind: str, configuration: Json) -> bool:
    """Adds a finding if a configuration of Karmada has entries for our kinds. Returns if it has."""
    hooks = enumerate(entries(configuration, "webhooks"))
    found = [(place, text_at(hook, "name")) for place, hook in hooks if _resources([hook])]
    found = [(place, name) for place, name in found if name.endswith(".karmada.io")]
    if is_named(configuration, WEBHOOK) or not found:
        return False
    name = text_at(configuration, "metadata", "name")
    words = f"patch {kind}webhookconfiguration {quote(name)}"
    command = site.commands.patched(words, removals("/webhooks", "name", found))
    what = f"The configuration {name} has the entries {names(hook for _, hook in found)}."
    site.report.add("karmada-webhook-registered", name, what, command)
    return True


def _watched(hooks: Sequence[Json]) -> str:
    """Returns a namespace that our webhook is limited to; "" where it judges all namespaces."""
    for each in (one for hook in hooks for one in entries(hook, "namespaceSelector", "matchExpressions")):
        if (each.get("key"), each.get("operator")) == (NAMESPACE_LABEL, "In") and at(each, "values", 0):
            return text_at(each, "values", 0)
    return ""


async def _registration(site: Site) -> Fix:
    """Returns the command that registers the webhook, or the advice where its CA is unknown."""
    url = next((text_at(each, "clientConfig", "url") for each in _hooks(site.mutating)), "")
    place = f"--url={quote(url.rpartition('/')[0])}" if url else f"--service={site.system}/{WEBHOOK}"
    return await site.registered(WEBHOOK, f"webhook-config {place}")


async def _verdicts(site: Site, trials: Sequence[_Trial], watched: str) -> None:
    """Adds what the dry runs show."""
    space, report = watched or site.hub.client.config.namespace, site.report
    answers = await asyncio.gather(*(_trial(site, space, each) for each in trials))
    problems = [each for each in answers if isinstance(each, Problem)]
    calls = [each.text for each in problems if each.cause is Cause.FAILED and "calling webhook" in each.text]
    if calls:
        await _call(site, calls[0])
    elif problems:
        report.skip("the verdicts of the webhook", problems[0])
    if problems:
        return
    verdicts = [(one, answer) for one, answer in zip(trials, answers, strict=True) if isinstance(answer, str)]
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
        report.add("webhook-refuses-valid-objects", WEBHOOK, what)


async def _call(site: Site, text: str) -> None:
    """Adds the finding about a call that failed, from the hub's words."""
    cause, kind, fix = cause_of(text), "webhook-call-failed", site.revived(WEBHOOK)
    if empty := await _service_without_pods(site):
        # An answer, such as a foreign certificate, is then another server's.
        text = f"The Service {empty} has no ready endpoint: {text}"
    elif cause == "certificate":
        stored = [("validatingwebhookconfiguration", each) for each in site.validating]
        stored += [("mutatingwebhookconfiguration", each) for each in site.mutating]
        ours = [one for one in stored if is_named(one[1], WEBHOOK)]
        kind, fix = "webhook-certificate", await certificate_fix(site, WEBHOOK, text, ours)
    elif cause == "missing":
        fix = await _registration(site)
    site.report.add(kind, WEBHOOK, text, *fix)


async def _service_without_pods(site: Site) -> str:
    """Returns the Service of our registration if no pod is ready behind it, which the hub may not see.

    An API server that dials the cluster IP cannot tell that nothing is behind it.
    """
    services = (at(each, "clientConfig", "service") for each in _hooks(site.validating))
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


async def _trial(site: Site, namespace: str, trial: _Trial) -> str | Problem:
    """Returns the refusal of an object; "" if it was admitted, and a problem without a verdict."""
    plural = f"{trial.kind.lower()}s"
    if await site.hub.allows(Right("create", GROUP, plural, "", namespace)) is False:
        return Problem(Cause.FORBIDDEN, f"you may not create {plural} in {namespace}")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}
    body = {"apiVersion": API_VERSION, "kind": trial.kind, "metadata": {"name": NAME, "namespace": namespace}}
    answer = await site.hub.request(
        "POST",
        resource_path(API_VERSION, plural, namespace),
        {**body, "spec": {"scaleTargetRef": target, **trial.spec}},
        patience=WEBHOOK_SECONDS,
        dryRun="All",
        fieldManager=NAME,
    )
    if not isinstance(answer, Problem) or "already exists" in answer.text:
        return ""
    return answer.text if DENIED.search(answer.text) else answer
