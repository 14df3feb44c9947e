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
from fedhpa.doctor.session import Cause, Problem, Right
from fedhpa.doctor.site import RBAC, Site
from fedhpa.kube import resource_path

# The API group of the workloads that are scaled by default.
WORKLOADS: Final = "apps"
# The rights of Kubernetes' roles that our bindings name.
_DELEGATED: Final = (
    Right("create", "authentication.k8s.io", "tokenreviews"),
    Right("create", "authorization.k8s.io", "subjectaccessreviews"),
)
_TRUST: Final = Right("get", "", "configmaps", "extension-apiserver-authentication", "kube-system")
# The rights of the other roles that a component's bindings name, which `fedhpa rbac` does not print.
_GRANTED: Final = {rights.CONTROLLER: _DELEGATED, rights.ADAPTER: (*_DELEGATED, _TRUST), rights.WEBHOOK: ()}


async def check_rights(site: Site) -> None:
    """Adds a finding for each component whose account lacks rights."""
    await asyncio.gather(
        _check(site, rights.CONTROLLER, rights.CONTROLLER_ROLE),
        _check(site, rights.ADAPTER, rights.ADAPTER_ROLE),
        _check(site, rights.WEBHOOK, rights.WEBHOOK_ROLE),
    )


async def _check(site: Site, component: str, role: str) -> None:
    check, binding, switches = f"the rights of {component}", site.bindings[role], site.switches
    account = await _account(site, component, binding)
    if account is None:
        if component == rights.CONTROLLER or rights.ADAPTER in site.deployments:
            site.report.skip(check, f"no account of {component} was found on this hub")
        return  # the webhook needs rights only for warnings, and not every hub has the adapter
    wanted = _wanted(site, component, switches)
    missing = account if isinstance(account, Problem) else await site.hub.lacking(wanted, account)
    if isinstance(account, Problem) or isinstance(missing, Problem):
        site.report.skip(check, missing)
    elif missing:
        sets = "".join(
            f" --set={value}"
            for value, less in (
                ("rbac.distributed=true", replace(switches, distributed=False)),
                ("placement.enabled=true", replace(switches, placements=False)),
                ("placement.publishTo={argocd}", replace(switches, publish_to_argocd=False)),
            )
            if less != switches and not set(missing) & {*_wanted(site, component, less)}
        )
        options = await _options(site, component, role, account["user"], missing)
        command = site.mended(binding, site.commands.applied(f"rbac {options}"), sets)
        what = f"{account['user']} may not: {names(missing)}."
        site.report.add("component-rights-missing", component, what, command)


async def _account(site: Site, component: str, binding: Json | Problem) -> Json | Problem | None:
    """Returns the account that the component's binding names, else its ServiceAccount; None without both."""
    if isinstance(binding, Problem) and binding.cause is not Cause.ABSENT:
        return binding
    for subject in entries(binding, "subjects"):
        kind, name = subject.get("kind"), text_at(subject, "name")
        if kind == "User" and name:
            return {"user": site.hub.line(name), "groups": ["system:authenticated"]}
        if kind == "ServiceAccount" and name:
            return _service_account(text_at(subject, "namespace"), name)
    if component == rights.WEBHOOK:
        return None
    found = await site.hub.get(resource_path("v1", "serviceaccounts", site.system, component))
    if isinstance(found, Problem):
        return None if found.cause is Cause.ABSENT else found
    return _service_account(site.system, component)


def _service_account(namespace: str, name: str) -> Json:
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    return {"user": f"system:serviceaccount:{namespace}:{name}", "groups": groups}


