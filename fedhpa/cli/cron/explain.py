"""The output of `fedhpa explain cronfhpa/NAME`, from the stored object and its records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.cronfederatedhpa import PlannedTarget
from fedhpa.api.times import format_time
from fedhpa.cli.cron.lines import local_time, shown
from fedhpa.cron.execution.model import Rule, RuleState, WindowRecord
from fedhpa.cron.execution.objects import read_cron

Json = dict[str, Any]


def explanation(raw: Mapping[str, Any], unit: PlannedTarget) -> Json:
    """Returns what holds and since when, what comes next, what failed or was missed, and the conditions.

    `unit` has the object and its target, as their records are.

    Raises InvalidObject if the object cannot be decoded.
    """
    cron, _ = read_cron(raw)
    owner = next(each for each in unit.objects if each.name == cron.metadata.name)
    target, record = cron.spec.scale_target_ref, unit.record or WindowRecord()
    known = [(rule, owner.states[rule.name]) for rule in owner.rules if rule.name in owner.states]
    coming = [
        (at, {"rule": rule.name, "time": local_time(at, rule.timetable.zone), "values": rule.values})
        for rule, state in known
        if (at := state.next_execution) is not None and rule.timetable is not None
    ]
    return {
        "object": f"{cron.metadata.namespace}/{cron.metadata.name}",
        "target": {"apiVersion": target.api_version, "kind": target.kind, "name": target.name},
        "holds": _values_set(known, record),
        "windows": [
            {
                "rule": window.label,
                "opened": format_time(window.opened),
                "closes": format_time(window.closes),
                "values": window.values,
                "before": {name: record.baseline[name] for name in window.values if name in record.baseline},
            }
            for window in record.open
        ],
        "next": [entry for _, entry in sorted(coming, key=lambda each: each[0])],
        "failed": [
            _entry(rule, each.message, due=each.scheduled, tried=each.executed)
            for rule, state in known
            for each in state.failures
        ],
        "missed": [
            _entry(rule, each.message, first=each.first, last=each.last) | {"count": each.count}
            for rule, state in known
            for each in state.missed
        ],
        "suspended": [rule.name for rule in owner.rules if rule.suspended],
        "invalid": [{"rule": rule.name, "message": rule.problem} for rule in owner.rules if rule.problem],
        "notes": list(unit.notes),
        "conditions": [
            each.model_dump(include={"type", "status", "reason", "message"})
            for each in cron.status.conditions
        ],
    }


def _entry(rule: Rule, message: str, **times: float) -> Json:
    return {"rule": rule.name, "message": message} | {name: format_time(at) for name, at in times.items()}


def _values_set(known: list[tuple[Rule, RuleState]], record: WindowRecord) -> list[Json]:
    """Returns the values that the rules set: that of the top window, else that of the newest execution."""
    found: dict[str, tuple[float, Json]] = {}
    for rule, state in known:
        for done in state.successes if rule.duration is None else ():
            entry = {"since": format_time(done.executed), "rule": rule.name}
            for field, value in done.values.items():
                if field not in found or done.scheduled > found[field][0]:
                    found[field] = done.scheduled, {"field": field, "value": value, **entry}
    for window in record.open:
        entry = {"since": format_time(window.opened), "rule": window.label}
        entry["until"] = format_time(window.closes)
        for field, value in window.values.items():
            found[field] = window.opened, {"field": field, "value": value, **entry}
    return [found[field][1] for field in sorted(found)]


def explanation_text(found: Json) -> str:
    """Returns an explanation for people."""
    sections = {
        "holds": [
            f"{each['field']} {each['value']} since {each['since']} by rule {each['rule']}"
            + (f" until {each['until']}" if "until" in each else "")
            for each in found["holds"]
        ]
        or ["nothing that its rules set"],
        "open windows": [
            f"{each['rule']} until {each['closes']}: {shown(each['values'])}"
            + (f", then {shown(each['before'])}" if each["before"] else "")
            for each in found["windows"]
        ],
        "next": [f"{each['time']} {each['rule']}: {shown(each['values'])}" for each in found["next"]]
        or ["no rule fires"],
        "failed": [f"{each['due']} {each['rule']}: {each['message']}" for each in found["failed"]],
        "missed": [
            f"{each['first']}{more[0]} {each['rule']}{more[1]}: {each['message']}"
            for each in found["missed"]
            for more in [
                ("", "") if each["count"] == 1 else (f" to {each['last']}", f" ({each['count']} executions)")
            ]
        ],
    }
    target = found["target"]
    lines = [f"CronFederatedHPA {found['object']} scales {target['kind']} {target['name']}"]
    for title, entries in sections.items():
        lines += [f"{title}:", *(f"  {entry}" for entry in entries)] if entries else []
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
