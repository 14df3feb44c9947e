"""The lines of a preview of rules: one for each fire, end of a window, missed fire and refusal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fedhpa.api.times import format_duration, format_time
from fedhpa.cron.execution.model import OpenWindow, Rule, ScheduledObject, Values, WindowRecord
from fedhpa.cron.execution.preview import UNKNOWN, Step

if TYPE_CHECKING:
    from fedhpa.cron.execution.model import Applied, Plan

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

    `due` is when a fire was due, `values` what its rule sets, and `until` the end of its window. `zone` is
    the time zone of the rule.
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
        # Fires and ends of windows whose refusal was told. They are tried again at each step.
        self._told: set[tuple[str, str, float, str]] = set()

    def of(self, step: Step) -> Iterator[Line]:
        """Yields the lines of a step: missed fires, ends of windows, then fires."""
        planned = step.plan
        for skipped in planned.skipped:
            yield self._missed(step, skipped.object, skipped.rule, skipped.missed)
        yield from self._closed(step, planned)
        for fire in planned.invalid:
            yield self._line(step, fire.key, FAILS, due=fire.at, message=fire.rule.problem)
        for applied in planned.applied:
            yield self._applied(step, applied)
        if step.refused is not None:
            yield from self._refused(step, step.refused)
        self._open = () if planned.record is None else planned.record.open

    def _missed(self, step: Step, name: str, rule: str, missed: Any) -> Line:
        text = missed.message
        if missed.count > 1:
            text = f"{missed.count} fires from {format_time(missed.first)} on: {text}"
        return self._line(step, (name, rule), MISSED, due=missed.last, message=text)

    def _closed(self, step: Step, planned: Plan) -> Iterator[Line]:
        ended = {note.object: note.message for note in planned.notes if note.reason in _ENDED}
        for window in planned.closed:
            key = (window.object, window.rule)
            yield self._line(step, key, CLOSES, message=ended.get(window.object, ""))

    def _applied(self, step: Step, applied: Applied) -> Line:
        fire, values, window = applied
        until = None if window is None else window.closes
        action = FIRES if window is None else (RENEWS if self._was_open(fire.key) else OPENS)
        late = step.at - fire.at
        text = f"{format_duration(float(int(late)))} late" if late >= 1 else ""
        return self._line(step, fire.key, action, due=fire.at, values=values, until=until, message=text)

    def _refused(self, step: Step, whole: Plan) -> Iterator[Line]:
        """Yields the events of the whole plan that the carried out plan leaves out."""
        text = str(step.conflict)
        for window in step.plan.kept:
            key = (window.object, window.rule)
            if self._is_new(key, window.closes, CLOSES):
                message = f"its window cannot close: {text}"
                yield self._line(step, key, REFUSED, due=window.closes, message=message)
        held = {fire.order for fire in step.plan.held}
        for fire, values, _ in whole.applied:
            if fire.order in held and self._is_new(fire.key, fire.at, REFUSED):
                yield self._line(step, fire.key, REFUSED, due=fire.at, values=values, message=text)

    def _is_new(self, key: Key, at: float, what: str) -> bool:
        told = (*key, at, what)
        if told in self._told:
            return False
        self._told.add(told)
        return True

    def _was_open(self, key: Key) -> bool:
        return any((window.object, window.rule) == key for window in self._open)

    def _line(self, step: Step, key: Key, action: str, **more: Any) -> Line:
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
