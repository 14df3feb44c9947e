"""The plan of one target: due executions, superseded and late ones, windows, edits and failures."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import pytest

from fedhpa.api.cronfederatedhpa import CronFederatedHPASpec
from fedhpa.cron.execution.model import ObservedTarget, RuleState, ScheduledObject, Succeeded, WindowRecord
from fedhpa.cron.execution.objects import executable_rules
from fedhpa.cron.execution.outcome import Settled, settle
from fedhpa.cron.execution.planning import CronPlan

Json = dict[str, Any]

FHPA = {"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "name": "web"}


def at(text: str) -> float:
    """Returns the instant of a time on 16 March 2026, or of a whole date and time, in UTC."""
    text = text if "T" in text else f"2026-03-16T{text}"
    return datetime.fromisoformat(f"{text}+00:00").timestamp()


def rule(name: str, schedule: str, low: int | None = None, high: int | None = None, **more: object) -> Json:
    """Returns a rule that sets minReplicas and maxReplicas."""
    return {"name": name, "schedule": schedule, "targetMinReplicas": low, "targetMaxReplicas": high, **more}


class Hub:
    """A target, the objects that schedule it, and their stored statuses."""

    def __init__(self, *rules: Json, created: str = "00:00", low: int | None = 1, high: int = 10) -> None:
        self.values: dict[str, int | None] = {"minReplicas": low, "maxReplicas": high}
        self.objects: dict[str, ScheduledObject] = {}
        self.record: WindowRecord | None = None
        self.write("office", *rules, edited=created, created=created)

    def write(self, name: str, *rules: Json, edited: str, created: str = "00:00", **more: Any) -> None:
        """Creates or edits an object."""
        target = {**FHPA, "name": more.pop("target", "web")}
        spec = CronFederatedHPASpec.model_validate({"scaleTargetRef": target, "rules": list(rules)})
        old = self.objects.get(name)
        self.objects[name] = ScheduledObject(
            name,
            at(created) if old is None else old.created,
            executable_rules(spec),
            {} if old is None else old.states,
            known=old is not None and old.known,
            edited=at(edited),
            **more,
        )

    def plan(self, now: str, target: ObservedTarget | None = None) -> CronPlan:
        return CronPlan(
            tuple(self.objects.values()), self.record, target or ObservedTarget(dict(self.values)), at(now)
        )

    def run(self, now: str, error: str = "") -> Settled:
        """Plans and writes at one instant, and stores the result."""
        return self.finish(self.plan(now), now, error)

    def finish(self, planned: CronPlan, now: str, error: str = "") -> Settled:
        if not error:
            self.values |= planned.write
        settled = settle(planned, at(now), error)
        self.store(settled)
        return settled

    def store(self, settled: Settled) -> None:
        self.record = settled.record
        for name, states in settled.states.items():
            self.objects[name] = msgspec.structs.replace(self.objects[name], states=states, known=True)

    def state(self, name: str = "up", owner: str = "office") -> RuleState:
        return self.objects[owner].states[name]

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        return self.values["minReplicas"], self.values["maxReplicas"]


def messages(settled: Settled) -> list[str]:
    return [f"{note.reason}: {note.message}" for note in settled.notes]


def test_an_execution_sets_its_values_once() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5, 20))

    assert hub.run("08:59:59").notes == []
    settled = hub.run("09:00:01")
    again = hub.run("09:00:02")

    assert hub.bounds == (5, 20)
    assert messages(settled) == [
        "RuleApplied: rule up, due 2026-03-16T09:00:00Z: set minReplicas 5, maxReplicas 20"
    ]
    assert again.notes == []
    assert hub.state().successes == (
        Succeeded(at("09:00"), at("09:00:01"), {"minReplicas": 5, "maxReplicas": 20}),
    )
    assert hub.state().next_execution == at("2026-03-17T09:00")


def test_the_execution_before_the_creation_is_not_due() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5), created="10:00")

    settled = hub.run("10:00:05")

    assert hub.bounds == (1, 10)
    assert settled.notes == []


def test_an_execution_while_no_controller_ran_is_applied_late() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5))
    hub.run("08:00")

    hub.run("2026-03-16T23:00:00")

    assert hub.bounds == (5, 10)


def test_only_the_latest_of_two_due_executions_is_applied() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5), rule("down", "0 11 * * *", 2))
    hub.run("08:00")

    settled = hub.run("12:00")

    assert hub.bounds == (2, 10)
    assert messages(settled) == [
        (
            "RuleMissed: rule up: the execution of 2026-03-16T09:00:00Z is missed: superseded by "
            "office/down at 2026-03-16T11:00:00Z"
        ),
        "RuleApplied: rule down, due 2026-03-16T11:00:00Z: set minReplicas 2",
    ]


def test_a_late_execution_still_supersedes_the_one_before_it() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5), rule("down", "0 11 * * *", 2, maxDelaySeconds=600))
    hub.run("08:00")

    settled = hub.run("12:00")

    assert hub.bounds == (1, 10)
    assert [note.reason for note in settled.notes] == ["RuleMissed", "RuleMissed"]
    assert "3600 s late, and maxDelaySeconds is 600" in settled.notes[1].message
    assert hub.run("12:01").notes == []


def test_an_execution_keeps_the_fields_that_no_later_one_sets() -> None:
    hub = Hub(rule("both", "0 9 * * *", 5, 20), rule("low", "0 10 * * *", 2))
    hub.run("08:00")

    hub.run("12:00")

    assert hub.bounds == (2, 20)


def test_an_execution_that_was_handled_supersedes_an_earlier_one_of_another_object() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5))
    hub.write("other", rule("down", "0 10 * * *", 2), edited="00:00")
    hub.run("08:00")
    planned = hub.plan("12:00")
    settled = settle(planned, at("12:00"))
    hub.values |= planned.write
    # The status of the first object is not stored: its execution is still due.
    hub.store(settled._replace(states={"other": settled.states["other"]}))

    hub.run("12:01")

    assert hub.bounds == (2, 10)
    assert hub.state().successes == ()
    assert hub.state().missed[0].message.startswith("superseded by other/down")


def test_older_executions_of_a_frequent_rule_are_counted() -> None:
    hub = Hub(rule("up", "* * * * *", 5))
    hub.run("00:00")

    hub.run("2027-03-16T00:00:30")

    missed = hub.state().missed[0]
    assert (missed.count, missed.first, missed.last) == (
        365 * 1440 - 1,
        at("00:01"),
        at("2027-03-15T23:59"),
    )
    assert hub.state().successes[0].scheduled == at("2027-03-16T00:00")


def test_a_failed_execution_is_one_entry_and_is_tried_again() -> None:
    hub = Hub(rule("up", "0 9 * * *", 50))
    hub.run("08:00")

    first = hub.run("09:00:01", error="admission refused it")
    second = hub.run("09:00:11", error="admission refused it again")

    assert [note.reason for note in first.notes] == ["ScaleFailed"]
    assert second.notes == []
    assert [(entry.executed, entry.message) for entry in hub.state().failures] == [
        (at("09:00:01"), "admission refused it again")
    ]
    assert hub.state().next_execution == at("09:00")
    hub.run("09:00:31")
    assert hub.bounds == (50, 10)
    assert hub.state().next_execution == at("2026-03-17T09:00")


def test_an_edited_schedule_starts_at_the_edit() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5))
    hub.run("08:00")
    hub.write("office", rule("up", "0 7 * * *", 5), edited="10:00")

    assert hub.run("10:00:05").notes == []
    assert hub.bounds == (1, 10)
    assert hub.state().next_execution == at("2026-03-17T07:00")


def test_an_edit_of_values_applies_nothing_until_the_next_execution() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5))
    hub.run("09:00:01")
    hub.write("office", rule("up", "0 9 * * *", 7), edited="10:00")

    assert hub.run("10:00:05").notes == []
    assert hub.bounds == (5, 10)


def test_a_resumed_rule_owes_nothing_of_its_pause() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5))
    hub.run("08:00")
    hub.write("office", rule("up", "0 9 * * *", 5, suspend=True), edited="08:30")
    hub.run("08:30:01")
    assert hub.state().next_execution is None
    hub.run("09:30")
    hub.write("office", rule("up", "0 9 * * *", 5), edited="10:00")

    hub.run("10:00:01")

    assert hub.bounds == (1, 10)
    assert hub.state().next_execution == at("2026-03-17T09:00")


@pytest.mark.parametrize(
    ("stored", "applied"),
    [
        (RuleState(successes=(Succeeded(at("09:00"), at("09:00"), {}),)), False),
        (RuleState(successes=(Succeeded(at("2026-03-15T09:00"), at("2026-03-15T09:00"), {}),)), True),
        (RuleState(next_execution=at("09:00")), True),
        (RuleState(next_execution=at("2026-03-17T09:00")), False),
        (RuleState(), False),
    ],
)
def test_the_watermark_follows_from_the_status_that_karmada_wrote(stored: RuleState, applied: bool) -> None:
    hub = Hub(rule("up", "0 9 * * *", 5), created="2026-01-01T00:00")
    hub.objects["office"] = msgspec.structs.replace(hub.objects["office"], states={"up": stored}, known=True)

    hub.run("12:00")

    assert hub.bounds == ((5, 10) if applied else (1, 10))


def test_a_watermark_of_the_far_future_starts_anew_with_an_event() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5))
    ahead = RuleState(handled_until=at("2026-03-18T09:00"))
    hub.objects["office"] = msgspec.structs.replace(hub.objects["office"], states={"up": ahead}, known=True)

    settled = hub.run("08:00")
    hub.run("09:00:01")

    assert [note.reason for note in settled.notes] == ["StatusFromFuture"]
    assert hub.bounds == (5, 10)


def test_a_clock_that_was_stepped_back_fires_nothing_again() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5))
    hub.run("09:30")
    hub.values["minReplicas"] = 3

    hub.run("08:30")
    hub.run("09:00:30")

    assert hub.bounds == (3, 10)


def test_a_rule_that_sets_nothing_fails_once() -> None:
    hub = Hub(rule("up", "0 9 * * *"))

    settled = hub.run("09:00:01")

    assert "targetMinReplicas and targetMaxReplicas: nothing is set" in settled.notes[0].message
    assert hub.run("09:00:02").notes == []
    assert len(hub.state().failures) == 1


def test_a_missing_target_fails_every_execution_until_it_is_there() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5))
    gone = ObservedTarget({}, "FederatedHPA shop/web does not exist", gone=True)

    settled = hub.finish(hub.plan("09:00:01", gone), "09:00:01")
    assert settled.failed
    assert hub.state().failures[0].message == "FederatedHPA shop/web does not exist"
    hub.run("09:05")

    assert hub.bounds == (5, 10)


def test_a_window_opens_and_the_baseline_returns() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5, 20, duration="8h"), low=None)

    opened = hub.run("09:00:01")
    during = hub.bounds
    closed = hub.run("17:00:00")

    assert during == (5, 20)
    assert opened.notes[0].message.endswith("maxReplicas 20 until 2026-03-16T17:00:00Z")
    assert hub.bounds == (None, 10)
    assert messages(closed) == ["WindowClosed: rule up: the window of 2026-03-16T09:00:00Z is closed"]
    assert hub.record is None


def test_a_window_that_was_missed_whole_changes_nothing() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5, duration="1h"))
    hub.run("08:00")

    settled = hub.run("11:00")

    assert hub.bounds == (1, 10)
    assert "its window was over at 2026-03-16T10:00:00Z" in settled.notes[0].message


def test_the_latest_window_holds_and_the_one_below_returns() -> None:
    hub = Hub(
        rule("day", "0 9 * * *", 5, duration="8h"),
        rule("sale", "0 12 * * *", 9, duration="1h"),
    )
    seen = []
    for now in ("09:00:01", "12:00:01", "13:00:01", "17:00:01"):
        hub.run(now)
        seen.append(hub.bounds[0])

    assert seen == [5, 9, 5, 1]


def test_a_plain_execution_under_a_window_changes_the_baseline() -> None:
    hub = Hub(rule("day", "0 9 * * *", 5, duration="8h"), rule("night", "0 12 * * *", 3))
    hub.run("09:00:01")

    hub.run("12:00:01")
    during = hub.bounds
    hub.run("17:00:01")

    assert during == (5, 10)
    assert hub.bounds == (3, 10)


def test_a_plain_execution_before_an_opening_becomes_the_baseline_when_both_are_due() -> None:
    hub = Hub(rule("night", "0 8 * * *", 3), rule("day", "0 9 * * *", 5, duration="8h"))
    hub.run("07:00")

    hub.run("10:00")
    during = hub.bounds
    hub.run("17:00:01")

    assert (during, hub.bounds) == ((5, 10), (3, 10))


def test_a_renewed_window_closes_after_its_last_execution() -> None:
    hub = Hub(rule("up", "0 * * * *", 5, duration="90m"), created="08:30")
    hub.run("09:00:01")
    hub.run("10:00:01")
    hub.write("office", rule("up", "0 * * * *", 5, duration="90m"), edited="08:30")

    assert hub.record is not None
    assert [each.closes for each in hub.record.open] == [at("11:30")]
    assert hub.record.baseline == {"minReplicas": 1}


def test_a_change_by_a_person_ends_the_window_without_restoring() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5, 20, duration="8h"))
    hub.run("09:00:01")
    hub.values["minReplicas"] = 7

    settled = hub.run("10:00")
    hub.run("10:00:05")
    hub.run("17:00:01")

    assert [note.reason for note in settled.notes] == ["WindowOverridden"]
    assert "somebody set minReplicas to 7 while a window set it to 5" in settled.notes[0].message
    # The window goes on for the field that nobody changed.
    assert hub.bounds == (7, 10)


def test_new_values_of_an_open_window_apply_at_once() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5, duration="8h"))
    hub.run("09:00:01")
    hub.write("office", rule("up", "0 9 * * *", 6, 30, duration="2h"), edited="10:00")

    hub.run("10:00:01")
    during = hub.bounds
    hub.run("11:00:00")

    assert (during, hub.bounds) == ((6, 30), (1, 10))


@pytest.mark.parametrize(
    "edit",
    [
        (rule("up", "0 8 * * *", 5, duration="8h"),),
        (rule("up", "0 9 * * *", 5, duration="8h", timeZone="Europe/Berlin"),),
        (rule("up", "0 9 * * *", 5, duration="8h", suspend=True),),
        (rule("up", "0 9 * * *", 5),),
        (rule("renamed", "0 9 * * *", 5, duration="8h"),),
    ],
)
def test_other_edits_close_the_window(edit: tuple[Json, ...]) -> None:
    hub = Hub(rule("up", "0 9 * * *", 5, duration="8h"))
    hub.run("09:00:01")
    hub.write("office", *edit, edited="10:00")

    hub.run("10:00:01")

    assert hub.bounds == (1, 10)
    assert hub.record is None


def test_a_deleted_object_restores_for_a_minute_and_then_gives_up() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5, duration="8h"))
    hub.run("09:00:01")
    hub.write("office", rule("up", "0 9 * * *", 5, duration="8h"), edited="00:00", deleted=at("10:00"))

    failing = hub.run("10:00:01", error="the API server is away")
    assert hub.record is not None
    given_up = hub.run("10:01:05")

    assert failing.failed == ()
    assert [note.reason for note in given_up.notes] == ["NotRestored"]
    assert hub.record is None


def test_a_window_whose_target_is_gone_is_closed() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5, duration="8h"))
    hub.run("09:00:01")

    hub.finish(
        hub.plan("10:00", ObservedTarget({}, "FederatedHPA shop/web does not exist", gone=True)), "10:00"
    )

    assert hub.record is None


def test_a_target_that_cannot_be_read_keeps_its_windows() -> None:
    """Nothing is planned for its values, and an overdue end is no wake-up in the past."""
    hub = Hub(rule("up", "0 9 * * *", 5, duration="8h"))
    hub.run("09:00:01")
    away = ObservedTarget({}, "FederatedHPA shop/web: connection refused")

    during, overdue = hub.plan("10:00", away), hub.plan("17:00:05", away)

    assert during.record == overdue.record == hub.record
    assert during.wake == at("17:00")
    assert overdue.wake == at("09:00") + 86400


def test_a_crash_after_the_effect_of_an_opening_keeps_the_baseline() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5, duration="8h"))
    hub.run("08:00")
    planned = hub.plan("09:00:01")
    hub.record = planned.pending
    hub.values |= planned.write

    hub.run("09:30")
    hub.run("17:00:01")

    assert hub.bounds == (1, 10)
    assert [done.scheduled for done in hub.state().successes] == [at("09:00")]


def test_a_crash_before_the_effect_of_an_opening_repeats_it() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5, duration="8h"))
    hub.run("08:00")
    hub.record = hub.plan("09:00:01").pending

    hub.run("09:30")

    assert hub.bounds == (5, 10)
    hub.run("17:00:01")
    assert hub.bounds == (1, 10)


def test_a_refused_opening_does_not_stop_later_executions() -> None:
    hub = Hub(rule("day", "0 9 * * *", 50, duration="2h"), rule("night", "0 10 * * *", 3))
    hub.run("08:00")
    hub.run("09:00:01", error="min is above max")
    hub.run("10:00:01", error="min is above max")

    hub.run("11:00:01")

    assert hub.bounds == (3, 10)
    assert hub.record is None


def test_the_wake_is_the_next_execution_or_end_of_a_window() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5, duration="30m"), rule("down", "0 20 * * *", 2))

    assert hub.plan("08:00").wake == at("09:00")
    hub.run("09:00:01")
    assert hub.plan("09:00:02").wake == at("09:30")
    hub.run("09:30:00")
    assert hub.plan("09:30:01").wake == at("20:00")


def test_an_edit_between_creation_and_the_first_pass_starts_at_the_edit() -> None:
    """The schedule may be as new as the edit, so its executions from before it are not due."""
    hub = Hub(rule("up", "0 9 * * *", 5), created="08:00")
    hub.write("office", rule("up", "0 9 * * *", 5), edited="10:00")

    assert hub.run("10:30").notes == []
    assert hub.bounds == (1, 10)


def test_a_clock_behind_the_hub_does_not_make_a_rule_have_executions_from_before_its_creation() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5), created="10:00")
    hub.run("08:30")

    hub.run("10:00:01")

    assert hub.bounds == (1, 10)


def test_a_clock_behind_the_hub_does_not_make_a_rule_have_executions_from_before_an_edit() -> None:
    hub = Hub(rule("up", "0 7 * * *", 5), created="08:00")
    hub.run("08:00:01")
    hub.write("office", rule("up", "0 9 * * *", 5), edited="10:00")
    hub.run("08:30")

    hub.run("10:00:01")

    assert hub.bounds == (1, 10)


def test_a_new_target_gets_no_executions_from_before_the_edit() -> None:
    """The object had another target until 10:00, and its controller was away from 08:00 to 10:30."""
    hub = Hub()
    hub.write("office", rule("up", "0 9 * * *", 5), edited="00:00", target="other")
    hub.run("08:00")
    hub.write("office", rule("up", "0 9 * * *", 5), edited="10:00")

    assert hub.run("10:30").notes == []
    assert hub.bounds == (1, 10)


def test_an_opening_whose_effect_was_made_stays_open_after_a_late_return() -> None:
    """Only the result of the opening was lost, so maxDelaySeconds does not concern it."""
    hub = Hub(rule("up", "0 9 * * *", 5, duration="8h", maxDelaySeconds=60))
    hub.run("08:00")
    planned = hub.plan("09:00:01")
    hub.record = planned.pending
    hub.values |= planned.write

    hub.run("09:30")

    assert hub.bounds == (5, 10)
    assert hub.state().missed == ()
    hub.run("17:00:01")
    assert hub.bounds == (1, 10)


def test_a_refused_execution_is_not_written_once_it_is_too_late() -> None:
    """Also if the window of another rule is open, whose record holds the write that was begun."""
    window = rule("day", "0 8 * * *", None, 50, duration="8h")
    hub = Hub(window, rule("up", "0 9 * * *", 5, maxDelaySeconds=600))
    hub.run("08:00:01")
    hub.run("09:00:01", error="refused")

    hub.run("10:00")

    assert hub.bounds == (1, 50)
    assert [missed.first for missed in hub.state().missed] == [at("09:00")]


def test_a_field_that_an_edit_takes_from_a_window_returns_also_after_a_refusal() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5, duration="8h"))
    hub.run("09:00:01")
    hub.write("office", rule("up", "0 9 * * *", None, 20, duration="8h"), edited="10:00")
    hub.run("10:00:01", error="refused")

    hub.run("10:01")

    assert hub.bounds == (1, 20)


def test_of_two_rules_with_one_name_the_first_runs() -> None:
    hub = Hub(rule("up", "0 9 * * *", 5, duration="2h"), rule("up", "0 10 * * *", 7, duration="2h"))
    hub.run("09:00:01")
    hub.run("10:00:01")

    first, second = hub.objects["office"].rules

    assert hub.bounds == (5, 10)
    assert [done.scheduled for done in hub.state().successes] == [at("09:00")]
    assert first.problem == ""
    assert second.problem == "spec.rules[1].name: an earlier rule has this name, and only that one runs"
    hub.run("11:00:01")
    assert hub.bounds == (1, 10)


def test_a_window_over_the_value_of_a_person_survives_a_crash_before_the_write() -> None:
    """The person set the value that the new window holds, so only its maximum is written."""
    hub = Hub(
        rule("low", "0 8 * * *", 2, duration="8h"),
        rule("high", "0 9 * * *", 5, 20, duration="2h"),
    )
    hub.run("08:00:01")
    hub.values["minReplicas"] = 5
    hub.record = hub.plan("09:00:01").pending

    settled = hub.run("09:01")

    assert hub.bounds == (5, 20)
    assert settled.record is not None
    assert settled.record.open[-1].values == {"minReplicas": 5, "maxReplicas": 20}
