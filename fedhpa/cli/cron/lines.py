"""The lines of a preview of rules: one for each execution, end of a window, missed execution and refusal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fedhpa.api.times import format_duration, format_time
from fedhpa.cron.execution.model import OpenWindow, Rule, ScheduledObject, Values, WindowRecord
from fedhpa.cron.execution.simulation import UNKNOWN, SimulatedStep

if TYPE_CHECKING:
    from fedhpa.cron.execution.model import Applied, CronPlan

FIRES: Final = "fires"
OPENS: Final = "opens"
RENEWS: Final = "renews"
CLOSES: Final = "closes"
MISSED: Final = "missed"
REFUSED: Final = "refused"
FAILS: Final = "fails"
# The notes of a plan that say how a window ended in another way than by its end.
_ENDED: Final = ("NotRestored", "WindowOverridden")

Key = tuple[str, str]


class Line(NamedTuple):
    """The events of an instant, and the values of the target after it.

    `due` is when an execution was due, `values` what its rule sets, and `until` the end of its window. `zone`
    is the time zone of the rule.
    """

    at: float
    object: str
    rule: str
    action: str
    zone: tzinfo
    then: Values
    due: float | None = None
    values: dict[str, int] = {}  # noqa: RUF012
    until: float | None = None
    message: str = ""


class LineWriter:
    """Turns the steps of one target into lines. `record` has the windows that are open at the start."""

    def __init__(self, objects: Sequence[ScheduledObject], record: WindowRecord | None) -> None:
        self._rules = {(each.name, rule.name): rule for each in objects for rule in each.rules}
        self._open = () if record is None else record.open
        # Executions and ends of windows whose refusal was reported. They are tried again at each step.
        self._reported: set[tuple[str, str, float, str]] = set()

    def of(self, step: SimulatedStep) -> Iterator[Line]:
        """Yields the lines of a step: missed executions, ends of windows, then executions."""
        planned = step.plan
        for skipped in planned.skipped:
            yield self._missed(step, skipped.object, skipped.rule, skipped.missed)
        yield from self._closed(step, planned)
        for execution in planned.invalid:
            yield self._line(step, execution.key, FAILS, due=execution.at, message=execution.rule.problem)
        for applied in planned.applied:
            yield self._applied(step, applied)
        if step.refused is not None:
            yield from self._refused(step, step.refused)
        self._open = () if planned.record is None else planned.record.open

    def _missed(self, step: SimulatedStep, name: str, rule: str, missed: Any) -> Line:
        text = missed.message
        if missed.count > 1:
            text = f"{missed.count} executions from {format_time(missed.first)} on: {text}"
        return self._line(step, (name, rule), MISSED, due=missed.last, message=text)

    def _closed(self, step: SimulatedStep, planned: CronPlan) -> Iterator[Line]:
        ended = {note.object: note.message for note in planned.notes if note.reason in _ENDED}
        for window in planned.closed:
            key = (window.object, window.rule)
            yield self._line(step, key, CLOSES, message=ended.get(window.object, ""))

    def _applied(self, step: SimulatedStep, applied: Applied) -> Line:
        execution, values, window = applied
        until = None if window is None else window.closes
        action = FIRES if window is None else (RENEWS if self._was_open(execution.key) else OPENS)
        late = step.at - execution.at
        text = f"{format_duration(float(int(late)))} late" if late >= 1 else ""
        return self._line(
            step, execution.key, action, due=execution.at, values=values, until=until, message=text
        )

    def _refused(self, step: SimulatedStep, whole: CronPlan) -> Iterator[Line]:
        """Yields the events of the whole plan that the carried out plan leaves out."""
        text = str(step.conflict)
        for window in step.plan.kept:
            key = (window.object, window.rule)
            if self._is_new(key, window.closes, CLOSES):
                message = f"its window cannot close: {text}"
                yield self._line(step, key, REFUSED, due=window.closes, message=message)
        left_out = {execution.order for execution in step.plan.left_out}
        for execution, values, _ in whole.applied:
            if execution.order in left_out and self._is_new(execution.key, execution.at, REFUSED):
                yield self._line(step, execution.key, REFUSED, due=execution.at, values=values, message=text)

    def _is_new(self, key: Key, at: float, what: str) -> bool:
        refusal = (*key, at, what)
        if refusal in self._reported:
            return False
        self._reported.add(refusal)
        return True

    def _was_open(self, key: Key) -> bool:
        return any((window.object, window.rule) == key for window in self._open)

    def _line(self, step: SimulatedStep, key: Key, action: str, **more: Any) -> Line:
        return Line(step.at, *key, action, self._zone(key), step.values, **more)

    def _zone(self, key: Key) -> tzinfo:
        rule: Rule | None = self._rules.get(key)
        return UTC if rule is None or rule.timetable is None else rule.timetable.zone


def local_time(at: float, zone: tzinfo) -> str:
    """Returns an instant as RFC 3339 in a zone, in whole seconds."""
    return datetime.fromtimestamp(int(at), zone).isoformat()


def known(values: Values) -> dict[str, int | None]:
    """Returns the values that are known."""
    return {field: value for field, value in values.items() if value != UNKNOWN}


def shown(values: Values) -> str:
    """Returns values for people: `minReplicas 3, maxReplicas ?`."""
    return ", ".join(f"{field} {_shown(value)}" for field, value in values.items())


def _shown(value: int | None) -> str:
    return "?" if value == UNKNOWN else "not set" if value is None else str(value)


def line_json(line: Line) -> dict[str, Any]:
    """Returns a line as data. Fields that do not apply, and values that are unknown, are left out."""
    found: dict[str, Any] = {
        "time": local_time(line.at, line.zone),
        "object": line.object,
        "rule": line.rule,
        "action": line.action,
    }
    if line.due is not None:
        found["due"] = local_time(line.due, line.zone)
    if line.values:
        found["values"] = line.values
    if line.until is not None:
        found["until"] = local_time(line.until, line.zone)
    if line.message:
        found["message"] = line.message
    return found | {"then": known(line.then)}


def line_texts(line: Line) -> tuple[str, str, str, str]:
    """Returns the columns of a line: when, the rule, what happens, and what the target then is."""
    what = line.action
    if line.values:
        what += f": {shown(dict(line.values))}"
    if line.until is not None:
        what += f", until {local_time(line.until, line.zone)}"
    details = line.message
    if line.action in (MISSED, REFUSED) and line.due is not None and int(line.due) != int(line.at):
        details = f"due {local_time(line.due, line.zone)}, {details}"
    if details:
        what += f" ({details})"
    when = datetime.fromtimestamp(int(line.at), line.zone)
    return f"{when:%a} {when.isoformat()}", f"{line.object}/{line.rule}", what, shown(line.then)


def window_text(window: OpenWindow) -> str:
    """Returns an open window for people."""
    return f"{window.label} until {format_time(window.closes)}: {shown(dict(window.values))}"
