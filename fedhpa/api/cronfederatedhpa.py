"""CronFederatedHPA, `autoscaling.karmada.io/v1alpha1`: sizes by the calendar.

A superset of Karmada v1.19's kind; `maxDelaySeconds`, `duration`, `excludeDates` and `missedExecutions` are
ours (docs/reference/federatedhpa.md).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import Field

from fedhpa.api.autoscaling import ATOMIC, CrossVersionObjectReference
from fedhpa.api.meta import TypedObject
from fedhpa.api.model import (
    MAX_RULES,
    ApiModel,
    Bool,
    Checked,
    Crd,
    Int32,
    Item,
    Kind,
    LongText,
    Message,
    Name,
    Text,
    Time,
)

KIND: Final = "CronFederatedHPA"
MAX_HISTORY: Final = 32
# One year of holidays and then some.
MAX_EXCLUDED_DATES: Final = 366

Limit = Annotated[Int32, Crd({"default": 3, "minimum": 0, "maximum": MAX_HISTORY})]
PositiveLimit = Annotated[Int32, Crd({"default": 3, "minimum": 1, "maximum": MAX_HISTORY})]
# A Go duration string or a number of seconds.
Duration = Annotated[
    str | int,
    Kind(
        "Duration", {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    ),
    Crd({"minimum": 60, "maxLength": 64, "pattern": r"^\+?([0-9.]+([^0-9.]?s|m|h))+$"}),
]
Day = Annotated[Item, Crd({"maxLength": 10, "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"})]


class CronFederatedHPARule(ApiModel):
    """One schedule, and the size that holds from its fires on."""

    required: ClassVar[tuple[str, ...]] = ("name", "schedule")

    name: Annotated[Text, Crd({"minLength": 1, "maxLength": 32})] = Field(
        "", description="Names the rule in the status; unique within the object."
    )
    schedule: LongText = Field("", description="Five cron fields, or @hourly, @daily and the like.")
    target_replicas: Int32 | None = Field(
        None, description="The size of the target, where it is not a FederatedHPA."
    )
    target_min_replicas: Int32 | None = Field(None, description="minReplicas of the FederatedHPA.")
    target_max_replicas: Int32 | None = Field(None, description="maxReplicas of the FederatedHPA.")
    suspend: Annotated[Bool, Crd({"default": False})] | None = Field(None, description="The rule rests.")
    time_zone: Name | None = Field(None, description="IANA name such as Europe/Berlin; UTC if absent.")
    successful_history_limit: PositiveLimit | None = Field(
        None, description="How many successful executions the status keeps, 1 to 32."
    )
    failed_history_limit: Limit | None = Field(
        None, description="How many failed executions the status keeps, 0 to 32."
    )
    max_delay_seconds: Annotated[Int32, Checked({"minimum": 1})] | None = Field(
        None, description="How late a fire may still be applied; absent: the newest fire is always caught up."
    )
    duration: Duration | None = Field(
        None, description="How long the size holds, such as 8h; then what was before returns."
    )
    exclude_dates: Annotated[tuple[Day, ...], Checked({"maxItems": MAX_EXCLUDED_DATES}), Crd(ATOMIC)] = Field(
        (), description="Dates (YYYY-MM-DD in the rule's zone) on which it does not fire."
    )


class CronFederatedHPASpec(ApiModel):
    """What is wanted."""

    required: ClassVar[tuple[str, ...]] = ("rules", "scaleTargetRef")

    scale_target_ref: CrossVersionObjectReference = Field(
        default_factory=CrossVersionObjectReference,
        description="The workload, or the FederatedHPA, to change.",
    )
    rules: Annotated[tuple[CronFederatedHPARule, ...], Checked({"maxItems": MAX_RULES}), Crd(ATOMIC)] = Field(
        (), description="The schedules."
    )


class SuccessfulExecution(ApiModel):
    """A fire that was applied."""

    required: ClassVar[tuple[str, ...]] = ("executionTime", "scheduleTime")

    schedule_time: Time | None = None
    execution_time: Time | None = None
    applied_replicas: Int32 | None = None
    applied_max_replicas: Int32 | None = None
    applied_min_replicas: Int32 | None = None


class FailedExecution(ApiModel):
    """A fire that could not be applied."""

    required: ClassVar[tuple[str, ...]] = ("executionTime", "message", "scheduleTime")

    schedule_time: Time | None = None
    execution_time: Time | None = None
    message: Message = ""


class MissedExecution(ApiModel):
    """A fire that was not applied because its time had passed."""

    required: ClassVar[tuple[str, ...]] = ("scheduleTime",)

    schedule_time: Time | None = None
    message: Message = ""


class ExecutionHistory(ApiModel):
    """What one rule did."""

    required: ClassVar[tuple[str, ...]] = ("ruleName",)

    rule_name: Name = ""
    next_execution_time: Time | None = None
    successful_executions: Annotated[
        tuple[SuccessfulExecution, ...], Crd({"maxItems": MAX_HISTORY, **ATOMIC})
    ] = ()
    failed_executions: Annotated[tuple[FailedExecution, ...], Crd({"maxItems": MAX_HISTORY, **ATOMIC})] = ()
    missed_executions: Annotated[tuple[MissedExecution, ...], Crd({"maxItems": MAX_HISTORY, **ATOMIC})] = ()


class CronFederatedHPAStatus(ApiModel):
    """What the rules did."""

    execution_histories: Annotated[tuple[ExecutionHistory, ...], Crd({"maxItems": MAX_RULES, **ATOMIC})] = ()


# Immutable, as all models are, so that every object without a status may have the same.
_NO_STATUS: Final = CronFederatedHPAStatus()


class CronFederatedHPA(TypedObject):
    """Changes the size of a workload, or the bounds of a FederatedHPA, by the calendar."""

    required: ClassVar[tuple[str, ...]] = ("spec",)

    spec: CronFederatedHPASpec = Field(default_factory=CronFederatedHPASpec, description="What is wanted.")
    status: CronFederatedHPAStatus = Field(
        default_factory=lambda: _NO_STATUS, description="What the rules did."
    )
