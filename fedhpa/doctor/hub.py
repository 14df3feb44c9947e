"""The hub itself: how it is reached, its clock, the kinds that it serves, and if anything is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any, Final

from controller.cronfederatedhpa import RULE_FIELDS
from controller.hub_check import is_foreign, pruned_paths
from fedhpa.admission.crd import (
    CLUSTER,
    CRON_FEDERATED_HPA,
    FEDERATED_HPA,
    custom_resource_definition,
)
from fedhpa.api.free_json import Json, text_at
from fedhpa.api.member_sources import CLUSTERS
from fedhpa.api.rights import NAMESPACE, WEBHOOK
from fedhpa.doctor.report import Report, names
from fedhpa.doctor.session import Cause, Problem, Session, date_of
from fedhpa.doctor.site import CHART, Site, is_named
from fedhpa.kube import Clock, Response

# A lease of 15 s and a period of 15 s bear a difference of this size.
MAX_SKEW_SECONDS: Final = 30.0
INSTALL: Final = f"install fedhpa {CHART} -n {NAMESPACE} --create-namespace -f values.yaml"

_REACH: Final = {
    Cause.UNTRUSTED: "hub-certificate",
    Cause.UNAUTHORIZED: "hub-login-refused",
    Cause.UNREACHABLE: "hub-unreachable",
    Cause.TIMEOUT: "hub-unreachable",
}
# A CRD without all of these fields of rules is Karmada's.
_KARMADAS: Final = frozenset(f"spec.rules[].{name}" for name in RULE_FIELDS)


async def check_hub(hub: Session, report: Report, clock: Clock) -> tuple[float, float] | None:
    """Returns the hub's time and its clock minus ours, in seconds; None if the hub cannot be used."""
    answer, skew = await skewed(hub, "/version", clock)
    found = hub.json(answer)
    if isinstance(found, Problem):
        report.add(_REACH.get(found.cause, "hub-failing"), report.server or "the hub", found.text)
        return None
    report.versions["hub"] = hub.line(text_at(found, "gitVersion"), 64)
    if abs(skew) > MAX_SKEW_SECONDS:
        report.add("hub-clock-skew", "the hub", skew_text("The hub's clock", "ours", skew))
    return clock.wall() + skew, skew


async def skewed(session: Session, path: str, clock: Clock) -> tuple[Response | Problem, float]:
    """Returns the answer at a path, and the server's clock minus ours in seconds; 0 if it is unknown."""
    begun = clock.wall()
    answer = await session.request("GET", path)
    date, middle = date_of(answer), (begun + clock.wall()) / 2
    return answer, 0.0 if date is None else date - middle


def skew_text(clock: str, other: str, skew: float) -> str:
    """Returns a sentence about a clock that is `skew` seconds ahead of the other."""
    return f"{clock} is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} {other}."


def check_installed(site: Site) -> bool:
    """Returns False, and adds the only finding, if certainly nothing of ours is on this hub."""
    seen = [*site.definitions.values(), *site.bindings.values()]
    if (
        site.validating.problem is not None
        or not all(isinstance(each, Problem) and each.cause is Cause.ABSENT for each in seen)
        or any(is_named(each, WEBHOOK) for each in (*site.validating, *site.mutating))
        or site.deployments
    ):
        return True
    what = "Nothing of fedhpa is installed here."
    site.report.add("not-installed", "the hub", what, site.commands.helm(INSTALL))
    return False


def check_definitions(site: Site) -> set[str]:
    """Checks the CRDs. Returns the kinds that the hub does not serve."""
    absent = set()
    for wanted in (FEDERATED_HPA, CRON_FEDERATED_HPA, CLUSTER):
        own = custom_resource_definition(wanted)
        kind = own["spec"]["names"]["kind"]
        stored = site.definitions[own["metadata"]["name"]]
        if wanted == CLUSTER and CLUSTERS not in site.sources.names:
            continue
        if wanted == CLUSTER and isinstance(stored, Problem) and not site.clusters.problem:
            continue  # Karmada serves Clusters without a CRD
        command = _crds(site, stored, " --with-clusters" if wanted == CLUSTER else "")
        if isinstance(stored, Problem):
            if stored.cause is not Cause.ABSENT:
                site.report.skip(f"the CRD of {kind}s", stored)
                continue
            absent.add(kind)
            site.report.add("crd-missing", kind, f"The hub does not serve {kind}s.", command)
            continue
        try:
            lost = lost_fields(own, stored)
            foreign = is_foreign(stored) if wanted == FEDERATED_HPA else set(lost) >= _KARMADAS
        except (AttributeError, TypeError, KeyError) as error:
            site.report.skip(f"the CRD of {kind}s", f"its schema cannot be read: {type(error).__name__}")
            continue
        if lost:
            which = "crd-fields-pruned" if foreign else "crd-outdated"
            site.report.add(which, kind, f"The CRD of {kind}s drops {names(lost)}.", command)
    return absent


def _crds(site: Site, stored: Json | Problem, options: str) -> str:
    """Returns the command that brings the CRDs of this release.

    Helm compares a CRD with its last release only, so an upgrade to the same chart would mend nothing.
    """
    words = f"crds{options}"
    own = f"fedhpa-{version('fedhpa')}"
    if text_at(stored, "metadata", "labels", "helm.sh/chart") == own:
        forced = "apply --server-side --field-manager=helm --force-conflicts -f -"
        return site.commands.applied(words, words=forced)
    return site.mended(stored, site.commands.applied(words))


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
