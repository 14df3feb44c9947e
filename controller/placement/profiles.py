"""The ClusterProfiles of the members, by which PlacementDecisions name clusters.

A member that a ClusterProfile registers, too, has that one. Another one has the one with the label
fedhpa.io/cluster, or else the one of its own name, in the namespaces of --clusterprofile-namespaces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from controller.apply.kept import WantedWatches
from fedhpa.api.member_sources import PROFILE_API_VERSION, PROFILE_KIND, PROFILES
from fedhpa.api.membership import CLUSTER_LABEL
from fedhpa.api.placement_decisions import Profile
from fedhpa.api.wire import WithMetadata
from fedhpa.kube import ApiClient, Reflector, resource_path
from fedhpa.members import Member

FLAG: Final = "--clusterprofile-namespaces"


class ClusterProfiles(WantedWatches):
    """Watches the ClusterProfiles of some namespaces from the first need on, while `run` runs."""

    def __init__(self, hub: ApiClient, namespaces: Sequence[str], clock: Callable[[], float]) -> None:
        self.namespaces = tuple(namespaces)
        self._reflectors: list[Reflector[str]] = [
            Reflector(
                hub,
                resource_path(PROFILE_API_VERSION, PROFILES, namespace),
                WithMetadata,
                lambda found: (found.metadata.labels or {}).get(CLUSTER_LABEL, ""),
                name=f"{PROFILES} {namespace}",
                clock=clock,
            )
            for namespace in namespaces
        ]
        super().__init__(*self._reflectors)

    @property
    def problem(self) -> str:
        """Why the ClusterProfiles are not known; "" once they are."""
        return super().problem if self.namespaces else f"{FLAG} names no namespace"

    def of(self, members: Mapping[str, Member], duplicates: Mapping[str, Member]) -> Mapping[str, Profile]:
        """Returns the ClusterProfiles of these members, as far as they have one.

        `duplicates` are other names of them, which ClusterProfiles may have given.
        """
        labelled: dict[str, Profile] = {}
        named: dict[str, Profile] = {}
        for reflector in self._reflectors:
            for key, cluster in reflector.store.items():
                if cluster:
                    labelled.setdefault(cluster, Profile(*key))
                else:
                    named.setdefault(key[1], Profile(*key))
        own: dict[str, Profile] = {}
        for name, member in (*duplicates.items(), *members.items()):
            origin = member.cluster.origin
            if origin.kind == PROFILE_KIND:
                own[member.same_as or name] = Profile(origin.namespace, origin.name)
        found = named | labelled | own
        return {name: found[name] for name in members if name in found}
