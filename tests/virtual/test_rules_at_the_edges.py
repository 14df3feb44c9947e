"""Rules at the edges: targets that are made anew, edits that change nothing, clocks, refusals, late news."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fedhpa.kube import Clock
from tests.support.controller import HPAS, NAMESPACE, ControllerWorld
from tests.support.fakeapi import Object
from tests.support.rules import (
    CRONS,
    FHPA,
    RECORDS,
    autoscaled,
    bounds,
    history,
    minute_after,
    put_rules,
    ready,
    rule_up,
    rules_running,
    run_rules,
    stored,
    window,
    windows_of,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)

HOUR = 3600.0
DAY = 24 * HOUR
TARGET_RECORD = "cron-target.autoscaling.karmada.io.federatedhpa.web"


class Steps:
    """A wall clock that a test steps while the controller runs."""

    def __init__(self, w: ControllerWorld) -> None:
        known = w.clock
        self.ahead = 0.0
        w.clock = Clock(known.monotonic, lambda: known.wall() + self.ahead, boot=known.boot)


def set_bounds(w: ControllerWorld, manager: str = "", **spec: int) -> None:
    """A client changes bounds of the target; the managed fields name it."""
    found: Any = w.hub.find(HPAS, "web", NAMESPACE)
    fields: Any = {"f:spec": {f"f:{name}": {} for name in spec}}
    managed = [{"manager": manager, "fieldsV1": fields}] if manager else []
    metadata = {**found["metadata"], "managedFields": managed}
    w.hub.put(HPAS, {**found, "metadata": metadata, "spec": {**found["spec"], **spec}})


# -- records and targets -----------------------------------------------------------------------------------
async def test_an_opening_that_was_never_stored_is_not_missed() -> None:
    """No result can be stored until the window is over, and then one read of the target fails."""
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "5m"))
        async with rules_running(w):
            await asyncio.sleep(60)

            def refuse_results(method: str, path: str) -> None:
                if method == "PATCH" and path.endswith("/federatedhpas/web"):
                    w.hub.refused[("PUT", "/status")] = 500

            w.hub.before = refuse_results
            await asyncio.sleep(120)
            opened = bounds(w)
            w.hub.before = lambda *_: None
            w.hub.refused = {("GET", "/federatedhpas/web"): 500, ("PUT", "/status"): 500}
            await asyncio.sleep(300)
            w.hub.refused = {("GET", "/federatedhpas/web"): 500}
            await asyncio.sleep(120)
            w.hub.refused = {}
            await asyncio.sleep(120)

        assert opened == (5, 20)
        assert bounds(w) == (1, 20)
        assert w.events("RuleMissed", "office") == []
        assert windows_of(w) == {}


async def test_an_execution_that_was_applied_is_not_missed_later() -> None:
    """Its result is stored only after maxDelaySeconds."""
    async with autoscaled() as w:
        put_rules(w, {**rule_up(w, 2), "maxDelaySeconds": 60})
        async with rules_running(w):
            await asyncio.sleep(60)
            w.hub.refused["PUT", "/cronfederatedhpa.office/status"] = 500
            await asyncio.sleep(180)
            w.hub.refused.clear()
            await asyncio.sleep(120)

        assert len(history(w)["successfulExecutions"]) == 1
        assert w.events("RuleMissed", "office") == []


async def test_a_record_that_changes_while_its_target_is_read_is_read_first() -> None:
    """Another process opens the window between two requests of this one. Nobody changed anything."""
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "10m"))
        theirs: Object = {}

        def other(method: str, path: str) -> None:
            record = w.hub.find(RECORDS, TARGET_RECORD, NAMESPACE)
            if method == "POST" and path.endswith("/scalingrecords") and not theirs:
                at = w.clock.wall() // 60 * 60
                opened: Object = {"opened": at, "closes": at + 600, "fields": ["minReplicas"]}
                opened["rules"] = {"office": {"sale": [5]}}
                state = {"baseline": {"minReplicas": 1}, "pending": {"minReplicas": 5}, "open": [opened]}
                target = {"apiVersion": FHPA["apiVersion"], "kind": FHPA["kind"], "name": "web"}
                theirs.update({"version": 1, "target": target, "state": state})
                name = {"name": TARGET_RECORD, "namespace": NAMESPACE}
                labels = {"fedhpa.io/record": "cron-target"}
                w.hub.put(RECORDS, {"metadata": {**name, "labels": labels}, "status": theirs})
            elif method == "GET" and path.endswith(TARGET_RECORD) and windows_of(w).get("pending"):
                assert record is not None
                set_bounds(w, "fedhpa-cron", minReplicas=5)
                done = {**theirs["state"], "applied": {"minReplicas": 5}}
                done.pop("pending")
                w.hub.put(RECORDS, {**record, "status": {**theirs, "state": done}})

        async with rules_running(w):
            await asyncio.sleep(90)
            w.hub.before = other
            await asyncio.sleep(120)
            w.hub.before = lambda *_: None
            during = bounds(w)
            await asyncio.sleep(900)

        assert theirs
        assert during == (5, 20)
        assert w.events("WindowOverridden", "office") == []
        assert bounds(w) == (1, 20)


async def test_a_target_that_is_made_anew_does_not_get_the_old_baseline() -> None:
    """The target is deleted and created in an open window."""
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "10m"))
        async with rules_running(w):
            await asyncio.sleep(150)
            during = bounds(w)
            w.hub.remove(HPAS, "web", NAMESPACE)
            w.scale(minReplicas=5)
            fresh: Any = w.hub.find(HPAS, "web", NAMESPACE)
            w.hub.put(HPAS, {**fresh, "metadata": {**fresh["metadata"], "uid": "second"}})
            await asyncio.sleep(900)

        assert during == (5, 20)
        assert bounds(w) == (5, 20)
        assert windows_of(w) == {}
        assert "made anew" in w.events("NotRestored", "office")[0]


# -- edits -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "edit",
    [
        {"schedule": "0{minute} * * * *"},
        {"excludeDates": ["2030-12-25"]},
        {"timeZone": "UTC"},
        {"schedule": "{minute},59 * * * *"},
    ],
    ids=["a zero", "a date in December", "UTC", "one more time"],
)
async def test_an_edit_that_keeps_the_opening_keeps_the_window(edit: Object) -> None:
    """The window stays open without a break, and ends in time."""
    async with autoscaled() as w:
        rule = window(w, 2, "30m")
        minute = rule["schedule"].split()[0]
        text = edit.get("schedule", "")
        new = {**rule, **edit, **({"schedule": text.replace("{minute}", minute)} if text else {})}
        put_rules(w, rule)
        async with rules_running(w):
            await asyncio.sleep(300)
            writes = w.hub.request_count("PATCH", "/federatedhpas/web")
            put_rules(w, new)
            await asyncio.sleep(300)
            during, more = bounds(w), w.hub.request_count("PATCH", "/federatedhpas/web") - writes
            await asyncio.sleep(1500)

        assert (during, more) == ((5, 20), 0)
        assert bounds(w) == (1, 20)
        assert w.events("WindowOverridden", "office") == []


@pytest.mark.parametrize("away", [True, False])
async def test_a_rule_that_was_suspended_and_resumed_starts_then(*, away: bool) -> None:
    """An execution fell into the suspension. It is never applied, whether or not a controller ran."""
    async with autoscaled() as w:
        rule = rule_up(w, 10)
        put_rules(w, rule)
        await run_rules(w, 120)

        async def pause() -> None:
            await asyncio.sleep(60)
            put_rules(w, {**rule, "suspend": True})
            await asyncio.sleep(900)
            put_rules(w, rule)
            await asyncio.sleep(60)

        if away:
            await pause()
        async with rules_running(w):
            if not away:
                await pause()
            await asyncio.sleep(300)

        assert bounds(w) == (1, 20)


async def test_an_edit_of_values_while_nobody_ran_loses_no_execution() -> None:
    """One edit cannot suspend and resume a rule."""
    async with autoscaled() as w:
        put_rules(w, rule_up(w, 10))
        await run_rules(w, 120)
        await asyncio.sleep(900)
        changed = {**rule_up(w, 10), "schedule": stored(w)["spec"]["rules"][0]["schedule"]}
        put_rules(w, {**changed, "targetMinReplicas": 6})
        await run_rules(w, 120)

        assert bounds(w) == (6, 20)


# -- one object holds up no other --------------------------------------------------------------------------
async def test_a_close_on_a_former_target_is_given_up_after_an_hour() -> None:
    """The new target's rules run all the time, and an event says that nothing was restored."""
    async with autoscaled() as w:
        w.scale("other")
        put_rules(w, window(w, 2, "8h"))
        async with rules_running(w):
            await asyncio.sleep(150)
            w.hub.refused["PATCH", "/federatedhpas/web"] = 422
            put_rules(w, rule_up(w, 3), target={**FHPA, "name": "other"})
            await asyncio.sleep(HOUR - 300)
            kept, other = windows_of(w), w.hub.find(HPAS, "other", NAMESPACE)
            await asyncio.sleep(600)

        assert other is not None
        assert other["spec"]["minReplicas"] == 5
        assert kept
        assert windows_of(w) == {}
        assert not stored(w)["metadata"].get("finalizers")
        assert len(w.events("NotRestored", "office")) == 1
        assert w.hub.request_count("PATCH", "/federatedhpas/web") < 120


