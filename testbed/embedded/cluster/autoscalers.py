"""The HPA controller of a member: it scales Deployments by the usage of their pods.

The arithmetic is the product's own for one cluster. tests/conformance compares it with Kubernetes HPA 1.36.
Metrics other than usage are unavailable to this controller.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec

from fedhpa.decision import Decision, History, decide, decode_scenario
from testbed.embedded.api.types import Object
from testbed.embedded.cluster.controllers import DEPLOYMENTS
from testbed.embedded.cluster.metrics import MetricsApis
from testbed.embedded.cluster.pods import PODS, timestamp
from testbed.embedded.storage.store import Collection, Store

HPAS: Final[Collection] = ("autoscaling", "horizontalpodautoscalers")
# The default of kube-controller-manager.
SYNC_SECONDS: Final = 15.0
_STATUS: Final = ("lastScaleTime", "currentReplicas", "desiredReplicas", "currentMetrics", "conditions")
_CONDITIONS: Final = ("AbleToScale", "ScalingActive", "ScalingLimited")


class Autoscalers:
    """Works on the store of one member: `run` continuously, `step` once."""

    def __init__(self, store: Store, metrics: MetricsApis, now: Callable[[], datetime]) -> None:
        self._store = store
        self._metrics = metrics
        self._now = now
        self._histories: dict[str, History] = {}  # by the uid of the HPA

    async def run(self, sync_seconds: float) -> None:
        """Steps every `sync_seconds` until cancelled."""
        while True:
            self.step()
            await asyncio.sleep(sync_seconds)

    def step(self) -> None:
        """Reconciles every HPA of the member once."""
        found = self._store.list(HPAS)
        uids = {hpa["metadata"]["uid"] for hpa in found}
        self._histories = {uid: history for uid, history in self._histories.items() if uid in uids}
        for hpa in found:
            self._reconcile(hpa)

    def _reconcile(self, hpa: Object) -> None:
        metadata, name = hpa["metadata"], hpa["spec"]["scaleTargetRef"]["name"]
        workload = self._store.find(DEPLOYMENTS, metadata["namespace"], name)
        decision = self._decide(hpa, workload)
        self._histories[metadata["uid"]] = decision.history
        if workload is not None and decision.rescale:
            resized = {**workload["spec"], "replicas": decision.desired_replicas}
            self._store.update(DEPLOYMENTS, {**workload, "spec": resized})
        status: dict[str, Any] = {key: decision.status.get(key) for key in _STATUS}
        status["conditions"] = [each for each in status["conditions"] if each["type"] in _CONDITIONS]
        status = {key: value for key, value in status.items() if value is not None}
        self._store.update(HPAS, {**hpa, "status": status})

    def _decide(self, hpa: Object, workload: Object | None) -> Decision:
        namespace, now = hpa["metadata"]["namespace"], self._now()
        scale: dict[str, Any] = {"error": f"{hpa['spec']['scaleTargetRef']['name']} not found"}
        target = scale
        if workload is not None:
            replicas = workload["spec"].get("replicas", 1)
            labels = (workload["spec"].get("selector") or {}).get("matchLabels") or {}
            scale = {
                "specReplicas": replicas,
                "statusReplicas": (workload.get("status") or {}).get("replicas", 0),
                "selector": ",".join(f"{key}={value}" for key, value in labels.items()),
            }
            target = {"replicas": replicas}
        cluster = {
            "name": "member",
            "ready": True,
            "scale": scale,
            "pods": self._store.list(PODS, namespace),
            "podMetrics": self._metrics.pods(namespace),
        }
        stored = {key: value for key, value in (hpa.get("status") or {}).items() if key in _STATUS}
        scaler = {"metadata": hpa["metadata"], "spec": hpa["spec"], "status": stored}
        scenario = decode_scenario(
            msgspec.json.encode(
                {"now": timestamp(now), "federatedHPA": scaler, "target": target, "clusters": [cluster]}
            )
        )
        history = self._histories.get(hpa["metadata"]["uid"], scenario.history)
        return decide(scenario.snapshot, history, now.timestamp(), scenario.settings)
