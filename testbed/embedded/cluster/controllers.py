"""A member's controllers, scheduler and kubelets in one: workloads get pods, pods get nodes and become ready.

All of it is one step from what is stored to what should be, taken again whenever something was written or
is due. There are no ReplicaSets below Deployments, and a changed template replaces all pods at once.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from testbed.embedded.api.types import Object
from testbed.embedded.cluster import pods as life
from testbed.embedded.cluster.pods import PODS
from testbed.embedded.cluster.scheduling import Room
from testbed.embedded.storage.store import Change, Collection, Store

NODES: Collection = ("", "nodes")
READY_AFTER = 1.0  # seconds from start to Ready, where no readiness probe says how long

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Kind:
    """How the pods of a kind of workload are told apart: by revision, and by number instead of chance."""

    collection: Collection
    revision_label: str | None
    numbered: bool = False


KINDS = (
    Kind(("apps", "deployments"), "pod-template-hash"),
    Kind(("apps", "replicasets"), None),
    Kind(("apps", "statefulsets"), "controller-revision-hash", numbered=True),
)
WATCHED = {PODS, NODES, *(kind.collection for kind in KINDS)}


class Workloads:
    """Works on the store of one member while `run` runs; `step` alone does what is due now."""

    def __init__(
        self, store: Store, now: Callable[[], datetime], *, ready_after: float = READY_AFTER
    ) -> None:
        self._store = store
        self._now = now
        self._ready_after = ready_after
        self._due: dict[str, datetime] = {}  # when a started pod becomes ready, by uid
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Step whenever something changed or is due, until cancelled."""
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
        """Bring everything to where it should be now; seconds until the next pod becomes ready, if any."""
        owned: dict[str, list[Object]] = defaultdict(list)
        for pod in self._store.list(PODS):
            owned[life.owner_of(pod)[1]].append(pod)
        lone = owned.pop("", [])
        workloads = [(kind, each) for kind in KINDS for each in self._store.list(kind.collection)]
        alive = list(lone)
        for kind, workload in workloads:
            pods = owned.pop(workload["metadata"]["uid"], [])
            try:
                alive += self._resize(kind, workload, pods)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                # The server checks less than Kubernetes does; one such object must not stop the others.
                log.warning("workload cannot be read", name=workload["metadata"]["name"], error=repr(error))
                alive += pods
        for orphans in owned.values():
            self._delete(orphans)
        self._schedule(alive)
        self._grow_up(alive)
        counted, serving = self._count()
        for kind, workload in workloads:
            uid = workload["metadata"]["uid"]
            self._store.update(kind.collection, _reported(kind, workload, counted[uid], serving[uid]))
        return min(((due - self._now()).total_seconds() for due in self._due.values()), default=None)

    def _changed(self, change: Change) -> None:
        if change.collection in WATCHED:
            self._wake.set()

    # ---- as many pods as wanted

    def _resize(self, kind: Kind, workload: Object, pods: list[Object]) -> list[Object]:
        revision = (kind.revision_label, _revision(workload)) if kind.revision_label else None
        wanted = int(workload["spec"].get("replicas", 1))
        kept = [pod for pod in pods if _is_current(pod, revision)]
        kept.sort(key=_number if kind.numbered else _worth)
        if kind.numbered:
            kept = [pod for pod in kept if _number(pod) < wanted]
        kept = kept[:wanted]
        kept_uids = {pod["metadata"]["uid"] for pod in kept}
        self._delete([pod for pod in pods if pod["metadata"]["uid"] not in kept_uids])
        names: list[str | None] = [None] * (wanted - len(kept))
        if kind.numbered:
            taken = {_number(pod) for pod in kept}
            names = [f"{workload['metadata']['name']}-{n}" for n in range(wanted) if n not in taken]
        return kept + [self._store.create(PODS, life.born(workload, revision, name)) for name in names]

    def _delete(self, pods: list[Object]) -> None:
        for pod in pods:
            self._store.delete(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])
            self._due.pop(pod["metadata"]["uid"], None)

    # ---- on nodes, started, ready

    def _schedule(self, pods: list[Object]) -> None:
        room = Room(self._store.list(NODES), pods)
        for index, pod in enumerate(pods):
            if pod["spec"].get("nodeName"):
                continue
            node, why = room.place(pod)
            after = life.bound(pod, node) if node else life.unschedulable(pod, why, self._now())
            pods[index] = self._store.update(PODS, after)

    def _grow_up(self, pods: list[Object]) -> None:
        now = self._now()
        for pod in pods:
            uid = pod["metadata"]["uid"]
            if not pod["spec"].get("nodeName") or life.is_ready(pod):
                continue
            if (pod.get("status") or {}).get("phase", "Pending") == "Pending":
                pod = self._store.update(PODS, life.started(pod, now))
                self._due[uid] = now + timedelta(seconds=self._patience(pod))
            if uid in self._due and self._due[uid] <= now:
                del self._due[uid]
                self._store.update(PODS, life.ready(pod, now))
        known = {pod["metadata"]["uid"] for pod in pods}
        self._due = {uid: due for uid, due in self._due.items() if uid in known}

    def _patience(self, pod: Object) -> float:
        containers = pod["spec"].get("containers") or ()
        probes = [each["readinessProbe"] for each in containers if each.get("readinessProbe")]
        if not probes:
            return self._ready_after
        return float(max(probe.get("initialDelaySeconds", 0) for probe in probes))

    def _count(self) -> tuple[Counter[str], Counter[str]]:
        """By owner: how many pods there are, and how many are ready."""
        counted, serving = Counter[str](), Counter[str]()
        for pod in self._store.list(PODS):
            _, owner = life.owner_of(pod)
            counted[owner] += 1
            serving[owner] += life.is_ready(pod)
        return counted, serving


def _reported(kind: Kind, workload: Object, pods: int, serving: int) -> Object:
    """The workload with the status that people and autoscalers read."""
    counts = {
        "replicas": pods,
        "updatedReplicas": pods if kind.revision_label else 0,
        "readyReplicas": serving,
        "availableReplicas": serving,
    }
    status = {"observedGeneration": workload["metadata"].get("generation", 1)}
    return {**workload, "status": status | {name: count for name, count in counts.items() if count}}


def _revision(workload: Object) -> str:
    return life.revision_of(workload["spec"]["template"])


def _is_current(pod: Object, revision: tuple[str, str] | None) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return revision is None or labels.get(revision[0]) == revision[1]


def _worth(pod: Object) -> tuple[bool, bool, str, str]:
    """Sorts those first that a scale-down keeps: bound, ready, old."""
    metadata = pod["metadata"]
    bound = bool(pod["spec"].get("nodeName"))
    return not bound, not life.is_ready(pod), metadata["creationTimestamp"], metadata["name"]


def _number(pod: Object) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])