@pytest.mark.parametrize("refused", ["/cronfederatedhpas/bad", "/cronfederatedhpas/bad/status"])
async def test_an_object_that_is_refused_keeps_no_neighbour_from_running(refused: str) -> None:
    """Its finalizer or its status is refused. It says so itself, if it can."""
    async with autoscaled() as w:
        w.hub.refused["PATCH", refused] = 403
        put_rules(w, window(w, 2, "10m", targetMaxReplicas=30), name="bad")
        put_rules(w, window(w, 2, "10m", targetMinReplicas=4), name="fine")
        put_rules(w, rule_up(w, 4), name="plain")
        async with rules_running(w):
            await asyncio.sleep(150)
            opened = bounds(w)
            await asyncio.sleep(120)
            shown = None if refused.endswith("status") else ready(w, "bad")
            await asyncio.sleep(600)

        assert opened == ((4, 30) if refused.endswith("status") else (4, 20))
        assert shown in (None, ("False", "ScaleFailed"))
        assert bounds(w) == (5, 20)
        assert ready(w, "fine") == ready(w, "plain") == ("True", "RulesRun")


# -- clocks ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("ahead", [17 * DAY, 20 * HOUR, 2 * HOUR])
async def test_a_clock_that_was_ahead_for_a_minute_blocks_nothing(ahead: float) -> None:
    """After the clock is right again, the next execution runs in time. An event tells of the clock."""
    async with autoscaled() as w:
        clock = Steps(w)
        put_rules(w, rule_up(w, 30))
        async with rules_running(w):
            await asyncio.sleep(60)
            clock.ahead = ahead
            await asyncio.sleep(60)
            clock.ahead = 0.0
            await asyncio.sleep(60)
            w.scale(minReplicas=2)
            await asyncio.sleep(1800)

        assert bounds(w) == (5, 20)
        assert w.events("StatusFromFuture", "office") != []
        assert len(w.events("ClockStepped", "office")) == 2


