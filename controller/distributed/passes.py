"""The writes of one pass of mode Distributed: the finalizer, then HPAs, then the scales of the plan."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import structlog

from controller.decision_series import ControllerMetrics
from controller.distributed.hpa_reader import HpaReading
from controller.distributed.mode_changes import set_finalizer
from controller.distributed.writer import HpaWriter, result_of, write_plan
from fedhpa.api.errors import FedHPAError
from fedhpa.api.member_hpas import MemberHpa, wanted_spec
from fedhpa.assignment import Outcome, Result
from fedhpa.decision import Decision
from fedhpa.kube import ApiClient, Key, contain

log = structlog.get_logger(__name__)

# HPAs that are repaired at once. A hold concerns all of them, and must not wait for a slow cluster.
REPAIRS_AT_ONCE: Final = 32
TASK: Final = "repair-member-hpa"
# Writes replicas by cluster. Returns the first error.
ScaleWriter: TypeAlias = Callable[[Mapping[str, int]], Awaitable[str | None]]
# Prepares the hub for member HPAs. Raises FedHPAError if it refuses.
Preparation: TypeAlias = Callable[[], Awaitable[None]]


async def nothing_to_prepare() -> None:
    """Prepare nothing: with direct propagation the hub has no part in the workload."""


@dataclass(frozen=True)
class PassWrites:
    """The writes of a pass: those of the plan with their results, and the first error of any other write."""

    outcomes: tuple[Outcome, ...] = ()
    error: str | None = None


class BoundsWriter:
    """Writes the decisions of mode Distributed. The deadlines are the seconds of one request."""

    def __init__(
        self,
        hub: ApiClient,
        writer: HpaWriter,
        metrics: ControllerMetrics,
        *,
        member_deadline: float,
        hub_deadline: float,
    ) -> None:
        self._hub = hub
        self._writer = writer
        self._metrics = metrics
        self._member_deadline = member_deadline
        self._hub_deadline = hub_deadline

    async def write(
        self,
        key: Key,
        raw: Mapping[str, Any],
        decision: Decision,
        hpas: Mapping[str, HpaReading],
        scale: ScaleWriter,
        unselected: Mapping[str, object | None],
        prepare: Preparation = nothing_to_prepare,
    ) -> PassWrites:
        """Write the decision on the object read as `raw`, made on these `hpas`. Raises nothing.

        `unselected` are the clusters that lose their HPA, None for one without the workload. Without the
        finalizer nothing is written, because a deletion would then leave the HPAs behind. `prepare` follows.
        """
        try:
            if not await set_finalizer(self._hub, raw, self._hub_deadline, wanted=True):
                return PassWrites(error="the FederatedHPA is being deleted")
        except FedHPAError as refusal:
            return PassWrites(error=f"the finalizer could not be set: {refusal}")
        try:
            await prepare()
        except FedHPAError as refusal:
            return PassWrites(error=f"the hub could not be prepared: {refusal}")
        spec, plan = raw["spec"], decision.plan
        errors: list[str | None] = []
        outcomes: tuple[Outcome, ...] = ()
        if plan is not None:
            # The replicas of these clusters go before the others may grow.
            errors += [await self._remove(name, key, scale, unselected) for name in sorted(unselected)]
            versions = {name: reading.api_version for name, reading in hpas.items()}
            outcomes = await write_plan(self._writer, plan, key, spec, versions, self._member_deadline)
            for outcome in outcomes:
                self._metrics.count_hpa_write(outcome.write.cluster, outcome.result.value)
        written = {outcome.write.cluster for outcome in outcomes}
        left = [name for name in decision.repairs if name not in written]
        for begin in range(0, len(left), REPAIRS_AT_ONCE):
            errors += await self._repair_all(left[begin : begin + REPAIRS_AT_ONCE], key, spec, hpas)
        if plan is not None:
            # A cluster whose HPA was not written waits for the next pass.
            failed = {one.write.cluster for one in outcomes if one.result is not Result.CONFIRMED}
            shares = {name: number for name, number in plan.scales.items() if name not in failed}
            errors.append(await scale(shares) if shares else None)
        return PassWrites(outcomes, next((error for error in errors if error is not None), None))

    async def _remove(
        self, cluster: str, key: Key, scale: ScaleWriter, unselected: Mapping[str, object | None]
    ) -> str | None:
        """Remove replicas and HPA of a cluster that is no longer selected. Returns the error.

        The HPA goes last: a controller that restarts in between knows the cluster by it.
        """
        error = await scale({cluster: 0}) if unselected[cluster] is not None else None
        if error is not None:
            return error
        try:
            await self._writer.delete(cluster, key)
        except FedHPAError as failure:
            self._metrics.count_hpa_write(cluster, result_of(failure).value)
            return f"cluster {cluster!r}: {failure}"
        self._metrics.count_hpa_write(cluster, Result.CONFIRMED.value)
        log.info("cluster no longer selected", cluster=cluster, namespace=key[0], name=key[1])
        return None

    async def _repair_all(
        self, clusters: Sequence[str], key: Key, spec: Mapping[str, Any], hpas: Mapping[str, HpaReading]
    ) -> list[str | None]:
        """Write the specs of these HPAs again, all at once. Returns the errors."""
        async with asyncio.TaskGroup() as group:  # the tasks never raise
            tasks = [
                group.create_task(
                    contain(
                        TASK,
                        partial(self._repair, cluster, key, spec, hpas[cluster]),
                        partial("cluster {!r}: {}".format, cluster),
                        cluster=cluster,
                        namespace=key[0],
                        name=key[1],
                    )
                )
                for cluster in clusters
            ]
        return [task.result() for task in tasks]

    async def _repair(
        self, cluster: str, key: Key, spec: Mapping[str, Any], reading: HpaReading
    ) -> str | None:
        """Write the spec of an HPA again, with its present bounds. Returns the error."""
        if not isinstance(reading.hpa, MemberHpa):
            return None
        stored, version = reading.hpa.spec, reading.api_version
        least = 1 if stored.minReplicas is None else stored.minReplicas
        wanted = wanted_spec(spec, least, stored.maxReplicas, version)
        try:
            await self._writer.apply(cluster, key, wanted, version)
        except FedHPAError as failure:
            self._metrics.count_hpa_write(cluster, result_of(failure).value)
            return f"cluster {cluster!r}: {failure}"
        self._metrics.count_hpa_write(cluster, Result.CONFIRMED.value)
        return None
