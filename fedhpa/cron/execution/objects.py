"""Reads and writes all that is stored of rules: objects with their statuses, and records.

Times in the status are RFC 3339 with whole seconds. A time that cannot be read counts as absent, because a
status that somebody edited must not stop the rules. A record has the state of an object's rules, or the open
windows of a target. A thousand windows of one minute fit 64 KiB, because windows that differ in their values
only are one group.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from fedhpa.api.autoscaling import CrossVersionObjectReference
from fedhpa.api.cronfederatedhpa import (
    CronFederatedHPA,
    CronFederatedHPARule,
    CronFederatedHPASpec,
    ExecutionHistory,
)
from fedhpa.api.decode import decode
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import API_VERSION, KIND
from fedhpa.api.json import InvalidJson, convert_json
from fedhpa.api.meta import ObjectMeta
from fedhpa.api.scaling_record import check_version
from fedhpa.api.times import Seconds, format_time, known_time
from fedhpa.cron.execution.model import (
    MAXIMUM,
    MINIMUM,
    REPLICAS,
    Failed,
    Key,
    Missed,
    ObjectRecord,
    OpenWindow,
    Replicas,
    Rule,
    RuleState,
    ScheduledObject,
    Succeeded,
    WindowRecord,
)
from fedhpa.cron.timetables import timetable

Json = dict[str, Any]
T = TypeVar("T")
_DEFAULT_HISTORY: Final = 3


def executable_rules(
    spec: CronFederatedHPASpec, refused: Mapping[int, str] | None = None, *, hashed: bool = True
) -> tuple[Rule, ...]:
    """Returns all rules in order. A rule that cannot run has a `problem` and no timetable, or no values.

    `refused` says why a rule cannot be read, by its index. Without a record, no hash is needed.
    Admission refuses two rules of one name. Where it was bypassed, only the first of them runs, because both
    would share one state.
    """
    targets_fhpa = targets_federatedhpa(spec)
    named = "targetMinReplicas and targetMaxReplicas" if targets_fhpa else "targetReplicas"
    found: list[Rule] = []
    names: set[str] = set()
    for place, rule in enumerate(spec.rules):
        table, where, problem = None, f"spec.rules[{place}]", (refused or {}).get(place, "")
        unreadable, suspended = bool(problem), bool(rule.suspend)
        bounds = {MINIMUM: rule.target_min_replicas, MAXIMUM: rule.target_max_replicas}
        values = _given(bounds if targets_fhpa else {REPLICAS: rule.target_replicas})
        if not problem and rule.name in names:
            problem = f"{where}.name: an earlier rule has this name, and only that one runs"
        if not problem:
            try:
                table = timetable(rule)
            except InvalidObject as error:
                problem = str(error)
        if not problem and not values:
            problem = f"{where}: {named}: nothing is set, so an execution changes nothing"
        names.add(rule.name)
        found.append(
            Rule(
                rule.name,
                place,
                None if suspended else table,
                values,
                schedule_hash(rule, spec.scale_target_ref) if hashed else "",
                suspended=suspended and not unreadable,
                max_delay=rule.max_delay_seconds,
                successes_kept=_limit(rule.successful_history_limit, 1),
                failures_kept=_limit(rule.failed_history_limit, 0),
                problem=problem,
                at_least=bool(rule.at_least) and not targets_fhpa,
            )
        )
    return tuple(found)


def targets_federatedhpa(spec: CronFederatedHPASpec) -> bool:
    """True if the target is a FederatedHPA, whose minReplicas and maxReplicas the rules change."""
    target = spec.scale_target_ref
    return (target.api_version, target.kind) == (API_VERSION, KIND)


def schedule_hash(rule: CronFederatedHPARule, target: CrossVersionObjectReference) -> str:
    """Returns a hash of the fields that decide when a rule fires, and for what: 16 hexadecimal digits.

    Suspension is one of them, so a rule that is resumed starts anew. The target is one of them, so a new
    target never gets executions from before the edit. Versions of one API group have the same target.
    """
    group = target.api_version.rpartition("/")[0]
    fields: list[Any] = [
        rule.schedule,
        rule.time_zone or "",
        sorted(rule.exclude_dates),
        bool(rule.suspend),
        [group, target.kind, target.name],
    ]
    # Only where they are set, because hashes of earlier releases are stored.
    if rule.start_date is not None or rule.end_date is not None:
        fields.append([rule.start_date, rule.end_date])
    return hashlib.sha256(msgspec.json.encode(fields)).hexdigest()[:16]


def _limit(value: int | None, least: int) -> int:
    return _DEFAULT_HISTORY if value is None else max(value, least)


# Where a status has the values of an execution: the attribute, and the name on the wire.
_APPLIED: Final = {
    REPLICAS: ("applied_replicas", "appliedReplicas"),
    MINIMUM: ("applied_min_replicas", "appliedMinReplicas"),
    MAXIMUM: ("applied_max_replicas", "appliedMaxReplicas"),
}


def read_cron(raw: Mapping[str, Any]) -> tuple[CronFederatedHPA, dict[int, str]]:
    """Returns a stored object, and why a rule of it cannot be read, by its index.

    Such a rule is suspended in the object, and the others run. Raises InvalidObject if the target cannot be
    read. A status of other types counts as none.
    """
    try:
        return decode(CronFederatedHPA, raw), {}
    except InvalidObject:
        spec = raw.get("spec")
        refused: dict[int, str] = {}
        if isinstance(spec, Mapping):
            rules, refused = _readable_rules(spec.get("rules"))
            raw = {**raw, "spec": {**spec, "rules": rules}}
        try:
            return decode(CronFederatedHPA, raw), refused
        except InvalidObject:
            return decode(CronFederatedHPA, {**raw, "status": {}}), refused


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


def read_object(cron: CronFederatedHPA, refused: Mapping[int, str] | None = None) -> ScheduledObject:
    """Returns an object as a plan needs it, with the states in its status. `refused` is of `read_cron`."""
    meta, status = cron.metadata, cron.status
    shown = {history.rule_name: _state(history) for history in status.execution_histories}
    return ScheduledObject(
        meta.name,
        known_time(meta.creation_timestamp) or 0.0,
        executable_rules(cron.spec, refused),
        shown,
        known=bool(shown) or status.observed_generation is not None,
        edited=edited_at(meta),
        deleted=known_time(meta.deletion_timestamp),
    )


def with_record(found: ScheduledObject, generation: int, record: ObjectRecord | None) -> ScheduledObject:
    """Returns an object with the states of its record if there is one; `generation` is that of its spec."""
    if record is None:
        return found
    edits = max(generation - record.generation, 0) if record.generation else 0
    return replace(found, states=dict(record.rules), known=True, edits=edits)


def edited_at(meta: ObjectMeta) -> float | None:
    """Returns when the spec of an object was last written, from its managed fields; None if unknown."""
    specs = (one for one in meta.managed_fields if not one.subresource and "f:spec" in (one.fields_v1 or {}))
    return max((time for one in specs if (time := known_time(one.time)) is not None), default=None)


def write_histories(states: Mapping[str, RuleState], rules: Iterable[str]) -> list[Json]:
    """Returns status.executionHistories: one entry for each name of a rule, in their order."""
    names = [rule for rule in dict.fromkeys(rules) if rule in states]
    return _fitting(states, lambda kept: [_history(rule, kept[rule]) for rule in names])


def _state(history: ExecutionHistory) -> RuleState:
    """Returns the state that a status shows. An entry without a readable time is left out."""
    return RuleState(
        next_execution=known_time(history.next_execution_time),
        successes=tuple(
            Succeeded(
                due,
                known_time(done.execution_time) or due,
                _given({field: getattr(done, name) for field, (name, _) in _APPLIED.items()}),
            )
            for done in history.successful_executions
            if (due := known_time(done.schedule_time)) is not None
        ),
        failures=tuple(
            Failed(due, known_time(failed.execution_time) or due, failed.message)
            for failed in history.failed_executions
            if (due := known_time(failed.schedule_time)) is not None
        ),
        missed=tuple(
            Missed(due, known_time(missed.last_schedule_time) or due, missed.count or 1, missed.message)
            for missed in history.missed_executions
            if (due := known_time(missed.schedule_time)) is not None
        ),
    )


def _given(values: Mapping[str, int | None]) -> dict[str, int]:
    """Returns the values that are set."""
    return {field: value for field, value in values.items() if value is not None}


def _history(rule: str, state: RuleState) -> Json:
    coming = {} if state.next_execution is None else _times(nextExecutionTime=state.next_execution)
    lists: Json = {
        "successfulExecutions": [
            _times(scheduleTime=done.scheduled, executionTime=done.executed)
            | {_APPLIED[field][1]: value for field, value in done.values.items()}
            for done in state.successes
        ],
        "failedExecutions": [
            _times(scheduleTime=one.scheduled, executionTime=one.executed) | {"message": one.message}
            for one in state.failures
        ],
        "missedExecutions": [
            _times(scheduleTime=one.first)
            | {"message": one.message}
            | (_times(lastScheduleTime=one.last) | {"count": one.count} if one.count > 1 else {})
            for one in state.missed
        ],
    }
    return {"ruleName": rule} | coming | {name: entries for name, entries in lists.items() if entries}


def _times(**instants: float) -> Json:
    # Kubernetes' times are whole seconds.
    return {name: format_time(instant // 1) for name, instant in instants.items()}


VERSION: Final = 1
# The histories are shortened in a larger content or status; watermarks and windows never are. The limit of
# etcd for an object is 1.5 MiB.
MAX_BYTES: Final = 256 * 1024
# The entries of each history that are kept: as many as fit.
_ENTRIES: Final = (32, 16, 3, 1, 0)


class TargetReference(msgspec.Struct, frozen=True, rename="camel"):
    """A target, as an object names it."""

    api_version: str
    kind: str
    name: str


class StoredWindows(msgspec.Struct, frozen=True):
    """The windows that are open on a target."""

    target: TargetReference
    state: WindowRecord


class _Group(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Windows that differ in their values only: those of `fields` by object and rule."""

    opened: Seconds
    closes: Seconds
    fields: tuple[str, ...]
    rules: dict[str, dict[str, tuple[Replicas, ...]]]
    at_least: bool = False
    left: tuple[str, ...] = ()
    ending: Seconds | None = None


