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
from fedhpa.doctor.members import Member
from fedhpa.doctor.report import Commands
from fedhpa.doctor.session import Cause, Problem, Session
from fedhpa.doctor.site import DIRECT, KARMADA, Site, propagation_of
from fedhpa.kube import Clock, ResourceMapper, resource_path

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
        self.places = (Place.UNKNOWN, Place.UNKNOWN)

    @property
    def shown(self) -> str:
        """The target for people."""
        return f"{self.target.kind} {self.target.name}"

    def patched(self, commands: Commands, patch: Json | list[Json]) -> str:
        """Returns the command that changes the object by a patch."""
        own = f"{SHORT[self.own.kind]} {quote(self.own.name)}"
        return commands.patched(f"{self.where} patch {own}", patch)


class Targets:
    """Looks for the targets of objects on the hub and in the members."""

    def __init__(self, site: Site, members: Sequence[Member], clock: Clock) -> None:
        self._site = site
        self._sessions = [one.session for one in members]
        self._clock = clock
        self._mappers: dict[int, tuple[ResourceMapper, asyncio.Lock]] = {}

    async def find(self, objects: Sequence[Scaled]) -> None:
        """Looks for all targets, each once."""
        wanted = {each.target: each for each in objects}
        if len(wanted) > MAX_TARGETS:
            text = f"{len(wanted) - MAX_TARGETS} targets are beyond the limit of one run"
            self._site.report.skip("the targets", text)
        chosen = list(wanted.values())[:MAX_TARGETS]
        on_hub, in_members = await asyncio.gather(
            asyncio.gather(*(self._exists(self._site.hub, each) for each in chosen)),
            asyncio.gather(*(self._in_members(index, each) for index, each in enumerate(chosen))),
        )
        places = dict(
            zip((each.target for each in chosen), zip(on_hub, in_members, strict=True), strict=True)
        )
        for each in objects:
            each.places = places.get(each.target, each.places)

    async def check(self, found: Scaled) -> None:
        """Adds the finding about the target of an object, if there is one."""
        hub, members = found.places
        seen = {KARMADA: {hub}, DIRECT: {members}}.get(found.propagation, {hub, members})
        where = {DIRECT: "in no member", KARMADA: "not on the hub"}
        target, kind, command = f"Its target {found.shown}", "", ""
        if seen == {Place.NO_KIND}:
            kind = "target-kind-unknown"
            what, command = await self._unknown_kind(found)
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
            self._site.report.add(kind, found.subject, what, command)

    async def _unknown_kind(self, found: Scaled) -> tuple[str, str]:
        """Returns that no server has a kind, and the command that writes the served one of that name."""
        version = text_at(found.reference, "apiVersion")
        kinds: dict[str, str] = {}
        for session in (self._site.hub, *filter(None, self._sessions)):
            answer = await session.get(resource_path(version, KIND).rpartition("/")[0]) if version else {}
            for each in entries(answer, "resources"):
                if "/" not in text_at(each, "name"):
                    kinds[text_at(each, "kind").lower()] = text_at(each, "kind")
        what = f"No server has the kind {found.target.kind} of {version or 'no apiVersion'}."
        close = get_close_matches(found.target.kind.lower(), kinds, 1)
        patch = {"spec": {"scaleTargetRef": {"kind": kinds[close[0]] if close else ""}}}
        return what, found.patched(self._site.commands, patch) if close else ""

    async def _in_members(self, start: int, found: Scaled) -> Place:
        """Returns FOUND as soon as one member has the target. Each target begins with another member."""
        if found.target.is_federatedhpa:
            return Place.ABSENT
        count, places = len(self._sessions), set()
        for offset in range(count):
            session = self._sessions[(start + offset) % count]
            places.add(Place.UNKNOWN if session is None else await self._exists(session, found))
            if Place.FOUND in places:
                return Place.FOUND
        order = (Place.UNKNOWN, Place.NO_SCALE, Place.ABSENT, Place.NO_KIND)
        return next((place for place in order if place in places), Place.UNKNOWN)

    async def _exists(self, session: Session, found: Scaled) -> Place:
        target = found.target
        mapper, lock = self._mappers.setdefault(
            id(session), (ResourceMapper(session.client, clock=self._clock.monotonic), asyncio.Lock())
        )
        version = text_at(found.reference, "apiVersion") or "v1"
        try:
            async with lock:  # many targets have one kind, which is then discovered once
                resource = await mapper.resolve(version, target.kind, deadline=session.seconds)
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
