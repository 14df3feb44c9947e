"""The metrics APIs on the hub: registered, ours, available, and trusted in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import Final

from fedhpa.doctor.checks.calls import cause_of, issue_command
from fedhpa.doctor.checks.hub import names, seen
from fedhpa.doctor.findings import Finding, NotChecked, Result
from fedhpa.doctor.observations import Aggregation, Api, Cause, Problem

ADAPTER: Final = "fedhpa-metrics-adapter"
KARMADAS: Final = "karmada-metrics-adapter"
USAGE: Final = "metrics.k8s.io"
REQUEST_HEADER: Final = "kube-system/extension-apiserver-authentication"

_SHOW: Final = "kubectl get apiservices {name} -o yaml"
_PODS: Final = "kubectl -n {namespace} get pods -l app.kubernetes.io/component=metrics-adapter"
_REGISTER: Final = "fedhpa apiservice --ca-file ca.crt | kubectl apply -f -"
_COMMANDS: Final = {
    "certificate-expired": issue_command(ADAPTER, "{namespace}"),
    "certificate-untrusted": _REGISTER,
    "no-endpoints": _PODS,
    "service-missing": _REGISTER,
    "connection-refused": _PODS,
    "timeout": "kubectl -n {namespace} get networkpolicies",
    "refuses-hub": "kubectl -n {namespace} logs -l app.kubernetes.io/component=metrics-adapter",
    "unavailable": _SHOW,
}


def check_aggregation(found: Aggregation, namespace: str) -> Iterator[Result]:
    """Yields the failed checks of the metrics APIs. `namespace` is that of the installation."""
    if isinstance(found.apis, Problem):
        yield NotChecked("the metrics APIs of the hub", seen(found.apis))
        return
    service = f"{namespace}/{ADAPTER}"
    ours = [each for each in found.apis if each.service == service]
    taken = [each for each in found.apis if _is_taken(each, service, found.adapter_installed is True)]
    for each in taken:
        owner = f"the Service {each.service}" if each.service else "the hub itself"
        what = f"{each.name} belongs to {owner}, and not to {service}."
        yield Finding("apiservice-foreign", each.name, what, _SHOW.format(name=quote(each.name)))
    if not ours and not taken and found.adapter_installed:
        what = f"The adapter is installed, but no APIService names the Service {service}."
        yield Finding("apiservice-missing", ADAPTER, what, _REGISTER)
    if ours:
        lost = list(_request_header(found.request_header_ca))
        yield from lost
        yield from _unavailable(
            ours, namespace, front_proxy_known=not any(isinstance(each, Finding) for each in lost)
        )


def _is_taken(api: Api, service: str, installed: bool) -> bool:
    """True if another server answers for an API that our adapter should serve.

    A hub that runs pods has a metrics-server for metrics.k8s.io, which is right.
    """
    if api.service == service:
        return False
    return api.is_labelled or (installed and (api.group != USAGE or api.service.endswith(f"/{KARMADAS}")))


def _request_header(authority: str | Problem) -> Iterator[Result]:
    if isinstance(authority, Problem) and authority.cause is not Cause.ABSENT:
        yield NotChecked("the request-header CA", seen(authority))
    elif not authority or isinstance(authority, Problem):
        what = f"The ConfigMap {REQUEST_HEADER} has no requestheader-client-ca-file."
        command = "kubectl -n kube-system get configmap extension-apiserver-authentication -o yaml"
        yield Finding("request-header-ca-missing", REQUEST_HEADER, what, command)


def _unavailable(ours: list[Api], namespace: str, *, front_proxy_known: bool) -> Iterator[Finding]:
    """Yields one finding for each cause, because all APIs have the same adapter."""
    causes: dict[str, list[tuple[Api, str]]] = {}
    for api in ours:
        cause, text = _cause(api)
        if cause and (front_proxy_known or cause != "refuses-hub"):
            causes.setdefault(cause, []).append((api, text))
    for cause, broken in causes.items():
        command = _COMMANDS[cause].format(namespace=namespace, name=quote(broken[0][0].name))
        yield Finding(f"apiservice-{cause}", names(api.name for api, _ in broken), broken[0][1], command)


def _cause(api: Api) -> tuple[str, str]:
    """Returns the suffix of the finding about an APIService, and the words for it; ("", "") if it works."""
    if api.available is False:
        text = api.message or api.reason
        if api.reason == "ServiceNotFound":
            return "service-missing", text
        if api.reason in ("EndpointsNotFound", "MissingEndpoints", "ServicePortError"):
            return "no-endpoints", text
        if "bad status" in text and text.rstrip(". ").endswith(("401", "403")):
            return "refuses-hub", text
        cause = cause_of(text)
        return cause if cause in _COMMANDS else "unavailable", text
    if api.available is None:
        return "unavailable", "The hub has not checked this API yet."
    if api.problem is None or api.problem.cause is Cause.FORBIDDEN:
        return "", ""
    if api.problem.cause is Cause.UNAUTHORIZED:
        return "refuses-hub", api.problem.text
    cause = cause_of(api.problem.text)
    return cause if cause in _COMMANDS else "unavailable", api.problem.text
