"""The objects of our kinds: are they Ready, what is wrong with their targets, owners and metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from shlex import quote
from typing import Final

from controller.cronfederatedhpa import is_run_by_karmada
from controller.hub_check import ACTIVE_SECONDS, KARMADA_MANAGER, status_written
from fedhpa.api.autoscalers import HPA_KIND, Autoscaler, Target, from_json, from_stored
from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import GROUP, KIND
from fedhpa.api.free_json import Json, at, entries, text_at, time_at
from fedhpa.api.member_hpas import DELETION_WAITS, MANAGED_BY, MANAGER
from fedhpa.api.taints import LEAVING
from fedhpa.decision import PLACEMENT_UNREADABLE, PUBLISHED
from fedhpa.doctor.metrics import check_external, check_ready
from fedhpa.doctor.report import names
from fedhpa.doctor.session import Cause
from fedhpa.doctor.site import Site
from fedhpa.doctor.targets import SHORT, Scaled, check_target, find_targets

# A controller removes its finalizers within a minute of the deletion.
DELETION_SECONDS: Final = 120.0
DRY_RUN: Final = "DryRun"
ON_HUB: Final = "the hub"
_SWITCH: Final = {KIND: "federatedHorizontalPodAutoscaler", CRON_KIND: "cronFederatedHorizontalPodAutoscaler"}
# Conditions, by type and status, that are findings beside Ready: scaling goes on.
_CONDITIONS: Final = {
    (PUBLISHED, "False"): ("placement-not-published", "Its placement is not published as a whole"),
    (PLACEMENT_UNREADABLE, "True"): ("placement-not-followed", "It does not follow a PlacementDecision"),
}
# The active autoscalers of each target, each with the server that it is on, "" for objects of our kinds.
_Owners = dict[Target, list[tuple[str, Autoscaler]]]


async def check_objects(site: Site) -> None:
    """Adds what is wrong with the objects. One that is not Ready for another reason has its own words."""
    objects: list[Scaled] = []
    for kind, found in ((KIND, site.federated), (CRON_KIND, site.crons)):
        if found.problem:
            if found.problem.cause is not Cause.ABSENT:
                site.report.skip(f"the {kind}s", found.problem)
            continue
        site.report.counts[f"{kind}s"] = len(found)
        _karmada(site, kind, found)
        for raw in found:
            if (own := from_json(kind, raw)) is not None:
                objects.append(Scaled(own, raw))
            else:
                advice = "Write spec.scaleTargetRef anew; the webhook refuses such an object."
                site.report.add(
                    "object-not-ready", f"{SHORT[kind]} {_name(raw)}", "It cannot be read.", advice=advice
                )
    await find_targets(site, objects)
    owners, told = _owners(site, objects), set[Target]()
    for each in objects:
        before = len(site.report.findings)
        if _is_leaving(site, each):
            continue
        await check_target(site, each)
        if each.target not in told and _second_owner(site, each, owners):
            told.add(each.target)  # one finding for each target
        _status(site, each)
        if each.own.kind == KIND:
            await check_external(site, each)
        if len(site.report.findings) == before:
            await check_ready(site, each)


def _name(raw: Json) -> str:
    return f"{text_at(raw, 'metadata', 'namespace')}/{text_at(raw, 'metadata', 'name')}"


def _is_leaving(site: Site, found: Scaled) -> bool:
    """Returns if an object was deleted that a finalizer of ours keeps; it is a finding after a while."""
    deleted = time_at(found.raw, "metadata", "deletionTimestamp")
    finalizers = at(found.raw, "metadata", "finalizers") or ()
    if deleted is None or not any(str(each).startswith(f"{GROUP}/") for each in finalizers):
        return False
    if site.now - deleted > DELETION_SECONDS:
        waits = f" It waits: {DELETION_WAITS}." if found.own.kind == KIND else ""
        what = f"It was deleted {site.now - deleted:.0f} s ago, and still has a finalizer of ours.{waits}"
        site.report.add("object-not-deleted", found.subject, what)
    return True


def _status(site: Site, found: Scaled) -> None:
    """Adds what the status says beside Ready."""
    moves = [
        f"{text_at(one, 'name')}: {one['waitsFor']}"
        for one in entries(found.raw, "status", "clusters")
        if one.get("membership") == LEAVING and one.get("waitsFor")
    ]
    if moves:
        site.report.add("replicas-wait", found.subject, f"Replicas are to leave {names(moves)}.")
    for one in entries(found.raw, "status", "conditions"):
        kind, what = _CONDITIONS.get((text_at(one, "type"), text_at(one, "status")), ("", ""))
        if kind and one.get("reason") != DRY_RUN:
            site.report.add(kind, found.subject, f"{what}: {text_at(one, 'message')}.")


def _karmada(site: Site, kind: str, found: Sequence[Json]) -> None:
    """Adds one finding for all objects of a kind, because one flag fixes them all."""

    def acts(raw: Json) -> bool:
        try:
            if kind == CRON_KIND:
                return is_run_by_karmada(raw, site.now)
            written = status_written(raw, KARMADA_MANAGER)
            return written is not None and 0 <= site.now - written < ACTIVE_SECONDS
        except (InvalidObject, AttributeError, TypeError, KeyError):
            return False

    if acted := [_name(raw) for raw in found if acts(raw)]:
        what = f"karmada-controller-manager writes the status of {names(acted)}."
        advice = f"Start karmada-controller-manager with --controllers=*,-{_SWITCH[kind]}."
        site.report.add("karmada-controller-active", f"{kind}s", what, advice=advice)


def _owners(site: Site, objects: Sequence[Scaled]) -> _Owners:
    stored: list[tuple[str, Autoscaler | None]] = [("", each.own) for each in objects]
    for where, items in ((ON_HUB, site.autoscalers), *((one.name, one.autoscalers) for one in site.members)):
        # A member whose rights are incomplete has a finding of its own.
        if items.problem and (where == ON_HUB or items.problem.cause is not Cause.FORBIDDEN):
            site.report.skip("other autoscalers", f"{where}: {items.problem}")
        # Mode Distributed scales a target by HPAs of ours in the members.
        stored += [
            (where, from_stored(HPA_KIND, item))
            for item in items
            if where == ON_HUB or (item.metadata.labels or {}).get(MANAGED_BY) != MANAGER
        ]
    found: _Owners = defaultdict(list)
    for where, one in stored:
        if one is not None and one.active:
            found[one.target].append((where, one))
    return found


def _second_owner(site: Site, found: Scaled, owners: _Owners) -> bool:
    """Adds a finding if others scale the target, too. Rules of one target are planned together."""
    own = found.own
    others = [
        (where, one)
        for where, one in (owners.get(own.target, ()) if own.active else ())
        if (one.kind, one.name) != (own.kind, own.name) and not one.kind == own.kind == CRON_KIND
    ]
    if not others:
        return False
    shown = [f"{one.kind} {one.namespace}/{one.name}{where and f' in {where}'}" for where, one in others]
    contexts, commands = {one.name: one.context for one in site.members}, []
    for where, one in others:
        context = contexts.get(where, "")
        if one.kind == HPA_KIND and (where == ON_HUB or context):
            words = f"-n {quote(one.namespace)} delete hpa {quote(one.name)}"
            commands.append(site.commands.kubectl(words, context))
    command = " && ".join(commands) if len(commands) == len(others) else ""
    what = f"Its target {found.shown} also belongs to {names(shown)}."
    site.report.add("second-owner", found.subject, what, command)
    return True
