"""CPU time of decisions and of decoding lists into records: the best of several runs."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable

import msgspec

from fedhpa.api import wire
from fedhpa.cli.replay import answer, split
from fedhpa.decision import (
    ClusterScale,
    ClusterSnapshot,
    ControllerSettings,
    History,
    Recommendation,
    Snapshot,
    TemplateScale,
    decide,
    decode_object,
)
from fedhpa.scaling import PodRecord, UsageRecord, pod_record, usage_record

NOW = 1_773_235_397.0


def run() -> dict[str, float]:
    """The value of each figure, in the unit at the end of its name."""
    return {
        "decision over 10 clusters x 100 pods, CPU ms": _decision(10, 100) * 1000,
        "decision over 100 clusters x 100 pods, CPU ms": _decision(100, 100) * 1000,
        "list of 10,000 fat pods to records, CPU ms": _decode_pods(10_000) * 1000,
        "list of 10,000 PodMetrics to records, CPU ms": _decode_usage(10_000) * 1000,
        "replay of 1,000 scenarios of 10 pods, CPU ms": _replay(1_000) * 1000,
        "resident record of a pod, bytes": _resident(lambda: pod_records(pod_bytes(2_000))) / 2_000,
        "resident record of a pod's usage, bytes": _resident(lambda: usage_records(usage_bytes(2_000)))
        / 2_000,
    }


def pod_bytes(count: int) -> bytes:
    """A pod list as a member serves it: about 3.5 KB a pod, most of it in fields that are not decoded."""
    items = [_pod(i) for i in range(count)]
    return msgspec.json.encode({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})


def usage_bytes(count: int) -> bytes:
    """A PodMetricsList as metrics-server serves it."""
    items = [
        {
            "metadata": {"name": f"web-5d9c7b6f4-{i:05}", "namespace": "shop", "labels": {"app": "web"}},
            "timestamp": "2026-03-11T13:23:00Z",
            "window": "15.123s",
            "containers": [{"name": "web", "usage": {"cpu": f"{123456789 + i}n", "memory": "131072Ki"}}],
        }
        for i in range(count)
    ]
    head = {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1"}
    return msgspec.json.encode({**head, "metadata": {}, "items": items})


def _pod(i: int) -> object:
    return {
        "metadata": {
            "name": f"web-5d9c7b6f4-{i:05}",
            "namespace": "shop",
            "uid": f"0f3a{i:08}",
            "labels": {"app": "web", "pod-template-hash": "5d9c7b6f4"},
            "annotations": {"config/checksum": "c" * 64},
            "managedFields": [{"manager": "kubelet", "fieldsV1": {f"f:field-{n}": {} for n in range(60)}}],
        },
        "spec": {
            "nodeName": f"node-{i % 50}",
            "containers": [
                {
                    "name": "web",
                    "image": "registry/web:1.2.3",
                    "env": [{"name": f"VARIABLE_{n}", "value": "v" * 20} for n in range(20)],
                    "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}},
                }
            ],
        },
        "status": {
            "phase": "Running",
            "startTime": "2026-03-11T10:00:00Z",
            "conditions": [
                {"type": t, "status": "True", "lastTransitionTime": "2026-03-11T10:00:05Z"}
                for t in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
        },
    }


def pod_records(data: bytes) -> tuple[PodRecord, ...]:
    """The records of a pod list, decoded as the controller does."""
    decoded = msgspec.json.decode(data, type=wire.ObjectList[wire.Pod])
    return tuple(pod_record("member1", pod) for pod in decoded.items or ())


def usage_records(data: bytes) -> tuple[UsageRecord, ...]:
    """The records of a PodMetricsList."""
    decoded = msgspec.json.decode(data, type=wire.ObjectList[wire.PodMetrics])
    return tuple(usage_record("member1", item) for item in decoded.items or ())


def _decision(clusters: int, pods: int) -> float:
    records, usage = pod_records(pod_bytes(pods)), usage_records(usage_bytes(pods))
    snapshot = Snapshot(
        hpa=decode_object(
            {
                "metadata": {"name": "web", "namespace": "shop", "generation": 1},
                "spec": {
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                    "maxReplicas": 100_000,
                    "metrics": [
                        {
                            "type": "Resource",
                            "resource": {
                                "name": "cpu",
                                "target": {"type": "Utilization", "averageUtilization": 40},
                            },
                        }
                    ],
                },
            }
        ),
        clusters=tuple(
            ClusterSnapshot(
                name=f"member{i}",
                scale=ClusterScale(pods, pods, "app=web"),
                pods=tuple(msgspec.structs.replace(record, cluster=f"member{i}") for record in records),
                usage=tuple(msgspec.structs.replace(record, cluster=f"member{i}") for record in usage),
            )
            for i in range(clusters)
        ),
        target=TemplateScale(clusters * pods),
    )
    history = History(tuple(Recommendation(NOW - 15.0 * i, clusters * pods) for i in range(20)))
    settings = ControllerSettings()
    return best(lambda: decide(snapshot, history, NOW, settings))


def _replay(count: int) -> float:
    items = [_pod(i) for i in range(10)]
    given = {
        "now": "2026-03-11T13:23:17Z",
        "federatedHPA": {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"maxReplicas": 100}},
        "target": {"replicas": 10},
        "clusters": [
            {
                "name": "member1",
                "ready": True,
                "scale": {"specReplicas": 10, "statusReplicas": 10, "selector": "app=web"},
                "pods": items,
                "podMetrics": msgspec.json.decode(usage_bytes(10))["items"],
            }
        ],
    }
    data = msgspec.json.encode([given] * count)
    return best(lambda: [answer(scenario) for scenario in split(data)], times=3)


def _resident(work: Callable[[], object]) -> int:
    """The bytes that a result keeps allocated, without parts that it shares with earlier results."""
    work()
    gc.collect()
    tracemalloc.start()
    kept = work()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return held


def _decode_pods(count: int) -> float:
    data = pod_bytes(count)
    return best(lambda: pod_records(data), times=3)


def _decode_usage(count: int) -> float:
    data = usage_bytes(count)
    return best(lambda: usage_records(data), times=3)


def best(work: Callable[[], object], *, times: int = 20) -> float:
    """The lowest CPU time of several runs, without garbage collection."""
    gc.collect()
    gc.disable()
    try:
        measured = []
        for _ in range(times):
            start = time.process_time()
            work()
            measured.append(time.process_time() - start)
    finally:
        gc.enable()
    return min(measured)


if __name__ == "__main__":
    for figure, value in run().items():
        print(f"{figure}: {value:.3f}")
