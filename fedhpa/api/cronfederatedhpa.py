"""CronFederatedHPA, `autoscaling.karmada.io/v1alpha1`: resizes a target on a schedule.

A superset of Karmada v1.19's kind: `maxDelaySeconds`, `duration`, `startDate`, `endDate`, `excludeDates`,
`atLeast` and `missedExecutions` are extensions (docs/reference/cronfederatedhpa.md).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import Field

from fedhpa.api.autoscaling import Condition, CrossVersionObjectReference
from fedhpa.api.meta import TypedObject
from fedhpa.api.model import (
    MAX_RULES,
    MAX_TEXT,
    WRITTEN_WHOLE,
    ApiModel,
    Bool,
    Checked,
    Crd,
    Int32,
    Int64,
    Item,
    LongText,
    Message,
    Name,
    ScalarType,
    Text,
    Time,
)

KIND: Final = "CronFederatedHPA"
MAX_HISTORY: Final = 32
# Every day of a leap year.
MAX_EXCLUDED_DATES: Final = 366

Limit = Annotated[Int32, Crd({"default": 3, "minimum": 0, "maximum": MAX_HISTORY})]
PositiveLimit = Annotated[Int32, Crd({"default": 3, "minimum": 1, "maximum": MAX_HISTORY})]
# The API server words the messages of bounds itself. So the schema bounds only the length of durations and
# dates, and the webhook says what to write.
# A Go duration string or a number of seconds.
Duration = Annotated[
    str | int,
    ScalarType("Duration"),
    Crd({"maxLength": MAX_TEXT}),
]
Day = Item


class CronFederatedHPARule(ApiModel):
    """A schedule, and the size that the target gets each time the schedule fires."""

    required: ClassVar[tuple[str, ...]] = ("name", "schedule")

    name: Annotated[Text, Crd({"minLength": 1, "maxLength": 32})] = ""
    """Name of the rule, unique within the object, 1 to 32 characters. Example: morning."""
    schedule: LongText = ""
    """When the rule fires: five cron fields (minute, hour, day of month, month, day of week), or @hourly,
    @daily, @weekly, @monthly, @yearly. Example: 30 8 * * MON-FRI."""
    target_replicas: Annotated[Int32, Crd({"minimum": 0})] | None = None
    """Replicas that the rule sets. Required where the target is not a FederatedHPA. At least 0. Example: 10.
    """
    target_min_replicas: Annotated[Int32, Crd({"minimum": 1})] | None = None
    """minReplicas that the rule sets where the target is a FederatedHPA. At least 1. Default: unchanged.
    Example: 5."""
    target_max_replicas: Annotated[Int32, Crd({"minimum": 1})] | None = None
    """maxReplicas that the rule sets where the target is a FederatedHPA. At least 1. Default: unchanged.
    Example: 50."""
    suspend: Annotated[Bool, Crd({"default": False})] | None = None
    """If true, the rule never fires but is still validated. Default: false. Example: true."""
    time_zone: Name | None = None
    """IANA time zone in which the schedule is read. Default: UTC. Example: Europe/Berlin."""
    successful_history_limit: PositiveLimit | None = None
    """Number of successful executions that the status keeps, from 1 to 32. Default: 3. Example: 5."""
    failed_history_limit: Limit | None = None
    """Number of failed executions that the status keeps, from 0 to 32. Default: 3. Example: 5."""
    max_delay_seconds: Annotated[Int32, Checked({"minimum": 1})] | None = None
    """Seconds after which a missed execution is no longer applied. Must be smaller than the shortest interval
    between two executions. Default: the newest one is always applied. Example: 600."""
    duration: Duration | None = None
    """Time for which the size holds before the previous values return, as a Go duration or in seconds; from 1
    minute to 366 days. Default: until another rule fires. Example: 8h."""
    start_date: Day | None = None
    """First date (YYYY-MM-DD, in the rule's time zone) on which the rule fires. With the same endDate it
    fires on one day only. Default: no first date. Example: 2026-11-27."""
    end_date: Day | None = None
    """Last date (YYYY-MM-DD, in the rule's time zone) on which the rule fires; a window may end later.
    Default: no last date. Example: 2026-11-30."""
    exclude_dates: Annotated[tuple[Day, ...], Checked({"maxItems": MAX_EXCLUDED_DATES})] = ()
    """Dates in the rule's time zone on which the rule does not fire, at most 366: YYYY-MM-DD, a range of them
    as FROM/TO, or --MM-DD for each year. Default: none. Example: [--12-25, 2026-07-20/2026-08-31]."""
    at_least: Bool | None = None
    """If true, an execution and its window never lower what runs. Only for a target with a scale, not for a
    FederatedHPA. Default: false. Example: true."""


class CronFederatedHPASpec(ApiModel):
    """The target to resize, and the schedules."""

    required: ClassVar[tuple[str, ...]] = ("rules", "scaleTargetRef")

    scale_target_ref: CrossVersionObjectReference = Field(default_factory=CrossVersionObjectReference)
    """The workload whose replicas change, or the FederatedHPA whose limits change, in the namespace of this
    object. Example: {apiVersion: autoscaling.karmada.io/v1alpha1, kind: FederatedHPA, name: web}."""
    rules: Annotated[tuple[CronFederatedHPARule, ...], Checked({"maxItems": MAX_RULES})] = ()
    """Schedules and the sizes that they set. Example: [{name: morning, schedule: "0 8 * * *",
    targetMinReplicas: 10}]."""


class SuccessfulExecution(ApiModel):
    """An execution that was applied."""

    required: ClassVar[tuple[str, ...]] = ("executionTime", "scheduleTime")

    schedule_time: Time | None = None
    """When the rule was due."""
    execution_time: Time | None = None
    """When the rule was applied."""
    applied_replicas: Int32 | None = None
    """Replicas that were set."""
    applied_max_replicas: Int32 | None = None
    """maxReplicas that was set."""
    applied_min_replicas: Int32 | None = None
    """minReplicas that was set."""


class FailedExecution(ApiModel):
    """An execution that could not be applied."""

    required: ClassVar[tuple[str, ...]] = ("executionTime", "message", "scheduleTime")

    schedule_time: Time | None = None
    """When the rule was due."""
    execution_time: Time | None = None
    """When the attempt was made."""
    message: Message = ""
    """Why the attempt failed."""


class MissedExecution(ApiModel):
    """An execution that is never applied, or several of them in a row."""

    required: ClassVar[tuple[str, ...]] = ("scheduleTime",)

    schedule_time: Time | None = None
    """When the rule was due; the first time of several."""
    last_schedule_time: Time | None = None
    """When the last of several executions was due. Absent for one execution."""
    count: Int64 | None = None
    """Number of executions. Absent for one execution."""
    message: Message = ""
    """Why the execution was skipped."""


class ExecutionHistory(ApiModel):
    """The executions of one rule."""

    required: ClassVar[tuple[str, ...]] = ("ruleName",)

    rule_name: Name = ""
    """Name of the rule."""
    next_execution_time: Time | None = None
    """When the rule fires next, or the execution that could not be applied yet."""
    successful_executions: Annotated[tuple[SuccessfulExecution, ...], Crd({"maxItems": MAX_HISTORY})] = ()
    """Executions that were applied, at most successfulHistoryLimit."""
    failed_executions: Annotated[tuple[FailedExecution, ...], Crd({"maxItems": MAX_HISTORY})] = ()
    """Executions that could not be applied, at most failedHistoryLimit."""
    missed_executions: Annotated[tuple[MissedExecution, ...], Crd({"maxItems": MAX_HISTORY})] = ()
    """Executions that are never applied: late, superseded, or of a window that is over."""


class CronSummary(ApiModel):
    """Texts that `kubectl get` shows as columns, because a column cannot compute them."""

    go_name: ClassVar[str] = "Summary"

    target: LongText = ""
    """Kind and name of the target."""
    next: LongText = ""
    """When a rule fires next, and the rule."""
    last: LongText = ""
    """The newest execution that was applied, and its rule."""
    suspended: LongText = ""
    """Number of suspended rules."""


class CronFederatedHPAStatus(ApiModel):
    """The executions of the rules."""

    observed_generation: Int64 | None = None
    """metadata.generation of the spec that the status is for."""
    conditions: Annotated[
        tuple[Condition, ...], Crd({"maxItems": 16, "x-kubernetes-list-map-keys": ["type"]})
    ] = ()
    """Ready, and SoleOwner or HubCompatible where there is something to report."""
    execution_histories: Annotated[tuple[ExecutionHistory, ...], Crd({"maxItems": MAX_RULES})] = ()
    """The executions of each rule."""
    summary: CronSummary | None = None
    """Texts of the columns, as old as the status."""


# Models are immutable, so all objects without a status share this one.
_NO_STATUS: Final = CronFederatedHPAStatus()


class CronFederatedHPA(TypedObject):
    """Sets the replicas of a workload, or the limits of a FederatedHPA, on a schedule."""

    required: ClassVar[tuple[str, ...]] = ("spec",)

    spec: CronFederatedHPASpec = Field(default_factory=CronFederatedHPASpec)
    """The target to resize, and the schedules."""
    status: Annotated[CronFederatedHPAStatus, WRITTEN_WHOLE] = Field(default_factory=lambda: _NO_STATUS)
    """The executions of the rules."""
