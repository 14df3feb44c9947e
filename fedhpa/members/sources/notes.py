"""Notes of the hub about members that are no Clusters: their taints, and the servers that were accepted.

Both are ConfigMaps with one key for each member, because we write nothing into objects of other projects.
Whoever may write the object of a member could send its credentials elsewhere. So the server and the CA with
which a member answered first are noted, and others wait until somebody accepts them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final

import msgspec
import structlog

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import decode_json
from fedhpa.api.member_sources import SERVERS_MAP, TAINTS_MAP, AcceptedServer, MemberSources, Server
from fedhpa.api.taints import MAX_TAINTS, NO_SCHEDULE, Taint
from fedhpa.api.wire import ObjectMeta
from fedhpa.kube import ApiClient, Reflector, supervise
from fedhpa.members.cluster import Access
from fedhpa.members.sources.source import Changes, named_object

log = structlog.get_logger(__name__)

# A member whose taints cannot be read gets nothing more, because one of them may have said so.
UNREADABLE_TAINT: Final = Taint("fedhpa.io/unreadable", "", NO_SCHEDULE)
# Words in the place of the digest of a CA.
SYSTEM_TRUST, UNVERIFIED = "system", "unverified"


def server_of(access: Access) -> Server:
    """Returns the server of an access."""
    if access.ca_bundle is None:
        return Server(access.endpoint, SYSTEM_TRUST if access.system_trust else UNVERIFIED)
    # Two sources may write the same certificates with other line ends.
    return Server(access.endpoint, sha256("".join(access.ca_bundle.split()).encode()).hexdigest())


class _ConfigMap(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None


def _data(found: _ConfigMap) -> Mapping[str, str]:
    return found.data or {}


class _Map:
    """The newest content of one ConfigMap, watched by its name."""

    def __init__(
        self,
        hub: ApiClient,
        namespace: str,
        name: str,
        changed: Changes,
        clock: Callable[[], float],
        on_problem: Callable[[str | None], None] | None = None,
    ) -> None:
        self._changed = changed
        self.reflector: Reflector[Mapping[str, str]] = named_object(
            hub, "configmaps", namespace, name, _ConfigMap, _data, on_problem=on_problem, clock=clock
        )
        self._before: Mapping[str, str] = {}
        self.reflector.subscribe(self._note)

    @property
    def data(self) -> Mapping[str, str]:
        """The keys of the ConfigMap; none if there is no such ConfigMap."""
        return next(iter(self.reflector.store.values()), {})

    def _note(self, *_: object) -> None:
        before, self._before = self._before, self.data
        for name in {*before, *self._before}:
            if before.get(name) != self._before.get(name):
                self._changed(name)


class MemberNotes:
    """The notes about members, as far as the hub has them. `changed` is called with the name of a member."""

    def __init__(
        self, hub: ApiClient, sources: MemberSources, changed: Changes, *, clock: Callable[[], float]
    ) -> None:
        self._taints = _Map(hub, sources.namespace, TAINTS_MAP, changed, clock)
        # Members that wait for the notes are updated after an empty list and a refusal, too.
        self._servers = _Map(hub, sources.namespace, SERVERS_MAP, changed, clock, lambda _: self._touch_all())
        self._changed = changed
        # The adapter has no use for taints, and no right to read them.
        self._needed = (self._servers,) if sources.reads_metrics else (self._servers, self._taints)
        self._where = f"{sources.namespace}/{SERVERS_MAP}"
        self._accepts_all = sources.accepts_changed_servers
        # The servers that the sources name now.
        self.servers: dict[str, Server] = {}
        self._running = False

    @property
    def problem(self) -> str | None:
        """The reason why the notes may be out of date; None if they are not."""
        return next((f"reading {m.reflector.problem}" for m in self._needed if m.reflector.problem), None)

    @property
    def listed(self) -> bool:
        """True once the hub has shown the notes, or has refused to."""
        return all(one.reflector.synced.is_set() or one.reflector.failures for one in self._needed)

    def within(self, group: asyncio.TaskGroup) -> None:
        """Follow the notes in this task group, unless another one does."""
        if not self._running:
            self._running = True
            for one in self._needed:
                group.create_task(supervise("notes-watch", one.reflector.run))

    def _touch_all(self) -> None:
        for name in tuple(self.servers):
            self._changed(name)

    def taints(self, name: str) -> list[Taint]:
        """Returns the taints of a member."""
        text = self._taints.data.get(name)
        if text is None:
            return []
        try:
            return decode_json(text, list[Taint])[:MAX_TAINTS]
        except InvalidObject as error:
            log.warning("taints not readable", cluster=name, error=str(error))
            return [UNREADABLE_TAINT]

    def refusal(self, name: str, access: Access) -> tuple[str, bool]:
        """Returns why a member's credentials wait, "" if they do not; and True while nobody knows yet."""
        reflector, server = self._servers.reflector, server_of(access)
        self.servers[name] = server
        if not reflector.synced.is_set():
            return f"its accepted server is not known: {reflector.problem}", not reflector.failures
        text = self._servers.data.get(name)
        if text is None or self._accepts_all:
            return "", False
        try:
            accepted = decode_json(text, AcceptedServer)
        except InvalidObject as error:
            return f"ConfigMap {self._where}: {name} cannot be read: {error}: remove the key", False
        if accepted.current == server:
            return "", False
        what = "its CA" if accepted.server == server.server else f"its server, from {accepted.server[:200]}"
        return f"{what} has changed, so its credentials wait: fedhpa join --accept {name}", False

    @property
    def accepted(self) -> Mapping[str, str]:
        """The notes about servers by member, as JSON."""
        return self._servers.data

    def forget(self, name: str) -> None:
        """Forget the server of a member whose object is gone. What was accepted stays."""
        self.servers.pop(name, None)
