"""One round of the controller over many objects, from records that are already there.

Left out is what the network costs: connections, TLS, lists, and the decoding of pods and usage. In are
discovery from its cache, scales decoded from JSON, the selection of pods and usage from their namespaces'
lists, rivals, the decision, status with its write (first round) or without (quiet round), series, log calls.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec
import structlog
from multidict import CIMultiDict, CIMultiDictProxy
from prometheus_client import CollectorRegistry

from controller.flags import DIRECT, Settings
from controller.gather import Readers
from controller.observe import Observer
from controller.reconcile import Reconciler
from controller.series import Series
from fedhpa.api.errors import ApiError
from fedhpa.api.wire import Container, ObjectMeta, Pod, PodSpec, PodStatus, Resources
from fedhpa.decision.snapshot import ControllerSettings
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.events import EventRecorder
from fedhpa.kube.responses import Response
from fedhpa.members.cluster import Cluster
from fedhpa.members.lists import Fetched, SharedLists
from fedhpa.members.member import Member, MemberState
from fedhpa.members.pods import PodCache
from fedhpa.scaling.records import ContainerUsage, PodRecord, UsageRecord, pod_record

OBJECTS: Final = 200
NAMESPACES: Final = 20
CLUSTERS: Final = 10
PODS_PER_CLUSTER: Final = 10
EVEN_USAGE_MILLI: Final = 50

Key = tuple[str, str]


class _Api(ApiClient):
    """Answers scales, discovery and objects out of memory."""

    def __init__(self, objects: Mapping[str, dict[str, Any]]) -> None:
        super().__init__(ApiConfig(server="http://memory"))
        self.objects = dict(objects)

    async def request(self, method: str, path: str, *, body: bytes | None = None, **_: object) -> Response:
        if method == "PUT":
            self.objects[path.removesuffix("/status")] = msgspec.json.decode(body or b"{}")
        found = self.objects.get(path.removesuffix("/status"))
        if found is None:
            raise ApiError(f"{path} not found", status=404)
        return Response(200, CIMultiDictProxy(CIMultiDict()), msgspec.json.encode(found))


class _Member:
    """A cluster that is always ready."""

    def __init__(self, name: str, client: ApiClient) -> None:
        self.name = name
        self.cluster = Cluster(metadata=ObjectMeta(name=name))
        self.client = client
        self.state = MemberState(True, "FedHPAProbeSucceeded", "", 0.0, 0.0)


class _Kept:
    """Stands for both the pod cache and the shared lists: what they would give, by cluster and namespace."""

    def __init__(self) -> None:
        self.by_place: dict[Key, dict[Key, PodRecord]] = {}
        self.usage: dict[Key, Fetched[tuple[UsageRecord, ...]]] = {}

    async def pods(self, member: _Member, namespace: str, **_: object) -> Mapping[Key, PodRecord]:
        return self.by_place[member.name, namespace]

    async def get(self, member: _Member, path: str, *_: object, **__: object) -> object:
        return self.usage[member.name, path.split("/")[-2]]


def _hpa(key: Key) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": 50}
    return {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "FederatedHPA",
        "metadata": {
            "namespace": key[0],
            "name": key[1],
            "uid": f"{key[0]}-{key[1]}",
            "resourceVersion": "1",
            "generation": 1,
        },
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": key[1]},
            "minReplicas": 1,
            "maxReplicas": 1000,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


def _scale(key: Key) -> dict[str, Any]:
    return {
        "metadata": {"namespace": key[0], "name": key[1], "uid": "u", "resourceVersion": "1"},
        "spec": {"replicas": PODS_PER_CLUSTER},
        "status": {"replicas": PODS_PER_CLUSTER, "selector": f"app={key[1]}"},
    }


def _fill(kept: _Kept, cluster: str, keys: list[Key]) -> None:
    long_ago = "2020-01-01T00:00:00Z"
    status = msgspec.convert(
        {
            "phase": "Running",
            "startTime": long_ago,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": long_ago}],
        },
        PodStatus,
    )
    spec = PodSpec(containers=[Container(name="app", resources=Resources(requests={"cpu": "100m"}))])
    usage: dict[str, list[UsageRecord]] = {}
    for namespace, name in keys:
        for number in range(PODS_PER_CLUSTER):
            meta = ObjectMeta(name=f"{name}-{number}", namespace=namespace, labels={"app": name})
            record = pod_record(cluster, Pod(metadata=meta, spec=spec, status=status))
            kept.by_place.setdefault((cluster, namespace), {})[namespace, record.name] = record
            container = ContainerUsage("app", EVEN_USAGE_MILLI, None)
            usage.setdefault(namespace, []).append(
                UsageRecord(cluster, namespace, record.name, 0.0, 15.0, EVEN_USAGE_MILLI, None, (container,))
            )
    for namespace, records in usage.items():
        kept.usage[cluster, namespace] = Fetched(tuple(records), 0.0)


def _world() -> tuple[Reconciler, _Api, list[Key]]:
    keys = [(f"team-{number % NAMESPACES}", f"web-{number}") for number in range(OBJECTS)]
    paths = {key: f"/apis/apps/v1/namespaces/{key[0]}/deployments/{key[1]}/scale" for key in keys}
    collection = "/apis/autoscaling.karmada.io/v1alpha1/namespaces"
    hub = _Api({f"{collection}/{key[0]}/federatedhpas/{key[1]}": _hpa(key) for key in keys})
    deployments = {"name": "deployments", "kind": "Deployment", "namespaced": True}
    hub.objects["/apis/apps/v1"] = {"resources": [deployments]}
    kept = _Kept()
    members: dict[str, Member] = {}
    for number in range(CLUSTERS):
        name = f"member-{number}"
        _fill(kept, name, keys)
        members[name] = cast("Member", _Member(name, _Api({paths[key]: _scale(key) for key in keys})))
    settings = Settings(DIRECT, 5, 15.0, 3.0, False, ControllerSettings())
    readers = Readers(cast("SharedLists", kept), cast("PodCache[PodRecord]", kept))
    observer = Observer(hub, lambda: members, readers, settings)
    events = EventRecorder(hub, "benchmark")
    return Reconciler(hub, observer, events, Series(CollectorRegistry()), settings), hub, keys


async def _round(reconciler: Reconciler, hub: _Api, keys: list[Key]) -> float:
    collection = "/apis/autoscaling.karmada.io/v1alpha1/namespaces"
    began = time.process_time()
    for key in keys:
        again = await reconciler.reconcile(key, hub.objects[f"{collection}/{key[0]}/federatedhpas/{key[1]}"])
        assert not again
    return time.process_time() - began


async def _measure() -> tuple[float, float]:
    reconciler, hub, keys = _world()
    first = await _round(reconciler, hub, keys)
    quiet = min([await _round(reconciler, hub, keys) for _ in range(3)])
    shown = [obj["status"]["currentReplicas"] for obj in hub.objects.values() if "status" in obj]
    assert shown == [CLUSTERS * PODS_PER_CLUSTER] * OBJECTS
    return first, quiet


def run() -> dict[str, float]:
    """CPU seconds of a round over all objects, and CPU milliseconds for one of them."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    try:
        first, quiet = asyncio.run(_measure())
    finally:
        structlog.reset_defaults()
    world = f"{OBJECTS} objects x {CLUSTERS * PODS_PER_CLUSTER} pods over {CLUSTERS} clusters"
    return {
        f"first round, {world}, CPU s": first,
        f"quiet round, {world}, CPU s": quiet,
        f"quiet look, {CLUSTERS * PODS_PER_CLUSTER} pods over {CLUSTERS} clusters, CPU ms": quiet
        / OBJECTS
        * 1000,
    }
