"""The objects of our kinds: their targets on the hub and in members, and other autoscalers of the targets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from controller.cronfederatedhpa import is_run_by_karmada
from controller.hub_check import ACTIVE_SECONDS, written_by_karmada
from fedhpa.api.autoscalers import HPA_KIND, Autoscaler, StoredAutoscaler, Target, from_stored
from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.errors import ApiError, InvalidObject
from fedhpa.api.federatedhpa import API_VERSION, GROUP, KIND
from fedhpa.api.json import InvalidJson, convert_json
from fedhpa.api.member_hpas import MANAGED_BY, MANAGER
from fedhpa.api.taints import LEAVING
from fedhpa.api.times import parse_time
from fedhpa.doctor.checks.objects import DIRECT, KARMADA
from fedhpa.doctor.observations import Cause, Objects, Place, Problem, Scaled
from fedhpa.doctor.reading.members import FollowedMember
from fedhpa.doctor.reading.session import Session
from fedhpa.kube import ResourceMapper, resource_path

# Targets that one run looks for. Each costs a request to the hub, and one to a member or more.
MAX_TARGETS: Final = 200
# A still status is written every ten minutes.
RECENT_SECONDS: Final = 900.0
ON_HUB: Final = "the hub"


class _Metadata(msgspec.Struct, frozen=True):
    deletionTimestamp: str | None = None
    finalizers: list[str] | None = None


class Listed(msgspec.Struct, frozen=True):
    """The lists that the hub gave."""

    federated: tuple[dict[str, Any], ...] | Problem
    crons: tuple[dict[str, Any], ...] | Problem
    autoscalers: tuple[StoredAutoscaler, ...] | Problem


async def read_lists(hub: Session) -> Listed:
    """Lists the objects of our kinds and the HorizontalPodAutoscalers of the hub."""
    return Listed(
        *await asyncio.gather(
            hub.list(resource_path(API_VERSION, "federatedhpas"), dict[str, Any]),
            hub.list(resource_path(API_VERSION, "cronfederatedhpas"), dict[str, Any]),
            hub.list(resource_path("autoscaling/v2", "horizontalpodautoscalers"), StoredAutoscaler),
        )
    )


def propagation_of(raw: Mapping[str, Any]) -> str:
    """Returns the propagation of the object's last decision; "" if it has none."""
    status = raw.get("status")
    summary = status.get("summary") if isinstance(status, Mapping) else None
    found = summary.get("propagation") if isinstance(summary, Mapping) else None
    return found if found in (DIRECT, KARMADA) else ""


def distributes(raw: Mapping[str, Any]) -> bool:
    """True for a FederatedHPA of mode Distributed, for which the controller writes HPAs into the members."""
    spec = raw.get("spec")
    return isinstance(spec, Mapping) and spec.get("mode") == "Distributed"


def deleted_at(raw: Mapping[str, Any]) -> float | None:
    """Returns when an object was deleted, in POSIX seconds; None unless a finalizer of ours keeps it."""
    metadata = raw.get("metadata")
    try:
        found = convert_json(metadata, _Metadata)
        kept = any(each.startswith(f"{GROUP}/") for each in found.finalizers or ())
        return parse_time(found.deletionTimestamp) if kept else None
    except (InvalidJson, InvalidObject):
        return None


def leaving(raw: Mapping[str, Any]) -> list[str]:
    """Returns the clusters that the object's replicas are to leave, each with what they wait for."""
    status = raw.get("status")
    entries = status.get("clusters") if isinstance(status, Mapping) else None
    return [
        f"{one.get('name')}: {one['waitsFor']}"
        for one in (entries if isinstance(entries, list) else ())
        if isinstance(one, Mapping) and one.get("membership") == LEAVING and one.get("waitsFor")
    ]


def is_recent(raw: Mapping[str, Any], now: float) -> bool:
    """True if the object has a decision that a running controller may have made."""
    status = raw.get("status")
    decision = status.get("decision") if isinstance(status, Mapping) else None
    time = decision.get("time") if isinstance(decision, Mapping) else None
    try:
        decided = parse_time(time) if isinstance(time, str) else None
    except InvalidObject:
        return False
    return decided is not None and abs(now - decided) < RECENT_SECONDS


