"""The objects of our kinds: their targets, other autoscalers of the targets, and Karmada's controllers."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import Final

from fedhpa.api.member_hpas import DELETION_WAITS
from fedhpa.doctor.checks.hub import names, seen
from fedhpa.doctor.findings import Finding, NotChecked, Result
from fedhpa.doctor.observations import Cause, Objects, Place, Problem, Scaled

DIRECT, KARMADA = "direct", "karmada"
FEDERATED, CRON = "FederatedHPA", "CronFederatedHPA"
SHORT: Final = {FEDERATED: "fhpa", CRON: "cronfhpa"}
# A controller removes its finalizers within a minute of the deletion.
DELETION_SECONDS: Final = 120.0
_SWITCH: Final = {
    FEDERATED: "-federatedHorizontalPodAutoscaler",
    CRON: "-cronFederatedHorizontalPodAutoscaler",
}


def check_objects(objects: Objects) -> Iterator[Result]:
    """Yields what is wrong with the objects."""
    for kind, found in ((FEDERATED, objects.scaled), (CRON, objects.crons)):
        if isinstance(found, Problem):
            if found.cause is not Cause.ABSENT:
                yield NotChecked(f"the {kind}s", seen(found))
            continue
        yield from _karmada(kind, found)
        for each in found:
            yield from check_object(each)
    for note in objects.notes:
        yield NotChecked("other autoscalers", note)
    if objects.unchecked:
        yield NotChecked("the targets", f"{objects.unchecked} objects are beyond the limit of one run")


def check_object(found: Scaled) -> Iterator[Finding]:
    """Yields the findings about one object."""
    namespace, _, name = found.name.partition("/")
    show = f"kubectl -n {quote(namespace)} describe {SHORT[found.kind]} {quote(name)}"
    if found.deleted is not None:
        if found.deleted > DELETION_SECONDS:
            what = f"It was deleted {found.deleted:.0f} s ago, and still has a finalizer of ours."
            if found.kind == FEDERATED:
                what += f" It waits: {DELETION_WAITS}."
            yield Finding("object-not-deleted", f"{SHORT[found.kind]} {found.name}", what, show)
        return
    if _is_missing(found):
        where = {DIRECT: "in no member", KARMADA: "not on the hub"}
        place = where.get(found.propagation, "neither on the hub nor in a member")
        what = f"Its target {found.target} exists {place}."
        yield Finding("target-missing", f"{SHORT[found.kind]} {found.name}", what, show)
    elif found.propagation == DIRECT and found.on_hub is Place.FOUND:
        what = (
            f"Its target {found.target} exists on the hub, where --propagation=direct expects none: "
            "delete it there, or choose --propagation=karmada."
        )
        kind, _, target = found.target.partition(" ")
        # Karmada deletes the copies in the members with the template, so no deletion is proposed.
        command = f"kubectl -n {quote(namespace)} get {quote(kind.lower())} {quote(target)} -o yaml"
        yield Finding("target-on-hub", f"{SHORT[found.kind]} {found.name}", what, command)
    if found.others:
        what = f"Its target {found.target} also belongs to {names(found.others)}."
        yield Finding("second-owner", f"{SHORT[found.kind]} {found.name}", what, show)
    if found.leaving:
        what = f"Replicas are to leave {names(found.leaving)}."
        command = f"fedhpa explain fhpa/{quote(name)} --namespace {quote(namespace)}"
        yield Finding("replicas-wait", f"{SHORT[found.kind]} {found.name}", what, command)


def _is_missing(found: Scaled) -> bool:
    """True if the target is known to be absent wherever the controller looks for it."""
    hub, members = found.on_hub is Place.ABSENT, found.in_members is Place.ABSENT
    if found.propagation == KARMADA:
        return hub
    return members if found.propagation == DIRECT else hub and members


def _karmada(kind: str, found: tuple[Scaled, ...]) -> Iterator[Finding]:
    """Yields one finding for all objects of a kind, because one flag fixes them all."""
    acted = [each.name for each in found if each.by_karmada]
    if acted:
        what = f"karmada-controller-manager writes the status of {names(acted)}."
        command = f"karmada-controller-manager --controllers=*,{_SWITCH[kind]}"
        yield Finding("karmada-controller-active", f"{kind}s", what, command)
