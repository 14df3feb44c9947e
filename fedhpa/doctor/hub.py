"""The hub itself: how it is reached, its clock and kinds, who leads, and what our accounts may do."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from shlex import quote
from typing import Any, Final

from controller.cronfederatedhpa import RULE_FIELDS
from controller.hub_check import is_foreign, pruned_paths
from fedhpa.admission.crd import CLUSTER, CRON_FEDERATED_HPA, FEDERATED_HPA, custom_resource_definition
from fedhpa.api import rights
from fedhpa.api.free_json import Json, at, entries, text_at, time_at
from fedhpa.api.member_sources import CLUSTERS
from fedhpa.api.rights import CONTROLLER, NAMESPACE
from fedhpa.doctor.report import Report, names
from fedhpa.doctor.session import Cause, Problem, Right, Session
from fedhpa.doctor.site import CHART, CRDS, OUR_KINDS, ROLES, VALIDATING, Site, name_of
from fedhpa.kube import Clock

# A lease of 15 s and a period of 15 s bear a difference of this size.
MAX_SKEW_SECONDS: Final = 30.0
INSTALL: Final = f"install fedhpa {CHART} -n {NAMESPACE} --create-namespace -f values.yaml"
CLUSTERS_LEASE, CERTIFICATES_LEASE = "fedhpa-controller-clusters", "fedhpa-controller-certificates"
# A still status is written every ten minutes.
RECENT_SECONDS: Final = 900.0
_REACH: Final = {
    Cause.UNTRUSTED: "hub-certificate",
    Cause.UNAUTHORIZED: "hub-login-refused",
    Cause.UNREACHABLE: "hub-unreachable",
    Cause.TIMEOUT: "hub-unreachable",
}
# A CRD without all of these fields of rules is Karmada's.
_KARMADAS: Final = frozenset(f"spec.rules[].{name}" for name in RULE_FIELDS)
_SHARD: Final = re.compile(r"fedhpa-controller-(cron-)?(\d{1,4})-of-(\d{1,4})(-by-target)?")
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


async def check_hub(hub: Session, report: Report, clock: Clock) -> tuple[float, float] | None:
    """Returns the hub's time and its clock minus ours, in seconds; None if the hub cannot be used."""
    answer, skew = await hub.timed("/version", clock)
    found = hub.json(answer)
    if isinstance(found, Problem):
        report.add(_REACH.get(found.cause, "hub-failing"), report.server or "the hub", what=found.text)
        return None
    report.versions["hub"] = hub.line(text_at(found, "gitVersion"), 64)
    if abs(skew) > MAX_SKEW_SECONDS:
        report.add("hub-clock-skew", "the hub", skew=skew_text(skew))
    return clock.wall() + skew, skew


def skew_text(skew: float) -> str:
    """Returns by how much a clock is ahead of another, or behind it."""
    return f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'}"


def check_installed(site: Site) -> bool:
    """Returns False, and adds the only finding, if certainly nothing of ours is on this hub."""
    seen = [*site.found[CRDS].values(), *site.found[ROLES].values()]
    if (
        site.lists[VALIDATING].problem is not None
        or not all(isinstance(each, Problem) and each.cause is Cause.ABSENT for each in seen)
        or site.configurations
        or site.deployments
    ):
        return True
    site.add("not-installed", "the hub", site.commands.helm(INSTALL))
    return False


def check_definitions(site: Site) -> set[str]:
    """Checks the CRDs. Returns the kinds that the hub does not serve."""
    absent = set()
    for wanted in (FEDERATED_HPA, CRON_FEDERATED_HPA, CLUSTER):
        own = custom_resource_definition(wanted)
        kind = own["spec"]["names"]["kind"]
        stored = site.found[CRDS][own["metadata"]["name"]]
        # Karmada serves Clusters without a CRD.
        is_served = isinstance(stored, Problem) and not site.clusters.problem
        if wanted == CLUSTER and (is_served or CLUSTERS not in site.sources.names):
            continue
        words = "crds --with-clusters" if wanted == CLUSTER else "crds"
        command = site.mended(stored, site.commands.applied(words))
        # Helm compares a CRD with its last release only, so an upgrade to the same chart would mend nothing.
        if text_at(stored, "metadata", "labels", "helm.sh/chart") == f"fedhpa-{version('fedhpa')}":
            forced = "apply --server-side --field-manager=helm --force-conflicts -f -"
            command = site.commands.applied(words, words=forced)
        if isinstance(stored, Problem):
            if stored.cause is Cause.ABSENT:
                absent.add(kind)
                site.add("crd-missing", kind, command)
            else:
                site.skip(f"the CRD of {kind}s", stored)
            continue
        try:
            lost = lost_fields(own, stored)
            foreign = is_foreign(stored) if wanted == FEDERATED_HPA else set(lost) >= _KARMADAS
        except (AttributeError, TypeError, KeyError) as error:
            site.skip(f"the CRD of {kind}s", f"its schema cannot be read: {type(error).__name__}")
            continue
        if lost:
            site.add("crd-fields-pruned" if foreign else "crd-outdated", kind, command, fields=names(lost))
    return absent


