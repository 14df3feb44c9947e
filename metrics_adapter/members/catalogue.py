"""Which custom and external metrics there are, for discovery: kept in memory, refreshed behind the readers.

A discovery call never waits for a member, for a hub that cannot discover one aggregated API slows every
client down. Each member is asked once when it comes, and again at most once a minute while somebody reads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import structlog

from fedhpa.api.errors import ApiError, FedHPAError
from fedhpa.kube.paths import group_path
from fedhpa.kube.responses import NOT_FOUND, decoder
from fedhpa.members.member import Member
from fedhpa.members.metrics import CUSTOM, EXTERNAL, EXTERNAL_VERSION, NotServed, custom_version
from metrics_adapter.members.gather import MembersSource

log = structlog.get_logger(__name__)

REFRESH_SECONDS = 60.0
# A member that came while it was busy is not left out of discovery for as long.
RETRY_SECONDS = 5.0
CHECK_SECONDS = 1.0
# Members asked at the same time: a fleet that starts must not be asked all at once for what can wait.
AT_ONCE = 8
# A member may not fill this process' memory, nor the hub's.
MAX_NAMES = 20_000
MAX_NAME_LENGTH = 512


class Listed(msgspec.Struct, frozen=True, order=True, gc=False):
    """One metric of a group's resource list: "pods/http_requests" or "queue_depth"."""

    name: str
    namespaced: bool = False


class _Resources(msgspec.Struct, frozen=True):
    resources: list[Listed] | None = None


Names = Mapping[str, Sequence[Listed]]


class Catalogue:
    """The metrics of all members by group, without repetitions, sorted by name."""

    def __init__(self, source: MembersSource, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._clock = clock
        self._names: dict[Member, Names] = {}
        # When each member may be asked again.
        self._next: dict[Member, float] = {}
        self._merged: Names = {CUSTOM: (), EXTERNAL: ()}
        self._read = False

    def names(self, group: str) -> Sequence[Listed]:
        """The metrics of custom.metrics.k8s.io or external.metrics.k8s.io, as last known."""
        self._read = True
        ruled = [Listed(name, namespaced) for name, namespaced in self._source.names(group)]
        # What a rule names is the rule's, whatever members say of it.
        return _together([ruled, self._merged[group]]) if ruled else self._merged[group]

    async def run(self) -> None:
        """Keep the names as fresh as they are read, until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(CHECK_SECONDS)

    async def refresh(self) -> None:
        """Ask the members whose turn it is; forget those that are gone."""
        members = self._source.members()
        known = {member for member in members.values() if member.unavailable() is None}
        due = [member for member in sorted(known, key=lambda member: member.name) if self._due(member)]
        gone = self._next.keys() - set(members.values())
        for member in gone:
            del self._next[member]
            self._names.pop(member, None)
        if due:
            self._read = False
            slots = asyncio.Semaphore(AT_ONCE)
            await asyncio.gather(*(self._ask(member, slots) for member in due))
        if due or gone:
            self._merged = {group: _merged(self._names, group) for group in (CUSTOM, EXTERNAL)}

    def _due(self, member: Member) -> bool:
        turn = self._next.get(member)
        return turn is None or (self._read and self._clock() >= turn)

    async def _ask(self, member: Member, slots: asyncio.Semaphore) -> None:
        async with slots:
            began = self._clock()
            self._next[member] = began + REFRESH_SECONDS
            known = dict(self._names.get(member, {}))
            for group, version in ((CUSTOM, self._custom_version), (EXTERNAL, _external_version)):
                try:
                    known[group] = await self._list(member, await version(member), group)
                except NotServed:
                    known[group] = ()
                except FedHPAError as error:
                    # What it served is most likely what it will serve.
                    self._next[member] = began + RETRY_SECONDS
                    log.debug("metrics not listed", cluster=member.name, api=group, reason=str(error))
            self._names[member] = known

    async def _custom_version(self, member: Member) -> str:
        return await custom_version(self._source.lists, member)

    async def _list(self, member: Member, api_version: str, group: str) -> Sequence[Listed]:
        decode = _custom_names if group == CUSTOM else _external_names
        try:
            return await self._source.fetch(member, group_path(api_version), None, decode)
        except FedHPAError as error:
            cause = error.__cause__
            if isinstance(cause, ApiError) and cause.status == NOT_FOUND:
                raise NotServed(f"it does not serve {api_version}") from error
            raise


async def _external_version(_: Member) -> str:
    return EXTERNAL_VERSION


def _custom_names(body: bytes) -> Sequence[Listed]:
    """RESOURCE/METRIC; what has another form cannot be asked for."""
    return _bounded(entry for entry in _entries(body) if _is_custom(entry.name))


def _external_names(body: bytes) -> Sequence[Listed]:
    return _bounded(entry for entry in _entries(body) if entry.name and "/" not in entry.name)


def _entries(body: bytes) -> list[Listed]:
    return decoder(_Resources).decode(body).resources or []


def _is_custom(name: str) -> bool:
    resource, _, metric = name.partition("/")
    return bool(resource and metric and "/" not in metric)


def _bounded(entries: Iterable[Listed]) -> Sequence[Listed]:
    fit = sorted({entry.name: entry for entry in entries if len(entry.name) <= MAX_NAME_LENGTH}.values())
    return fit[:MAX_NAMES]


def _merged(names: Mapping[Member, Names], group: str) -> Sequence[Listed]:
    """One entry a name: where members differ, the first one's by name."""
    return _together(names[member].get(group, ()) for member in sorted(names, key=lambda one: one.name))


def _together(lists: Iterable[Sequence[Listed]]) -> Sequence[Listed]:
    found: dict[str, Listed] = {}
    for entries in lists:
        for entry in entries:
            found.setdefault(entry.name, entry)
    return sorted(found.values())