async def test_a_window_of_a_future_that_is_gone_ends() -> None:
    """It opened while the clock was 17 days ahead. After that it is not its time yet."""
    async with autoscaled() as w:
        clock = Steps(w)
        put_rules(w, window(w, 30, "10m"))
        async with rules_running(w):
            await asyncio.sleep(60)
            clock.ahead = 17 * DAY + 1800
            await asyncio.sleep(60)
            during = bounds(w)
            clock.ahead = 0.0
            await asyncio.sleep(60)
            after = bounds(w)
            await asyncio.sleep(1740)
            again = bounds(w)
            await asyncio.sleep(600)

        assert during == (5, 20)
        assert after == (1, 20)
        assert again == (5, 20)
        assert bounds(w) == (1, 20)


# -- what it says ------------------------------------------------------------------------------------------
async def test_a_change_in_a_long_window_is_told_within_a_minute() -> None:
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "8h"))
        async with rules_running(w):
            await asyncio.sleep(HOUR)
            before = w.events("WindowOverridden", "office")
            set_bounds(w, "kubectl-edit", minReplicas=3)
            await asyncio.sleep(65)
            told = w.events("WindowOverridden", "office")

        assert before == []
        assert len(told) == 1
        assert "kubectl-edit set minReplicas to 3" in told[0]
        assert bounds(w) == (3, 20)


async def test_reverts_of_a_plain_rule_are_told() -> None:
    """A tool sets the value of the repository after each execution. The second time it is named."""
    async with autoscaled() as w:
        put_rules(w, {"name": "up", "schedule": "*/5 * * * *", "targetMinReplicas": 5})
        told = []
        async with rules_running(w):
            await asyncio.sleep(310)
            for _ in range(3):
                set_bounds(w, "argocd-controller", minReplicas=1)
                await asyncio.sleep(300)
                told.append(len(w.events("RevertedAgain", "office")))

        assert told == [0, 1, 1]
        text = w.events("RevertedAgain", "office")[0]
        assert "argocd-controller set minReplicas to 1" in text
        assert "ignoreDifferences" in text


async def test_changes_by_different_clients_are_no_reverts() -> None:
    async with autoscaled() as w:
        put_rules(w, {"name": "up", "schedule": "*/5 * * * *", "targetMinReplicas": 5})
        async with rules_running(w):
            await asyncio.sleep(310)
            for place, value in enumerate((1, 2, 3)):
                set_bounds(w, f"person-{place}", minReplicas=value)
                await asyncio.sleep(300)

        assert w.events("RevertedAgain", "office") == []
        assert minute_after(w, 0)
        assert w.hub.find(CRONS, "office", NAMESPACE) is not None