def lost_fields(own: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Returns the paths of our schema that a stored CRD drops, without paths below a dropped one."""
    schema = own["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    lost: list[str] = []
    for path in pruned_paths(stored, _paths(schema, "")):
        if not lost or not path.startswith((f"{lost[-1]}.", f"{lost[-1]}[]")):
            lost.append(path)
    return lost


def _paths(schema: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Yields the path of each field, parents first."""
    for name, field in (schema.get("properties") or {}).items():
        if prefix or name not in ("apiVersion", "kind", "metadata"):
            yield f"{prefix}{name}"
            yield from _paths(field.get("items", field), f"{prefix}{name}{'[]' if 'items' in field else ''}.")


def check_controllers(site: Site) -> None:
    """Adds a finding for each Lease that somebody must hold, and nobody holds."""
    if site.lists["leases"].problem:
        site.skip("the Leases of the controller", site.lists["leases"].problem)
        return
    leases, known = {text_at(each, "metadata", "name"): each for each in site.lists["leases"]}, []
    # The shards that are held, by the number of shards and the end of their names.
    held: dict[str, dict[tuple[int, str], set[int]]] = {kind: defaultdict(set) for kind in OUR_KINDS}
    for name, lease in leases.items():
        if match := _SHARD.fullmatch(name):
            known.append(_state(site, lease))
            if _is_held(site, lease):
                held[OUR_KINDS[bool(match[1])]][int(match[3]), match[4] or ""].add(int(match[2]))
    if any(held.values()):
        for kind in OUR_KINDS:
            _check_shards(site, held[kind], kind)
        for name in (CLUSTERS_LEASE, CERTIFICATES_LEASE):
            found = leases.get(name)
            is_wanted = name == CLUSTERS_LEASE or site.manages_certificates or found is not None
            if is_wanted and not _is_held(site, found):
                what = (
                    "No such Lease exists." if found is None else f"Nobody renews it: {_state(site, found)}."
                )
                site.add("lease-not-held", name, site.revived(CONTROLLER), what=what)
        return
    times = (time_at(each, "status", "decision", "time") for each in site.lists[OUR_KINDS[0]])
    if not known and any(abs(site.now - each) < RECENT_SECONDS for each in times if each is not None):
        site.skip("the Leases of the controller", "a controller decides without a Lease")
    else:
        what = f"{names(known)}." if known else "No Lease of a controller exists."
        site.add("controller-not-running", CONTROLLER, site.revived(CONTROLLER), what=what)


def _is_held(site: Site, lease: Json | None) -> bool:
    """True if a process holds the Lease, and renewed it lately."""
    renewed, duration = time_at(lease, "spec", "renewTime"), at(lease, "spec", "leaseDurationSeconds") or 15
    # Three durations: the hub writes whole seconds, and a leader may be late once.
    return bool(text_at(lease, "spec", "holderIdentity")) and site.now - (renewed or 0.0) <= 3 * duration


def _state(site: Site, lease: Json) -> str:
    name, holder = text_at(lease, "metadata", "name"), text_at(lease, "spec", "holderIdentity")
    renewed = time_at(lease, "spec", "renewTime")
    since = "never renewed" if renewed is None else f"renewed {site.now - renewed:.0f} s ago"
    return f"{name} was {since} by {holder}" if holder else f"{name} is free"


def _check_shards(site: Site, held: dict[tuple[int, str], set[int]], plural: str) -> None:
    """Adds a finding unless exactly the shards of one division are held."""
    kind = plural.removesuffix("s")
    if len(held) > 1:
        known = (f"{count} shards{by.replace('-', ' ')}" for count, by in sorted(held))
        site.add("controller-shards-differ", kind, divisions=" and of ".join(known))
        return
    subject = f"{kind} controller"
    if not held and site.lists[plural]:
        what = f"The hub has {plural}, but nobody holds a Lease of their controller."
        advice = f"Start a controller whose --controllers have {kind}, which is so by default."
        site.add("lease-not-held", subject, advice, what=what)
    for (count, _), found in held.items():
        if free := [shard for shard in range(min(count, 1_000)) if shard not in found]:
            what = f"Nobody holds the Leases of the shards {names(free)} of {count}."
            site.add("lease-not-held", subject, site.revived(CONTROLLER), what=what)


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
    # The kinds that the stored role may scale, unless they are the default ones.
    scaled = []
    for rule in entries(site.found["clusterroles"][rights.CONTROLLER_ROLE], "rules") if is_controller else ():
        scales = [str(each) for each in rule.get("resources") or () if str(each).endswith("/scale")]
        plurals = tuple(each.removesuffix("/scale") for each in scales)
        scaled += [
            rights.ScaleTarget(str(group), plurals) for group in (rule.get("apiGroups") or ()) if scales
        ]
    targets = (f"{each.group}/{','.join(each.resources)}" for each in scaled if scaled != [rights.APPS])
    words += [f"--scale-target={quote(each)}" for each in targets]
    if any(right.resource == "secrets" for right in missing):
        secrets = site.secrets(component).items()
        words += [f"--secret={quote(f'{space}/{name}')}" for space, found in secrets for name in found]
    return " ".join(words)


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
