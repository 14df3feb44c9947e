"""The objects of our kinds: are they Ready, what is wrong with their targets, owners and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Final

from controller.cronfederatedhpa import is_run_by_karmada
from controller.hub_check import ACTIVE_SECONDS, written_by_karmada
from fedhpa.api.autoscalers import HPA_KIND, Autoscaler, StoredAutoscaler, Target, from_stored
from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import GROUP, KIND
from fedhpa.api.free_json import Json, at, entries, text_at, time_at
from fedhpa.api.json import InvalidJson, convert_json
from fedhpa.api.member_hpas import DELETION_WAITS, MANAGED_BY, MANAGER
from fedhpa.api.taints import LEAVING
from fedhpa.decision import PLACEMENT_UNREADABLE, PUBLISHED
from fedhpa.doctor.members import Member
from fedhpa.doctor.metrics import check_external, check_ready
from fedhpa.doctor.report import names
from fedhpa.doctor.session import Cause, Problem
from fedhpa.doctor.site import Site, listed
from fedhpa.doctor.targets import SHORT, Scaled, Targets
from fedhpa.kube import Clock

# A controller removes its finalizers within a minute of the deletion.
DELETION_SECONDS: Final = 120.0
DRY_RUN: Final = "DryRun"
# Type and status of conditions about placements: the finding, its words, and the advice.
_PLACEMENTS: Final = {
    (PUBLISHED, "False"): (
        "placement-not-published",
        "Its placement is not published as a whole",
        "Give each member a ClusterProfile, and the controller --clusterprofile-namespaces.",
    ),
    (PLACEMENT_UNREADABLE, "True"): (
        "placement-not-followed",
        "It does not follow a PlacementDecision",
        "Let its scheduler write the decision, or remove clusterAffinity.placementDecision.",
    ),
}
ON_HUB: Final = "the hub"
_SWITCH: Final = {KIND: "federatedHorizontalPodAutoscaler", CRON_KIND: "cronFederatedHorizontalPodAutoscaler"}


async def check_objects(site: Site, members: Sequence[Member], clock: Clock) -> None:
    """Adds what is wrong with the objects. One that is not Ready for another reason has its own words."""
    objects = []
    for kind, found in ((KIND, site.federated), (CRON_KIND, site.crons)):
        if isinstance(found, Problem):
            if found.cause is not Cause.ABSENT:
                site.report.skip(f"the {kind}s", str(found))
            continue
        site.report.counts[f"{kind}s"] = len(found)
        objects += [Scaled(own, raw) for raw in found if (own := _autoscaler(kind, raw)) is not None]
        _karmada(site, kind, found)
        for raw in found:
            if _autoscaler(kind, raw) is None:
                name = f"{text_at(raw, 'metadata', 'namespace')}/{text_at(raw, 'metadata', 'name')}"
                advice = "Write spec.scaleTargetRef anew; the webhook refuses such an object."
                site.report.add(
                    "object-not-ready", f"{SHORT[kind]} {name}", "It cannot be read.", advice=advice
                )
    looker = Targets(site, members, clock)
    await looker.find(objects)
    owners = _owners(site, members)
    claimed: set[Target] = set()
    for each in objects:
        before = len(site.report.findings)
        if (since := _deleted(site, each)) is not None:
            _deletion(site, each, since)
            continue
        await looker.check(each)
        others = [] if each.target in claimed else _others(each.own, owners)
        if others:
            claimed.add(each.target)  # one finding for each target
            _second_owner(site, members, each, others)
        _leaving(site, each)
        _placement(site, each)
        if each.own.kind == KIND:
            await check_external(site, members, each)
        if len(site.report.findings) == before:
            await check_ready(site, members, each)


def _autoscaler(kind: str, raw: Json) -> Autoscaler | None:
    """Returns the autoscaler of a stored object; None if it cannot be read or names no target."""
    try:
        return from_stored(kind, convert_json(raw, StoredAutoscaler))
    except InvalidJson:
        return None


def _deleted(site: Site, found: Scaled) -> float | None:
    """Returns how long ago an object was deleted that a finalizer of ours keeps, in seconds."""
    deleted = time_at(found.raw, "metadata", "deletionTimestamp")
    kept = any(str(each).startswith(f"{GROUP}/") for each in at(found.raw, "metadata", "finalizers") or ())
    return None if deleted is None or not kept else site.now - deleted


def _deletion(site: Site, found: Scaled, since: float) -> None:
    if since <= DELETION_SECONDS:
        return
    what = f"It was deleted {since:.0f} s ago, and still has a finalizer of ours."
    if found.own.kind == KIND:
        what += f" It waits: {DELETION_WAITS}."
    advice = "Let a controller without --pause run, and every member answer."
    site.report.add("object-not-deleted", found.subject, what, advice=advice)


def _leaving(site: Site, found: Scaled) -> None:
    moves = [
        f"{text_at(one, 'name')}: {one['waitsFor']}"
        for one in entries(found.raw, "status", "clusters")
        if one.get("membership") == LEAVING and one.get("waitsFor")
    ]
    if moves:
        advice = "Add nodes or clusters, or allow more replicas in the others."
        site.report.add(
            "replicas-wait", found.subject, f"Replicas are to leave {names(moves)}.", advice=advice
        )


def _placement(site: Site, found: Scaled) -> None:
    """Adds what keeps a placement from being published or followed. Scaling goes on without it."""
    for one in entries(found.raw, "status", "conditions"):
        known = _PLACEMENTS.get((text_at(one, "type"), text_at(one, "status")))
        if known is not None and one.get("reason") != DRY_RUN:
            kind, what, advice = known
            message = f"{what}: {text_at(one, 'message')}."
            site.report.add(kind, found.subject, message, advice=advice)


def _karmada(site: Site, kind: str, found: Sequence[Json]) -> None:
    """Adds one finding for all objects of a kind, because one flag fixes them all."""
    acted = []
    for raw in found:
        try:
            written = written_by_karmada(raw) if kind == KIND else None
            acts = is_run_by_karmada(raw, site.now) if kind == CRON_KIND else False
        except (InvalidObject, AttributeError, TypeError, KeyError):
            continue
        if acts or (written is not None and 0 <= site.now - written < ACTIVE_SECONDS):
            acted.append(f"{text_at(raw, 'metadata', 'namespace')}/{text_at(raw, 'metadata', 'name')}")
    if acted:
        what = f"karmada-controller-manager writes the status of {names(acted)}."
        advice = f"Start karmada-controller-manager with --controllers=*,-{_SWITCH[kind]}."
        site.report.add("karmada-controller-active", f"{kind}s", what, advice=advice)


def _owners(site: Site, members: Sequence[Member]) -> dict[Target, list[tuple[str, Autoscaler]]]:
    """Returns the active autoscalers by target, each with the server that it is on."""
    found: dict[Target, list[tuple[str, Autoscaler]]] = {}
    stored = [("", _autoscaler(KIND, raw)) for raw in listed(site.federated)]
    stored += [("", _autoscaler(CRON_KIND, raw)) for raw in listed(site.crons)]
    for where, items in ((ON_HUB, site.autoscalers), *((one.name, one.autoscalers) for one in members)):
        if isinstance(items, Problem):
            # A member whose rights are incomplete has a finding of its own.
            if where == ON_HUB or items.cause is not Cause.FORBIDDEN:
                site.report.skip("other autoscalers", f"{where}: {items}")
            continue
        for item in items:
            # Mode Distributed scales a target by HPAs of ours in the members.
            if where == ON_HUB or (item.metadata.labels or {}).get(MANAGED_BY) != MANAGER:
                stored.append((where, from_stored(HPA_KIND, item)))
    for where, one in stored:
        if one is not None and one.active:
            found.setdefault(one.target, []).append((where, one))
    return found


def _others(
    own: Autoscaler, owners: dict[Target, list[tuple[str, Autoscaler]]]
) -> list[tuple[str, Autoscaler]]:
    """Returns the other active autoscalers of the target. Rules of one target are planned together."""
    return [
        (where, one)
        for where, one in (owners.get(own.target, ()) if own.active else ())
        if (one.kind, one.name) != (own.kind, own.name) and not one.kind == own.kind == CRON_KIND
    ]


def _second_owner(
    site: Site, members: Sequence[Member], found: Scaled, others: Sequence[tuple[str, Autoscaler]]
) -> None:
    shown = [
        f"{one.kind} {one.namespace}/{one.name}{f' in {where}' if where else ''}" for where, one in others
    ]
    what = f"Its target {found.shown} also belongs to {names(shown)}."
    commands, servers = [], {one.name: one.endpoint for one in members}
    for where, one in others:
        context = "" if where == ON_HUB else site.commands.context_of(servers.get(where, ""))
        if one.kind == HPA_KIND and (where == ON_HUB or context):
            words = f"-n {quote(one.namespace)} delete hpa {quote(one.name)}"
            commands.append(site.commands.kubectl(words, context))
    command = " && ".join(commands) if len(commands) == len(others) else ""
    advice = "" if command else "Delete one of them, or let the rules set the bounds of the FederatedHPA."
    site.report.add("second-owner", found.subject, what, command, advice)
