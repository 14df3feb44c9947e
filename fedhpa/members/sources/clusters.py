"""Members that Clusters register. Their credentials stand in the Secrets that the Clusters name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

from fedhpa.api.cluster_finalizers import own_finalizers
from fedhpa.api.errors import InvalidObject
from fedhpa.api.member_sources import CLUSTERS
from fedhpa.kube import ApiClient, Reflector, supervise
from fedhpa.members.cluster import (
    CLUSTERS_PATH,
    Cluster,
    SecretData,
    metrics_key,
    read_access,
    secret_data,
    secret_key,
)
from fedhpa.members.sources.secrets import SecretKey, SecretWatch, SecretWatches
from fedhpa.members.sources.source import Changes, Found, Source


class ClusterSource(Source):
    """The Clusters of the hub, and their Secrets. With `reads_metrics` the token that only reads metrics
    comes first, where there is one that the hub lets us have.
    """

    kind = CLUSTERS

    def __init__(
        self,
        hub: ApiClient,
        changed: Changes,
        *,
        reads_metrics: bool,
        deadline: float,
        clock: Callable[[], float],
    ) -> None:
        self._reads_metrics = reads_metrics
        self._clusters = Reflector(hub, CLUSTERS_PATH, Cluster, _registered, name="clusters", clock=clock)
        self._clusters.subscribe(lambda change: changed(change.key[1]))
        super().__init__([(CLUSTERS_PATH, self._clusters)])
        self._secrets: SecretWatches[SecretData] = SecretWatches(
            hub, secret_data, changed, deadline=deadline, clock=clock
        )

    def names(self) -> Collection[str]:
        """Returns the names of the Clusters."""
        return [name for _, name in self._clusters.store]

    def _record(self, name: str) -> Cluster | None:
        return self._clusters.store.get(("", name))

    def access(self, cluster: Cluster) -> Found:
        """Returns the access to a cluster, with a token of its Secrets."""
        return _access_of(cluster, self._secrets.use(cluster.metadata.name, self._keys(cluster)))

    def release(self, name: str) -> None:
        """End the watches of the Cluster's Secrets."""
        self._secrets.release(name)

    async def reread(self, cluster: Cluster, apply: Callable[[], Awaitable[None]]) -> None:
        """Read the Cluster's Secret again."""
        await self._secrets.reread(cluster.metadata.name, self._keys(cluster), apply)

    async def run(self) -> None:
        """Follow the Clusters and their Secrets until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._secrets.within(group)
            group.create_task(supervise("clusters-watch", self._clusters.run))

    def _keys(self, cluster: Cluster) -> list[SecretKey]:
        """Returns the keys of a Cluster's Secrets, the preferred one first."""
        keys = (metrics_key(cluster) if self._reads_metrics else None, secret_key(cluster))
        return [key for key in keys if key is not None]


def _registered(cluster: Cluster) -> Cluster | None:
    """Returns the Cluster, None if it is being deleted. One that our finalizers hold is still needed."""
    metadata = cluster.metadata
    return None if metadata.deletionTimestamp and not own_finalizers(metadata.finalizers) else cluster


def _access_of(cluster: Cluster, watches: Sequence[SecretWatch[SecretData]]) -> Found:
    """Returns the access to a cluster. It is pending while its Secret is not listed yet.

    A Secret that does not exist, or that we may not read, leaves the choice to the next one.
    """
    for watch in watches:
        last = watch is watches[-1]
        if watch.data is None and not watch.reflector.synced.is_set():
            if watch.reflector.failures and not last:
                continue
            text = f"its secret cannot be read: {watch.reflector.problem}"
            return Found(text, watch.reflector.failures == 0)
        if watch.data is None and not last:
            continue
        try:
            return Found(read_access(cluster, watch.data, watch.key))
        except InvalidObject as error:
            return Found(str(error))
    try:
        return Found(read_access(cluster, None))
    except InvalidObject as error:
        return Found(str(error))
