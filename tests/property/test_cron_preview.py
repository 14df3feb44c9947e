"""The preview of rules, compared with a controller that plans all rules at every instant."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedhpa.api.cronfederatedhpa import CronFederatedHPASpec
from fedhpa.cron.execution.model import (
    MAXIMUM,
    MINIMUM,
    ObservedTarget,
    RuleState,
    ScheduledObject,
    Values,
    WindowRecord,
)
from fedhpa.cron.execution.objects import executable_rules
from fedhpa.cron.execution.outcome import Attempts, Settled, settle
from fedhpa.cron.execution.planning import CronPlan
from fedhpa.cron.execution.simulation import CrossedBounds, Simulation, crossed_bounds
from fedhpa.cron.forecast.conflicts import bounds_conflicts
from tests.property.cron.histories import HOURS, STARTS
from tests.property.cron.histories import rules as rules_of
from tests.property.cron.hub import FHPA
from tests.support.nightly import examples

MINUTE = 60.0
Reported = tuple[float, Any]


class Controller:
    """Runs all rules of a target; admission refuses a minimum above the maximum."""

    def __init__(self, objects: list[ScheduledObject], values: Values) -> None:
        self.objects = objects
        self.record: WindowRecord | None = None
        self.values = values

    def run(self, now: float) -> tuple[CronPlan, Settled]:
        attempts = Attempts(self.objects, self.record, ObservedTarget(dict(self.values)), now)
        conflict = self._conflict(attempts.plan)
        while conflict is not None and attempts.refused(str(conflict)):
            conflict = self._conflict(attempts.plan)
        planned = attempts.plan
        settled = settle(planned, now, "" if conflict is None else str(conflict), attempts.refusals)
        if conflict is None:
            self.values = self.values | planned.write
        self.record = settled.record
        self.objects = [
            msgspec.structs.replace(each, states=settled.states[each.name], known=True)
            for each in self.objects
        ]
        return planned, settled

    def _conflict(self, planned: CronPlan) -> CrossedBounds | None:
        return crossed_bounds(self.values | planned.write) if planned.write else None


def reported(at: float, planned: CronPlan, settled: Settled) -> list[Reported]:
    """The visible events of an instant, without those of executions that fail again."""
    notes = sorted((note.object, note.reason, note.message) for note in settled.notes)
    return [(at, note) for note in notes if "ScaleFailed" not in note]


@st.composite
def units(draw: st.DrawFn) -> tuple[list[ScheduledObject], float]:
    """One to three objects of one target, some with maxDelaySeconds, and the instant of their creation."""
    start = datetime.fromisoformat(f"{draw(st.sampled_from(STARTS))}+00:00").timestamp()
    found = []
    for name in draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)):
        rules = draw(rules_of(HOURS))
        for rule in rules:
            rule["maxDelaySeconds"] = draw(st.sampled_from((None, None, 600, 1800)))
        spec = CronFederatedHPASpec.model_validate({"scaleTargetRef": FHPA, "rules": rules})
        written = executable_rules(spec)
        # A watermark may be ahead of the clock, which was stepped back.
        marks = {rule.name: draw(st.none() | st.integers(0, 20 * 60)) for rule in written}
        states = {
            rule.name: RuleState(start + ahead * MINUTE, rule.hash)
            for rule in written
            if (ahead := marks[rule.name]) is not None
        }
        found.append(ScheduledObject(name, start, written, states, known=bool(states)))
    return found, start


@given(units(), st.integers(1, 5), st.integers(5, 9), st.integers(0, 600))
@settings(max_examples=examples(12, 1000), deadline=None)
def test_the_preview_is_what_the_controller_does(
    unit: tuple[list[ScheduledObject], float], minimum: int, maximum: int, age: int
) -> None:
    """Values, events and refusals are the same at every minute, also for executions due at the start."""
    objects, start = unit
    now, values = start + age * MINUTE, {"minReplicas": minimum, "maxReplicas": maximum}
    until = now + 30 * 3600
    preview = Simulation(objects, None, dict(values), now=now, until=until)
    found = [preview.present(), *preview.steps()]

    controller = Controller(objects, dict(values))
    expected: list[Reported] = []
    effective: dict[float, Values] = {}
    failing = False
    at = now
    while at <= until:
        planned, settled = controller.run(at)
        failing = bool(settled.failed)
        expected += reported(at, planned, settled)
        effective[at] = dict(controller.values)
        # A failed write is tried again one second after each minute, as long as nothing else is due.
        coming = until + 1 if planned.wake is None else planned.wake
        retry = at - at % MINUTE + (1 if at % MINUTE == 0 else MINUTE + 1)
        at = min(coming, retry) if failing else coming

    foreseen = [one for step in found for one in reported(step.at, step.plan, step.settled)]
    assert foreseen == expected
    assert {step.at: step.values for step in found}.items() <= _at_all(effective, found).items()
    assert preview.until == until


def _at_all(effective: dict[float, Values], found: list[Any]) -> dict[float, Values]:
    """The values of the controller at the instants of the steps."""
    return {step.at: effective[max(at for at in effective if at <= step.at)] for step in found}


@given(units(), st.integers(1, 5), st.integers(5, 9))
@settings(max_examples=examples(25, 1000), deadline=None)
def test_admission_warns_of_the_conflicts_that_the_preview_shows(
    unit: tuple[list[ScheduledObject], float], minimum: int, maximum: int
) -> None:
    """Every warning is a refused write of the preview, and the first refused write has a warning."""
    (owner, *_), now = unit
    until = now + 7 * 86400
    owner = msgspec.structs.replace(
        owner, rules=tuple(msgspec.structs.replace(rule, max_delay=None) for rule in owner.rules)
    )
    rules = [rule for rule in owner.rules if rule.timetable is not None]
    # The forecast does not know if a window that began before is open.
    windows = [(rule.table, rule.table.duration) for rule in rules]
    assume(all(long is None or table.previous(now, now - long) is None for table, long in windows))

    preview = Simulation([owner], None, {MINIMUM: minimum, MAXIMUM: maximum}, now=now, until=until)
    refused = {step.at: step.conflict for step in preview.steps() if step.conflict is not None}
    bounds: dict[str, int | None] = {"minReplicas": minimum, "maxReplicas": maximum}
    warned = list(bounds_conflicts(rules, bounds, now, until))

    for each in warned:
        assert refused[each.at] == each.bounds
    assert min(refused, default=None) == min((each.at for each in warned), default=None)
