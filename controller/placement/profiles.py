"""The ClusterProfiles of the members, by which PlacementDecisions name clusters.

A member that another object than a ClusterProfile registers has the one with the label fedhpa.io/cluster, or
else the one of its own name, in the namespaces of --clusterprofile-namespaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from fedhpa.api.membership import CLUSTER_LABEL
from fedhpa.api.placement_decisions import API_VERSION, PROFILES, Profile
from fedhpa.api.wire import ObjectMeta
from fedhpa.kube import ApiClient, Reflector, resource_path, supervise

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
                resource_path(API_VERSION, PROFILES, namespace),
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

    def of(self, members: Iterable[str]) -> Mapping[str, Profile]:
        """Returns the ClusterProfiles of these members, as far as they have one."""
        labelled: dict[str, Profile] = {}
        named: dict[str, Profile] = {}
        for reflector in self._reflectors:
            for key, cluster in reflector.store.items():
                if cluster:
                    labelled.setdefault(cluster, Profile(*key))
                else:
                    named.setdefault(key[1], Profile(*key))
        found = named | labelled
        return {name: found[name] for name in members if name in found}
