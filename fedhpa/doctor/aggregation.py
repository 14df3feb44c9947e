"""The metrics APIs on the hub: registered, ours, available, and trusted in both directions."""

from __future__ import annotations

import asyncio
from shlex import quote
from typing import Final

from fedhpa.api.free_json import Json, at, condition, text_at
from fedhpa.api.rights import ADAPTER
from fedhpa.doctor.certificates import Certificate, cause_of, certificate_fix, of_server
from fedhpa.doctor.report import Fix, names
from fedhpa.doctor.session import Cause, Problem
from fedhpa.doctor.site import KUBE_SYSTEM, Site, service_of
from fedhpa.kube import resource_path
from metrics_adapter.registration import APIS

USAGE: Final = "metrics.k8s.io"
TRUST: Final = f"{KUBE_SYSTEM}/extension-apiserver-authentication"
CA_KEY: Final = "requestheader-client-ca-file"


async def check_aggregation(site: Site) -> list[Certificate]:
    """Checks the metrics APIs. Returns the certificates that they depend on."""
    report, service = site.report, f"{site.system}/{ADAPTER}"
    if site.apis.problem:
        report.skip("the metrics APIs of the hub", site.apis.problem)
        return []
    stored = await site.hub.get(resource_path("v1", "services", site.system, ADAPTER))
    ours, is_installed = site.our_apis, isinstance(stored, dict) or site.has_adapter
    taken = [each for each in site.apis if _is_taken(each, service, is_installed)]
    for each in taken:
        owner = f"the Service {service_of(each)}" if service_of(each) else "the hub itself"
        name = text_at(each, "metadata", "name")
        delete = site.commands.kubectl(f"delete apiservice {quote(name)}")
        advice = f"If that server is gone: {delete}; then register ours again. Otherwise leave the API to it."
        what = f"{name} belongs to {owner}, and not to {service}."
        report.add("apiservice-foreign", name, what, advice=advice)
    if is_installed and not ours and not taken:
        what = f"The adapter is installed, but no APIService names the Service {service}."
        report.add("apiservice-missing", ADAPTER, what, *await _registration(site, stored))
    if not ours:
        return []
    trust = await site.hub.get(resource_path("v1", "configmaps", *TRUST.split("/")))
    trusts = bool(text_at(trust, "data", CA_KEY).strip())
    if isinstance(trust, Problem) and trust.cause is not Cause.ABSENT:
        report.skip("the request-header CA", trust)
        trusts = True
    elif not trusts:
        report.add("request-header-ca-missing", TRUST, f"The ConfigMap {TRUST} has no {CA_KEY}.")
    await _availability(site, ours, trusts)
    return await of_server(site, ADAPTER, [text_at(each, "spec", "caBundle") for each in ours])


def _is_taken(api: Json, service: str, installed: bool) -> bool:
    """True if another server answers for an API that our adapter should serve.

    A hub that runs pods has a metrics-server for metrics.k8s.io, which is right.
    """
    place, group = service_of(api), text_at(api, "spec", "group")
    is_labelled = text_at(api, "metadata", "labels", "app.kubernetes.io/name") == "fedhpa"
    is_usage = group == USAGE and not place.endswith("/karmada-metrics-adapter")
    return group in APIS.values() and place != service and (is_labelled or (installed and not is_usage))


async def _registration(site: Site, service: Json | Problem) -> Fix:
    """Returns the command that registers the adapter at its Service, or the advice."""
    words = f"apiservice -n {quote(site.system)} --without-rights"
    if name := text_at(service, "spec", "externalName"):
        port = at(service, "spec", "ports", 0, "port") or 443
        words += f" --external-name={quote(name)} --port={port}"
    return await site.registered(ADAPTER, words)


async def _availability(site: Site, ours: list[Json], trusts: bool) -> None:
    """Adds one finding for each cause, because all APIs have the same adapter."""
    causes: dict[str, list[tuple[Json, str]]] = {}
    for api, (cause, text) in zip(
        ours, await asyncio.gather(*(_cause(site, each) for each in ours)), strict=True
    ):
        if cause and (trusts or cause != "refuses-hub"):
            causes.setdefault(cause, []).append((api, text))
    for cause, broken in causes.items():
        text, fix = broken[0][1], site.revived(ADAPTER)
        if cause == "certificate":
            fix = await certificate_fix(site, ADAPTER, text, [("apiservice", api) for api, _ in broken])
        elif cause == "missing":
            fix = await _registration(site, {})
        subject = names(text_at(api, "metadata", "name") for api, _ in broken)
        site.report.add(f"apiservice-{cause}", subject, text, *fix)


async def _cause(site: Site, api: Json) -> tuple[str, str]:
    """Returns the suffix of the finding about an APIService, and the words for it; ("", "") if it works."""
    found = condition(api, "Available")
    if found.get("status") == "True":
        group, version = text_at(api, "spec", "group"), text_at(api, "spec", "version")
        answer = await site.hub.request("GET", f"/apis/{group}/{version}")
        if not isinstance(answer, Problem) or answer.cause is Cause.FORBIDDEN:
            return "", ""
        refuses, text = answer.cause is Cause.UNAUTHORIZED, answer.text
    else:
        text = text_at(found, "message") or text_at(found, "reason")
        refuses = "bad status" in text and text.rstrip(". ").endswith(("401", "403"))
    if refuses:
        return "refuses-hub", text
    missing = found.get("reason") == "ServiceNotFound"
    words = text or "The hub has not checked this API yet."
    return "missing" if missing else cause_of(text) or "unavailable", words
