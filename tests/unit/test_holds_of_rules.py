"""Executions and ends of windows wait for the end of a hold: none is lost, and none acts twice."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fedhpa.api.hold import HoldRequest
from fedhpa.cron.execution.model import ObservedTarget
from fedhpa.cron.execution.outcome import Attempts, Settled, next_look, waiting_events
from fedhpa.cron.execution.planning import CronPlan
from tests.unit.test_cron_execution import Hub, Json, at, rule

DOWN, UP, ALL = HoldRequest("down"), HoldRequest("up"), HoldRequest("all")


class HeldHub(Hub):
    """A target whose namespace may hold, and whose write may be refused once."""

    hold: HoldRequest | None = None
    of_target: HoldRequest | None = None

    def plan(self, now: str, target: ObservedTarget | None = None) -> CronPlan:
        target = target or ObservedTarget(dict(self.values), hold=self.of_target)
        holds = [self.hold] if self.hold is not None else []
        return Attempts(tuple(self.objects.values()), self.record, target, at(now), holds).plan

    def text(self, now: str) -> str:
        """The text about events that wait."""
        found = waiting_events(self.plan(now), at(now)).get("office")
        return "" if found is None else found.text


def reasons(settled: Settled) -> list[str]:
    """The reasons of events."""
    return [note.reason for note in settled.notes]


@pytest.mark.parametrize(
    ("hold", "low", "expected"),
    [(DOWN, 2, 8), (DOWN, 9, 9), (UP, 2, 2), (UP, 9, 8), (ALL, 2, 8), (ALL, 9, 8), (None, 2, 2)],
)
def test_an_execution_waits_only_in_a_held_direction(
    hold: HoldRequest | None, low: int, expected: int
) -> None:
    """An execution that lowers a value waits under `down`, one that raises it under `up`."""
    hub = HeldHub(rule("r", "0 9 * * *", low), low=8, high=20)
    hub.hold = hold
    hub.run("09:00:01")

    assert hub.bounds == (expected, 20)


def test_a_held_execution_acts_once_after_the_hold() -> None:
    """It stays due without a failure, is applied once when the hold ends, and then never again."""
    hub = HeldHub(rule("night", "0 20 * * *", 2), low=8, high=20)
    hub.hold = DOWN
    held = [hub.run(now) for now in ("20:00:01", "20:00:11", "21:00:00")]
    text = hub.text("21:00:00")
    hub.hold = None
    after = [hub.run(now) for now in ("21:00:10", "21:00:20")]

    assert [reasons(one) for one in held] == [[], [], []]
    assert all(not one.failed for one in held)
    assert text == (
        "rule night, due 2026-03-16T20:00:00Z waits for the end of a hold: "
        "nothing is scaled down until somebody ends the hold: hold down on the object"
    )
    assert [reasons(one) for one in after] == [["RuleApplied"], []]
    assert hub.bounds == (2, 20)
    assert hub.state("night").failures == ()


def test_a_later_execution_supersedes_a_held_one() -> None:
    """After a night under a hold the morning's values hold, as they would without it."""
    hub = HeldHub(rule("night", "0 20 * * *", 2), rule("day", "0 8 * * *", 9), low=8, high=20)
    hub.hold = DOWN
    hub.run("20:00:01")
    hub.run("2026-03-17T08:00:01")
    during = hub.bounds
    hub.hold = None
    hub.run("2026-03-17T09:00:00")

    assert (during, hub.bounds) == ((9, 20), (9, 20))
    assert hub.state("night").missed[0].message == "superseded by office/day at 2026-03-17T08:00:00Z"


def test_the_end_of_a_window_waits() -> None:
    """A window stays open under a hold, and its baseline returns once, when the hold ends."""
    hub = HeldHub(rule("sale", "0 9 * * *", 9, duration="1h"), low=2, high=20)
    hub.run("09:00:01")
    hub.hold = DOWN
    held = [hub.run(now) for now in ("10:00:01", "10:00:11")]
    during, text = hub.bounds, hub.text("10:00:11")
    hub.hold = None
    after = [hub.run(now) for now in ("10:30:00", "10:30:10")]

    assert during == (9, 20)
    assert text.startswith("the end of the window of rule sale, due 2026-03-16T10:00:00Z waits for")
    assert [reasons(one) for one in held] == [[], []]
    assert [reasons(one) for one in after] == [["WindowClosed"], []]
    assert hub.bounds == (2, 20)


def test_a_window_that_is_over_at_the_end_of_a_hold_never_opens() -> None:
    """A window that a hold kept from opening is missed once its own time is over."""
    hub = HeldHub(rule("sale", "0 9 * * *", 9, duration="1h"), low=2, high=20)
    hub.hold = UP
    hub.run("09:00:01")
    hub.hold = None
    settled = hub.run("10:30:00")

    assert hub.bounds == (2, 20)
    assert reasons(settled) == ["RuleMissed"]


def test_an_event_that_is_free_is_not_held_with_another_one() -> None:
    """Of two rules at one instant only the one waits that would change a value in the held direction."""
    low: Json = rule("low", "0 9 * * *", 12)
    high = rule("high", "0 9 * * *", None, 15)
    hub = HeldHub(low, high, low=8, high=20)
    hub.hold = DOWN
    hub.run("09:00:01")
    during = hub.bounds
    hub.hold = None
    hub.run("09:10:00")

    assert (during, hub.bounds) == ((12, 20), (12, 15))


def test_an_absent_minimum_counts_as_one() -> None:
    """Without minReplicas the default of 1 runs, so a rule that sets 3 raises it."""
    hub = HeldHub(rule("up", "0 9 * * *", 3), low=None)
    hub.hold = UP
    hub.run("09:00:01")

    assert hub.bounds == (None, 10)


def test_the_hold_of_the_target_counts() -> None:
    """An annotation of the FederatedHPA holds the rules that set its bounds, and names it."""
    hub = HeldHub(rule("night", "0 20 * * *", 2), low=8, high=20)
    hub.of_target = HoldRequest("down", name="FederatedHPA web")
    hub.run("20:00:01")

    assert hub.bounds == (8, 20)
    assert hub.text("20:00:01").endswith("hold down on FederatedHPA web")


def test_the_next_look_is_at_the_end_of_the_hold() -> None:
    """A hold without an end is looked at periodically, and one with an end also then."""
    hub = HeldHub(rule("night", "0 20 * * *", 2), low=8, high=20)
    hub.hold = HoldRequest("down", "2026-03-16T20:00:05Z")
    ends = next_look(hub.plan("20:00:01").held, at("20:00:01"), 10.0)
    hub.hold = DOWN

    assert datetime.fromtimestamp(ends, UTC).second == 5
    assert next_look(hub.plan("20:00:01").held, at("20:00:01"), 10.0) == at("20:00:11")
