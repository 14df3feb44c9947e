"""An execution that admission refuses: the others of its target are applied, and it is reported once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.controller import ControllerWorld
from tests.support.fakeapi import Object
from tests.support.rules import (
    autoscaled,
    bounds,
    history,
    minute_after,
    put_rules,
    ready,
    rules_running,
    window,
    windows_of,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)


def admits(changed: Object) -> str:
    """Refuses what the webhook and a policy of the cluster refuse."""
    spec = changed.get("spec") or {}
    if spec.get("maxReplicas", 1) > 50:
        return "maxReplicas above 50 needs an approval"
    if spec.get("minReplicas", 1) > spec.get("maxReplicas", 1):
        return "minReplicas above maxReplicas"
    return ""


def every(w: ControllerWorld, first: int, step: int) -> str:
    """A schedule that fires every `step` minutes, `first` whole minutes after the present one."""
    moment = datetime.fromtimestamp(w.clock.wall(), UTC) + timedelta(minutes=first)
    return ",".join(str((moment.minute + n) % 60) for n in range(0, 60, step)) + " * * * *"


async def test_a_refused_execution_holds_up_no_execution_of_another_object() -> None:
    """The cap is refused for ever; the floor that fires after it is applied on time, each time."""
    async with autoscaled() as w:
        w.hub.admission = admits
        put_rules(w, {"name": "up", "schedule": minute_after(w, 2), "targetMaxReplicas": 99}, name="cap")
        put_rules(w, {"name": "five", "schedule": every(w, 4, 10), "targetMinReplicas": 5}, name="floor")
        put_rules(w, {"name": "nine", "schedule": every(w, 9, 10), "targetMinReplicas": 9}, name="floor2")
        async with rules_running(w):
            await asyncio.sleep(245)
            first = bounds(w)
            await asyncio.sleep(300)
            second = bounds(w)
            failed = history(w, name="cap")

        assert first == (5, 20)
        assert second == (9, 20)
        assert len(failed["failedExecutions"]) == 1
        assert "needs an approval" in failed["failedExecutions"][0]["message"]
        assert len(w.events("ScaleFailed", "cap")) == 1
        assert w.events("ScaleFailed", "floor") == []
        assert history(w, name="floor").get("failedExecutions") is None
        assert ready(w, "cap")[0] == "False"
        assert ready(w, "floor") == ("True", "RulesRun")


async def test_two_executions_of_one_minute_of_which_one_is_refused() -> None:
    """The other one is applied in the same second, and the refused one once its refusal ends."""
    async with autoscaled() as w:
        w.hub.admission = admits
        put_rules(w, {"name": "up", "schedule": minute_after(w, 2), "targetMaxReplicas": 99}, name="cap")
        put_rules(w, {"name": "up", "schedule": minute_after(w, 2), "targetMinReplicas": 5}, name="floor")
        async with rules_running(w):
            await asyncio.sleep(121)
            applied = bounds(w)
            w.hub.admission = lambda changed: ""
            await asyncio.sleep(120)

        assert applied == (5, 20)
        assert bounds(w) == (5, 99)
        assert len(history(w, name="cap")["successfulExecutions"]) == 1


async def test_bounds_that_need_each_other_are_one_write() -> None:
    """Each of the two executions would be refused alone or in the other order."""
    async with autoscaled() as w:
        w.hub.admission = admits
        put_rules(w, {"name": "up", "schedule": minute_after(w, 2), "targetMinReplicas": 30}, name="floor")
        put_rules(w, {"name": "up", "schedule": minute_after(w, 2), "targetMaxReplicas": 40}, name="top")
        async with rules_running(w):
            await asyncio.sleep(121)

        assert bounds(w) == (30, 40)
        assert w.events("ScaleFailed", "floor") == []


async def test_a_failed_execution_is_applied_with_the_execution_that_makes_it_possible() -> None:
    """The floor is above the present maximum, until another fire raises that."""
    async with autoscaled() as w:
        w.hub.admission = admits
        put_rules(w, {"name": "up", "schedule": minute_after(w, 2), "targetMinReplicas": 30}, name="floor")
        put_rules(w, {"name": "up", "schedule": minute_after(w, 5), "targetMaxReplicas": 40}, name="top")
        async with rules_running(w):
            await asyncio.sleep(200)
            before = bounds(w)
            await asyncio.sleep(103)

        assert before == (1, 20)
        assert bounds(w) == (30, 40)


async def test_a_window_that_is_refused_never_opens_and_leaves_the_others() -> None:
    """The refused window is in no record, so the values before it return from the window of another rule."""
    async with autoscaled() as w:
        w.hub.admission = admits
        put_rules(w, window(w, 2, "30m", targetMinReplicas=5), name="good")
        put_rules(w, window(w, 2, "30m", targetMaxReplicas=99), name="zbad")
        async with rules_running(w):
            await asyncio.sleep(200)
            during = bounds(w)
            opened = [each["object"] for each in windows_of(w)["open"]]
        async with rules_running(w):
            await asyncio.sleep(1800)

        assert during == (5, 20)
        assert opened == ["good"]
        assert bounds(w) == (1, 20)
        assert windows_of(w) == {}
        assert "its window was over" in history(w, name="zbad")["missedExecutions"][0]["message"]


async def test_the_end_of_a_window_that_is_refused_holds_up_no_execution() -> None:
    """The values before the window are refused now. An execution of another field is applied meanwhile."""
    async with autoscaled(maxReplicas=60) as w:
        put_rules(w, window(w, 2, "5m", targetMaxReplicas=30), name="quiet")
        put_rules(w, {"name": "up", "schedule": minute_after(w, 9), "targetMinReplicas": 5}, name="floor")
        async with rules_running(w):
            await asyncio.sleep(150)
            w.hub.admission = admits
            await asyncio.sleep(420)
            effective = bounds(w)
            w.hub.admission = lambda changed: ""
            await asyncio.sleep(120)

        assert effective == (5, 30)
        assert bounds(w) == (5, 60)
        assert windows_of(w) == {}


async def test_a_failing_execution_of_a_rule_without_failed_history_is_reported_once() -> None:
    """With failedHistoryLimit 0 there is one event, and Ready is False while the execution fails."""
    async with autoscaled() as w:
        w.hub.admission = admits
        rule = {
            "name": "up",
            "schedule": minute_after(w, 2),
            "targetMaxReplicas": 99,
            "failedHistoryLimit": 0,
        }
        put_rules(w, rule)
        async with rules_running(w):
            await asyncio.sleep(600)
            reported, condition = w.events("ScaleFailed", "office"), ready(w)
        async with rules_running(w):
            await asyncio.sleep(600)
            again, still = w.events("ScaleFailed", "office"), ready(w)
            w.hub.admission = lambda changed: ""
            await asyncio.sleep(120)

        assert len(reported) == 1
        assert condition == ("False", "ScaleFailed")
        assert len(again) == 1
        assert still == ("False", "ScaleFailed")
        assert "failedExecutions" not in history(w)
        assert ready(w) == ("True", "RulesRun")
        assert bounds(w) == (1, 99)
