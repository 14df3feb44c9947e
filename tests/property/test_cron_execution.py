"""Random histories of rules, compared with an oracle that visits every event in order.

The controller may be away, crash at every write, see a wrong clock, or have its writes refused. People edit
rules and objects, and change the target, while it runs and while it is away. Once it has caught up, the
target has the values of the oracle, and every execution was applied or missed exactly once.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedhpa.cron import load_zone
from tests.property.cron.histories import (
    DOES,
    HOURS,
    MINUTE,
    STARTS,
    YEARS,
    Edit,
    Json,
    Step,
    edited,
    objects,
    steps,
)
from tests.property.cron.hub import FHPA, FORBIDDEN, Hub, as_spec
from tests.property.cron.oracle import Oracle
from tests.property.schedules import ZONES, clock_changes
from tests.support.nightly import NIGHTLY, examples

FEW_ZONES = ("Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns")
CHANGING = tuple(name for name in ZONES if clock_changes(load_zone(name), 2026)) if NIGHTLY else FEW_ZONES


class History:
    """A hub, an oracle beside it, and the time."""

    def __init__(self, written: list[list[Json]], begin: float) -> None:
        self.now = begin
        specs = {f"object{place}": as_spec(rules) for place, rules in enumerate(written)}
        self.hub = Hub(specs, begin)
        self.oracle = Oracle()
        self.clean = False
        # True after a crash between the effect and its result.
        self.unstored = False

    def edit(self, edit: Edit) -> None:
        """Somebody edits, creates or deletes an object. An edit that is not possible is none."""
        names = sorted(name for name in self.hub.objects if not self.hub.is_deleted(name))
        if edit.what == "create":
            fresh = next(name for n in range(99) if (name := f"object{n}") not in self.hub.objects)
            if len(names) < 3:
                self.hub.create(fresh, edited(as_spec([]), edit, ""), self.now)
            return
        if not names:
            return
        name = names[edit.place % len(names)]
        spec = self.hub.objects[name]["spec"]
        if edit.what == "delete":
            before = set(self.hub.objects)
            self.hub.delete(name, self.now)
            self.oracle.forget(before - set(self.hub.objects))
        elif edit.what in ("retarget", "return"):
            target = FHPA if edit.what == "return" else {**FHPA, "name": "other"}
            self.hub.edit(name, {**spec, "scaleTargetRef": target}, self.now)
        else:
            day = (datetime.fromtimestamp(self.now, UTC) + timedelta(days=1)).date().isoformat()
            self.hub.edit(name, edited(spec, edit, day), self.now)

    def run(self, does: str, now: float | None = None) -> None:
        """The controller looks at the target, and the oracle too."""
        now = self.now if now is None else now
        before = set(self.hub.objects)
        owners = [self.hub.read(name) for name in sorted(before)]
        record = self.hub.record
        tried = (
            {} if record is None else {one.key: one.ending for one in record.open if one.ending is not None}
        )
        outcome = self.hub.run(now, does)
        if tried and (outcome.effect or does == "refused"):
            # The values of a deleted object are not restored a minute after the first try that failed.
            self.oracle.leave({owner.name: owner for owner in owners}, now, tried)
        if outcome.effect:
            self.oracle.advance(owners, now, outcome.stored)
        self.clean = outcome.effect and does in ("run", "refused")
        self.unstored = outcome.effect and does == "crash-result"
        if self.clean:
            elsewhere = {n for n in self.hub.objects if not self.hub.is_present(n)} - self.hub.holders()
            self.oracle.elsewhere(elsewhere)
        self.oracle.forget(before - set(self.hub.objects))

    def check(self) -> None:
        """The values and the numbers of executions are those of the oracle."""
        assert self.hub.values == self.oracle.values
        for key, count in self.oracle.fired.items():
            assert len(self.hub.applied[key]) + self.hub.missed[key] == count, key

    def take(self, step: Step, *, anytime: bool, delays: bool) -> None:
        """Takes one step. Without `anytime`, people edit objects only if nothing is unfinished.

        They change the target also between an effect and its result, but never back to its former value.
        """
        self.now += step.minutes * MINUTE
        if step.edit is not None and (self.clean or anytime):
            self.edit(step.edit)
            self.now += MINUTE
        if step.person is not None:
            name, value = step.person
            unstored = self.unstored and not self.hub.is_former(name, value)
            if self.clean or unstored or anytime:
                self.hub.change_target(name, value)
                self.oracle.person(name, value)
        if step.does == "away" or (delays and step.does in ("refused", "crash-effect")):
            return
        if step.does == "back":
            was = self.clean
            self.run("run", self.now - 50 * MINUTE)
            self.clean = self.clean and was
        else:
            self.run(step.does)


def live(written: list[list[Json]], begin: float, taken: list[Step]) -> None:
    """Plays a history and compares it with the oracle whenever nothing is unfinished."""
    history = History(written, begin)
    # A write that is refused until its execution is late may leave the values of the execution as a baseline.
    delays = any(rule["maxDelaySeconds"] is not None for rules in written for rule in rules)
    history.run("run")
    for step in taken:
        history.take(step, anytime=False, delays=delays)
        if history.clean:
            history.check()
    history.run("run")
    history.run("run")
    history.check()


def instant(text: str) -> float:
    return datetime.fromisoformat(f"{text}+00:00").timestamp() + 7


@given(objects(HOURS), st.sampled_from(STARTS), steps(HOURS))
@settings(max_examples=examples(75, 20_000), deadline=None)
def test_what_should_hold_holds_after_any_interruption(
    written: list[list[Json]], start: str, taken: list[Step]
) -> None:
    """The values are those of the oracle, and each execution was applied or missed exactly once."""
    live(written, instant(start), taken)


@given(
    objects(HOURS),
    objects(HOURS),
    st.booleans(),
    st.sampled_from(STARTS),
    st.lists(st.sampled_from(DOES), max_size=40),
)
@settings(max_examples=examples(12, 2_000), deadline=None)
def test_refused_rules_change_nothing_for_the_other_ones(
    good: list[list[Json]], bad: list[list[Json]], windows: bool, start: str, does: list[str]
) -> None:
    """Objects whose values are refused fire between the others. The target is as if they did not exist.

    A value under an open window is written at its end only. So the good rules have windows only of a field
    that the bad ones leave alone.
    """
    begin = instant(start)
    kept = [[_only_minimum(rule) if windows else rule | {"duration": None} for rule in each] for each in good]
    worse = [[_forbidden(rule, only_maximum=windows) for rule in each] for each in bad]
    specs = {f"object{place}": as_spec(rules) for place, rules in enumerate(kept)}
    others = {f"x{place}": as_spec(rules) for place, rules in enumerate(worse)}
    alone, together = Hub(specs, begin), Hub(specs | others, begin)
    for place, what in enumerate(does):
        # Good rules fire at full quarters of an hour, and bad ones seven minutes later.
        for minute in (0, 1, 7, 8):
            now = begin + (place * 15 + minute) * MINUTE
            crashes = what in ("crash-effect", "crash-result") and minute in (0, 7)
            action = what if crashes else "run"
            alone.run(now, action)
            together.run(now, action)
        assert together.values == alone.values

    fired = {key: executions for key, executions in together.applied.items() if executions}
    assert fired == {key: executions for key, executions in alone.applied.items() if executions}


def _only_minimum(rule: Json) -> Json:
    return rule | {"targetMinReplicas": rule["targetMinReplicas"] or 1, "targetMaxReplicas": None}


def _forbidden(rule: Json, *, only_maximum: bool) -> Json:
    """Returns a rule that fires seven minutes later and sets values that are refused."""
    minute, rest = rule["schedule"].split(" ", 1)
    late = rule | {"schedule": f"{int(minute) + 7} {rest}"}
    if only_maximum:
        return late | {"targetMinReplicas": None, "targetMaxReplicas": FORBIDDEN}
    fields = ("targetMinReplicas", "targetMaxReplicas")
    return late | {field: FORBIDDEN for field in fields if rule[field] is not None}


@given(objects(YEARS), st.sampled_from(STARTS), steps(YEARS))
@settings(max_examples=examples(25, 5_000), deadline=None)
def test_what_should_hold_holds_over_two_years(
    written: list[list[Json]], start: str, taken: list[Step]
) -> None:
    """The same with steps of up to a month."""
    live(written, instant(start), taken)


@pytest.mark.parametrize("zone", CHANGING)
def test_what_should_hold_holds_around_every_clock_change(zone: str) -> None:
    """The same in one zone, from the day before each of its clock changes."""
    span = HOURS._replace(zones=(zone,))
    begins = [change.instant.timestamp() - 86_393 for change in clock_changes(load_zone(zone), 2026)]

    # Hypothesis stores failures under this one function, so a failure of one zone is repeated in the others.
    @given(objects(span), st.sampled_from(begins), steps(span))
    @settings(max_examples=examples(8, 100), deadline=None)
    def lived(written: list[list[Json]], begin: float, taken: list[Step]) -> None:
        live(written, begin, taken)

    lived()


@given(objects(HOURS), st.sampled_from(STARTS), steps(HOURS))
@settings(max_examples=examples(50, 20_000), deadline=None)
def test_edits_between_a_crash_and_its_repair_fire_nothing_twice(
    written: list[list[Json]], start: str, taken: list[Step]
) -> None:
    """No execution is applied twice or for the past of an edit, and suspended rules leave no window open."""
    history = History(written, instant(start))
    for step in taken:
        history.take(step, anytime=True, delays=False)
    for name in [name for name in history.hub.objects if not history.hub.is_deleted(name)]:
        spec = history.hub.objects[name]["spec"]
        rules = [rule | {"suspend": True} for rule in spec["rules"]]
        history.hub.edit(name, {**spec, "rules": rules}, history.now)
    history.run("run")

    assert history.hub.holders() == set()
