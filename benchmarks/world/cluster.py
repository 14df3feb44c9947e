"""An emulated member cluster: API server, nodes, one workload, metrics-server, and the HPA controller.

Load and CPU are counted in pods at full request: a load of 4.5 keeps five pods at 90 % of their request. A
pod serves at most its request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from benchmarks.world.api import Api
from benchmarks.world.hpa import Hpa, PodFacts
from benchmarks.world.http import Request, Server
from benchmarks.world.network import MemoryNetwork
from benchmarks.world.nodes import Nodes
from benchmarks.world.store import Kind, Object, Store
from benchmarks.world.workload import Pod, Revision, Workload

NAMESPACE: Final = "shop"
NAME: Final = "web"
LABELS: Final = {"app": NAME}
SYNC_SECONDS: Final = 15
APPS: Final = "apps/v1"
AUTOSCALING: Final = "autoscaling/v2"
HPAS: Final = "horizontalpodautoscalers"
METRICS: Final = "/apis/metrics.k8s.io/v1beta1"
NO_METRICS: Final = (
    b'{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[]}'
)
KINDS: Final = (
    Kind("v1", "pods", "Pod"),
    Kind("v1", "nodes", "Node", namespaced=False),
    Kind("v1", "events", "Event"),
    Kind(APPS, "deployments", "Deployment", scale=True),
    Kind(APPS, "statefulsets", "StatefulSet", scale=True),
    Kind(APPS, "replicasets", "ReplicaSet", scale=True),
    Kind(AUTOSCALING, HPAS, "HorizontalPodAutoscaler"),
)


def stamp(seconds: float) -> str:
    """Returns POSIX seconds as the API writes them."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def by_place(kinds: tuple[Kind, ...]) -> dict[tuple[str, str], Kind]:
    """Returns kinds by version and plural."""
    return {(kind.version, kind.plural): kind for kind in kinds}


@dataclass(frozen=True)
class ClusterPlan:
    """How a cluster begins.

    `start_seconds` is the time from a pod's node to its readiness, `stop_seconds` from its end until its node
    has room again.
    """

    name: str
    replicas: int
    nodes: Callable[[], Nodes] = lambda: Nodes({"node-1": 1000})
    start_seconds: float = 30.0
    stop_seconds: float = 5.0
    ordered: bool = False
    # CPU that each pod requests, in milli-cores.
    request: int = 1000
    # Metrics-server scrapes so often, and its values are visible so much later.
    scrape_seconds: int = 15
    metrics_lag: float = 0.0
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Scrape:
    """One reading of all pods: their CPU in milli-cores, and the answer of the metrics API."""

    at: float
    usage: Mapping[str, int]
    body: bytes


