"""Which clusters are registered on the hub, for warnings about objects that select none of them."""

from __future__ import annotations

from itertools import islice
from typing import Final

from fedhpa.admission import warn_unknown_clusters
from fedhpa.api.cluster import API_VERSION
from fedhpa.api.federatedhpa import FederatedHPASpec
from fedhpa.api.known_cluster import RawCluster, known_cluster
from fedhpa.kube.client import ApiClient
from fedhpa.kube.paths import resource_path
from fedhpa.kube.reflector import Reflector

# Among five warnings in all.
MOST_WARNINGS: Final = 2


class KnownClusters:
    """A local copy of the registered clusters; empty-handed, and silent, on a hub that serves none."""

    def __init__(self, client: ApiClient) -> None:
        path = resource_path(API_VERSION, "clusters")
        self._reflector = Reflector(client, path, RawCluster, known_cluster, name="clusters")

    async def run(self) -> None:
        """List and watch until cancelled."""
        await self._reflector.run()

    def warnings(self, spec: FederatedHPASpec, stale_seconds: float) -> list[str]:
        """What of the spec selects no known cluster; nothing on the word of a copy that is older."""
        if not self._reflector.current or self._reflector.problem_seconds > stale_seconds:
            return []
        found = warn_unknown_clusters(spec, tuple(self._reflector.store.values()))
        return list(islice(found, MOST_WARNINGS))
