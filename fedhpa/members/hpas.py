"""The HorizontalPodAutoscalers of the members, from one watch per member, for mode Distributed.

The watch covers all namespaces. Of an HPA that is not ours only its identity, target and bounds are kept. An
error becomes the reason in the reading of a cluster, never a missing HPA.

The watch lags behind writes. After a write, the HPA is read from the server until the watch has reached the
version that was read, so that no pass uses bounds from before the last write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Final, NamedTuple

from fedhpa.api.errors import ApiError, MemberUnavailable
from fedhpa.api.member_hpas import API_VERSIONS, PLURAL, V2, HpaSpec, MemberHpa, served_version
from fedhpa.decision import Failure
from fedhpa.kube import FORBIDDEN, NOT_FOUND, ApiGroup, Key, Reflector, contain_each, resource_path
from fedhpa.members.member import Member
from fedhpa.members.watches import WatchCache, is_at_least

_GROUP_PATH: Final = "/apis/autoscaling"
# An upgraded member serves v2 besides v2beta2, and one day no v2beta2. This is noticed after this long.
VERSION_SECONDS: Final = 300.0
# Writes whose HPA the watch has not reached yet. The oldest are forgotten first; they are only read again.
MAX_NOTED: Final = 10_000

# The watches of all members are checked so often, because each object asks for all of them. A watch with a
# problem is used for longer than that (`STALE_SECONDS`).
CHECKED_SECONDS: Final = 1.0

# The generation of a member's client, until when its version counts, and the version.
_NO_VERSION: Final = (-1, 0.0, "")

_Place = tuple[Member, int, str, str]

_RIGHT: Final = f"list and watch {PLURAL} of API group autoscaling"


def forbidden_in_member(right: str, error: str) -> str:
    """Returns why a member does not answer that forbids a read."""
    return f"the controller may not {right} in this cluster (HTTP 403: {error})"


class HpaReading(NamedTuple):
    """The HPA of one cluster, None without one, or why it could not be read, and the version served there."""

    hpa: MemberHpa | Failure | None
    api_version: str = V2

    @property
    def ours(self) -> bool:
        """True if the cluster has an HPA that we created."""
        return isinstance(self.hpa, MemberHpa) and self.hpa.ours


class HpaCache:
    """The HPAs of the members by namespace and name, while `run` runs.

    `hub` is the identity of the hub. An HPA of another hub is returned as one that is not ours.
    """

    hub = ""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._collections = {
            version: WatchCache(version, PLURAL, MemberHpa, _record, clock=clock) for version in API_VERSIONS
        }
        self._versions: dict[Member, tuple[int, float, str]] = {}
        # When the watches were checked last, and those that were up to date, with generation and version.
        self._checked: tuple[float, dict[Member, tuple[int, Reflector[MemberHpa], str]]] = (-inf, {})
        # The resourceVersion that the watch must reach; None before the HPA was read after its write.
        self._newest: dict[_Place, str | None] = {}

    async def run(self) -> None:
        """Run the watches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for collection in self._collections.values():
                group.create_task(collection.run())

    async def version(self, member: Member) -> str:
        """Returns the best HPA version that a member serves, of its discovery.

        Raises MemberUnavailable if it serves none of ours, and ApiError and MemberUnavailable as any call.
        """
        generation, until, version = self._versions.get(member, _NO_VERSION)
        if generation == member.client.generation and self.clock() < until:
            return version
        generation = member.client.generation
        group = await member.client.get(_GROUP_PATH, ApiGroup)
        found = served_version(each.groupVersion for each in group.versions or ())
        if found is None:
            raise MemberUnavailable(member.name, f"it serves none of {', '.join(API_VERSIONS)}")
        self._versions = {known: entry for known, entry in self._versions.items() if not known.closed}
        self._versions[member] = (generation, self.clock() + VERSION_SECONDS, found)
        return found

    def watching(self, member: Member, now: float) -> Reflector[MemberHpa] | None:
        """Returns the watch of an available member if it is up to date at `now`; else None."""
        generation, until, version = self._versions.get(member, _NO_VERSION)
        if generation != member.client.generation or now >= until:
            return None
        return self._collections[version].of_available(member, "", now)

    def cached(self, member: Member, namespace: str, name: str) -> HpaReading | None:
        """Returns what `read` would return without a request; None if a request is needed."""
        found = self._of_available(self._usable(), member, (namespace, name))
        return None if member.unavailable() is not None else found

    def _usable(self) -> Mapping[Member, tuple[int, Reflector[MemberHpa], str]]:
        now, (at, found) = self.clock(), self._checked
        if not 0 <= now - at < CHECKED_SECONDS:
            found = {}
            for member, (generation, _, version) in self._versions.items():
                if (reflector := self.watching(member, now)) is not None:
                    found[member] = generation, reflector, version
            self._checked = now, found
        return found

    def _of_available(
        self, usable: Mapping[Member, tuple[int, Reflector[MemberHpa], str]], member: Member, key: Key
    ) -> HpaReading | None:
        known = usable.get(member)
        if known is None or known[0] != member.client.generation:
            return None
        _, reflector, version = known
        if self._newest and not self._has_reached(reflector, member, *key):
            return None
        hpa = reflector.get(key)
        return HpaReading(None if hpa is None else hpa.seen_by(self.hub), version)

    async def read_all(
        self, members: Mapping[str, Member], names: Iterable[str], key: Key
    ) -> dict[str, HpaReading]:
        """Read the HPA of this namespace and name in the named clusters that are registered, all at once."""
        found: dict[str, HpaReading] = {}
        missing, usable, names = [], self._usable(), list(names)
        for name, member in zip(names, map(members.get, names), strict=True):
            if member is None:
                continue
            if not member.ready:
                found[name] = HpaReading(Failure(member.state.message or member.state.reason))
            elif member.client.breaker.reason or (known := self._of_available(usable, member, key)) is None:
                missing.append(name)
            else:
                found[name] = known

        async def read(name: str) -> HpaReading:
            try:
                return await self.read(members[name], *key)
            except (ApiError, MemberUnavailable) as error:
                reason = error.reason if isinstance(error, MemberUnavailable) else str(error)
                # The watch keeps only the text of a refusal.
                refused = "forbidden" in reason or getattr(error, "status", 0) == FORBIDDEN
                return HpaReading(Failure(forbidden_in_member(_RIGHT, reason) if refused else reason))

        if missing:
            about = {"namespace": key[0], "name": key[1]}
            found |= await contain_each(
                "read-member-hpa", missing, read, lambda reason: HpaReading(Failure(reason)), **about
            )
        return found

    async def read(self, member: Member, namespace: str, name: str) -> HpaReading:
        """Returns an HPA, None if there is none, and the version that the member serves.

        Raises MemberUnavailable if the member is unavailable or its HPAs cannot be watched, and ApiError.
        """
        found = self.cached(member, namespace, name)
        if found is not None:
            return found
        version = await self.version(member)
        reflector = await self._collections[version].reflector(member)
        if member not in self._checked[1]:
            self._checked = -inf, {}  # its watch is new
        if self._has_reached(reflector, member, namespace, name):
            return HpaReading(self._seen(reflector.get((namespace, name))), version)
        path = resource_path(version, PLURAL, namespace, name)
        place = (member, member.client.generation, namespace, name)
        noted = self._newest.get(place)
        try:
            hpa = await member.client.get(path, MemberHpa)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            if (namespace, name) not in reflector.store and self._newest.get(place) == noted:
                self._newest.pop(place, None)
            return HpaReading(None, version)
        if self._newest.get(place) == noted:
            self._newest[place] = hpa.metadata.resourceVersion
        return HpaReading(self._seen(_record(member.name, hpa)), version)

    def note(self, member: Member, namespace: str, name: str) -> None:
        """Note a write of an HPA, whatever its result."""
        place = (member, member.client.generation, namespace, name)
        self._newest.pop(place, None)  # the newest note comes last
        self._newest[place] = None
        if len(self._newest) > MAX_NOTED:
            self._newest = {known: kept for known, kept in self._newest.items() if not known[0].closed}
            self._newest = dict(list(self._newest.items())[-MAX_NOTED * 9 // 10 :])

    def _seen(self, hpa: MemberHpa | None) -> MemberHpa | None:
        return None if hpa is None else hpa.seen_by(self.hub)

    def _has_reached(
        self, reflector: Reflector[MemberHpa], member: Member, namespace: str, name: str
    ) -> bool:
        place = (member, member.client.generation, namespace, name)
        if place not in self._newest:
            return True
        newest, stored = self._newest[place], reflector.store.get((namespace, name))
        if newest is None or stored is None:
            return False
        if not is_at_least(stored.metadata.resourceVersion, newest):
            return False
        del self._newest[place]
        return True


def _record(_: str, hpa: MemberHpa) -> MemberHpa:
    """Returns the HPA as it is kept: of somebody else's only what a pass needs."""
    if hpa.ours:
        return hpa
    spec = hpa.spec
    return MemberHpa(
        metadata=hpa.metadata,
        spec=HpaSpec(
            scaleTargetRef=spec.scaleTargetRef, minReplicas=spec.minReplicas, maxReplicas=spec.maxReplicas
        ),
    )
