"""The hub itself: how it is reached, its clock and kinds, if anything is installed, and who leads."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any, Final

from controller.cronfederatedhpa import RULE_FIELDS
from controller.hub_check import is_foreign, pruned_paths
from fedhpa.admission.crd import CLUSTER, CRON_FEDERATED_HPA, FEDERATED_HPA, custom_resource_definition
from fedhpa.api.free_json import Json, at, text_at, time_at
from fedhpa.api.member_sources import CLUSTERS
from fedhpa.api.rights import CONTROLLER, NAMESPACE
from fedhpa.doctor.report import Report, names
from fedhpa.doctor.session import Cause, Problem, Session
from fedhpa.doctor.site import CHART, CRDS, OUR_KINDS, ROLES, VALIDATING, Site
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
        kind, own = wanted.model.__name__, custom_resource_definition(wanted)
        stored = site.found[CRDS][own["metadata"]["name"]]
        # Karmada serves Clusters without a CRD.
        is_served = isinstance(stored, Problem) and not site.clusters.problem
        if wanted is CLUSTER and (is_served or CLUSTERS not in site.sources.names):
            continue
        words = "crds --with-clusters" if wanted is CLUSTER else "crds"
        command = site.mended(stored, site.commands.applied(words))
        # Helm compares a CRD with its last release only, so an upgrade to the same chart would mend nothing.
        if text_at(stored, "metadata", "labels", "helm.sh/chart") == f"fedhpa-{version('fedhpa')}":
            forced = "apply --server-side --field-manager=helm --force-conflicts -f -"
            command = site.commands.applied(words, words=forced)
        if isinstance(stored, Problem) and stored.cause is Cause.ABSENT:
            absent.add(kind)
            site.add("crd-missing", kind, command)
            continue
        try:
            lost = [] if isinstance(stored, Problem) else lost_fields(own, stored)
            foreign = is_foreign(stored) if lost and wanted is FEDERATED_HPA else set(lost) >= _KARMADAS
        except (AttributeError, TypeError, KeyError) as error:
            stored, lost = f"its schema cannot be read: {type(error).__name__}", []
        if not isinstance(stored, dict):
            site.skip(f"the CRD of {kind}s", stored)
        elif lost:
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
