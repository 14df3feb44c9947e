"""The webhook: registered, alone, called by the hub, and giving the right verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import Final

from fedhpa.doctor.checks.calls import cause_of, issue_command
from fedhpa.doctor.checks.hub import names, seen
from fedhpa.doctor.findings import Finding, NotChecked, Result
from fedhpa.doctor.observations import Admission, Cause, Entry, Problem, Trial

OURS: Final = "fedhpa-webhook"
KINDS: Final = {"federatedhpas": "FederatedHPA", "cronfederatedhpas": "CronFederatedHPA"}
POLICY: Final = "ValidatingAdmissionPolicy"

_SHOW: Final = "kubectl get validatingwebhookconfigurations fedhpa-webhook -o yaml"
_REGISTER: Final = "fedhpa webhook-config --service {} --ca-file ca.crt | kubectl apply -f -"
# The command for each cause of a failed call.
_COMMANDS: Final = {
    "certificate-expired": issue_command(OURS, "{namespace}"),
    "certificate-untrusted": _REGISTER,
    "no-endpoints": "kubectl -n {namespace} get pods -l app.kubernetes.io/component=webhook",
    "service-missing": "kubectl -n {namespace} get services",
    "name-unknown": _SHOW,
    "connection-refused": "kubectl -n {namespace} get pods -l app.kubernetes.io/component=webhook",
    "timeout": "kubectl -n {namespace} get networkpolicies",
    "": _SHOW,
}


def check_admission(admission: Admission, namespace: str) -> Iterator[Result]:
    """Yields the failed checks of the webhook. `namespace` is that of the installation."""
    service = f"{namespace}/{OURS}"
    entries = admission.entries
    known = not isinstance(entries, Problem)
    if isinstance(entries, Problem):
        yield NotChecked("the registration of the webhook", seen(entries))
        entries = ()
    foreign = [each for each in entries if each.configuration != OURS and each.name.endswith(".karmada.io")]
    yield from _karmada(foreign)
    ours = [each for each in entries if each.configuration == OURS]
    missing = [kind for plural, kind in KINDS.items() if known and not _is_validated(ours, plural)]
    if missing:
        kinds = " and ".join(f"{kind}s" for kind in missing)
        what = f"No webhook of the configuration {OURS} validates {kinds}."
        yield Finding("webhook-not-registered", OURS, what, _REGISTER.format(service))
    # A dry run shows nothing of our webhook while another one with the same name may have answered.
    trials = [each for each in admission.trials if each.kind not in missing]
    if not foreign:
        empty = next((each.place for each in ours if each.ready == 0), "")
        yield from _trials(trials, namespace, service, empty)


def _is_validated(ours: list[Entry], plural: str) -> bool:
    return any(each.validates and {plural, "*", "*/*"} & set(each.resources) for each in ours)


def _karmada(foreign: list[Entry]) -> Iterator[Finding]:
    for configuration in dict.fromkeys(each.configuration for each in foreign):
        found = [each for each in foreign if each.configuration == configuration]
        kind = f"{'validating' if found[0].validates else 'mutating'}webhookconfiguration"
        what = f"The configuration {configuration} has the entries {names(each.name for each in found)}."
        yield Finding(
            "karmada-webhook-registered", configuration, what, f"kubectl edit {kind} {quote(configuration)}"
        )


def _trials(trials: list[Trial], namespace: str, service: str, empty: str) -> Iterator[Result]:
    """Yields what the dry runs show. `empty` is a Service of the webhook without a ready endpoint."""
    problems = [each.problem for each in trials if each.problem is not None]
    calls = [each.text for each in problems if each.cause is Cause.FAILED and "calling webhook" in each.text]
    if calls:
        yield _call(calls[0], namespace, service, empty)
        return
    if problems:
        yield NotChecked("the verdicts of the webhook", seen(problems[0]))
        return
    wrong = [each for each in trials if not each.is_valid and not each.refusal]
    if wrong:
        what = f"The hub admitted an invalid {wrong[0].kind}, although the webhook is registered."
        yield Finding("webhook-not-asked", OURS, what, _SHOW)
        return
    others = [each for each in trials if not each.is_valid and each.words not in each.refusal]
    if others:
        yield NotChecked("the verdicts of the webhook", f"another plugin refused first: {others[0].refusal}")
        return
    refused = [each for each in trials if each.is_valid and each.refusal]
    if refused:
        what = f"The hub refused a valid {refused[0].kind}: {refused[0].refusal}"
        kind = (
            "validatingadmissionpolicies"
            if POLICY in refused[0].refusal
            else "validatingwebhookconfigurations"
        )
        yield Finding("webhook-refuses-valid-objects", OURS, what, f"kubectl get {kind}")


def _call(text: str, namespace: str, service: str, empty: str) -> Finding:
    cause = cause_of(text)
    if empty:  # an answer, such as a foreign certificate, is then another server's
        cause, text = "no-endpoints", f"The Service {empty} has no ready endpoint: {text}"
    command = _COMMANDS[cause].format(service, namespace=namespace)
    return Finding(f"webhook-{cause or 'call-failed'}", OURS, text, command)
