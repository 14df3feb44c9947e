"""The work of a leader: every FederatedHPA is looked at when it changed, and once a period.

First sight and spec changes are looked at at once; after that every period, also after a failure: no
back-off beyond the sync period (Karmada's grows to 17 minutes).
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from controller.federatedhpa.ambiguity import Key
from controller.federatedhpa.reconciler import Reconciler
from controller.federatedhpa.snapshot import Observer
from controller.publish import COLLECTION
from controller.workqueue import DueQueue
from fedhpa.api.errors import FedHPAError
from fedhpa.kube.client import ApiClient
from fedhpa.kube.reflector import Change, Reflector

log = structlog.get_logger(__name__)

# A decision that somebody's write overtook is made anew this soon; members may need a moment to serve it.
AGAIN_SECONDS: Final = 0.1
# A look that is stuck past every deadline inside it frees its worker.
LOOK_SECONDS: Final = 60.0

Object = dict[str, Any]


class Loop:
    """Runs the reconciler over those objects of a watched collection that `owns` says.

    `counted` is told how many there are.
    """

    def __init__(
        self,
        hub: ApiClient,
        reconciler: Reconciler,
        observer: Observer,
        *,
        workers: int,
        owns: Callable[[Key], bool] = lambda _: True,
        counted: Callable[[int], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.objects: Reflector[Object] = Reflector(
            hub, COLLECTION, dict[str, Any], functools.partial(_kept, owns), name="federatedhpas", clock=clock
        )
        self._counted = counted
        self._reconciler = reconciler
        self._observer = observer
        self._workers = workers
        self._queue = DueQueue(clock)
        self._changes: asyncio.Queue[Change[Object]] = asyncio.Queue()

    async def run(self) -> None:
        """Look at every object when due, until cancelled."""
        unsubscribe = self.objects.subscribe(self._changes.put_nowait)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.objects.run())
                group.create_task(self._follow())
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            unsubscribe()
            for key in self.objects.store:  # another works on them now: what is shown here is not the present
                self._reconciler.forget(key)
            self._counted(0)

    async def _follow(self) -> None:
        while True:
            change = await self._changes.get()
            if change.new is None:
                await self._queue.discard(change.key)
                self._reconciler.forget(change.key)
            elif change.old is None or _generation(change.old) != _generation(change.new):
                await self._queue.add(change.key)
            self._counted(len(self.objects.store))

    async def _work(self) -> None:
        while True:
            key = await self._queue.take()
            try:
                await self._look(key)
            finally:
                await self._queue.give_back(key)

    async def _look(self, key: Key) -> None:
        raw = self.objects.store.get(key)
        if raw is None:
            self._reconciler.forget(key)
            return
        again = False
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                again = await self._reconciler.reconcile(
                    key, raw, self.objects.store, late=self._queue.late(key)
                )
        except FedHPAError as error:
            log.warning("status not written", namespace=key[0], name=key[1], error=str(error))
        except TimeoutError:
            log.warning("look took too long", namespace=key[0], name=key[1], seconds=LOOK_SECONDS)
        # One object that trips over a fault of ours must not end the work on all others.
        except Exception:
            log.exception("look failed", namespace=key[0], name=key[1])
        if again:
            await self._queue.add(key, AGAIN_SECONDS)
        else:
            await self._queue.add_turn(key, self._observer.period(raw))


def _kept(owns: Callable[[Key], bool], raw: Object) -> Object | None:
    metadata = raw.get("metadata") or {}
    if metadata.get("deletionTimestamp") or not owns(
        (metadata.get("namespace", ""), metadata.get("name", ""))
    ):
        return None
    return raw


def _generation(raw: Mapping[str, Any]) -> object:
    return raw["metadata"].get("generation"), raw["metadata"].get("uid")
