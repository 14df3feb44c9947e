"""Random histories of rules, compared with an oracle that applies every event on time.

The controller may be away, crash at every step of a write, or have its writes refused. Once it has caught up,
the target has the values of the oracle, and every fire was applied or missed exactly once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from fedhpa.api.cronfederatedhpa import CronFederatedHPA, CronFederatedHPASpec, CronFederatedHPAStatus
from fedhpa.api.times import format_time
from fedhpa.cron.execution import (
    Rule,
    RuleState,
    ScheduledObject,
    Settled,
    Target,
    executable_rules,
    plan,
    read_object,
    read_record,
    settle,
    write_histories,
    write_record,
)
from tests.support.nightly import examples

FHPA = {"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "name": "web"}
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC")
# The last Sundays of March and October, and days without a clock change.
STARTS = ("2026-03-28T20:00", "2026-10-24T20:00", "2026-11-01T00:00", "2026-04-04T06:00", "2026-06-01T00:00")
SCHEDULES = ("0 * * * *", "30 */2 * * *", "0 2 * * *", "30 2,3 * * *", "15 1-4 * * *", "0 9 * * MON-FRI")
DURATIONS = (None, None, "45m", "1h", "3h", "90m")
MINUTE = 60.0

values = st.none() | st.integers(1, 9)


@st.composite
def rules_of(draw: st.DrawFn) -> list[dict[str, Any]]:
    """One to three rules; each sets a field at least."""
    found = []
    for place in range(draw(st.integers(1, 3))):
        low, high = draw(values), draw(values)
        found.append(
            {
                "name": f"r{place}",
                "schedule": draw(st.sampled_from(SCHEDULES)),
                "timeZone": draw(st.sampled_from(ZONES)),
                "duration": draw(st.sampled_from(DURATIONS)),
                "targetMinReplicas": low,
                "targetMaxReplicas": (high or 1) if low is None else high,
            }
        )
    return found


class Step(NamedTuple):
    """Minutes that pass, and what the controller does at their end."""

    minutes: int
    does: str


steps = st.lists(
    st.builds(
        Step,
        st.integers(1, 400),
        st.sampled_from(
            ("run", "run", "run", "away", "crash-pending", "crash-effect", "crash-status", "refused", "back")
        ),
    ),
    min_size=3,
    max_size=25,
)


class Open(NamedTuple):
    """A window of the oracle."""

    opened: float
    order: tuple[str, int]
    closes: float
    values: dict[str, int]


class Oracle:
    """Applies every event at its instant: closings, plain fires, openings, by object and place."""

    def __init__(self, objects: dict[str, tuple[Rule, ...]], start: float) -> None:
        self.base: dict[str, int | None] = {"minReplicas": 1, "maxReplicas": 10}
        self._windows: dict[tuple[str, int], Open] = {}
        self._coming = {
            (name, rule.place): (rule, self._fires(rule, start))
            for name, rules in objects.items()
            for rule in rules
        }
        self._next = {key: next(fires) for key, (_, fires) in self._coming.items()}
        self.fired: dict[tuple[str, str], int] = defaultdict(int)

    @staticmethod
    def _fires(rule: Rule, start: float) -> Iterator[float]:
        assert rule.timetable is not None
        for fire in rule.timetable.fires(datetime.fromtimestamp(start, UTC)):
            yield fire.timestamp()

    def advance(self, now: float) -> dict[str, int | None]:
        """Applies all events up to an instant. Returns the values that hold."""
        while (event := min(self._events()))[0] <= now:
            _, kind, name, place = event
            key = (name, place)
            if kind == 0:
                del self._windows[key]
                continue
            rule, fires = self._coming[key]
            at, self._next[key] = self._next[key], next(fires)
            self.fired[name, rule.name] += 1
            if kind == 1:
                self.base |= rule.values
            else:
                assert rule.timetable is not None
                assert rule.timetable.duration is not None
                closes = at + rule.timetable.duration.total_seconds()
                self._windows[key] = Open(at, key, closes, rule.values)
        held = dict(self.base)
        for window in sorted(self._windows.values()):
            held |= window.values
        return held

    def _events(self) -> Iterator[tuple[float, int, str, int]]:
        for (name, place), window in self._windows.items():
            yield window.closes, 0, name, place
        for (name, place), at in self._next.items():
            table = self._coming[name, place][0].timetable
            assert table is not None
            yield at, 1 if table.duration is None else 2, name, place


class Hub:
    """The stored objects, the record of windows and the target. Statuses are stored as JSON."""

    def __init__(self, specs: dict[str, dict[str, Any]], start: float) -> None:
        self.values: dict[str, int | None] = {"minReplicas": 1, "maxReplicas": 10}
        self._window: dict[str, Any] | None = None
        self._objects = {
            name: {
                "metadata": {"name": name, "creationTimestamp": format_time(start)},
                "spec": spec,
                "status": {},
            }
            for name, spec in specs.items()
        }
        self.applied: dict[tuple[str, str], set[float]] = defaultdict(set)
        self.missed: dict[tuple[str, str], int] = defaultdict(int)

    def run(self, now: float, does: str) -> None:
        """Plans and writes at one instant, as far as `does` lets it."""
        objects = [
            read_object(CronFederatedHPA.model_validate_json(msgspec.json.encode(each)))
            for each in self._objects.values()
        ]
        window = CronFederatedHPAStatus.model_validate({"window": self._window})
        planned = plan(objects, read_record(window), Target(dict(self.values)), now)
        if planned.pending is not None:
            self._window = write_record(planned.pending, FHPA)
        if does == "crash-pending":
            return
        if does == "refused" and planned.write:
            self._store(objects, settle(planned, now, "refused"), None)
            return
        self.values |= planned.write
        if does == "crash-effect":
            return
        # The status with the record of windows is stored first, and a crash may lose the others.
        first = planned.carrier or objects[0].name
        self._store(objects, settle(planned, now), first if does == "crash-status" else None)

    def _store(self, objects: list[ScheduledObject], settled: Settled, only: str | None) -> None:
        """Stores the status of one object, or of all for None."""
        self._window = None if settled.record is None else write_record(settled.record, FHPA)
        for owner in objects:
            if only in (None, owner.name):
                states = settled.states[owner.name]
                for rule, state in states.items():
                    self._count((owner.name, rule), owner.states.get(rule, RuleState()), state)
                histories = write_histories(states, [rule.name for rule in owner.rules])
                self._objects[owner.name]["status"] = {"executionHistories": histories}

    def _count(self, key: tuple[str, str], old: RuleState, new: RuleState) -> None:
        """Counts the executions that a state adds."""
        self.missed[key] += sum(each.count for each in new.missed) - sum(each.count for each in old.missed)
        known = {done.scheduled for done in old.successes}
        fresh = {done.scheduled for done in new.successes} - known
        assert not fresh & self.applied[key], "a fire was applied twice"
        self.applied[key] |= fresh


@given(st.lists(rules_of(), min_size=1, max_size=2), st.sampled_from(STARTS), steps)
@settings(max_examples=examples(150, 20_000), deadline=None)
def test_what_should_hold_holds_after_any_interruption(
    written: list[list[dict[str, Any]]], start: str, taken: list[Step]
) -> None:
    """The values are those of the oracle, and each fire was applied or missed exactly once."""
    begin = datetime.fromisoformat(f"{start}+00:00").timestamp() + 7
    specs = {
        f"object{place}": {"scaleTargetRef": FHPA, "rules": rules} for place, rules in enumerate(written)
    }
    hub = Hub(specs, begin)
    oracle = Oracle(
        {name: executable_rules(CronFederatedHPASpec.model_validate(spec)) for name, spec in specs.items()},
        begin,
    )
    now = begin
    hub.run(now, "run")
    for step in taken:
        now += step.minutes * MINUTE
        if step.does == "away":
            continue
        if step.does == "back":
            # The clock was wrong for a moment, and the controller looked.
            hub.run(now - 90 * MINUTE, "run")
            continue
        hub.run(now, step.does)
        if step.does == "run":
            assert hub.values == oracle.advance(now)

    hub.run(now, "run")
    hub.run(now, "run")
    expected = oracle.advance(now)

    assert hub.values == expected
    for key, count in oracle.fired.items():
        assert len(hub.applied[key]) + hub.missed[key] == count, key
