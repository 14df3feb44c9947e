"""The rules of a CronFederatedHPA and their states, from the stored object and to its status.

Times in the status are RFC 3339 with whole seconds. A time that cannot be read counts as absent, because a
status that somebody edited must not stop the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fedhpa.api.cronfederatedhpa import (
    CronFederatedHPA,
    CronFederatedHPARule,
    ExecutionHistory,
    SuccessfulExecution,
)
from fedhpa.api.decode import decode
from fedhpa.api.errors import InvalidObject
from fedhpa.api.meta import ObjectMeta
from fedhpa.api.times import format_time, parse_time
from fedhpa.cron.execution.records import (
    MAXIMUM,
    MINIMUM,
    REPLICAS,
    Execution,
    Failure,
    Missed,
    RuleState,
    ScheduledObject,
)
from fedhpa.cron.execution.rules import executable_rules

# The reason of condition Ready, and of the event, if a fire could not be applied.
SCALE_FAILED: Final = "ScaleFailed"
_APPLIED_AS: Final = {
    REPLICAS: "appliedReplicas",
    MINIMUM: "appliedMinReplicas",
    MAXIMUM: "appliedMaxReplicas",
}

Json = dict[str, Any]


def read_cron(raw: Mapping[str, Any]) -> tuple[CronFederatedHPA, dict[int, str]]:
    """Returns a stored object, and why a rule of it cannot be read, by its index.

    Such a rule is suspended in the object, and the others run. Raises InvalidObject if the target cannot be
    read. A status of other types counts as none.
    """
    try:
        return decode(CronFederatedHPA, raw), {}
    except InvalidObject:
        spec = raw.get("spec")
        rules, refused = _readable_rules(spec.get("rules") if isinstance(spec, Mapping) else None)
        readable = {**raw, "spec": {**spec, "rules": rules} if isinstance(spec, Mapping) else spec}
        try:
            return decode(CronFederatedHPA, readable), refused
        except InvalidObject:
            return decode(CronFederatedHPA, {**readable, "status": {}}), refused


def _readable_rules(rules: Any) -> tuple[list[Any], dict[int, str]]:
    kept: list[Any] = []
    refused: dict[int, str] = {}
    for index, rule in enumerate(rules if isinstance(rules, list) else ()):
        try:
            decode(CronFederatedHPARule, rule)
            kept.append(rule)
        except InvalidObject as error:
            name = rule.get("name") if isinstance(rule, Mapping) else None
            kept.append({"name": name if isinstance(name, str) else f"rules[{index}]", "suspend": True})
            refused[index] = f"spec.rules[{index}]: {error}"
    return kept, refused


def read_object(
    cron: CronFederatedHPA,
    refused: Mapping[int, str] | None = None,
    states: Mapping[str, RuleState] | None = None,
) -> ScheduledObject:
    """Returns an object as a plan needs it. Without the `states` of its record, those of its status count.

    `refused` says why a rule cannot be read, by its index.
    """
    meta, status = cron.metadata, cron.status
    shown = {history.rule_name: _state(history) for history in status.execution_histories}
    return ScheduledObject(
        meta.name,
        _instant(meta.creation_timestamp) or 0.0,
        executable_rules(cron.spec, refused or {}),
        shown if states is None else dict(states),
        known=states is not None or bool(shown) or status.observed_generation is not None,
        edited=edited_at(meta),
        deleted=_instant(meta.deletion_timestamp),
    )


def edited_at(meta: ObjectMeta) -> float | None:
    """Returns when the spec of an object was last written, from its managed fields; None if unknown."""
    times = [
        _instant(entry.time)
        for entry in meta.managed_fields
        if not entry.subresource and "f:spec" in (entry.fields_v1 or {})
    ]
    return max((time for time in times if time is not None), default=None)


def failing_text(rule: str, failing: Failure) -> str:
    """Returns the message of condition Ready for a fire that is tried again."""
    return f"rule {rule}, due {format_time(failing.scheduled)}: {failing.message}"


def write_histories(states: Mapping[str, RuleState], rules: Iterable[str]) -> list[Json]:
    """Returns status.executionHistories: one entry for each name of a rule, in their order."""
    return [_history(rule, states[rule]) for rule in dict.fromkeys(rules) if rule in states]


def _state(history: ExecutionHistory) -> RuleState:
    return RuleState(
        next_execution=_instant(history.next_execution_time),
        successes=tuple(
            Execution(due, _instant(done.execution_time) or due, _applied_values(done))
            for done in history.successful_executions
            if (due := _instant(done.schedule_time)) is not None
        ),
        failures=tuple(
            Failure(due, _instant(failed.execution_time) or due, failed.message)
            for failed in history.failed_executions
            if (due := _instant(failed.schedule_time)) is not None
        ),
        missed=tuple(
            Missed(due, _instant(missed.last_schedule_time) or due, missed.count or 1, missed.message)
            for missed in history.missed_executions
            if (due := _instant(missed.schedule_time)) is not None
        ),
    )


def _applied_values(done: SuccessfulExecution) -> dict[str, int]:
    values = {
        REPLICAS: done.applied_replicas,
        MINIMUM: done.applied_min_replicas,
        MAXIMUM: done.applied_max_replicas,
    }
    return {field: value for field, value in values.items() if value is not None}


def _history(rule: str, state: RuleState) -> Json:
    history: Json = {"ruleName": rule}
    if state.next_execution is not None:
        history["nextExecutionTime"] = _written(state.next_execution)
    if state.successes:
        history["successfulExecutions"] = [_success(done) for done in state.successes]
    if state.failures:
        history["failedExecutions"] = [_failure(failed) for failed in state.failures]
    if state.missed:
        history["missedExecutions"] = [_missed(missed) for missed in state.missed]
    return history


def _success(done: Execution) -> Json:
    applied = {_APPLIED_AS[field]: value for field, value in done.values.items()}
    return {"scheduleTime": _written(done.scheduled), "executionTime": _written(done.executed), **applied}


def _failure(failed: Failure) -> Json:
    return {
        "scheduleTime": _written(failed.scheduled),
        "executionTime": _written(failed.executed),
        "message": failed.message,
    }


def _missed(missed: Missed) -> Json:
    entry: Json = {"scheduleTime": _written(missed.first), "message": missed.message}
    if missed.count > 1:
        entry |= {"lastScheduleTime": _written(missed.last), "count": missed.count}
    return entry


def _written(instant: float) -> str:
    """Returns a time of the status. Kubernetes' times are whole seconds."""
    return format_time(float(int(instant)))


def _instant(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return parse_time(text)
    except InvalidObject:
        return None
