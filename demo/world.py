"""The demo's world on real control planes: a hub, three members, the three processes, and a load that is
played.
"""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from demo.picture import MemberView, Picture
from fedhpa.api.errors import ApiError
from fedhpa.api.quantity import parse_milli
from realplane.plane import Plane
from stage.api import PlaneApi
from stage.processes import Processes
from stage.waiting import gather

MEMBERS = ("member1", "member2", "member3")
NAMESPACE, NAME = "shop", "web"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{NAME}"
OBJECT = f"/apis/autoscaling.karmada.io/v1alpha1/namespaces/{NAMESPACE}/federatedhpas/{NAME}"
POD_METRICS = f"/apis/metrics.k8s.io/v1beta1/namespaces/{NAMESPACE}/pods"
NO_ANSWER = (ApiError, aiohttp.ClientError, OSError)
CLUSTER_ANNOTATION = "resource.karmada.io/query-from-cluster"


class RealWorld:
    """Starts everything, plays the load, looks at the objects. `end` leaves nothing behind."""

    def __init__(self, assets: Path, say: Callable[[str], None]) -> None:
        self._say = say
        manifests = list(
            yaml.safe_load_all(Path(__file__).with_name("objects.yaml").read_text(encoding="utf-8"))
        )
        self._namespace, self._deployment, self._scaler, self._refused = manifests
        self._stack = contextlib.AsyncExitStack()
        self._apis: dict[str, PlaneApi] = {}
        self._lost: set[str] = set()
        self._seen: dict[str, int] = dict.fromkeys(MEMBERS, 1)
        self._usage: dict[str, int] = {}
        self.plane = Plane(assets, members=MEMBERS)
        # Somebody watches: an answer may not be as old as production allows (10 s).
        self.processes = Processes(self.plane, adapter_flags=["--metrics-max-age=1s"])

    async def start(self, demand_millis: int) -> None:
        """Hub and members, the workload under a first load, then the processes; returns when all are
        ready.
        """
        self._say(
            f"starting a hub and {len(MEMBERS)} members: etcd, API servers, controllers, kwok, metrics-server"
        )
        await self.plane.start()
        self._hub = await self._stack.enter_async_context(self.plane.hub.api())
        for name, member in self.plane.members.items():
            self._apis[name] = await self._stack.enter_async_context(member.api())
        await self._hub.apply(self._namespace)
        await gather(*(self._deploy(name) for name in MEMBERS))
        await self.play(demand_millis)
        self._say("starting webhook, metrics adapter and controller; waiting for the first metrics")
        await gather(self.processes.start(), self._metrics_of_all_pods())

    async def end(self) -> None:
        """Close connections, end every process, remove every file."""
        await self._stack.aclose()
        self.plane.end()

    # ---- what the story does

    async def create_scaler(self) -> None:
        """Apply the FederatedHPA."""
        await self._hub.apply(self._scaler)

    async def try_the_refused(self) -> str:
        """Apply the object that only the webhook can refuse; the refusal, or "" if it was taken."""
        try:
            await self._hub.apply(self._refused)
        except ApiError as error:
            text = str(error)
            return text[text.index("admission webhook") :] if "denied the request" in text else ""
        return ""

    async def play(self, demand_millis: int) -> None:
        """Let the world demand so much CPU: all pods share it evenly, also those of a member that is away."""
        each = max(1, demand_millis // sum(self._seen.values()))
        usage = {NAME: {"cpu": f"{each}m", "memory": "48Mi"}}
        changed = [name for name in MEMBERS if name not in self._lost and self._usage.get(name) != each]
        await gather(*(self._set_usage(name, each, usage) for name in changed))

    async def _set_usage(self, name: str, each: int, usage: dict[str, dict[str, str]]) -> None:
        # What a busy member does not take is tried again at the next look.
        with contextlib.suppress(*NO_ANSWER):
            await self.plane.members[name].set_usage(NAMESPACE, usage)
            self._usage[name] = each

    async def lose(self, name: str) -> None:
        """Kill the member's API server."""
        self._lost.add(name)
        await self.plane.members[name].kill_component("kube-apiserver")

    async def bring_back(self, name: str) -> None:
        """Start the member's API server again."""
        await self.plane.members[name].start_api_server()
        self._lost.discard(name)

    async def look(self, seconds: float) -> Picture:
        """Read the Deployments from the members, usage and FederatedHPA from the hub."""
        async with asyncio.TaskGroup() as group:
            scaler = group.create_task(self._get(self._hub, OBJECT))
            metrics = group.create_task(self._usage_by_member())
            sizes = {name: group.create_task(self._size(name)) for name in MEMBERS}
        usage = metrics.result()
        members = {
            name: MemberView(*size.result(), usage_millis=usage.get(name)) for name, size in sizes.items()
        }
        picture = Picture(seconds=seconds, members=members, object=scaler.result() or {})
        self._seen |= picture.replicas
        return picture

    # ---- looking

    async def _size(self, name: str) -> tuple[int | None, int | None]:
        found = None if name in self._lost else await self._get(self._apis[name], DEPLOYMENT)
        if found is None:
            return None, None
        return int(found["spec"]["replicas"]), int(found["status"].get("readyReplicas", 0))

    async def _usage_by_member(self) -> dict[str, int]:
        sums: dict[str, int] = {}
        for item in (await self._get(self._hub, POD_METRICS) or {}).get("items", []):
            cluster = item["metadata"]["annotations"][CLUSTER_ANNOTATION]
            for container in item["containers"]:
                sums[cluster] = sums.get(cluster, 0) + parse_milli(container["usage"]["cpu"])
        return sums

    async def _get(self, api: PlaneApi, path: str) -> Any | None:
        try:
            return await api.find(path)
        except NO_ANSWER:
            return None  # away, or not yet there: the picture shows a gap

    async def _deploy(self, name: str) -> None:
        await self._apis[name].apply(self._namespace)
        await self._apis[name].apply(self._deployment)

    async def _metrics_of_all_pods(self) -> None:
        async def of(name: str) -> Any:
            return await self._apis[name].wait(
                POD_METRICS, lambda found: bool(found["items"]), what=f"pod metrics of {name}", seconds=120
            )

        await gather(*(of(name) for name in MEMBERS))
