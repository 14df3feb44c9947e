"""Which CronFederatedHPAs belong to a shard: those whose rules run there, and those with open windows there.

The rules of a FederatedHPA belong to the shard of its workload, so they move with an edit of the
FederatedHPA. An object whose target was edited may have windows open on the former target; the shard of that
target closes them.
"""

from __future__ import annotations

from controller.cronfederatedhpa.controller import CronWorker
from controller.cronfederatedhpa.objects import (
    CRON_FEDERATED_HPAS,
    HUB_DEADLINE_SECONDS,
    CronObject,
    TargetKey,
    target_in,
)
from controller.cronfederatedhpa.other_actors import WorkloadOwners
from controller.loop import Loop, Object
from controller.shards import Shard, place_of
from fedhpa.api.errors import ApiError, InvalidObject
from fedhpa.kube import NOT_FOUND, ApiClient, Key


class Ownership:
    """Answers for one shard. `follow` must be called before its loop runs."""

    def __init__(self, hub: ApiClient, shard: Shard, owners: WorkloadOwners) -> None:
        self._hub = hub
        self._shard = shard
        self._owners = owners
        self.moves = shard.division.splits_namespaces
        self._worker: CronWorker | None = None
        self._loop: Loop[TargetKey] | None = None

    def follow(self, worker: CronWorker, loop: Loop[TargetKey]) -> None:
        """Let the worker and its loop know of each move."""
        self._worker, self._loop = worker, loop
        if self.moves:
            worker.on_leave(loop.reconsider)
            self._owners.on_move(lambda target: loop.reconsider(worker.moved(target), target))

    def owns_target(self, target: TargetKey) -> bool:
        """True if the rules of a target run in this shard."""
        return self._shard.owns(self._owners.place_of(target))

    def owns(self, raw: Object) -> bool:
        """True if an object's rules run in this shard, or windows of it are open here."""
        target, place = target_in(raw), place_of(raw)
        if self._shard.owns(place if target is None else self._owners.place_of(target)):
            return True
        key = (place[0], str((raw.get("metadata") or {}).get("name", "")))
        return self._worker is not None and self._worker.has_windows(key)

    async def adopt(self, key: Key) -> None:
        """Give the worker an object of another shard, if it exists and can be read. Raises ApiError."""
        assert self._worker is not None
        assert self._loop is not None
        raw = self._loop.known(key)
        if raw is None:
            try:
                raw = await self._hub.get_json(CRON_FEDERATED_HPAS.path(*key), deadline=HUB_DEADLINE_SECONDS)
            except ApiError as error:
                if error.status == NOT_FOUND:
                    return
                raise
        try:
            self._worker.objects.put(CronObject.of(key, raw))
        except InvalidObject:
            return
        self._loop.reconsider([key])