def encode_rules(record: ObjectRecord) -> Json:
    """Returns the content of an object's record. The next executions follow from the schedules."""
    states = {name: replace(state, next_execution=None) for name, state in record.rules.items()}
    return _fitting(
        states, lambda kept: {"version": VERSION, **msgspec.to_builtins(replace(record, rules=kept))}
    )


def _fitting(states: Mapping[str, RuleState], render: Callable[[dict[str, RuleState]], T]) -> T:
    """Returns what is rendered of some states, with as many entries in each history as MAX_BYTES allow."""
    for limit in _ENTRIES:
        rendered = render({name: _shortened(state, limit) for name, state in states.items()})
        if len(msgspec.json.encode(rendered)) <= MAX_BYTES:
            break
    return rendered


def _shortened(state: RuleState, limit: int) -> RuleState:
    lists = {name: getattr(state, name)[:limit] for name in ("successes", "failures", "missed")}
    return replace(state, **lists)


def decode_rules(content: Mapping[str, Any]) -> ObjectRecord:
    """Returns the record of an object. Raises UnknownVersion, or InvalidObject."""
    return _decode(content, ObjectRecord)


def encode_windows(target: TargetReference, record: WindowRecord) -> dict[str, Any]:
    """Returns the content of the record of a target with open windows."""
    stored = StoredWindows(target, replace(record, open=()))
    groups: dict[Any, dict[str, dict[str, tuple[int, ...]]]] = {}
    for window in record.open:
        fields = tuple(window.values)
        alike = (window.opened, window.closes, fields, window.at_least, window.left, window.ending)
        rules = groups.setdefault(alike, {}).setdefault(window.object, {})
        rules[window.rule] = tuple(window.values.values())
    found = [
        _Group(opened, closes, fields, each, *rest)
        for (opened, closes, fields, *rest), each in groups.items()
    ]
    content: Json = {"version": VERSION, **msgspec.to_builtins(stored)}
    content["state"]["open"] = msgspec.to_builtins(found)
    return content