def targets_of(listed: Listed) -> tuple[list[str], frozenset[str]]:
    """Returns the namespaces of the FederatedHPAs, each once, and the kinds of all targets in lower case."""
    federated = _autoscalers(KIND, listed.federated)
    crons = _autoscalers(CRON_KIND, listed.crons)
    namespaces = list(dict.fromkeys(each.namespace for each in federated))
    return namespaces, frozenset(each.target.kind.lower() for each in (*federated, *crons))


def _autoscalers(kind: str, raws: tuple[dict[str, Any], ...] | Problem) -> list[Autoscaler]:
    found = () if isinstance(raws, Problem) else [_autoscaler(kind, raw) for raw in raws]
    return [each for each in found if each is not None]


class ObjectReader:
    """Looks for the targets of objects. `now` is the hub's time in POSIX seconds."""

    def __init__(
        self, hub: Session, members: Sequence[FollowedMember], now: float, clock: Callable[[], float]
    ) -> None:
        self._clock = clock
        self._hub = hub
        self._members = members
        self._now = now
        self._mappers: dict[int, tuple[ResourceMapper, asyncio.Lock]] = {}

    async def read(self, listed: Listed) -> Objects:
        """Returns the objects with their targets and the other autoscalers of the targets."""
        federated = (
            [] if isinstance(listed.federated, Problem) else list(map(self._federated, listed.federated))
        )
        crons = [] if isinstance(listed.crons, Problem) else list(map(self._cron, listed.crons))
        known = [each for each in (*federated, *crons) if each is not None]
        places = await self._places([each[1] for each in known])
        owners = self._owners(listed)
        claimed: set[Target] = set()

        def complete(found: Iterable[tuple[Scaled, Autoscaler] | None]) -> tuple[Scaled, ...]:
            scaled = []
            for each in found:
                if each is None:
                    continue
                observed, own = each
                hub, member = places.get(own.target, (Place.UNKNOWN, Place.UNKNOWN))
                others = () if own.target in claimed else _others(own, owners)
                if others:
                    claimed.add(own.target)  # one finding for each target
                scaled.append(msgspec.structs.replace(observed, on_hub=hub, in_members=member, others=others))
            return tuple(scaled)

        notes = tuple(f"{name}: {problem.text}" for name, problem in self._unlisted(listed))
        return Objects(
            listed.federated if isinstance(listed.federated, Problem) else complete(federated),
            listed.crons if isinstance(listed.crons, Problem) else complete(crons),
            max(0, len({own.target for _, own in known}) - MAX_TARGETS),
            notes,
        )

    def _federated(self, raw: Mapping[str, Any]) -> tuple[Scaled, Autoscaler] | None:
        own = _autoscaler(KIND, raw)
        if own is None:
            return None
        try:
            written = written_by_karmada(raw)
        except (AttributeError, TypeError):
            written = None
        acts = written is not None and 0 <= self._now - written < ACTIVE_SECONDS
        return self._scaled(own, propagation_of(raw), acts, raw), own

    def _cron(self, raw: Mapping[str, Any]) -> tuple[Scaled, Autoscaler] | None:
        own = _autoscaler(CRON_KIND, raw)
        if own is None:
            return None
        try:
            acts = is_run_by_karmada(raw, self._now)
        except (InvalidObject, AttributeError, TypeError, KeyError):
            acts = False
        return self._scaled(own, "", acts, raw), own

    def _scaled(self, own: Autoscaler, propagation: str, acts: bool, raw: Mapping[str, Any]) -> Scaled:
        name = self._hub.line(f"{own.namespace}/{own.name}")
        target = self._hub.line(f"{own.target.kind} {own.target.name}")
        deleted = deleted_at(raw)
        since = None if deleted is None else self._now - deleted
        moves = tuple(map(self._hub.line, leaving(raw)))
        return Scaled(own.kind, name, target, propagation, by_karmada=acts, deleted=since, leaving=moves)

    def _unlisted(self, listed: Listed) -> list[tuple[str, Problem]]:
        lists = [(ON_HUB, listed.autoscalers)]
        # A member whose rights are incomplete has a finding of its own.
        lists += [
            (each.observed.name, each.autoscalers) for each in self._members if each.session is not None
        ]
        return [
            (name, found)
            for name, found in lists
            if isinstance(found, Problem) and (name == ON_HUB or found.cause is not Cause.FORBIDDEN)
        ]

    def _owners(self, listed: Listed) -> dict[Target, list[tuple[str, Autoscaler]]]:
        """Returns the active autoscalers by target, each with its name for people."""
        found: dict[Target, list[tuple[str, Autoscaler]]] = {}

        def add(where: str, one: Autoscaler | None) -> None:
            if one is not None and one.active:
                name = self._hub.line(f"{one.kind} {one.namespace}/{one.name}")
                found.setdefault(one.target, []).append((f"{name} in {where}" if where else name, one))

        for kind, raws in ((KIND, listed.federated), (CRON_KIND, listed.crons)):
            for raw in () if isinstance(raws, Problem) else raws:
                add("", _autoscaler(kind, raw))
        sources = [(ON_HUB, listed.autoscalers)]
        sources += [(each.observed.name, each.autoscalers) for each in self._members]
        for where, stored in sources:
            for item in () if isinstance(stored, Problem) else stored:
                # Mode Distributed scales a target by HPAs of ours in the members.
                if where == ON_HUB or (item.metadata.labels or {}).get(MANAGED_BY) != MANAGER:
                    add(where, from_stored(HPA_KIND, item))
        return found

    async def _places(self, autoscalers: Iterable[Autoscaler]) -> dict[Target, tuple[Place, Place]]:
        targets = list(dict.fromkeys(each.target for each in autoscalers))[:MAX_TARGETS]
        found = await asyncio.gather(*(self._place(index, target) for index, target in enumerate(targets)))
        return dict(zip(targets, found, strict=True))

    async def _place(self, index: int, target: Target) -> tuple[Place, Place]:
        return await self._exists(self._hub, target), await self._in_members(index, target)

    async def _in_members(self, start: int, target: Target) -> Place:
        """Returns FOUND as soon as one member has the target. Each target begins with another member."""
        if target.is_federatedhpa:
            return Place.ABSENT
        place = Place.ABSENT
        count = len(self._members)
        for offset in range(count):
            session = self._members[(start + offset) % count].session
            found = Place.UNKNOWN if session is None else await self._exists(session, target)
            if found is Place.FOUND:
                return found
            place = found if found is Place.UNKNOWN else place
        return place if count else Place.UNKNOWN

    async def _exists(self, session: Session, target: Target) -> Place:
        mapper, lock = self._mappers.setdefault(
            id(session), (ResourceMapper(session.client, clock=self._clock), asyncio.Lock())
        )
        version = f"{target.group}/v1" if target.group else "v1"
        try:
            async with lock:  # many targets have one kind, which is then discovered once
                resource = await mapper.resolve(version, target.kind, deadline=session.seconds)
            # The hub's token may read scales in a member, but not single workloads.
            below = "scale" if resource.scale else ""
            path = resource.path(target.namespace, target.name, below)
        except InvalidObject:
            return Place.ABSENT
        except (ApiError, ValueError):
            return Place.UNKNOWN
        answer = await session.request("GET", path)
        if not isinstance(answer, Problem):
            return Place.FOUND
        return Place.ABSENT if answer.cause is Cause.ABSENT else Place.UNKNOWN


def _others(own: Autoscaler, owners: Mapping[Target, list[tuple[str, Autoscaler]]]) -> tuple[str, ...]:
    """Returns the other active autoscalers of the target. Rules of one target are planned together."""
    if not own.active:
        return ()
    return tuple(
        name
        for name, one in owners.get(own.target, ())
        if (one.kind, one.name) != (own.kind, own.name) and not (one.kind == own.kind == CRON_KIND)
    )


def _autoscaler(kind: str, raw: Mapping[str, Any]) -> Autoscaler | None:
    """Returns the autoscaler of a stored object; None if it cannot be read or names no target."""
    try:
        return from_stored(kind, convert_json(raw, StoredAutoscaler))
    except InvalidJson:
        return None
