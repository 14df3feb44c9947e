"""A hub and its members with one workload, as every scenario of the demo starts, plays and reads them.

Only the stage differs between real and embedded planes.
"""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from demo.curve import Load
from demo.stages import NAME, NAMESPACE, NO_ANSWER, Stage
from fedhpa.api.quantity import parse_milli
from testbed.stage import PlaneApi, gather

DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{NAME}"
OBJECT = f"/apis/autoscaling.karmada.io/v1alpha1/namespaces/{NAMESPACE}/federatedhpas/{NAME}"
POD_METRICS = f"/apis/metrics.k8s.io/v1beta1/namespaces/{NAMESPACE}/pods"
METRICS_SECONDS = 120.0  # until a member's first pod metrics, which take metrics-server half a minute

Json = Mapping[str, Any]


def manifests(file: Path) -> list[dict[str, Any]]:
    """Returns the objects of a file."""
    return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


class Clusters:
    """Starts everything and plays the load. `end` ends and removes everything.

    `namespace` and `deployment` are applied in every member, and `scaler` on the hub by `create_scaler`.
    """

    def __init__(
        self, stage: Stage, say: Callable[[str], None], namespace: Json, deployment: Json, scaler: Json
    ) -> None:
        self._say = say
        self._namespace, self._deployment, self._scaler = namespace, deployment, scaler
        self._stack = contextlib.AsyncExitStack()
        self._apis: dict[str, PlaneApi] = {}
        self._seen: dict[str, int] = dict.fromkeys(stage.members, 1)
        self.stage = stage

    @property
    def load(self) -> Load:
        """The demands on the workload."""
        return self.stage.load

    async def start(self) -> None:
        """Starts planes, workload and processes, under low load; returns once all are ready."""
        self._say(f"starting a hub and {len(self.stage.members)} members: {self.stage.description}")
        await self.stage.start()
        self._hub = await self._stack.enter_async_context(self.stage.hub.api())
        for name, member in self.stage.members.items():
            self._apis[name] = await self._stack.enter_async_context(member.api())
        await self._prepare_hub()
        await gather(*(self._deploy(name) for name in self._apis))
        await self.play(self.load.quiet)
        self._say("starting webhook, metrics adapter and controller; waiting for the first metrics")
        await gather(self.stage.start_processes(), self._metrics_of_all_pods())

    async def prepare(self, seconds: float | None) -> None:
        """Does after the start what does not fit into a pass of so many seconds; None: it has no end."""

    async def end(self) -> None:
        """Closes connections, ends every process and removes every file."""
        try:
            await self._stack.aclose()
        finally:
            await self.stage.end()

    async def create_scaler(self) -> None:
        """Applies the FederatedHPA."""
        await self._hub.apply(self._scaler)

    async def play(self, demand_millis: int) -> None:
        """Sets the demanded CPU. All pods share it evenly, also the pods of a lost member."""
        await self.stage.demand(demand_millis, sum(self._seen.values()))

    async def _prepare_hub(self) -> None:
        await self._hub.apply(self._namespace)

    async def _deploy(self, name: str) -> None:
        await self._apis[name].apply(self._namespace)
        await self._apis[name].apply(self._deployment)

    async def _get(self, api: PlaneApi, path: str) -> Any | None:
        try:
            return await api.find(path)
        except NO_ANSWER:
            return None  # unavailable or not created yet: the picture shows a gap

    async def _metrics_of_all_pods(self) -> None:
        async def of(name: str) -> Any:
            return await self._apis[name].wait(
                POD_METRICS,
                lambda found: bool(found["items"]),
                what=f"pod metrics of {name}",
                seconds=METRICS_SECONDS,
            )

        await gather(*(of(name) for name in self._apis))


def size_of(deployment: Any | None) -> tuple[int | None, int | None]:
    """Returns spec.replicas and ready pods; (None, None) for a member that does not answer."""
    if deployment is None:
        return None, None
    return int(deployment["spec"]["replicas"]), int(deployment.get("status", {}).get("readyReplicas", 0))


def cpu_of(item: Any) -> int:
    """Returns the CPU of a PodMetrics item in milli-units."""
    return sum(parse_milli(container["usage"]["cpu"]) for container in item["containers"])
