"""The names of custom and external metrics for discovery, cached in memory and refreshed in the background.

A discovery request never waits for a member, because a hub that cannot discover one aggregated API slows
down every client. Each member is listed once when it joins. While discovery is read, each member is listed
again at most once a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import structlog

from fedhpa.api.errors import ApiError, FedHPAError
from fedhpa.api.json import MAX_DISCOVERY_VALUES, RESOURCES, check_discovery, decode_json
from fedhpa.kube import NOT_FOUND, group_path
from fedhpa.members import Member
from fedhpa.members.metrics import CUSTOM, EXTERNAL, EXTERNAL_VERSION, NotServed, custom_version
from metrics_adapter.members.source import MembersSource

log = structlog.get_logger(__name__)

REFRESH_SECONDS = 60.0
# Retry delay after a failure, so that a member that was busy when it joined soon appears in discovery.
RETRY_SECONDS = 5.0
CHECK_SECONDS = 1.0
# Members listed concurrently. At startup this leaves capacity for requests that cannot wait.
MAX_CONCURRENT = 8
# One member must not fill the memory of this process or of the hub.
MAX_NAMES = 20_000
MAX_NAME_LENGTH = 512


class DiscoveredMetric(msgspec.Struct, frozen=True, order=True, gc=False):
    """One metric of a group's resource list: "pods/http_requests" or "queue_depth"."""

    name: str
    namespaced: bool = False


class _ResourceList(msgspec.Struct, frozen=True):
    resources: list[DiscoveredMetric] | None = None


MetricsByGroup = Mapping[str, Sequence[DiscoveredMetric]]


class MetricDiscoveryCache:
    """The metrics of all members by API group, sorted by name and without duplicates."""

    def __init__(self, source: MembersSource, *, clock: Callable[[], float]) -> None:
        self._source = source
        self._clock = clock
        self._by_member: dict[Member, MetricsByGroup] = {}
        # Time from which each member may be listed again.
        self._next: dict[Member, float] = {}
        self._merged: MetricsByGroup = {CUSTOM: (), EXTERNAL: ()}
        self._names: Mapping[str, frozenset[str]] = {}
        self._read = False

    def metrics(self, group: str) -> Sequence[DiscoveredMetric]:
        """Returns the last known metrics of custom.metrics.k8s.io or external.metrics.k8s.io."""
        self._read = True
        configured = [
            DiscoveredMetric(name, namespaced) for name, namespaced in self._source.configured_names(group)
        ]
        # A rule for a metric takes precedence over what members list.
        return _union([configured, self._merged[group]]) if configured else self._merged[group]

    def is_listed(self, group: str, metric: str) -> bool:
        """True if a member lists the metric, or if no metric of the group is known."""
        names = self._names.get(group)
        return not names or metric in names

    async def run(self) -> None:
        """Refreshes the cache while it is read, until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(CHECK_SECONDS)

    async def refresh(self) -> None:
        """Lists the members that are due, and drops members that were unregistered."""
        members = self._source.members()
        available = {member for member in members.values() if member.unavailable() is None}
        due = [member for member in sorted(available, key=lambda member: member.name) if self._is_due(member)]
        gone = self._next.keys() - set(members.values())
        for member in gone:
            del self._next[member]
            self._by_member.pop(member, None)
        if due:
            self._read = False
            slots = asyncio.Semaphore(MAX_CONCURRENT)
            await asyncio.gather(*(self._refresh_member(member, slots) for member in due))
        if due or gone:
            self._merged = {group: _merge(self._by_member, group) for group in (CUSTOM, EXTERNAL)}
            self._names = {
                group: frozenset(entry.name for entry in entries) for group, entries in self._merged.items()
            }

    def _is_due(self, member: Member) -> bool:
        due_at = self._next.get(member)
        return due_at is None or (self._read and self._clock() >= due_at)

    async def _refresh_member(self, member: Member, slots: asyncio.Semaphore) -> None:
        async with slots:
            began = self._clock()
            self._next[member] = began + REFRESH_SECONDS
            known = dict(self._by_member.get(member, {}))
            for group, version in ((CUSTOM, self._custom_version), (EXTERNAL, _external_version)):
                try:
                    known[group] = await self._list(member, await version(member), group)
                except NotServed:
                    known[group] = ()
                except FedHPAError as error:
                    # The previous list stays, because it is most likely still right.
                    self._next[member] = began + RETRY_SECONDS
                    log.debug("metrics not listed", cluster=member.name, api=group, reason=str(error))
            self._by_member[member] = known

    async def _custom_version(self, member: Member) -> str:
        return await custom_version(self._source.lists, member)

    async def _list(self, member: Member, api_version: str, group: str) -> Sequence[DiscoveredMetric]:
        decode = _custom_metrics if group == CUSTOM else _external_metrics
        try:
            return await self._source.fetch(member, group_path(api_version), None, decode)
        except FedHPAError as error:
            cause = error.__cause__
            if isinstance(cause, ApiError) and cause.status == NOT_FOUND:
                raise NotServed(f"it does not serve {api_version}") from error
            raise


async def _external_version(_: Member) -> str:
    return EXTERNAL_VERSION


def _custom_metrics(body: bytes) -> Sequence[DiscoveredMetric]:
    """Keeps names of the form RESOURCE/METRIC, because no other form can be requested."""
    return _bounded(entry for entry in _entries(body) if _is_custom(entry.name))


def _external_metrics(body: bytes) -> Sequence[DiscoveredMetric]:
    return _bounded(entry for entry in _entries(body) if entry.name and "/" not in entry.name)


def _entries(body: bytes) -> list[DiscoveredMetric]:
    check_discovery(body, RESOURCES)
    return decode_json(body, _ResourceList, max_values=MAX_DISCOVERY_VALUES).resources or []


def _is_custom(name: str) -> bool:
    resource, _, metric = name.partition("/")
    return bool(resource and metric and "/" not in metric)


def _bounded(entries: Iterable[DiscoveredMetric]) -> Sequence[DiscoveredMetric]:
    fitting = sorted({entry.name: entry for entry in entries if len(entry.name) <= MAX_NAME_LENGTH}.values())
    return fitting[:MAX_NAMES]


def _merge(by_member: Mapping[Member, MetricsByGroup], group: str) -> Sequence[DiscoveredMetric]:
    """Returns one entry for each name. Where members differ, the first member by name decides."""
    return _union(by_member[member].get(group, ()) for member in sorted(by_member, key=lambda one: one.name))


def _union(lists: Iterable[Sequence[DiscoveredMetric]]) -> Sequence[DiscoveredMetric]:
    found: dict[str, DiscoveredMetric] = {}
    for entries in lists:
        for entry in entries:
            found.setdefault(entry.name, entry)
    return sorted(found.values())
