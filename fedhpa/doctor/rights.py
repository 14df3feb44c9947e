"""The rights of our accounts on the hub, compared with `fedhpa.api.rights`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from shlex import quote
from typing import Any, Final

from fedhpa.api import rights
from fedhpa.api.free_json import Json, entries, text_at, time_at
from fedhpa.doctor.report import names
from fedhpa.doctor.session import Account, Cause, Problem, Right, Session
from fedhpa.doctor.site import RBAC, Site, listed, workloads_of
from fedhpa.kube import resource_path

# The API group of the workloads that are scaled by default.
WORKLOADS: Final = "apps"
# Kubernetes' roles that our bindings name.
_DELEGATED: Final = (
    Right("create", "authentication.k8s.io", "tokenreviews"),
    Right("create", "authorization.k8s.io", "subjectaccessreviews"),
)
_TRUST: Final = Right("get", "", "configmaps", "extension-apiserver-authentication", "kube-system")
_NOBODY: Final = rights.user("nobody")


async def check_rights(site: Site) -> None:
    """Adds a finding for each component whose account lacks rights."""
    await asyncio.gather(
        _check(site, rights.CONTROLLER, rights.CONTROLLER_ROLE),
        _check(site, rights.ADAPTER, rights.ADAPTER_ROLE),
        _check(site, rights.WEBHOOK, rights.WEBHOOK_ROLE),
    )


async def _check(site: Site, component: str, role: str) -> None:
    check, binding = f"the rights of {component}", site.bindings[role]
    account = await _account(site, component, binding)
    if account is None:
        if component == rights.CONTROLLER or rights.ADAPTER in site.deployments:
            site.report.skip(check, f"no account of {component} was found on this hub")
        return  # the webhook needs rights only for warnings, and not every hub has the adapter
    wanted = _wanted(site, component, site.switches)
    missing = account if isinstance(account, Problem) else await site.hub.lacking(wanted, account)
    if isinstance(account, Problem) or isinstance(missing, Problem):
        site.report.skip(check, str(missing))
        return
    if not missing:
        return
    what = f"{account.user} may not: {names(missing)}."
    sets = "".join(
        f" --set={value}"
        for value, less in (
            ("rbac.distributed=true", replace(site.switches, distributed=False)),
            ("placement.enabled=true", replace(site.switches, placements=False)),
            ("placement.publishTo={argocd}", replace(site.switches, publish_to_argocd=False)),
        )
        if less != site.switches and not set(missing) & {*_wanted(site, component, less)}
    )
    options = await _options(site, component, role, account, missing)
    stored = binding if isinstance(binding, dict) else None
    command = site.mended(stored, site.commands.applied(f"rbac {options}"), sets)
    site.report.add("component-rights-missing", component, what, command)


async def _account(site: Site, component: str, binding: Json | Problem) -> Account | Problem | None:
    """Returns the account that the component's binding names, else its ServiceAccount; None without both."""
    if isinstance(binding, Problem) and binding.cause is not Cause.ABSENT:
        return binding
    for subject in entries(binding, "subjects"):
        name = text_at(subject, "name")
        if subject.get("kind") == "User" and name:
            return Account(site.hub.line(name), ("system:authenticated",))
        if subject.get("kind") == "ServiceAccount" and name:
            return _service_account(text_at(subject, "namespace"), name)
    if component == rights.WEBHOOK:
        return None
    found = await site.hub.get(resource_path("v1", "serviceaccounts", site.system, component))
    if isinstance(found, Problem):
        return None if found.cause is Cause.ABSENT else found
    return _service_account(site.system, component)


def _service_account(namespace: str, name: str) -> Account:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return Account(f"system:serviceaccount:{namespace}:{name}", groups)


