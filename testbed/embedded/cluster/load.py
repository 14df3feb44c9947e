"""The simulated load: the demand on each workload, and the usage of each pod."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from fedhpa.api.quantity import parse_milli
from testbed.embedded.api.types import Object
from testbed.embedded.cluster.pods import PODS, is_ready, owner_of
from testbed.embedded.storage.store import Change, Store

IDLE_MILLIS = 1
IDLE_MEMORY = 40 * 1024 * 1024
MEMORY_PER_MILLI = 20 * 1024
MILLIS_PER_REQUEST = 10  # CPU milliseconds of one request

# (namespace, name) of a workload, or of a pod without an owner.
Workload = tuple[str, str]


@dataclass(frozen=True)
class Usage:
    """The usage of a container: CPU in milli-units, memory in bytes."""

    cpu: int
    memory: int


class Load:
    """The demand on all workloads, shared equally by their ready pods in all joined members.

    A pod also has its share of the load `shared`.
    """

    def __init__(self, *, shared: "Load | None" = None) -> None:
        self._shared = shared
        self._demand: dict[Workload, int] = {}
        self._ready: Counter[Workload] = Counter()

    def join(self, store: Store) -> None:
        """Count the ready pods of a member from now on, also while its API server is unavailable."""
        for pod in store.list(PODS):
            self._ready[_workload(pod)] += is_ready(pod)
        store.subscribe(self._changed)

    def demand(self, namespace: str, name: str, millis: int) -> None:
        """Set the CPU demand on a workload, in milli-units."""
        self._demand[namespace, name] = millis

    def share(self, pod: Object) -> float:
        """Returns the pod's share of the demand in milli-units; 0 for a pod that is not ready."""
        workload = _workload(pod)
        if not is_ready(pod):
            return 0.0
        own = self._demand.get(workload, 0) / max(1, self._ready[workload])
        return own + (self._shared.share(pod) if self._shared is not None else 0.0)

    def usage(self, pod: Object) -> dict[str, Usage]:
        """Returns the usage by container. The first container works, up to its limit; the others idle."""
        share = self.share(pod)
        usages: dict[str, Usage] = {}
        for container in pod["spec"].get("containers") or ():
            cpu = min(round(share), _limit(container)) if not usages else 0
            usages[container["name"]] = Usage(
                max(cpu, IDLE_MILLIS), IDLE_MEMORY + max(cpu, 0) * MEMORY_PER_MILLI
            )
        return usages

    def requests_per_second(self, pod: Object) -> float:
        """Returns the rate of requests that the pod serves."""
        served = min(self.share(pod), _limit(pod["spec"]["containers"][0]))
        return served / MILLIS_PER_REQUEST

    def _changed(self, change: Change) -> None:
        if change.collection != PODS:
            return
        if change.old is not None:
            self._ready[_workload(change.old)] -= is_ready(change.old)
        if change.type != "DELETED":
            self._ready[_workload(change.object)] += is_ready(change.object)


def _workload(pod: Object) -> Workload:
    metadata = pod["metadata"]
    return metadata["namespace"], owner_of(pod)[0] or metadata["name"]


def _limit(container: dict[str, Any]) -> int:
    limit = ((container.get("resources") or {}).get("limits") or {}).get("cpu")
    return 1_000_000_000 if limit is None else parse_milli(limit)