async def _options(site: Site, component: str, role: str, user: str, missing: Iterable[Right]) -> str:
    """Returns the arguments of `fedhpa rbac` that print the role with what was observed of it.

    A role is replaced as a whole, so a switch that is left out would take rights away.
    """
    part, switches = component.removeprefix("fedhpa-").removeprefix("metrics-"), site.switches
    words = [part, "-n", quote(site.system)]
    if not user.startswith("system:serviceaccount:"):
        words.append(f"--user={quote(user)}")
    if component != rights.ADAPTER:
        words.append(f"--propagation={switches.propagation}")
    if component == rights.CONTROLLER:
        leases, argocd = _lease_namespace(site), site.argocd_namespace
        partly = switches.certificates and switches.apis < rights.METRICS_APIS
        for word, is_observed in (
            (f"--lease-namespace={quote(leases)}", leases != site.system),
            ("--metrics-via=hub", switches.metrics_via == "hub"),
            ("--manage-certificates", switches.certificates),
            *((f"--api={each}", partly) for each in sorted(switches.apis)),
            ("--distributed", switches.distributed),
            ("--placements", switches.placements),
            ("--publish-to=argocd", switches.publish_to_argocd),
            (
                f"--argocd-namespace={quote(argocd)}",
                switches.publish_to_argocd and argocd != rights.ARGOCD_NAMESPACE,
            ),
        ):
            words += [word] if is_observed else []
        words += await _scale_targets(site, role)
    if any(right.resource == "secrets" for right in missing):
        secrets = site.secrets(component).items()
        words += [f"--secret={quote(f'{space}/{name}')}" for space, found in secrets for name in found]
    return " ".join(words)


async def _scale_targets(site: Site, role: str) -> list[str]:
    """Returns the kinds that the stored role may scale, as options; none for the default ones."""
    stored = await site.hub.get(resource_path(RBAC, "clusterroles", name=role))
    found = []
    for rule in entries(stored, "rules"):
        scales = [each for each in rule.get("resources") or () if str(each).endswith("/scale")]
        plurals = tuple(each.removesuffix("/scale") for each in scales)
        for group in (rule.get("apiGroups") or ()) if scales else ():
            found.append(rights.ScaleTarget(str(group), plurals))
    words = (f"{each.group}/{','.join(each.resources)}" for each in found if found != [rights.APPS])
    return [f"--scale-target={quote(each)}" for each in words]


def _lease_namespace(site: Site) -> str:
    """Returns the namespace of the Leases. A controller that stopped left them where the next one looks."""
    newest = max(
        (one for one in site.leases if text_at(one, "metadata", "name").startswith(f"{rights.CONTROLLER}-")),
        key=lambda each: time_at(each, "spec", "renewTime") or 0.0,
        default=None,
    )
    return text_at(newest, "metadata", "namespace") or site.system


def _wanted(site: Site, component: str, switches: rights.Switches) -> list[Right]:
    """Returns the rights that `fedhpa rbac` prints for a component, and those of Kubernetes' roles."""
    manifests = rights.hub_rights(
        site.system,
        lease_namespace=_lease_namespace(site),
        argocd_namespace=site.argocd_namespace,
        secrets=site.secrets(component),
        switches=switches,
        components=[component.removeprefix("fedhpa-")],
    )
    own = [each for each in manifests if each["metadata"]["name"] != rights.READER_ROLE]
    return [*needed(own, site.workloads), *_GRANTED[component]]


def needed(manifests: Iterable[Mapping[str, Any]], workloads: Collection[str]) -> list[Right]:
    """Returns the single rights that some roles grant, without those on workloads that no object scales.

    An installation may be limited to some kinds.
    """
    found: list[Right] = []
    for manifest in manifests:
        space = manifest["metadata"].get("namespace", "")
        for rule in manifest.get("rules") or ():
            for verb in rule["verbs"]:
                found += [Right(verb, path=path) for path in rule.get("nonResourceURLs") or ()]
                found += [
                    Right(verb, group, resource, name, space)
                    for group in rule.get("apiGroups") or ()
                    for resource in rule.get("resources") or ()
                    if group != WORKLOADS or resource.partition("/")[0].removesuffix("s") in workloads
                    for name in rule.get("resourceNames") or ("",)
                ]
    return list(dict.fromkeys(found))
