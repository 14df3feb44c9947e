"""The targets of the objects: looked for on the hub and in the members."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from difflib import get_close_matches
from enum import StrEnum
from shlex import quote
from typing import Any, Final

from fedhpa.api.autoscalers import Autoscaler
from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.errors import ApiError, InvalidObject
from fedhpa.api.federatedhpa import KIND
from fedhpa.api.free_json import Json, at, entries, text_at
from fedhpa.doctor.report import Commands
from fedhpa.doctor.session import Cause, Problem, Session
from fedhpa.doctor.site import DIRECT, KARMADA, Site, propagation_of
from fedhpa.kube import resource_path

# Targets that one run looks for. Each costs a request to the hub, and one to a member or more.
MAX_TARGETS: Final = 200
SHORT: Final = {KIND: "fhpa", CRON_KIND: "cronfhpa"}


class Place(StrEnum):
    """The presence of a target on one server, or on several."""

    FOUND = "found"
    ABSENT = "absent"
    UNKNOWN = "unknown"
    NO_KIND = "no kind"
    NO_SCALE = "no scale"


class Scaled:
    """A stored object of ours, with its target and its name for people."""

    def __init__(self, own: Autoscaler, raw: Json) -> None:
        self.own, self.raw, self.target = own, raw, own.target
        self.reference: Any = at(raw, "spec", "scaleTargetRef")
        self.subject = f"{SHORT[own.kind]} {own.namespace}/{own.name}"
        self.where = f"-n {quote(own.namespace)}"
        self.propagation = propagation_of(raw)
        self.places: tuple[Place, ...] = (Place.UNKNOWN, Place.UNKNOWN)

    @property
    def shown(self) -> str:
        """The target for people."""
        return f"{self.target.kind} {self.target.name}"

    def patched(self, commands: Commands, patch: Json | list[Json]) -> str:
        """Returns the command that changes the object by a patch."""
        own = f"{SHORT[self.own.kind]} {quote(self.own.name)}"
        return commands.patched(f"{self.where} patch {own}", patch)


async def find_targets(site: Site, objects: Sequence[Scaled]) -> None:
    """Looks for the targets of objects on the hub and in the members, each target once."""
    wanted = {each.target: each for each in objects}
    if len(wanted) > MAX_TARGETS:
        site.report.skip(
            "the targets", f"{len(wanted) - MAX_TARGETS} targets are beyond the limit of one run"
        )
    chosen = list(wanted.values())[:MAX_TARGETS]
    on_hub, in_members = await asyncio.gather(
        asyncio.gather(*(_exists(site.hub, each) for each in chosen)),
        asyncio.gather(*(_in_members(site, index, each) for index, each in enumerate(chosen))),
    )
    places = {one.target: found for one, *found in zip(chosen, on_hub, in_members, strict=True)}
    for each in objects:
        each.places = tuple(places.get(each.target, each.places))


async def check_target(site: Site, found: Scaled) -> None:
    """Adds the finding about the target of an object, if there is one."""
    hub, members = found.places
    seen = {KARMADA: {hub}, DIRECT: {members}}.get(found.propagation, {hub, members})
    where = {DIRECT: "in no member", KARMADA: "not on the hub"}
    target, kind, command = f"Its target {found.shown}", "", ""
    if seen == {Place.NO_KIND}:
        kind = "target-kind-unknown"
        what, command = await _unknown_kind(site, found)
    elif Place.NO_SCALE in seen and Place.FOUND not in seen:
        kind, what = "target-kind-unscalable", f"{target} has no scale, so nobody can set its replicas."
    elif seen <= {Place.ABSENT, Place.NO_KIND}:
        place = where.get(found.propagation, "neither on the hub nor in a member")
        kind, what = "target-missing", f"{target} exists {place}."
    elif found.propagation == DIRECT and hub is Place.FOUND and not found.target.is_federatedhpa:
        # Karmada deletes the copies in the members with the template, so no deletion is proposed.
        kind = "target-on-hub"
        what = f"{target} exists on the hub, where --propagation=direct expects none."
    if kind:
        site.report.add(kind, found.subject, what, command)


async def _unknown_kind(site: Site, found: Scaled) -> tuple[str, str]:
    """Returns that no server has a kind, and the command that writes the served one of that name."""
    version = text_at(found.reference, "apiVersion")
    kinds: dict[str, str] = {}
    for session in (site.hub, *filter(None, site.sessions)):
        answer = await session.get(resource_path(version, KIND).rpartition("/")[0]) if version else {}
        for each in entries(answer, "resources"):
            if "/" not in text_at(each, "name"):
                kinds[text_at(each, "kind").lower()] = text_at(each, "kind")
    what = f"No server has the kind {found.target.kind} of {version or 'no apiVersion'}."
    close = get_close_matches(found.target.kind.lower(), kinds, 1)
    patch = {"spec": {"scaleTargetRef": {"kind": kinds[close[0]] if close else ""}}}
    return what, found.patched(site.commands, patch) if close else ""


async def _in_members(site: Site, start: int, found: Scaled) -> Place:
    """Returns FOUND as soon as one member has the target. Each target begins with another member."""
    if found.target.is_federatedhpa:
        return Place.ABSENT
    sessions, places = site.sessions, set()
    for offset in range(len(sessions)):
        session = sessions[(start + offset) % len(sessions)]
        places.add(Place.UNKNOWN if session is None else await _exists(session, found))
        if Place.FOUND in places:
            return Place.FOUND
    order = (Place.UNKNOWN, Place.NO_SCALE, Place.ABSENT, Place.NO_KIND)
    return next((place for place in order if place in places), Place.UNKNOWN)


async def _exists(session: Session, found: Scaled) -> Place:
    target = found.target
    version = text_at(found.reference, "apiVersion") or "v1"
    try:
        resource = await session.resource(version, target.kind)
        if not resource.scale and not target.is_federatedhpa:
            return Place.NO_SCALE
        # The hub's token may read scales in a member, but not single workloads.
        path = resource.path(target.namespace, target.name, "scale" if resource.scale else "")
    except InvalidObject:
        return Place.NO_KIND
    except (ApiError, ValueError):
        return Place.UNKNOWN
    answer = await session.request("GET", path)
    if not isinstance(answer, Problem):
        return Place.FOUND
    return Place.ABSENT if answer.cause is Cause.ABSENT else Place.UNKNOWN