class Cluster:
    """One cluster. `step` takes it a second on; `wall` is the time of day in POSIX seconds."""

    def __init__(
        self, plan: ClusterPlan, network: MemoryNetwork, wall: Callable[[], float], number: int = 0
    ) -> None:
        self.plan = plan
        self.name = plan.name
        self.alive = True
        self.store = Store(by_place(KINDS), lambda: stamp(wall()))
        self.server = Server(plan.name, network, Api(self.store, self._metrics).handle, self._count)
        self.writes: dict[str, int] = {}
        self.nodes = plan.nodes()
        self.nodes.changed = self._write_nodes
        revisions = [Revision(plan.start_seconds)]
        self.workload = Workload(NAME, plan.ordered, revisions, plan.stop_seconds, self._write_pod)
        self._wall = wall
        # Different clusters sync and scrape at different seconds.
        self._phase = (number * 4) % SYNC_SECONDS
        # CPU seconds that a pod has used that was ready since the beginning.
        self._counter = 0.0
        self._scraped_at = 0.0
        self._scrapes: deque[Scrape] = deque()
        self._hpas: dict[str, Hpa] = {}
        self._begin()

    # -- what there is ---------------------------------------------------------------------------------
    @property
    def plural(self) -> str:
        """The plural of the workload's kind."""
        return "statefulsets" if self.plan.ordered else "deployments"

    @property
    def replicas(self) -> int:
        """The workload's spec.replicas."""
        return int(self._stored()["spec"]["replicas"])

    @property
    def ready(self) -> int:
        """The pods that serve."""
        return sum(pod.ready and pod.leaves is None for pod in self.workload.pods) if self.alive else 0

    def _stored(self) -> Object:
        found = self.store.find(APPS, self.plural, NAME, NAMESPACE)
        assert found is not None, "the emulated workload is never deleted"
        return found

    # -- faults and changes ----------------------------------------------------------------------------
    def die(self) -> None:
        """The API server and all pods are gone."""
        self.alive = False
        self.server.stop()

    def revive(self) -> None:
        """The cluster is back, and its pods start again."""
        self.alive = True
        now = self._wall()
        for pod in self.workload.pods:
            if pod.bound is not None:
                pod.bound, pod.ready, pod.changed = now, False, now
                self._write_pod(pod)
        self.server.start()

    def release(self, *, broken: bool = False) -> None:
        """Rolls out another template; `broken` pods never get ready."""
        self.workload.revisions.append(Revision(self.plan.start_seconds, broken))

    def resize(self, replicas: int) -> None:
        """Sets spec.replicas, as kubectl scale does."""
        found = self._stored()
        self.store.replace(APPS, self.plural, {**found, "spec": {**found["spec"], "replicas": replicas}})

    def add_hpa(self, minimum: int, maximum: int, target: int) -> None:
        """Creates an HPA of the workload by CPU utilization in percent."""
        metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": target}}
        kind = "StatefulSet" if self.plan.ordered else "Deployment"
        spec = {
            "scaleTargetRef": {"apiVersion": APPS, "kind": kind, "name": NAME},
            "minReplicas": minimum,
            "maxReplicas": maximum,
            "metrics": [{"type": "Resource", "resource": metric}],
        }
        metadata = {"namespace": NAMESPACE, "name": NAME}
        self.store.create(AUTOSCALING, HPAS, {"metadata": metadata, "spec": spec})

    def label_hpa(self, labels: dict[str, str]) -> None:
        """Replaces the labels of the workload's HPA."""
        found = self.store.find(AUTOSCALING, HPAS, NAME, NAMESPACE)
        if found is not None:
            self.store.replace(
                AUTOSCALING, HPAS, {**found, "metadata": {**found["metadata"], "labels": labels}}
            )

    def delete_hpa(self) -> None:
        """Deletes the workload's HPA."""
        self.store.delete(AUTOSCALING, HPAS, NAME, NAMESPACE, {})

    # -- one second ------------------------------------------------------------------------------------
    def step(self, load: float, seconds: float) -> None:
        """Serves `load` for so long, then lets all controllers act."""
        if not self.alive:
            return
        ready, now = self.ready, self._wall()
        if ready:
            self._counter += min(load / ready, 1.0) * seconds
        self.workload.step(self.replicas, now)
        for pod in self.nodes.step(self.workload.pods, now):
            self._write_pod(pod)
        self.workload.start(self._became_ready, now)
        self._forget_gone()
        tick = round(now) + self._phase
        if tick % self.plan.scrape_seconds == 0:
            self._scrape(now)
        if tick % SYNC_SECONDS == 0:
            self._sync(now)
        self._write_status()

    def _begin(self) -> None:
        now = self._wall()
        spec = {
            "replicas": self.plan.replicas,
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {"containers": [_container(self.plan.request)]},
            },
        }
        metadata = {"namespace": NAMESPACE, "name": NAME}
        self.store.create(APPS, self.plural, {"metadata": metadata, "spec": spec})
        self._write_nodes()
        self.workload.begin(self.plan.replicas, now)
        for pod in self.nodes.step(self.workload.pods, now - 3600):
            pod.ready, pod.changed = True, now - 3600 + self.plan.start_seconds
            self._write_pod(pod)
        self.workload.created = 0
        self._scraped_at = now
        self._write_status()
        self.server.start()

    def _became_ready(self, pod: Pod) -> None:
        pod.counted = self._counter
        self._write_pod(pod)

    # -- metrics ---------------------------------------------------------------------------------------
    def _scrape(self, now: float) -> None:
        """Reads the CPU counters, as metrics-server does: a value needs two readings of a running pod."""
        usage = {}
        for pod in self.workload.pods:
            if pod.bound is None or pod.leaves is not None:
                continue
            if pod.bound < self._scraped_at:
                since = max(self._scraped_at, pod.changed)
                used = (self._counter - pod.counted) / max(now - since, 1.0) if pod.ready else 0.0
                usage[pod.name] = round(used * self.plan.request)
            pod.counted = self._counter
        items = [_usage(name, millis, now, self.plan.scrape_seconds) for name, millis in usage.items()]
        head = {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}}
        self._scrapes.append(Scrape(now, usage, msgspec.json.encode({**head, "items": items})))
        self._scraped_at = now

    def _seen(self) -> Scrape | None:
        """Returns the last reading that is visible; older ones are dropped."""
        latest = self._wall() - self.plan.metrics_lag
        while len(self._scrapes) > 1 and self._scrapes[1].at <= latest:
            self._scrapes.popleft()
        return self._scrapes[0] if self._scrapes and self._scrapes[0].at <= latest else None

    def _metrics(self, path: str) -> bytes | None:
        if path not in (f"{METRICS}/namespaces/{NAMESPACE}/pods", f"{METRICS}/pods"):
            return None
        seen = self._seen()
        return NO_METRICS if seen is None else seen.body

    # -- the HPA controller ----------------------------------------------------------------------------
    def _sync(self, now: float) -> None:
        hpas = {one["metadata"]["uid"]: one for one in self.store.all(AUTOSCALING, HPAS)}
        self._hpas = {uid: self._hpas.get(uid) or Hpa() for uid in hpas}
        for uid, hpa in hpas.items():
            found = self._hpas[uid].sync(
                hpa["spec"], self.replicas, len(self.workload.active), self._facts(), now
            )
            if found.replicas is not None and found.replicas != self.replicas:
                self.resize(found.replicas)
            if found.status != hpa.get("status"):
                current = self.store.find(AUTOSCALING, HPAS, hpa["metadata"]["name"], NAMESPACE)
                if current is not None:
                    self.store.set(AUTOSCALING, HPAS, {**current, "status": found.status})

    def _facts(self) -> list[PodFacts]:
        seen = self._seen()
        usage, measured = ({}, 0.0) if seen is None else (seen.usage, seen.at)
        return [
            PodFacts(
                name=pod.name,
                phase="Pending" if pod.bound is None else "Running",
                started=pod.bound,
                ready=pod.ready,
                ready_changed=None if pod.bound is None else pod.changed,
                deleted=pod.leaves is not None,
                request=self.plan.request,
                usage=usage.get(pod.name),
                measured=measured,
                window=self.plan.scrape_seconds,
            )
            for pod in self.workload.pods
        ]

    # -- objects ---------------------------------------------------------------------------------------
    def _write_pod(self, pod: Pod) -> None:
        self.store.set("v1", "pods", _pod_object(pod, self.plan))

    def _forget_gone(self) -> None:
        kept = {pod.name for pod in self.workload.pods}
        if len(kept) < len(self.store.collection("v1", "pods").objects):
            for one in self.store.all("v1", "pods"):
                if one["metadata"]["name"] not in kept:
                    self.store.remove("v1", "pods", one["metadata"]["name"], NAMESPACE)

    def _write_nodes(self) -> None:
        for name, size in self.nodes.sizes.items():
            capacity = {"cpu": f"{size * self.plan.request}m", "memory": "1024Gi", "pods": str(size)}
            conditions = [{"type": "Ready", "status": "True"}]
            status = {"allocatable": capacity, "capacity": capacity, "conditions": conditions}
            self.store.set("v1", "nodes", {"metadata": {"name": name}, "spec": {}, "status": status})

    def _write_status(self) -> None:
        stored, active = self._stored(), self.workload.active
        ready = sum(pod.ready for pod in active)
        newest = [pod for pod in active if pod.revision == self.workload.newest]
        status = {
            "replicas": len(active),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "updatedReplicas": len(newest),
            "observedGeneration": stored["metadata"]["generation"],
        }
        if status != stored.get("status"):
            self.store.set(APPS, self.plural, {**stored, "status": status})

    def _count(self, request: Request, status: int) -> None:
        if request.method != "GET" and status < 300:
            key = f"{request.method} {request.path.rpartition('/')[2]}"
            self.writes[key] = self.writes.get(key, 0) + 1