async def _options(site: Site, component: str, role: str, account: Account, missing: Iterable[Right]) -> str:
    """Returns the arguments of `fedhpa rbac` that print the role with what was observed of it.

    A role is replaced as a whole, so a switch that is left out would take rights away.
    """
    part = component.removeprefix("fedhpa-").removeprefix("metrics-")
    switches, words = site.switches, [part, "-n", quote(site.system)]
    if not account.user.startswith("system:serviceaccount:"):
        words.append(f"--user={quote(account.user)}")
    if component != rights.ADAPTER:
        words.append(f"--propagation={switches.propagation}")
    if component == rights.CONTROLLER:
        leases = _lease_namespace(site)
        words += [f"--lease-namespace={quote(leases)}"] if leases != site.system else []
        words += ["--metrics-via=hub"] if switches.metrics_via == "hub" else []
        words += ["--manage-certificates"] if switches.certificates else []
        partly = switches.certificates and switches.apis < rights.METRICS_APIS
        words += [f"--api={each}" for each in sorted(switches.apis)] if partly else []
        words += ["--distributed"] if switches.distributed else []
        words += ["--placements"] if switches.placements else []
        words += _to_argocd(site)
        words += await _scale_targets(site.hub, role)
    if any(right.resource == "secrets" for right in missing):
        secrets = site.secrets(component).items()
        named = (f"{space}/{name}" for space, found in secrets for name in found)
        words += [f"--secret={quote(each)}" for each in named]
    return " ".join(words)


def _to_argocd(site: Site) -> list[str]:
    if not site.switches.publish_to_argocd:
        return []
    place = site.argocd_namespace
    other = [f"--argocd-namespace={quote(place)}"] if place != rights.ARGOCD_NAMESPACE else []
    return ["--publish-to=argocd", *other]


async def _scale_targets(hub: Session, role: str) -> list[str]:
    """Returns the kinds that the stored role may scale, as options; none for the default ones."""
    stored = await hub.get(resource_path(RBAC, "clusterroles", name=role))
    found = []
    for rule in entries(None if isinstance(stored, Problem) else stored, "rules"):
        scales = [each for each in rule.get("resources") or () if str(each).endswith("/scale")]
        plurals = tuple(each.removesuffix("/scale") for each in scales)
        for group in (rule.get("apiGroups") or ()) if scales else ():
            found.append(rights.ScaleTarget(str(group), plurals))
    if not found or found == [rights.APPS]:
        return []
    words = (f"{each.group}/{','.join(each.resources)}" for each in found)
    return [f"--scale-target={quote(each)}" for each in words]


def _lease_namespace(site: Site) -> str:
    """Returns the namespace of the Leases. A controller that stopped left them where the next one looks."""
    leases = [
        each
        for each in listed(site.leases)
        if text_at(each, "metadata", "name").startswith(f"{rights.CONTROLLER}-")
    ]
    newest = max(leases, key=lambda each: time_at(each, "spec", "renewTime") or 0.0, default=None)
    return text_at(newest, "metadata", "namespace") or site.system


def _wanted(site: Site, component: str, switches: rights.Switches) -> list[Right]:
    workloads = workloads_of(site.federated, site.crons)
    if component == rights.WEBHOOK:
        return needed(rights_of(rights.webhook_rights(_NOBODY, propagation=switches.propagation)), workloads)
    if component == rights.ADAPTER:
        manifests = rights.adapter_rights(_NOBODY, secrets=site.secrets(component))
        mine = [each for each in manifests if each["metadata"]["name"] != rights.READER_ROLE]
        return [*rights_of(mine), *_DELEGATED, _TRUST]
    manifests = rights.hub_rights(
        site.system,
        lease_namespace=_lease_namespace(site),
        argocd_namespace=site.argocd_namespace,
        secrets=site.secrets(component),
        switches=switches,
        components=["controller"],
    )
    return [*needed(rights_of(manifests), workloads), *_DELEGATED]


def needed(found: Iterable[Right], workloads: Collection[str]) -> list[Right]:
    """Returns the rights without those on kinds of workloads that no object scales.

    An installation may be limited to some kinds.
    """
    return [
        right
        for right in found
        if right.group != WORKLOADS or right.resource.partition("/")[0].removesuffix("s") in workloads
    ]


def rights_of(manifests: Iterable[Mapping[str, Any]]) -> list[Right]:
    """Returns the single rights that the roles among some manifests grant."""
    found = [
        right
        for manifest in manifests
        for rule in manifest.get("rules") or ()
        for right in _rule(rule, manifest["metadata"].get("namespace", ""))
    ]
    return list(dict.fromkeys(found))


def _rule(rule: Mapping[str, Any], namespace: str) -> Iterable[Right]:
    for verb in rule["verbs"]:
        for path in rule.get("nonResourceURLs") or ():
            yield Right(verb, path=path)
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                for name in rule.get("resourceNames") or ("",):
                    yield Right(verb, group, resource, name, namespace)
