"""Logs which objects fail, whether the hub answers, and whether it stores statuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from controller.failure_log import QUIET_SECONDS, FailureLog, Lines, concerns_hub
from controller.telemetry import ControllerMetrics
from fedhpa.api.errors import FedHPAError
from fedhpa.decision import Decision, StatusCondition
from fedhpa.kube import Key

FAILED_UPDATE_STATUS: Final = "FailedUpdateStatus"
FAILED_GET_SCALE: Final = "FailedGetScale"
FAILED_GET_METRIC: Final = "FailedGetMetric"
SCALING_DISABLED: Final = "ScalingDisabled"
UNAVAILABLE: Final = "HubUnavailable"
# The conditions that say whether an object is scaled, in the order in which they are decided.
CONDITIONS: Final = ("AbleToScale", "ScalingActive", "MetricsComplete")

OBJECTS: Final = Lines("autoscaler fails", "autoscaler still fails", "autoscaler is well again")
READS: Final = Lines("the hub does not answer", "the hub still does not answer", "the hub answers again")
WRITES: Final = Lines(
    "the hub stores no status", "the hub still stores no status", "the hub stores statuses again"
)


class HealthLog:
    """Follows all objects of this process. A failure of the hub is told once, and not for each object."""

    def __init__(self, metrics: ControllerMetrics, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._clock = clock
        self._objects: FailureLog[Key] = FailureLog(OBJECTS, clock, _names)
        self._reads: FailureLog[str] = FailureLog(READS, clock, _nothing)
        self._writes: FailureLog[str] = FailureLog(WRITES, clock, _nothing)
        # The last error of the hub about the status of an object, until a status is stored.
        self._refused: dict[Key, str] = {}
        # Since when the hub has not served what an object needs.
        self._unserved: dict[Key, float] = {}
        self._served_at = float("-inf")

    def failing(self, key: Key, reason: str, error: str) -> None:
        """Note that no decision was made, for a reason as conditions have it."""
        self._objects.failing(key, reason, error)

    def decided(self, key: Key, decision: Decision, hub_problem: str) -> None:
        """Note a decision, after its status was written. `hub_problem` says why the hub did not answer."""
        if hub_problem:
            self._not_served(key, hub_problem)
            return
        self._unserved.pop(key, None)
        self._served_at = self._clock()
        self._reads.well(UNAVAILABLE)
        failure = failure_of(decision)
        if failure is None and key in self._refused:
            failure = FAILED_UPDATE_STATUS, self._refused[key]
        if failure is None:
            self._objects.well(key)
        else:
            # New pods, for example, have no metrics for a moment.
            self._objects.failing(key, *failure, severe=False)

    def _not_served(self, key: Key, problem: str) -> None:
        """Tell of the hub if it serves no object, and of the object if only others are served."""
        now = self._clock()
        since = self._unserved.setdefault(key, now)
        if now - self._served_at >= QUIET_SECONDS:
            self._reads.failing(UNAVAILABLE, UNAVAILABLE, problem)
        elif now - since >= QUIET_SECONDS:
            self._objects.failing(key, FAILED_GET_SCALE, problem)

    def status_failed(self, key: Key, error: FedHPAError) -> None:
        """Count a status that the hub did not store."""
        self._metrics.count_status_failure()
        if concerns_hub(error):
            self._writes.failing(UNAVAILABLE, UNAVAILABLE, str(error))
        else:
            self._refused[key] = str(error)

    def status_stored(self, key: Key) -> None:
        """Note a status that the hub stored."""
        self._refused.pop(key, None)
        self._writes.well(UNAVAILABLE)

    def forget(self, key: Key) -> None:
        """Drop what is known of a deleted object."""
        self._objects.forget(key)
        self._refused.pop(key, None)
        self._unserved.pop(key, None)

    async def remind(self) -> None:
        """Log reminders of failures that go on, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for followed in (self._objects, self._reads, self._writes):
                group.create_task(followed.remind())


def failure_of(decision: Decision) -> tuple[str, str] | None:
    """Returns the reason and the message of what keeps an object from being scaled rightly; None if nothing.

    A condition that the decision did not set is an old one: the one with the decision's error comes first.
    """
    failed = [condition for condition in decision.conditions if _fails(condition)]
    failed.sort(key=lambda condition: CONDITIONS.index(condition.type))
    if decision.error is not None:
        blamed = [condition for condition in failed if decision.error in condition.message] or failed
        return (blamed[0].reason if blamed else "", decision.error)
    if failed:
        return failed[0].reason, failed[0].message
    for metric in decision.metrics:
        if metric.error is not None:
            return FAILED_GET_METRIC, f"metric {metric.name}: {metric.error}"
    return None


def _fails(condition: StatusCondition) -> bool:
    # A workload that somebody scaled to zero is switched off, and its autoscaler does not fail.
    return (
        condition.type in CONDITIONS and condition.status == "False" and condition.reason != SCALING_DISABLED
    )


def hub_problem(error: BaseException | None) -> str:
    """Returns the error as text if the hub could not serve a request; else ""."""
    return str(error) if concerns_hub(error) else ""


def _names(key: Key) -> Mapping[str, str]:
    return {"namespace": key[0], "name": key[1]}


def _nothing(_: str) -> Mapping[str, str]:
    return {}