def _container(request: int) -> Object:
    return {
        "name": NAME,
        "image": NAME,
        "resources": {"requests": {"cpu": f"{request}m", "memory": "64Mi"}},
    }


def _pod_object(pod: Pod, plan: ClusterPlan) -> Object:
    version = "controller-revision-hash" if plan.ordered else "pod-template-hash"
    metadata: dict[str, Any] = {
        "namespace": NAMESPACE,
        "name": pod.name,
        "labels": {**LABELS, version: str(pod.revision)},
        "creationTimestamp": stamp(pod.created),
    }
    if pod.leaves is not None:
        metadata["deletionTimestamp"] = stamp(pod.leaves)
    spec: dict[str, Any] = {"containers": [_container(plan.request)]}
    status: dict[str, Any] = {"phase": "Pending" if pod.bound is None else "Running"}
    if pod.bound is None:
        waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status["conditions"] = [{**waits, "lastTransitionTime": stamp(pod.created)}]
    else:
        spec["nodeName"] = pod.node
        status["startTime"] = stamp(pod.bound)
        ready = {"type": "Ready", "status": str(pod.ready), "lastTransitionTime": stamp(pod.changed)}
        bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(pod.bound)}
        status["conditions"] = [bound, ready]
    return {"metadata": metadata, "spec": spec, "status": status}


def _usage(name: str, millis: int, now: float, window: int) -> Object:
    containers = [{"name": NAME, "usage": {"cpu": f"{millis}m", "memory": "64Mi"}}]
    metadata = {"namespace": NAMESPACE, "name": name, "labels": LABELS, "creationTimestamp": stamp(now)}
    return {"metadata": metadata, "timestamp": stamp(now), "window": f"{window}s", "containers": containers}
