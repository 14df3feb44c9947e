"""The FederatedHPAs of this process' shard, by the workload that they scale.

A rule that sets the replicas of such a workload and its FederatedHPA overwrite one another. Both objects say
so in condition SoleOwner; nothing is stopped, because nobody can know which of the two is wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from controller.cronfederatedhpa.objects import TargetKey
from fedhpa.api.autoscalers import Autoscaler, AutoscalerIndex, StoredAutoscaler, Target, from_stored
from fedhpa.api.federatedhpa import API_VERSION, GROUP, KIND
from fedhpa.kube import ApiClient, Change, Key, Reflector, resource_path

FEDERATED_HPAS: Final = resource_path(API_VERSION, "federatedhpas")


class WorkloadOwners:
    """Watches the FederatedHPAs that `owns` selects, while `run` runs."""

    def __init__(
        self,
        hub: ApiClient,
        *,
        owns: Callable[[Key], bool] = lambda _: True,
        clock: Callable[[], float],
    ) -> None:
        self._owns = owns
        self._index = AutoscalerIndex()
        self._changed: Callable[[TargetKey], None] = lambda _: None
        self._reflector: Reflector[Autoscaler] = Reflector(
            hub, FEDERATED_HPAS, StoredAutoscaler, self._read, name="federatedhpas", clock=clock
        )
        self._reflector.subscribe(self._change)

    async def run(self) -> None:
        """List and watch until cancelled."""
        await self._reflector.run()

    async def synced(self) -> None:
        """Waits for the first whole list."""
        await self._reflector.synced.wait()

    def on_change(self, call: Callable[[TargetKey], None]) -> None:
        """Calls a function with each workload whose owners change."""
        self._changed = call

    def of(self, target: TargetKey) -> tuple[str, ...] | None:
        """Returns the active FederatedHPAs that scale a workload; None before the first whole list."""
        if (target.group, target.kind) == (GROUP, KIND):
            return ()
        if not self._reflector.synced.is_set():
            return None
        found = self._index.of(Target(*target))
        return tuple(f"{KIND} {each.namespace}/{each.name}" for each in found)

    def _read(self, stored: StoredAutoscaler) -> Autoscaler | None:
        key = (stored.metadata.namespace, stored.metadata.name)
        return from_stored(KIND, stored) if self._owns(key) else None

    def _change(self, change: Change[Autoscaler]) -> None:
        self._index.replace(change.old, change.new)
        for each in (change.old, change.new):
            if each is not None:
                self._changed(TargetKey(*each.target))
