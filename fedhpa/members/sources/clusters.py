"""Members that Clusters register. Their credentials stand in the Secrets that the Clusters name.

Each Secret is watched by its name, so that rights to exactly these Secrets suffice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from fedhpa.api.cluster_finalizers import own_finalizers
from fedhpa.api.errors import InvalidObject
from fedhpa.api.member_sources import CLUSTERS
from fedhpa.kube import ApiClient, Backoff, Reflector, supervise
from fedhpa.members.cluster import (
    CLUSTERS_PATH,
    Cluster,
    Secret,
    SecretData,
    metrics_key,
    read_access,
    secret_data,
    secret_key,
)
from fedhpa.members.sources.source import REREAD_SECONDS, Changes, Found, Source, named_object, read_again

SECRET_BACKOFF_SECONDS: Final = (0.5, 10.0)

SecretKey = tuple[str, str]


@dataclass
class _SecretWatch:
    """One watched Secret and the members that use it."""

    key: SecretKey
    reflector: Reflector[SecretData]
    task: asyncio.Task[None]
    users: set[str] = field(default_factory=set)
    # The data of a read after a 401, valid until the watch delivers a change.
    reread: SecretData | None = None
    reread_at: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def data(self) -> SecretData | None:
        """The newest content of the Secret; None if it does not exist or is not known."""
        return self.reread or next(iter(self.reflector.store.values()), None)


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
        self._hub, self._changed, self._deadline, self._clock = hub, changed, deadline, clock
        self._reads_metrics = reads_metrics
        self._clusters = Reflector(hub, CLUSTERS_PATH, Cluster, _registered, name="clusters", clock=clock)
        self._clusters.subscribe(lambda key, *_: changed(key[1]))
        self._secrets: dict[SecretKey, _SecretWatch] = {}
        self._group: asyncio.TaskGroup | None = None
        super().__init__([(CLUSTERS_PATH, self._clusters)])

    def names(self) -> Collection[str]:
        """Returns the names of the Clusters."""
        return [name for _, name in self._clusters.store]

    def _record(self, name: str) -> Cluster | None:
        return self._clusters.store.get(("", name))

    def access(self, cluster: Cluster) -> Found:
        """Returns the access to a cluster, with a token of its Secrets. It is pending until one is listed.

        A Secret that does not exist, or that we may not read, leaves the choice to the next one.
        """
        name, keys = cluster.metadata.name, self._keys(cluster)
        self.release(name, keep=keys)
        for key in keys:
            if key not in self._secrets:
                self._secrets[key] = self._follow(key)
            self._secrets[key].users.add(name)
        watch: _SecretWatch | None = None
        for watch in map(self._secrets.__getitem__, keys):
            reflector, last = watch.reflector, watch.key == keys[-1]
            if watch.data is None and not reflector.synced.is_set() and (last or not reflector.failures):
                text = f"its secret cannot be read: {reflector.problem}"
                return Found(text, reflector.failures == 0)
            if watch.data is not None or last:
                break
        try:
            data, used = (None, None) if watch is None else (watch.data, watch.key)
            return Found(read_access(cluster, data, used))
        except InvalidObject as error:
            return Found(str(error))

    def release(self, name: str, *, keep: Collection[SecretKey] = ()) -> None:
        """End the watches of Secrets that only this Cluster uses, but for those of `keep`."""
        for key, watch in tuple(self._secrets.items()):
            if key in keep or name not in watch.users:
                continue
            watch.users.discard(name)
            if not watch.users:
                watch.task.cancel()
                del self._secrets[key]

    async def reread(self, cluster: Cluster, apply: Callable[[], Awaitable[None]]) -> None:
        """Read the Cluster's Secret again after its token was refused."""
        watches = [self._secrets[key] for key in self._keys(cluster) if key in self._secrets]
        if not watches:
            return
        watch = next((one for one in watches if one.data is not None), watches[-1])
        async with watch.lock:
            if self._clock() - watch.reread_at < REREAD_SECONDS:
                return
            watch.reread_at = self._clock()
            name = cluster.metadata.name
            secret = await read_again(self._hub, watch.key, Secret, self._deadline, cluster=name)
            if secret is None:
                return
            watch.reread = secret_data(secret)
            # Under the lock, so that other calls that got a 401 wait for the new token.
            await apply()

    async def run(self) -> None:
        """Follow the Clusters and their Secrets until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(supervise("clusters-watch", self._clusters.run))

    def _keys(self, cluster: Cluster) -> list[SecretKey]:
        """Returns the keys of a Cluster's Secrets, the preferred one first."""
        keys = (metrics_key(cluster) if self._reads_metrics else None, secret_key(cluster))
        return [key for key in keys if key is not None]

    def _follow(self, key: SecretKey) -> _SecretWatch:
        def touch_users() -> None:
            for user in watch.users:
                self._changed(user)

        def changed(*_: object) -> None:
            watch.reread = None
            touch_users()

        assert self._group is not None, "records come only while the source runs"
        # Members that wait for this Secret are updated after an empty list and a refusal, too.
        reflector: Reflector[SecretData] = named_object(
            self._hub,
            "secrets",
            *key,
            Secret,
            secret_data,
            backoff=Backoff(*SECRET_BACKOFF_SECONDS),
            on_problem=lambda _: touch_users(),
            clock=self._clock,
        )
        followed = supervise("secret-watch", reflector.run, namespace=key[0], name=key[1])
        watch = _SecretWatch(key, reflector, self._group.create_task(followed))
        reflector.subscribe(changed)
        return watch


def _registered(cluster: Cluster) -> Cluster | None:
    """Returns the Cluster, None if it is being deleted. One that our finalizers hold is still needed."""
    metadata = cluster.metadata
    return None if metadata.deletionTimestamp and not own_finalizers(metadata.finalizers) else cluster
