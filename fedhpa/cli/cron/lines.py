"""The lines of a preview of rules: one for each execution, end of a window, missed execution and refusal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, Final

from fedhpa.api.times import format_duration, format_time
from fedhpa.cron.execution.model import Key, ScheduledObject, Values, WindowRecord
from fedhpa.cron.execution.simulation import UNKNOWN, SimulatedStep

MISSED: Final = "missed"
REFUSED: Final = "refused"
# The notes of a plan that say how a window ended in another way than by its end.
_ENDED: Final = ("NotRestored", "WindowOverridden")

Line = dict[str, Any]


def lines_of(
    steps: Iterable[SimulatedStep], objects: Sequence[ScheduledObject], record: WindowRecord | None
) -> Iterator[Line]:
    """Yields the lines of the steps of one target. `record` has the windows that are open at the start.

    Of a step, missed executions come first, then ends of windows, then executions.
    """
    zones = {
        (each.name, rule.name): rule.table.zone for each in objects for rule in each.rules if rule.timetable
    }
    # Executions and ends of windows whose refusal was reported. They are tried again at each step.
    reported: set[tuple[Key, float, bool]] = set()
    for step in steps:
        planned = step.plan
        were_open = set() if record is None else {window.key for window in record.open}

        def line(key: Key, action: str, *, step: SimulatedStep = step, **more: Any) -> Line:
            """Returns a line without the fields that do not apply and the values that are unknown."""
            zone = zones.get(key, UTC)
            found = {"time": step.at, "object": key[0], "rule": key[1], "action": action, **more}
            times = {
                name: local_time(found[name], zone)
                for name in ("time", "due", "until")
                if found.get(name) is not None
            }
            return {name: each for name, each in (found | times).items() if each} | {
                "then": known(step.values)
            }

        for key, missed in planned.skipped:
            text = missed.message
            if missed.count > 1:
                text = f"{missed.count} executions from {format_time(missed.first)} on: {text}"
            yield line(key, MISSED, due=missed.last, message=text)
        ended = {note.object: note.message for note in planned.notes if note.reason in _ENDED}
        for window in planned.closed:
            yield line(window.key, "closes", message=ended.get(window.object, ""))
        for execution in planned.invalid:
            yield line(execution.key, "fails", due=execution.at, message=execution.rule.problem)
        for execution, values, opened in planned.applied:
            action = "fires" if opened is None else "renews" if execution.key in were_open else "opens"
            late = step.at - execution.at
            text = f"{format_duration(float(int(late)))} late" if late >= 1 else ""
            until = None if opened is None else opened.closes
            yield line(execution.key, action, due=execution.at, values=values, until=until, message=text)
        if step.refused is not None:
            left_out = {execution.order for execution in planned.left_out}
            refused = [(window.key, window.closes, dict[str, int]()) for window in planned.kept]
            refused += [
                (execution.key, execution.at, values)
                for execution, values, _ in step.refused.applied
                if execution.order in left_out
            ]
            for place, (key, at, values) in enumerate(refused):
                closes = place < len(planned.kept)
                if (key, at, closes) not in reported:
                    reported.add((key, at, closes))
                    text = f"its window cannot close: {step.conflict}" if closes else str(step.conflict)
                    yield line(key, REFUSED, due=at, values=values, message=text)
        record = planned.record


def local_time(at: float, zone: tzinfo) -> str:
    """Returns an instant as RFC 3339 in a zone, in whole seconds."""
    return datetime.fromtimestamp(int(at), zone).isoformat()


def known(values: Values) -> dict[str, int | None]:
    """Returns the values that are known."""
    return {field: value for field, value in values.items() if value != UNKNOWN}


def shown(values: Mapping[str, int | None]) -> str:
    """Returns values for people: `minReplicas 3, maxReplicas ?`."""
    texts = {UNKNOWN: "?", None: "not set"}
    return ", ".join(f"{field} {texts.get(value, value)}" for field, value in values.items())


def line_texts(line: Line, fields: Iterable[str]) -> tuple[str, str, str, str]:
    """Returns the columns of a line: when, the rule, what happens, and the target's `fields` then."""
    what, details = line["action"], line.get("message", "")
    if "values" in line:
        what += f": {shown(line['values'])}"
    if "until" in line:
        what += f", until {line['until']}"
    if line["action"] in (MISSED, REFUSED) and line.get("due", line["time"]) != line["time"]:
        details = f"due {line['due']}, {details}"
    if details:
        what += f" ({details})"
    when, then = datetime.fromisoformat(line["time"]), {**dict.fromkeys(fields, UNKNOWN), **line["then"]}
    return f"{when:%a} {line['time']}", f"{line['object']}/{line['rule']}", what, shown(then)
