"""The world of mode Distributed: a workload with an HPA in each member, and a FederatedHPA on the hub."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from demo.clusters import DEPLOYMENT, OBJECT, POD_METRICS, Clusters, cpu_of, manifests, size_of
from demo.picture import MemberView, Picture
from demo.stages import NAME, NAMESPACE, NO_ANSWER, Stage
from testbed.stage import gather

HPA = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers/{NAME}"


class DistributedWorld(Clusters):
    """One workload in all members. `cpu` limits the nodes of some members, such as {"member1": "2"}."""

    def __init__(
        self, stage: Stage, say: Callable[[str], None], objects: Path, cpu: Mapping[str, str]
    ) -> None:
        super().__init__(stage, say, *manifests(objects))
        self._cpu = cpu

    async def stop_hub(self) -> None:
        """Stops the controller and the hub's API server."""
        await self.stage.stop_controller()
        await self.stage.stop_hub()

    async def start_hub(self) -> None:
        """Starts the hub's API server and the controller again."""
        await self.stage.start_hub()
        await self.stage.start_controller()

    async def read(self, seconds: float) -> Picture:
        """Reads Deployments, HPAs and usage from the members, and the FederatedHPA from the hub."""
        scaler, hub_away = await self._object()
        found = await gather(*(self._member(name) for name in self._apis))
        views = dict(zip(self._apis, found, strict=True))
        picture = Picture(
            seconds=seconds,
            members={name: view for name, (view, _) in views.items()},
            object=scaler,
            hub_away=hub_away,
            hpas={name: text for name, (_, text) in views.items()},
        )
        self._seen |= picture.replicas
        return picture

    async def _object(self) -> tuple[Mapping[str, Any], bool]:
        """Returns the FederatedHPA, and True if the hub does not answer."""
        try:
            return await self._hub.find(OBJECT) or {}, False
        except NO_ANSWER:
            return {}, True

    async def _member(self, name: str) -> tuple[MemberView, str]:
        """Returns the view of a member, and its HPA without what the member itself writes."""
        api = self._apis[name]
        deployment, hpa, metrics = await gather(
            self._get(api, DEPLOYMENT), self._get(api, HPA), self._get(api, POD_METRICS)
        )
        usage = None if metrics is None else sum(map(cpu_of, metrics["items"]))
        if hpa is None:
            return MemberView(*size_of(deployment), usage), ""
        spec = hpa["spec"]
        view = MemberView(*size_of(deployment), usage, (spec.get("minReplicas", 1), spec["maxReplicas"]))
        return view, json.dumps([hpa["metadata"]["uid"], spec], sort_keys=True)

    async def _deploy(self, name: str) -> None:
        if name in self._cpu:
            allocatable = {"status": {"allocatable": {"cpu": self._cpu[name]}}}
            await self._apis[name].patch(f"/api/v1/nodes/{name}-node1/status", allocatable)
        await super()._deploy(name)
