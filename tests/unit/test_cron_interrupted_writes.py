"""A person changes the target after a write whose result was not stored, because the controller ended."""

from __future__ import annotations

from typing import Any

import pytest

from fedhpa.cron.execution.model import ObservedTarget
from tests.unit.test_cron_execution import Hub, messages, rule


def edited_and_crashed(*, effect: bool, **edit: Any) -> Hub:
    """A hub with a window whose minReplicas of 5 an edit changed; the result of that write is not stored."""
    hub = Hub(rule("day", "0 9 * * *", 5, duration="3h"))
    hub.run("09:00")
    hub.write("office", rule("day", "0 9 * * *", **{"low": 7, "duration": "3h", **edit}), edited="10:00")
    planned = hub.plan("10:01")
    hub.record = planned.pending
    if effect:
        hub.values |= planned.write
    return hub


def resumed(hub: Hub, **managers: str) -> list[str]:
    """Runs the rules again, with the clients that the target shows. Returns the events."""
    planned = hub.plan("10:30", ObservedTarget(dict(hub.values), managers=managers))
    return messages(hub.finish(planned, "10:30"))


@pytest.mark.parametrize("effect", [True, False], ids=["written", "not-written"])
def test_a_change_after_an_interrupted_edit_of_a_window_stays(*, effect: bool) -> None:
    """The window ends, as it does for any change of a person."""
    hub = edited_and_crashed(effect=effect)
    hub.values["minReplicas"] = 3

    reported = resumed(hub, minReplicas="kubectl")

    assert hub.bounds == (3, 10)
    assert hub.record is None
    text = "kubectl set minReplicas to 3 while a window set it to 5; it stays, and nothing is restored"
    assert reported == [f"WindowOverridden: {text}"]


def test_a_change_after_an_edit_that_ended_the_window_stays() -> None:
    """The edit removes the rule's minReplicas, and the interrupted write restores the earlier one."""
    hub = edited_and_crashed(effect=True, low=None, high=20)
    restored = hub.bounds
    hub.values["minReplicas"] = 3

    resumed(hub, minReplicas="kubectl")
    hub.run("12:00")

    assert restored == (1, 20)
    assert hub.bounds == (3, 10)


@pytest.mark.parametrize("present", [5, 7])
def test_a_value_of_the_rule_is_no_change(present: int) -> None:
    """The target has the value from before the write, or that of the write. The write is completed."""
    hub = edited_and_crashed(effect=True)
    hub.values["minReplicas"] = present

    reported = resumed(hub, minReplicas="kubectl")

    assert hub.bounds == (7, 10)
    assert hub.record is not None
    assert reported == []


def test_an_own_value_of_an_earlier_attempt_is_no_change() -> None:
    """The rule was edited again before the second attempt. No other client wrote the value of the first."""
    hub = edited_and_crashed(effect=True)
    hub.write("office", rule("day", "0 9 * * *", 8, duration="3h"), edited="10:10")
    hub.record = hub.plan("10:20").pending

    resumed(hub)

    assert hub.bounds == (8, 10)


def test_a_change_before_an_interrupted_opening_is_its_baseline() -> None:
    """The change ends the open window for minReplicas. The next window holds it again."""
    hub = Hub(rule("day", "0 * * * *", 5, 20, duration="90m"))
    hub.run("09:00")
    hub.values["minReplicas"] = 3
    hub.record = hub.plan("10:00").pending

    resumed(hub, minReplicas="kubectl")
    opened = hub.bounds
    hub.write("office", edited="10:50")
    hub.run("10:51")

    assert opened == (5, 20)
    assert hub.bounds == (3, 10)


def test_a_change_after_an_edit_and_the_end_of_the_window_stays() -> None:
    """One write, which the target names, restores the field of the edit and that of the end."""
    hub = Hub(rule("day", "0 9 * * *", 5, duration="3h"))
    hub.run("09:00")
    hub.write("office", rule("day", "0 9 * * *", None, 20, duration="3h"), edited="11:59")
    planned = hub.plan("12:00")
    hub.record = planned.pending
    hub.values |= planned.write
    restored = hub.bounds
    hub.values["minReplicas"] = 3

    done = ObservedTarget(dict(hub.values), done=frozenset(planned.marker.split(",")))
    hub.finish(hub.plan("12:01", done), "12:01")

    assert restored == (1, 10)
    assert hub.bounds == (3, 10)
    assert hub.record is None
