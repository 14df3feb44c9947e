"""The world of the first scenario: one workload in three members, its rules, and how the demo reads them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from demo.clusters import DEPLOYMENT, OBJECT, POD_METRICS, Clusters, cpu_of, manifests, size_of
from demo.picture import MemberView, Picture
from demo.rules import Rules, RulesPicture
from demo.stages import JOB, JOB_MEMBERS, JOBS_NAMESPACE, MEMBERS, Stage
from fedhpa.api.errors import ApiError
from fedhpa.api.wire import CLUSTER_ANNOTATION
from testbed.stage import gather

JOB_DEPLOYMENT = f"/apis/apps/v1/namespaces/{JOBS_NAMESPACE}/deployments/{JOB}"
RULES = f"/apis/autoscaling.karmada.io/v1alpha1/namespaces/{JOBS_NAMESPACE}/cronfederatedhpas/{JOB}"
REFUSED_TRIES = 10
# The rules need so long at most: the next execution is up to a minute away.
RULES_SECONDS = 75.0


class World(Clusters):
    """The workload web with its FederatedHPA, and the workload report with its rules."""

    def __init__(self, stage: Stage, say: Callable[[str], None]) -> None:
        objects = manifests(Path(__file__).with_name("objects.yaml"))
        namespace, deployment, scaler, self._refused, *jobs = objects
        super().__init__(stage, say, namespace, deployment, scaler)
        self._jobs_namespace, self._job, self._rules_object = jobs
        self.rules = Rules(self)
        self._lost: set[str] = set()

    async def prepare(self, seconds: float | None) -> None:
        """Plays the rules if the time is too short for them."""
        if seconds is not None and seconds < RULES_SECONDS:
            await self.rules.run(self._say)

    # ---- actions of the story

    async def create_rules(self, last: str) -> None:
        """Applies the CronFederatedHPA with a status: each rule was executed at `last`."""
        await self._hub.apply(self._rules_object)
        histories = [
            {
                "ruleName": rule["name"],
                "successfulExecutions": [
                    {"scheduleTime": last, "executionTime": last, "appliedReplicas": rule["targetReplicas"]}
                ],
            }
            for rule in self._rules_object["spec"]["rules"]
        ]
        await self._hub.patch(f"{RULES}/status", {"status": {"executionHistories": histories}})

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
            name: MemberView(*size_of(deployment), usage_millis=usage.get(name))
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
        sizes = [size_of(deployment)[0] for deployment in found]
        known = [size for size in sizes if size is not None]
        return RulesPicture(rules or {}, sum(known) if len(known) == len(sizes) else None)

    async def _prepare_hub(self) -> None:
        await gather(*(self._hub.apply(each) for each in (self._namespace, self._jobs_namespace)))

    async def _deployment_of(self, name: str) -> Any | None:
        return None if name in self._lost else await self._get(self._apis[name], DEPLOYMENT)

    async def _deploy(self, name: str) -> None:
        await super()._deploy(name)
        if name in JOB_MEMBERS:
            await self._apis[name].apply(self._jobs_namespace)
            await self._apis[name].apply(self._job)


def _usage_by_member(metrics: Any) -> dict[str, int]:
    sums: dict[str, int] = {}
    for item in metrics.get("items", []):
        cluster = item["metadata"]["annotations"][CLUSTER_ANNOTATION]
        sums[cluster] = sums.get(cluster, 0) + cpu_of(item)
    return sums