def decode_windows(content: Mapping[str, Any]) -> StoredWindows:
    """Returns the content of a target's record. Raises UnknownVersion, or InvalidObject."""
    state = content.get("state")
    if not isinstance(state, Mapping):
        return _decode(content, StoredWindows)
    whole = _decode({**content, "state": {**state, "open": []}}, StoredWindows)
    try:
        groups = convert_json(state.get("open") or [], list[_Group])
        windows = [
            OpenWindow(name, rule, each.opened, each.closes, by_field, each.at_least, each.left, each.ending)
            for each in groups
            for name, rules in each.rules.items()
            for rule, values in rules.items()
            for by_field in [dict(zip(each.fields, values, strict=True))]
        ]
    except ValueError as error:
        raise InvalidObject(f"it cannot be read: {error}") from error
    windows.sort(key=lambda window: window.opened)
    return replace(whole, state=replace(whole.state, open=tuple(windows)))


def _decode(content: Mapping[str, Any], kind: type[T]) -> T:
    check_version(content, VERSION)
    try:
        return convert_json(content, kind)
    except InvalidJson as error:
        raise InvalidObject(f"it cannot be read: {error}") from error


# Events that the marker of one write names. Further ones are the oldest, and their values are written again.
MAX_MARKED: Final = 64


def marker_of(key: Key, at: float) -> str:
    """Returns the name of an event of a rule: `object/rule@time`.

    A comma separates names, so a comma in the name of a rule is escaped.
    """
    return f"{'/'.join(key).replace('%', '%25').replace(',', '%2C')}@{format_time(at)}"


def split_markers(text: str) -> frozenset[str]:
    """Returns the events that the marker of a write names. A text that is no marker names no event."""
    return frozenset(text.split(",", MAX_MARKED)[:MAX_MARKED])
