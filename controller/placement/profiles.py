"""The ClusterProfiles of the members, by which PlacementDecisions name clusters.

A member that a ClusterProfile registers has that one. Another one has the one with the label
fedhpa.io/cluster, or else the one of its own name, in the namespaces of --clusterprofile-namespaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from fedhpa.api.member_sources import PROFILE_API_VERSION, PROFILE_KIND, PROFILES
from fedhpa.api.membership import CLUSTER_LABEL
from fedhpa.api.placement_decisions import Profile
from fedhpa.api.wire import ObjectMeta
from fedhpa.kube import ApiClient, Reflector, resource_path, supervise
from fedhpa.members import Member

FLAG: Final = "--clusterprofile-namespaces"


class _Profile(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class ClusterProfiles:
    """Watches the ClusterProfiles of some namespaces from the first need on, while `run` runs."""

    def __init__(self, hub: ApiClient, namespaces: Sequence[str], clock: Callable[[], float]) -> None:
        self._wanted = asyncio.Event()
        self.namespaces = tuple(namespaces)
        self._reflectors: list[Reflector[str]] = [
            Reflector(
                hub,
                resource_path(PROFILE_API_VERSION, PROFILES, namespace),
                _Profile,
                lambda found: (found.metadata.labels or {}).get(CLUSTER_LABEL, ""),
                name=f"{PROFILES} {namespace}",
                clock=clock,
            )
            for namespace in namespaces
        ]

    async def run(self) -> None:
        """List and watch from the first need on, until cancelled."""
        await self._wanted.wait()
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(supervise("clusterprofiles", reflector.run))

    @property
    def problem(self) -> str:
        """Why the ClusterProfiles are not known; "" once they are. Asking for it begins the watch."""
        self._wanted.set()
        if not self._reflectors:
            return f"{FLAG} names no namespace"
        waits = next((one for one in self._reflectors if not one.synced.is_set()), None)
        return "" if waits is None else str(waits.problem)

    @property
    def begins(self) -> bool:
        """True until each first list succeeds or fails. Asking for it begins the watch."""
        self._wanted.set()
        return any(not one.synced.is_set() and not one.failures for one in self._reflectors)

    def of(self, members: Mapping[str, Member]) -> Mapping[str, Profile]:
        """Returns the ClusterProfiles of these members, as far as they have one."""
        labelled: dict[str, Profile] = {}
        named: dict[str, Profile] = {}
        for reflector in self._reflectors:
            for key, cluster in reflector.store.items():
                if cluster:
                    labelled.setdefault(cluster, Profile(*key))
                else:
                    named.setdefault(key[1], Profile(*key))
        origins = {name: member.cluster.origin for name, member in members.items()}
        own = {name: Profile(o.namespace, o.name) for name, o in origins.items() if o.kind == PROFILE_KIND}
        found = named | labelled | own
        return {name: found[name] for name in members if name in found}
