"""The controllers, the scheduler and the kubelets of a member in one loop.

Each step compares the stored objects with the desired state and writes the difference. Deployments create
pods without ReplicaSets, pods of StatefulSets have random names, and a changed template is for new pods only.
"""

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import structlog

from fedhpa.api.errors import InvalidQuantity
from fedhpa.api.quantity import parse_milli
from testbed.embedded.api.types import Object
from testbed.embedded.cluster import pods as lifecycle
from testbed.embedded.cluster.pods import PODS
from testbed.embedded.storage.store import Change, Collection, Store

NODES: Collection = ("", "nodes")
DEPLOYMENTS: Collection = ("apps", "deployments")
READY_AFTER = 1.0  # seconds from start to Ready; no probe runs

log = structlog.get_logger(__name__)


WORKLOADS: tuple[Collection, ...] = (DEPLOYMENTS, ("apps", "replicasets"), ("apps", "statefulsets"))
WATCHED = {PODS, NODES, *WORKLOADS}


class Controllers:
    """Work on the store of one member: `run` continuously, `step` once."""

    def __init__(
        self, store: Store, now: Callable[[], datetime], *, ready_after: float = READY_AFTER
    ) -> None:
        self._store = store
        self._now = now
        self._ready_after = ready_after
        self._due: dict[str, datetime] = {}  # the time that a started pod becomes ready, by uid
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Step after each change and when a pod is due to become ready, until cancelled."""
        unsubscribe = self._store.subscribe(self._changed)
        try:
            while True:
                self._wake.clear()
                due = self.step()
                try:
                    async with asyncio.timeout(None if due is None else max(0.0, due)):
                        await self._wake.wait()
                except TimeoutError:
                    pass
        finally:
            unsubscribe()

    def step(self) -> float | None:
        """Write the desired state; returns the seconds until the next pod becomes ready, or None."""
        owned: dict[str, list[Object]] = defaultdict(list)
        for pod in self._store.list(PODS):
            owned[lifecycle.owner_of(pod)[1]].append(pod)
        alive = owned.pop("", [])
        workloads = [(kind, each) for kind in WORKLOADS for each in self._store.list(kind)]
        for _, workload in workloads:
            pods = owned.pop(workload["metadata"]["uid"], [])
            try:
                alive += self._resize(workload, pods)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                # The server validates less than Kubernetes does. One such object must not stop the others.
                log.warning("workload cannot be read", name=workload["metadata"]["name"], error=repr(error))
                alive += pods
        for orphans in owned.values():
            self._delete(orphans)
        self._schedule(alive)
        self._start(alive)
        total, serving = self._count()
        for kind, workload in workloads:
            uid = workload["metadata"]["uid"]
            changed = _with_status(workload, total[uid], serving[uid])
            if kind == DEPLOYMENTS:
                changed["status"]["conditions"] = _conditions(workload, serving[uid], self._now())
            self._store.update(kind, changed)
        return min(((due - self._now()).total_seconds() for due in self._due.values()), default=None)

    def _changed(self, change: Change) -> None:
        if change.collection in WATCHED:
            self._wake.set()

    # -- the number of pods ----------------------------------------------------------------------------

    def _resize(self, workload: Object, pods: list[Object]) -> list[Object]:
        wanted = int(workload["spec"].get("replicas", 1))
        pods = sorted(pods, key=_deletion_order)
        self._delete(pods[wanted:])
        new = (lifecycle.new_pod(workload) for _ in range(wanted - len(pods)))
        return pods[:wanted] + [self._store.create(PODS, pod) for pod in new]

    def _delete(self, pods: list[Object]) -> None:
        for pod in pods:
            self._store.delete(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])
            self._due.pop(pod["metadata"]["uid"], None)

    # -- nodes and readiness ---------------------------------------------------------------------------

    def _schedule(self, pods: list[Object]) -> None:
        capacity = FreeCapacity(self._store.list(NODES), pods)
        for index, pod in enumerate(pods):
            if pod["spec"].get("nodeName"):
                continue
            node, why = capacity.place(pod)
            after = lifecycle.bound(pod, node) if node else lifecycle.unschedulable(pod, why, self._now())
            pods[index] = self._store.update(PODS, after)

    def _start(self, pods: list[Object]) -> None:
        now = self._now()
        for pod in pods:
            uid = pod["metadata"]["uid"]
            if not pod["spec"].get("nodeName") or lifecycle.is_ready(pod):
                continue
            if (pod.get("status") or {}).get("phase", "Pending") == "Pending":
                pod = self._store.update(PODS, lifecycle.started(pod, now))
                self._due[uid] = now + timedelta(seconds=self._ready_after)
            if uid in self._due and self._due[uid] <= now:
                del self._due[uid]
                self._store.update(PODS, lifecycle.ready(pod, now))
        known = {pod["metadata"]["uid"] for pod in pods}
        self._due = {uid: due for uid, due in self._due.items() if uid in known}

    def _count(self) -> tuple[Counter[str], Counter[str]]:
        """Returns the number of pods and of ready pods by the uid of their owner."""
        total, serving = Counter[str](), Counter[str]()
        for pod in self._store.list(PODS):
            _, owner = lifecycle.owner_of(pod)
            total[owner] += 1
            serving[owner] += lifecycle.is_ready(pod)
        return total, serving


def _with_status(workload: Object, pods: int, serving: int) -> Object:
    counts = {
        "replicas": pods,
        "updatedReplicas": pods,
        "readyReplicas": serving,
        "availableReplicas": serving,
    }
    status = {"observedGeneration": workload["metadata"].get("generation", 1)}
    return {**workload, "status": status | {name: count for name, count in counts.items() if count}}


def _conditions(deployment: Object, serving: int, now: datetime) -> list[Object]:
    """Returns the conditions with Available, for the default maxUnavailable of 25 %."""
    wanted = deployment["spec"].get("replicas")
    replicas = wanted if isinstance(wanted, int) else 1
    is_available = serving >= replicas - replicas // 4
    why = {"reason": f"MinimumReplicas{'Available' if is_available else 'Unavailable'}"}
    status = deployment.get("status") or {}
    return lifecycle.with_conditions(status, now, Available=(str(is_available), why))


def _deletion_order(pod: Object) -> tuple[bool, bool, str, str]:
    """Sorts the pods that a scale-down keeps first: bound, ready, old."""
    metadata = pod["metadata"]
    is_bound = bool(pod["spec"].get("nodeName"))
    return not is_bound, not lifecycle.is_ready(pod), metadata["creationTimestamp"], metadata["name"]


# -- scheduling -----------------------------------------------------------------------------------------


class FreeCapacity:
    """The free capacity of the schedulable nodes; `place` reduces it."""

    def __init__(self, nodes: Iterable[Object], pods: Iterable[Object]) -> None:
        self._nodes = 0
        self._free: dict[str, dict[str, int]] = {}
        for node in nodes:
            self._nodes += 1
            if is_schedulable(node):
                self._free[node["metadata"]["name"]] = _milli(node.get("status", {}).get("allocatable"))
        for pod in pods:
            free = self._free.get(pod["spec"].get("nodeName", ""))
            if free is not None and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                with contextlib.suppress(InvalidQuantity):  # a user bound the pod
                    _take(free, requests(pod))

    def place(self, pod: Object) -> tuple[str, str]:
        """Returns (node, "") for the node with the most free CPU, or ("", the scheduler's reason)."""
        try:
            requested = requests(pod)
        except InvalidQuantity as error:
            return "", str(error)
        reasons: Counter[str] = Counter()
        fitting: list[str] = []
        for name, free in self._free.items():
            short = [resource for resource, amount in requested.items() if amount > free.get(resource, 0)]
            reasons.update("Too many pods" if each == "pods" else f"Insufficient {each}" for each in short)
            if not short:
                fitting.append(name)
        if fitting:
            best = max(fitting, key=lambda name: self._free[name].get("cpu", 0))
            _take(self._free[best], requested)
            return best, ""
        texts = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        return "", f"0/{self._nodes} nodes are available: {texts or 'node(s) were unschedulable'}."


def is_schedulable(node: Object) -> bool:
    """True if the node is ready and not cordoned."""
    conditions = node.get("status", {}).get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and not node.get("spec", {}).get("unschedulable")


def requests(pod: Object) -> dict[str, int]:
    """Returns the sum of the containers' requests, and one pod. A limit replaces a missing request."""
    total = Counter({"pods": 1000})
    for container in pod["spec"].get("containers") or ():
        resources = container.get("resources") or {}
        total.update(_milli({**(resources.get("limits") or {}), **(resources.get("requests") or {})}))
    return dict(total)


def _milli(amounts: Mapping[str, Any] | None) -> dict[str, int]:
    return {resource: parse_milli(value) for resource, value in (amounts or {}).items()}


def _take(free: dict[str, int], requested: Mapping[str, int]) -> None:
    for resource, amount in requested.items():
        free[resource] = free.get(resource, 0) - amount
