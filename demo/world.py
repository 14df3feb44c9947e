"""The demo's world: one workload in three members, the objects on the hub, and how the demo reads them.

Only the stage differs between real and embedded planes.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from demo.curve import Load
from demo.picture import MemberView, Picture
from demo.rules import RulesPicture
from demo.stages import (
    JOB,
    JOB_MEMBERS,
    JOBS_NAMESPACE,
    MEMBERS,
    NAME,
    NAMESPACE,
    NO_ANSWER,
    Stage,
)
from fedhpa.api.errors import ApiError
from fedhpa.api.quantity import parse_milli
from fedhpa.api.wire import CLUSTER_ANNOTATION
from testbed.stage import PlaneApi, gather

DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{NAME}"
OBJECT = f"/apis/autoscaling.karmada.io/v1alpha1/namespaces/{NAMESPACE}/federatedhpas/{NAME}"
JOB_DEPLOYMENT = f"/apis/apps/v1/namespaces/{JOBS_NAMESPACE}/deployments/{JOB}"
RULES = f"/apis/autoscaling.karmada.io/v1alpha1/namespaces/{JOBS_NAMESPACE}/cronfederatedhpas/{JOB}"
POD_METRICS = f"/apis/metrics.k8s.io/v1beta1/namespaces/{NAMESPACE}/pods"
REFUSED_TRIES = 10
METRICS_SECONDS = 120.0  # until a member's first pod metrics, which take metrics-server half a minute


class World:
    """Starts everything, plays the load and reads the objects. `end` ends and removes everything."""

    def __init__(self, stage: Stage, say: Callable[[str], None]) -> None:
        self._say = say
        manifests = list(
            yaml.safe_load_all(Path(__file__).with_name("objects.yaml").read_text(encoding="utf-8"))
        )
        self._namespace, self._deployment, self._scaler, self._refused, *jobs = manifests
        self._jobs_namespace, self._job, self._rules = jobs
        self._stack = contextlib.AsyncExitStack()
        self._apis: dict[str, PlaneApi] = {}
        self._lost: set[str] = set()
        self._seen: dict[str, int] = dict.fromkeys(MEMBERS, 1)
        self.stage = stage

    @property
    def load(self) -> Load:
        """The demands on the workload."""
        return self.stage.load

    async def start(self) -> None:
        """Starts planes, workload and processes, under low load; returns once all are ready."""
        self._say(f"starting a hub and {len(MEMBERS)} members: {self.stage.description}")
        await self.stage.start()
        self._hub = await self._stack.enter_async_context(self.stage.hub.api())
        for name, member in self.stage.members.items():
            self._apis[name] = await self._stack.enter_async_context(member.api())
        await gather(*(self._hub.apply(each) for each in (self._namespace, self._jobs_namespace)))
        await gather(*(self._deploy(name) for name in MEMBERS))
        await self.play(self.load.quiet)
        self._say("starting webhook, metrics adapter and controller; waiting for the first metrics")
        await gather(self.stage.start_processes(), self._metrics_of_all_pods())

    async def end(self) -> None:
        """Closes connections, ends every process and removes every file."""
        try:
            await self._stack.aclose()
        finally:
            await self.stage.end()

    # ---- actions of the story

    async def create_scaler(self) -> None:
        """Applies the FederatedHPA."""
        await self._hub.apply(self._scaler)

    async def create_rules(self) -> None:
        """Applies the CronFederatedHPA."""
        await self._hub.apply(self._rules)

    async def stop_controller(self) -> None:
        """Stops the controller, and returns once it has ended."""
        await self.stage.stop_controller()

    async def start_controller(self) -> None:
        """Starts the controller, and returns once it is ready."""
        await self.stage.start_controller()

    async def try_the_refused(self) -> str:
        """Applies an object that only the webhook can refuse; returns the refusal, or "" if admitted."""
        for _ in range(REFUSED_TRIES):
            try:
                await self._hub.apply(self._refused)
            except ApiError as error:
                text = str(error)
                if "denied the request" in text:
                    return text[text.index("admission webhook") :]
                if "failed calling webhook" in text:
                    continue  # a busy machine missed the timeout of three seconds
            return ""
        return ""

    async def play(self, demand_millis: int) -> None:
        """Sets the demanded CPU. All pods share it evenly, also the pods of a lost member."""
        await self.stage.demand(demand_millis, sum(self._seen.values()))

    async def lose(self, name: str) -> None:
        """Stops the member's API server."""
        self._lost.add(name)
        await self.stage.lose(name)

    async def bring_back(self, name: str) -> None:
        """Starts the member's API server again."""
        await self.stage.bring_back(name)
        self._lost.discard(name)

    async def read(self, seconds: float) -> Picture:
        """Reads Deployments from the members, and usage, the FederatedHPA and the rules from the hub."""
        rules = await self.read_rules()
        scaler, metrics, *found = await gather(
            self._get(self._hub, OBJECT),
            self._get(self._hub, POD_METRICS),
            *(self._deployment_of(name) for name in MEMBERS),
        )
        usage = _usage_by_member(metrics or {})
        members = {
            name: MemberView(*_size(deployment), usage_millis=usage.get(name))
            for name, deployment in zip(MEMBERS, found, strict=True)
        }
        picture = Picture(seconds=seconds, members=members, object=scaler or {}, rules=rules)
        self._seen |= picture.replicas
        return picture

    async def read_rules(self) -> RulesPicture:
        """Reads the CronFederatedHPA from the hub, and its Deployment from the members that run it."""
        rules, *found = await gather(
            self._get(self._hub, RULES),
            *(self._get(self._apis[name], JOB_DEPLOYMENT) for name in JOB_MEMBERS),
        )
        sizes = [_size(deployment)[0] for deployment in found]
        known = [size for size in sizes if size is not None]
        return RulesPicture(rules or {}, sum(known) if len(known) == len(sizes) else None)

    # ---- reading objects

    async def _deployment_of(self, name: str) -> Any | None:
        return None if name in self._lost else await self._get(self._apis[name], DEPLOYMENT)

    async def _get(self, api: PlaneApi, path: str) -> Any | None:
        try:
            return await api.find(path)
        except NO_ANSWER:
            return None  # unavailable or not created yet: the picture shows a gap

    async def _deploy(self, name: str) -> None:
        await self._apis[name].apply(self._namespace)
        await self._apis[name].apply(self._deployment)
        if name in JOB_MEMBERS:
            await self._apis[name].apply(self._jobs_namespace)
            await self._apis[name].apply(self._job)

    async def _metrics_of_all_pods(self) -> None:
        async def of(name: str) -> Any:
            return await self._apis[name].wait(
                POD_METRICS,
                lambda found: bool(found["items"]),
                what=f"pod metrics of {name}",
                seconds=METRICS_SECONDS,
            )

        await gather(*(of(name) for name in MEMBERS))


def _size(deployment: Any | None) -> tuple[int | None, int | None]:
    """Returns spec.replicas and ready pods; (None, None) for a member that does not answer."""
    if deployment is None:
        return None, None
    return int(deployment["spec"]["replicas"]), int(deployment.get("status", {}).get("readyReplicas", 0))


def _usage_by_member(metrics: Any) -> dict[str, int]:
    sums: dict[str, int] = {}
    for item in metrics.get("items", []):
        cluster = item["metadata"]["annotations"][CLUSTER_ANNOTATION]
        for container in item["containers"]:
            sums[cluster] = sums.get(cluster, 0) + parse_milli(container["usage"]["cpu"])
    return sums
