"""The output of `fedhpa explain cronfhpa/NAME`, from the stored object and its records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedhpa.api.times import format_time
from fedhpa.cli.cron.lines import local_time, shown
from fedhpa.cron.execution.model import Failed, Missed, Rule, RuleState, WindowRecord
from fedhpa.cron.execution.objects import read_cron, read_object

if TYPE_CHECKING:
    from controller.cronfederatedhpa import Remembered

Json = dict[str, Any]
Known = tuple[Rule, RuleState]


def explanation(raw: Mapping[str, Any], memory: Remembered) -> Json:
    """Returns what holds and since when, what comes next, what failed or was missed, and the conditions.

    Raises InvalidObject if the object cannot be decoded.
    """
    cron, refused = read_cron(raw)
    owner = read_object(cron, refused, memory.rules)
    target = cron.spec.scale_target_ref
    known = [(rule, owner.states[rule.name]) for rule in owner.rules if rule.name in owner.states]
    return {
        "object": f"{cron.metadata.namespace}/{cron.metadata.name}",
        "target": {"apiVersion": target.api_version, "kind": target.kind, "name": target.name},
        "holds": _values_set(known, memory.record),
        "windows": [] if memory.record is None else _windows(memory.record),
        "next": _next(known),
        "failed": [_failed(rule, each) for rule, state in known for each in state.failures],
        "missed": [_missed(rule, each) for rule, state in known for each in state.missed],
        "suspended": [rule.name for rule in owner.rules if rule.suspended],
        "invalid": [{"rule": rule.name, "message": rule.problem} for rule in owner.rules if rule.problem],
        "notes": list(memory.notes),
        "conditions": [
            {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
            for each in cron.status.conditions
        ],
    }


def _values_set(known: list[Known], record: WindowRecord | None) -> list[Json]:
    """Returns the values that the rules set: that of the top window, else that of the newest execution."""
    found: dict[str, tuple[float, Json]] = {}
    for rule, state in known:
        for done in state.successes if rule.duration is None else ():
            since = format_time(done.executed)
            for field, value in done.values.items():
                if field not in found or done.scheduled > found[field][0]:
                    entry = {"field": field, "value": value, "since": since, "rule": rule.name}
                    found[field] = done.scheduled, entry
    for window in () if record is None else record.open:
        since, until = format_time(window.opened), format_time(window.closes)
        for field, value in window.values.items():
            entry = {"field": field, "value": value, "since": since, "rule": window.label, "until": until}
            found[field] = window.opened, entry
    return [found[field][1] for field in sorted(found)]


def _windows(record: WindowRecord) -> list[Json]:
    return [
        {
            "rule": window.label,
            "opened": format_time(window.opened),
            "closes": format_time(window.closes),
            "values": window.values,
            "before": {field: record.baseline[field] for field in window.values if field in record.baseline},
        }
        for window in record.open
    ]


def _next(known: list[Known]) -> list[Json]:
    coming = [
        (at, {"rule": rule.name, "time": local_time(at, rule.timetable.zone), "values": rule.values})
        for rule, state in known
        if (at := state.next_execution) is not None and rule.timetable is not None
    ]
    return [entry for _, entry in sorted(coming, key=lambda each: each[0])]


def _failed(rule: Rule, failure: Failed) -> Json:
    due, tried = format_time(failure.scheduled), format_time(failure.executed)
    return {"rule": rule.name, "due": due, "tried": tried, "message": failure.message}


def _missed(rule: Rule, missed: Missed) -> Json:
    return {
        "rule": rule.name,
        "first": format_time(missed.first),
        "last": format_time(missed.last),
        "count": missed.count,
        "message": missed.message,
    }


def explanation_text(found: Json) -> str:
    """Returns an explanation for people."""
    target = found["target"]
    lines = [f"CronFederatedHPA {found['object']} scales {target['kind']} {target['name']}", "holds:"]
    lines += [f"  {_value_text(each)}" for each in found["holds"]] or ["  nothing that its rules set"]
    if found["windows"]:
        lines.append("open windows:")
        lines += (f"  {_window_text(window)}" for window in found["windows"])
    lines.append("next:")
    lines += [f"  {each['time']} {each['rule']}: {shown(each['values'])}" for each in found["next"]] or [
        "  no rule fires"
    ]
    if found["failed"]:
        lines.append("failed:")
        lines += (f"  {each['due']} {each['rule']}: {each['message']}" for each in found["failed"])
    if found["missed"]:
        lines.append("missed:")
        lines += (f"  {_missed_text(each)}" for each in found["missed"])
    if found["suspended"]:
        lines.append(f"suspended: {', '.join(found['suspended'])}")
    lines += (f"cannot run: {each['rule']}: {each['message']}" for each in found["invalid"])
    lines += (f"note: {note}" for note in found["notes"])
    lines.append("conditions:")
    lines += (
        f"  {each['type']}={each['status']} {each['reason']}: {each['message']}"
        for each in found["conditions"]
    )
    return "\n".join(lines) + "\n"


def _value_text(entry: Json) -> str:
    until = f" until {entry['until']}" if "until" in entry else ""
    return f"{entry['field']} {entry['value']} since {entry['since']} by rule {entry['rule']}{until}"


def _window_text(window: Json) -> str:
    before = f", then {shown(window['before'])}" if window["before"] else ""
    return f"{window['rule']} until {window['closes']}: {shown(window['values'])}{before}"


def _missed_text(missed: Json) -> str:
    span = missed["first"] if missed["count"] == 1 else f"{missed['first']} to {missed['last']}"
    count = "" if missed["count"] == 1 else f" ({missed['count']} executions)"
    return f"{span} {missed['rule']}{count}: {missed['message']}"
