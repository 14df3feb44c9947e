"""Notes with which server and CA each member first answered, and tells people of another one.

Members that Clusters register are not noted: `fedhpa join` writes those, and whoever may write a Cluster may
write its Secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import structlog

from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
from fedhpa.api.json import decode_json
from fedhpa.api.member_sources import SERVERS_MAP, AcceptedServer, MemberSources, Server
from fedhpa.kube import NOT_FOUND, ApiClient, EventRecorder, resource_path, update_with_retry
from fedhpa.members import ForeignCluster, Member, MemberRegistry

PERIOD_SECONDS: Final = 10.0
HUB_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 60.0
# An object has at most 1 MiB, and an entry some hundred bytes. Further members are used without an entry.
MAX_ENTRIES: Final = 2_000
EVENT: Final = "ServerChanged"

log = structlog.get_logger(__name__)


async def keep_servers(
    hub: ApiClient, registry: MemberRegistry, sources: MemberSources, events: EventRecorder
) -> None:
    """Keep the notes about servers until cancelled."""
    told: set[tuple[str, Server]] = set()
    while True:
        wanted = _changes(registry, sources)
        for name, (entry, member) in wanted.items():
            server = entry.changed or entry.current
            if name in registry.notes.accepted and (name, server) not in told:
                told.add((name, server))
                _tell(events, name, member, entry)
        pause = PERIOD_SECONDS
        if wanted:
            try:
                await _write(hub, sources.namespace, {name: entry for name, (entry, _) in wanted.items()})
            except FedHPAError as error:
                pause = RETRY_SECONDS
                absent = isinstance(error, ApiError) and error.status == NOT_FOUND
                remedy = f"create ConfigMap {sources.namespace}/{SERVERS_MAP}" if absent else ""
                log.warning("servers of members not noted", error=str(error), remedy=remedy)
        await asyncio.sleep(pause)


def _changes(registry: MemberRegistry, sources: MemberSources) -> dict[str, tuple[AcceptedServer, Member]]:
    """Returns the entries that differ from what is noted, with their members."""
    found: dict[str, tuple[AcceptedServer, Member]] = {}
    notes = registry.notes
    for name, member in registry.registered.items():
        server = notes.servers.get(name)
        if server is None or not isinstance(member.cluster, ForeignCluster):
            continue
        text = notes.accepted.get(name)
        if text is None:
            if member.ready and len(notes.accepted) + len(found) < MAX_ENTRIES:
                found[name] = AcceptedServer(server.server, server.ca), member
            continue
        try:
            entry = decode_json(text, AcceptedServer)
        except InvalidObject:
            continue  # the reason of the member says so
        wanted = AcceptedServer(entry.server, entry.ca, None if entry.current == server else server)
        if wanted.changed is not None and sources.accepts_changed_servers:
            wanted = AcceptedServer(server.server, server.ca)
        if wanted != entry:
            found[name] = wanted, member
    return found


def _tell(events: EventRecorder, name: str, member: Member, entry: AcceptedServer) -> None:
    about, changed = member.cluster.origin, entry.changed
    if changed is None:
        events.event(about, "Normal", EVENT, f"member {name} is used at {entry.server}, CA {entry.ca[:16]}")
        return
    text = (
        f"the server of member {name} was {entry.server} with CA {entry.ca[:16]}, and is {changed.server} "
        f"with CA {changed.ca[:16]} now: its credentials wait for: fedhpa join --accept {name}"
    )
    events.event(about, "Warning", EVENT, text)


async def _write(hub: ApiClient, namespace: str, entries: Mapping[str, AcceptedServer]) -> None:
    path = resource_path("v1", "configmaps", namespace, SERVERS_MAP)
    texts = {name: msgspec.json.encode(entry).decode() for name, entry in entries.items()}

    def change(stored: dict[str, Any]) -> dict[str, Any]:
        return {**stored, "data": {**(stored.get("data") or {}), **texts}}

    await update_with_retry(hub, path, change, deadline=HUB_SECONDS)
