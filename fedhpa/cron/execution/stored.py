"""Reads the state of rules and windows from the status of a CronFederatedHPA, and writes it there.

Times in the status are RFC 3339 with whole seconds. A time that cannot be read counts as absent, because a
status that somebody edited must not stop the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from fedhpa.api.cronfederatedhpa import (
    CronFederatedHPA,
    CronFederatedHPAStatus,
    ExecutionHistory,
    OpenWindowStatus,
    WindowValue,
)
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
    OpenWindow,
    RuleState,
    ScheduledObject,
    Values,
    WindowRecord,
)
from fedhpa.cron.execution.rules import executable_rules

# The reason of condition Ready, and of the event, if a fire could not be applied.
SCALE_FAILED: Final = "ScaleFailed"
_FAILING: Final = re.compile(r"rule (?P<rule>.*?), due (?P<due>[0-9TZ:-]{20}): (?P<message>.*)", re.DOTALL)
_FIELDS: Final = frozenset((MINIMUM, MAXIMUM, REPLICAS))
_APPLIED_AS: Final = {
    REPLICAS: "appliedReplicas",
    MINIMUM: "appliedMinReplicas",
    MAXIMUM: "appliedMaxReplicas",
}

Json = dict[str, Any]


def read_object(cron: CronFederatedHPA, *, present: bool = True) -> ScheduledObject:
    """Returns an object as a plan needs it. `present` is False if it has another target now."""
    meta = cron.metadata
    histories = cron.status.execution_histories
    found = ScheduledObject(
        meta.name,
        _instant(meta.creation_timestamp) or 0.0,
        executable_rules(cron.spec),
        {history.rule_name: _state(history) for history in histories},
        known=bool(histories) or cron.status.observed_generation is not None,
        edited=edited_at(meta),
        deleted=_instant(meta.deletion_timestamp),
        present=present,
    )
    failing = _shown_failure(cron.status)
    return with_failing(found, failing) if failing else found


def with_failing(owner: ScheduledObject, failing: Mapping[str, tuple[Failure, ...]]) -> ScheduledObject:
    """Returns an object whose rules have these failures, by name of the rule, that are tried again."""
    states = {
        name: msgspec.structs.replace(state, failing=failing.get(name, state.failing))
        for name, state in owner.states.items()
    }
    return msgspec.structs.replace(owner, states=states)


def failing_text(rule: str, failing: Failure) -> str:
    """Returns the message of condition Ready for a fire that is tried again."""
    return f"rule {rule}, due {format_time(failing.scheduled)}: {failing.message}"


def _shown_failure(status: CronFederatedHPAStatus) -> dict[str, tuple[Failure, ...]]:
    """Returns the fire that condition Ready shows as failing, by name of its rule.

    The history of a rule may keep no failures, and a restart must not tell of the fire again.
    """
    for condition in status.conditions:
        if (condition.type, condition.status, condition.reason) != ("Ready", "False", SCALE_FAILED):
            continue
        found = _FAILING.match(condition.message)
        due = None if found is None else _instant(found["due"])
        if found is not None and due is not None:
            return {found["rule"]: (Failure(due, due, found["message"]),)}
    return {}


def edited_at(meta: ObjectMeta) -> float | None:
    """Returns when the spec of an object was last written, from its managed fields; None if unknown."""
    times = [
        _instant(entry.time)
        for entry in meta.managed_fields
        if not entry.subresource and "f:spec" in (entry.fields_v1 or {})
    ]
    return max((time for time in times if time is not None), default=None)


def read_record(status: CronFederatedHPAStatus) -> WindowRecord | None:
    """Returns the record of open windows that a status holds, or None."""
    window = status.window
    if window is None:
        return None
    opened = (_open_window(each) for each in window.open)
    return WindowRecord(
        _values(window.baseline),
        None if window.pending is None else _values(window.pending),
        _values(window.applied),
        tuple(each for each in opened if each is not None),
        window.revision,
    )


def write_histories(states: Mapping[str, RuleState], rules: Iterable[str]) -> list[Json]:
    """Returns status.executionHistories: one entry for each name of a rule, in their order."""
    return [_history(rule, states[rule]) for rule in dict.fromkeys(rules) if rule in states]


def write_record(record: WindowRecord, target: Json) -> Json:
    """Returns status.window. `target` is the scaleTargetRef that the windows were opened for."""
    window: Json = {
        "target": target,
        "baseline": _write_values(record.baseline),
        "applied": _write_values(record.applied),
        "open": [_write_window(each) for each in record.open],
        "revision": record.revision,
    }
    if record.pending is not None:
        window["pending"] = _write_values(record.pending)
    return window


def _state(history: ExecutionHistory) -> RuleState:
    return RuleState(
        _instant(history.handled_until),
        history.schedule_hash,
        _instant(history.next_execution_time),
        tuple(
            Execution(due, _instant(done.execution_time) or due, _applied_values(done))
            for done in history.successful_executions
            if (due := _instant(done.schedule_time)) is not None
        ),
        tuple(
            Failure(due, _instant(failed.execution_time) or due, failed.message)
            for failed in history.failed_executions
            if (due := _instant(failed.schedule_time)) is not None
        ),
        tuple(
            Missed(due, _instant(missed.last_schedule_time) or due, missed.count or 1, missed.message)
            for missed in history.missed_executions
            if (due := _instant(missed.schedule_time)) is not None
        ),
    )


def _applied_values(done: Any) -> dict[str, int]:
    values = {
        REPLICAS: done.applied_replicas,
        MINIMUM: done.applied_min_replicas,
        MAXIMUM: done.applied_max_replicas,
    }
    return {field: value for field, value in values.items() if value is not None}


def _open_window(window: OpenWindowStatus) -> OpenWindow | None:
    """Returns an open window, or None if its times cannot be read."""
    opened, closes = _instant(window.opened), _instant(window.closes)
    if opened is None or closes is None:
        return None
    values = {field: value for field, value in _values(window.values).items() if value is not None}
    left = tuple(field for field in window.left if field in _FIELDS)
    return OpenWindow(window.object, window.rule, opened, closes, values, window.schedule_hash, left)


def _values(values: tuple[WindowValue, ...]) -> Values:
    return {each.field: each.value for each in values if each.field in _FIELDS}


def _history(rule: str, state: RuleState) -> Json:
    history: Json = {"ruleName": rule}
    if state.next_execution is not None:
        history["nextExecutionTime"] = _written(state.next_execution)
    if state.handled_until is not None:
        history["handledUntil"] = _written(state.handled_until)
    if state.hash:
        history["scheduleHash"] = state.hash
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


def _write_window(window: OpenWindow) -> Json:
    entry: Json = {
        "object": window.object,
        "rule": window.rule,
        "opened": _written(window.opened),
        "closes": _written(window.closes),
        "values": _write_values(window.values),
    }
    if window.hash:
        entry["scheduleHash"] = window.hash
    if window.left:
        entry["left"] = list(window.left)
    return entry


def _write_values(values: Mapping[str, int | None]) -> list[Json]:
    return [
        {"field": field} if value is None else {"field": field, "value": value}
        for field, value in values.items()
    ]


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
