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
from fedhpa.doctor.site import ROLES, Site, name_of

# The API group of the workloads that are scaled by default.
WORKLOADS: Final = "apps"
# The rights of Kubernetes' roles that our bindings name, which `fedhpa rbac` does not print.
_DELEGATED: Final = (
    Right("create", "authentication.k8s.io", "tokenreviews"),
    Right("create", "authorization.k8s.io", "subjectaccessreviews"),
)
_TRUST: Final = Right("get", "", "configmaps", "extension-apiserver-authentication", "kube-system")
# The components with the names of their roles and these rights.
_COMPONENTS: Final = {
    rights.CONTROLLER: (rights.CONTROLLER_ROLE, _DELEGATED),
    rights.ADAPTER: (rights.ADAPTER_ROLE, (*_DELEGATED, _TRUST)),
    rights.WEBHOOK: (rights.WEBHOOK_ROLE, ()),
}


async def check_rights(site: Site) -> None:
    """Adds a finding for each component whose account lacks rights."""
    await asyncio.gather(*(_check(site, component, *each) for component, each in _COMPONENTS.items()))


async def _check(site: Site, component: str, role: str, granted: Collection[Right]) -> None:
    check, binding, switches = f"the rights of {component}", site.found[ROLES][role], site.switches
    account = _account(site, component, binding)
    if account is None:
        # The webhook needs rights only for warnings, and not every hub has the adapter.
        if component == rights.CONTROLLER or rights.ADAPTER in site.deployments:
            site.skip(check, f"no account of {component} was found on this hub")
        return

    def wanted(observed: rights.Switches) -> list[Right]:
        manifests = rights.hub_rights(
            site.system,
            lease_namespace=_lease_namespace(site),
            argocd_namespace=_argocd(site),
            secrets=site.secrets(component),
            switches=observed,
            components=[component.removeprefix("fedhpa-")],
        )
        own = (each for each in manifests if name_of(each) != rights.READER_ROLE)
        return [*needed(own, site.workloads), *granted]

    missing = account if isinstance(account, Problem) else await site.hub.lacking(wanted(switches), account)
    if isinstance(account, Problem) or isinstance(missing, Problem):
        site.skip(check, missing)
    elif missing:
        values = {
            "rbac.distributed=true": replace(switches, distributed=False),
            "placement.enabled=true": replace(switches, placements=False),
            "placement.publishTo={argocd}": replace(switches, publish_to_argocd=False),
        }
        sets = "".join(
            f" --set={value}"
            for value, less in values.items()
            if less != switches and not set(missing) & {*wanted(less)}
        )
        command = site.commands.applied(f"rbac {_options(site, component, account['user'], missing)}")
        fix = site.mended(binding, command, sets)
        site.add("component-rights-missing", component, fix, account=account["user"], rights=names(missing))


def _account(site: Site, component: str, binding: Json | Problem) -> Json | Problem | None:
    """Returns the account that the component's binding names, else its ServiceAccount; None without both."""
    if isinstance(binding, Problem) and binding.cause is not Cause.ABSENT:
        return binding
    found = site.found["serviceaccounts"].get(component, Problem(Cause.ABSENT))
    known = {"kind": "ServiceAccount", "name": component, "namespace": site.system}
    for subject in (*entries(binding, "subjects"), *([known] if isinstance(found, dict) else ())):
        kind, name, space = subject.get("kind"), text_at(subject, "name"), text_at(subject, "namespace")
        if kind == "User" and name:
            return {"user": site.hub.line(name), "groups": ["system:authenticated"]}
        if kind == "ServiceAccount" and name:
            groups = ["system:serviceaccounts", f"system:serviceaccounts:{space}", "system:authenticated"]
            return {"user": f"system:serviceaccount:{space}:{name}", "groups": groups}
    return found if isinstance(found, Problem) and found.cause is not Cause.ABSENT else None


def _options(site: Site, component: str, user: str, missing: Iterable[Right]) -> str:
    """Returns the arguments of `fedhpa rbac` that print the role with what was observed of it.

    A role is replaced as a whole, so a switch that is left out would take rights away.
    """
    part, switches = component.removeprefix("fedhpa-").removeprefix("metrics-"), site.switches
    leases, argocd, is_controller = (
        _lease_namespace(site),
        _argocd(site),
        component == rights.CONTROLLER,
    )
    partly = switches.certificates and switches.apis < rights.METRICS_APIS
    observed = {
        f"--user={quote(user)}": not user.startswith("system:serviceaccount:"),
        f"--propagation={switches.propagation}": component != rights.ADAPTER,
        f"--lease-namespace={quote(leases)}": is_controller and leases != site.system,
        "--metrics-via=hub": is_controller and switches.metrics_via == "hub",
        "--manage-certificates": is_controller and switches.certificates,
        **{f"--api={each}": is_controller and partly for each in sorted(switches.apis)},
        "--distributed": is_controller and switches.distributed,
        "--placements": is_controller and switches.placements,
        "--publish-to=argocd": is_controller and switches.publish_to_argocd,
        f"--argocd-namespace={quote(argocd)}": is_controller
        and switches.publish_to_argocd
        and argocd != rights.ARGOCD_NAMESPACE,
    }
    words = [part, "-n", quote(site.system), *(word for word, is_set in observed.items() if is_set)]
    words += _scale_targets(site) if is_controller else []
    if any(right.resource == "secrets" for right in missing):
        secrets = site.secrets(component).items()
        words += [f"--secret={quote(f'{space}/{name}')}" for space, found in secrets for name in found]
    return " ".join(words)


def _scale_targets(site: Site) -> list[str]:
    """Returns the kinds that the stored role may scale, as options; none for the default ones."""
    found = []
    for rule in entries(site.found["clusterroles"][rights.CONTROLLER_ROLE], "rules"):
        scales = [str(each) for each in rule.get("resources") or () if str(each).endswith("/scale")]
        plurals = tuple(each.removesuffix("/scale") for each in scales)
        found += [
            rights.ScaleTarget(str(group), plurals) for group in (rule.get("apiGroups") or ()) if scales
        ]
    words = (f"{each.group}/{','.join(each.resources)}" for each in found if found != [rights.APPS])
    return [f"--scale-target={quote(each)}" for each in words]


def _argocd(site: Site) -> str:
    """Returns the namespace of Argo CD, by the controller's flag."""
    return site.flag("argocd-namespace") or rights.ARGOCD_NAMESPACE


def _lease_namespace(site: Site) -> str:
    """Returns the namespace of the Leases. A controller that stopped left them where the next one looks."""
    newest = max(
        (one for one in site.lists["leases"] if name_of(one).startswith(f"{rights.CONTROLLER}-")),
        key=lambda each: time_at(each, "spec", "renewTime") or 0.0,
        default=None,
    )
    return text_at(newest, "metadata", "namespace") or site.system


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
