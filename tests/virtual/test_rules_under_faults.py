"""Rules are applied once, and windows restore, while clocks step, people edit and API servers refuse."""

from __future__ import annotations

import asyncio

import pytest

from controller.flags import KARMADA
from fedhpa.api.times import format_time
from fedhpa.kube import Clock
from tests.support.controller import NAMESPACE, SCALE_PATH, ControllerWorld, world
from tests.support.rules import (
    CRONS,
    DEPLOYMENT,
    FINALIZER,
    autoscaled,
    bounds,
    delete_rules,
    history,
    minute_after,
    put_rules,
    ready,
    rule_up,
    rules_running,
    run_rules,
    status,
    stored,
    window,
    windows_of,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)

HOUR = 3600.0


class Steps:
    """A wall clock that a test steps while the controller runs."""

    def __init__(self, w: ControllerWorld) -> None:
        known = w.clock
        self.ahead = 0.0
        w.clock = Clock(known.monotonic, lambda: known.wall() + self.ahead, boot=known.boot)


def seconds_to_minute(w: ControllerWorld) -> float:
    """Returns the seconds until the next full minute."""
    return 60 - w.clock.wall() % 60


@pytest.mark.parametrize("restart", [False, True])
async def test_a_clock_that_steps_forward_applies_the_skipped_execution_once(*, restart: bool) -> None:
    """The execution lies within the step. The controller notices the step within five seconds."""
    async with autoscaled() as w:
        clock = Steps(w)
        put_rules(w, rule_up(w, 30))
        async with rules_running(w):
            await asyncio.sleep(60)
            if not restart:
                clock.ahead = HOUR
                await asyncio.sleep(6)
        if restart:
            clock.ahead = HOUR
            await run_rules(w, 6)
        effective = bounds(w)
        await run_rules(w, 600)

        assert effective == (5, 20)
        assert len(history(w)["successfulExecutions"]) == 1


async def test_a_clock_that_steps_back_repeats_no_execution() -> None:
    """The same minute comes twice; its execution is applied the first time, and a later one on time."""
    async with autoscaled() as w:
        clock = Steps(w)
        put_rules(w, rule_up(w, 2))
        async with rules_running(w):
            await asyncio.sleep(130)
            fired = bounds(w)
            w.scale(minReplicas=2)
            clock.ahead = -HOUR
            await asyncio.sleep(HOUR + 300)
            again = bounds(w)
            await asyncio.sleep(HOUR)

        assert fired == (5, 20)
        assert again == (2, 20)
        assert bounds(w) == (5, 20)
        assert len(history(w)["successfulExecutions"]) == 2


async def test_an_execution_that_waits_for_its_turn_reads_its_target_once() -> None:
    """In a busy minute an execution is late. The reading before that minute still serves it, because the
    resourceVersion shows other writes.
    """
    async with autoscaled() as w:
        clock = Steps(w)
        put_rules(w, rule_up(w, 1))
        async with rules_running(w):
            await asyncio.sleep(seconds_to_minute(w) - 10)
            looks = w.hub.request_count("GET", "/federatedhpas/web")
            await asyncio.sleep(7)
            ahead = w.hub.request_count("GET", "/federatedhpas/web") - looks
            clock.ahead = 20.0
            await asyncio.sleep(6)

        assert bounds(w) == (5, 20)
        assert ahead == 1
        assert w.hub.request_count("GET", "/federatedhpas/web") - looks == 1


@pytest.mark.parametrize(("step", "left"), [(2400.0, 60.0), (-2400.0, 4230.0)])
async def test_a_window_closes_by_the_wall_clock_after_a_step(step: float, left: float) -> None:
    """A step beyond the end closes the window at once; a step back makes it longer by the step."""
    async with autoscaled() as w:
        clock = Steps(w)
        put_rules(w, window(w, 2, "30m"))
        async with rules_running(w):
            await asyncio.sleep(150)
            during = bounds(w)
            clock.ahead = step
            await asyncio.sleep(6)
            stepped = bounds(w)
            await asyncio.sleep(left)

        assert during == (5, 20)
        assert stepped == ((1, 20) if step > 0 else (5, 20))
        assert bounds(w) == (1, 20)


async def test_a_refused_scale_is_one_failed_execution() -> None:
    """The member refuses the scale. The execution stays due, with one entry however often it is tried."""
    async with world(m1=1, m2=1) as w:
        put_rules(w, {"name": "up", "schedule": minute_after(w, 2), "targetReplicas": 8}, target=DEPLOYMENT)
        w.members["m2"].refused["PUT", SCALE_PATH] = 403
        async with rules_running(w):
            await asyncio.sleep(300)
            failed, tries = history(w)["failedExecutions"], w.members["m2"].request_count("PUT", SCALE_PATH)
            shown = ready(w)
            w.members["m2"].refused.clear()
            await asyncio.sleep(120)

        assert len(failed) == 1
        assert failed[0]["message"].startswith("cluster m2: ")
        assert 2 <= tries <= 20
        assert shown == ("False", "ScaleFailed")
        assert w.replicas == {"m1": 4, "m2": 4}
        assert len(history(w)["successfulExecutions"]) == 1


async def test_a_target_without_scale_is_named() -> None:
    """With --propagation=karmada the hub has no such kind, and the failed execution says so."""
    async with world(m1=1) as w:
        target = {"apiVersion": "example.io/v1", "kind": "Widget", "name": "web"}
        put_rules(w, {"name": "up", "schedule": minute_after(w, 2), "targetReplicas": 8}, target=target)
        async with rules_running(w, propagation=KARMADA):
            await asyncio.sleep(150)

        (failed,) = history(w)["failedExecutions"]
        assert "Widget" in failed["message"]
        assert ready(w)[0] == "False"


async def test_a_close_that_cannot_read_the_target_is_retried_slowly() -> None:
    """The target cannot be read at the end of a window. It is asked with growing pauses, then restored."""
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "5m"))
        async with rules_running(w):
            await asyncio.sleep(150)
            asked = w.hub.request_count("GET", "/federatedhpas/web")
            w.hub.refused["GET", "/federatedhpas/web"] = 403
            await asyncio.sleep(900)
            asked = w.hub.request_count("GET", "/federatedhpas/web") - asked
            w.hub.refused.clear()
            await asyncio.sleep(120)

        assert 3 <= asked <= 60
        assert bounds(w) == (1, 20)
        assert windows_of(w) == {}


async def test_a_result_that_cannot_be_stored_is_reported_and_counted_once() -> None:
    """The hub refuses the record for two minutes after the effect. Each retry finds the effect in place."""
    async with autoscaled() as w:
        put_rules(w, rule_up(w, 2))
        async with rules_running(w) as series:
            await asyncio.sleep(60)
            w.hub.refused["PUT", "/cronfederatedhpa.office/status"] = 500
            await asyncio.sleep(180)
            effect = bounds(w)
            w.hub.refused.clear()
            await asyncio.sleep(120)

        assert effect == (5, 20)
        assert len(history(w)["successfulExecutions"]) == 1
        assert len(w.events("RuleApplied", "office")) == 1
        assert series.get_sample_value("fedhpa_cron_executions_total", {"outcome": "applied"}) == 1


async def test_a_status_that_meets_an_edit_keeps_both() -> None:
    """Another client edits the object between the effect and the result. The result is stored on the edit."""
    async with autoscaled() as w:
        rule = rule_up(w, 2)
        put_rules(w, rule)
        edited: list[str] = []

        def edit(method: str, path: str) -> None:
            applied = bounds(w) == (5, 20)
            if method == "PATCH" and path.endswith("/office/status") and applied and not edited:
                edited.append(path)
                put_rules(w, {**rule, "targetMinReplicas": 6})

        w.hub.before = edit
        await run_rules(w, 300)

        assert edited
        assert bounds(w) == (5, 20)
        assert len(history(w)["successfulExecutions"]) == 1
        assert stored(w)["spec"]["rules"][0]["targetMinReplicas"] == 6
        assert status(w)["observedGeneration"] == 2


@pytest.mark.parametrize(("method", "lasts"), [("PATCH", 70), ("GET", 130)], ids=["written", "read"])
async def test_a_deletion_that_cannot_restore_is_let_go_after_a_minute(method: str, lasts: float) -> None:
    """The target cannot be written or read. The finalizer goes after 60 s, with an event."""
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "30m"))
        async with rules_running(w):
            await asyncio.sleep(150)
            w.hub.refused[method, "/federatedhpas/web"] = 403
            delete_rules(w)
            await asyncio.sleep(50)
            kept = stored(w)["metadata"].get("finalizers")
            await asyncio.sleep(lasts)

        assert kept == [FINALIZER]
        assert not stored(w)["metadata"].get("finalizers")
        assert len(w.events("NotRestored", "office")) == 1
        assert bounds(w) == (5, 20)


async def test_an_object_that_was_deleted_while_no_controller_ran_restores() -> None:
    """The next controller comes minutes later. It restores the earlier values, as nobody tried before."""
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "30m"))
        async with rules_running(w):
            await asyncio.sleep(150)
        during = bounds(w)
        delete_rules(w)
        await asyncio.sleep(300)
        async with rules_running(w):
            await asyncio.sleep(10)

        assert during == (5, 20)
        assert bounds(w) == (1, 20)
        assert not stored(w)["metadata"].get("finalizers")
        assert w.events("NotRestored", "office") == []


async def test_a_process_that_leads_no_more_writes_nothing() -> None:
    """The Lease ends before an execution. The old claim writes nothing, and the next leader applies it."""
    async with autoscaled() as w:
        leading = [True]
        put_rules(w, rule_up(w, 2), name="plain")
        put_rules(w, window(w, 2, "10m", targetMaxReplicas=30))
        async with rules_running(w, leads=lambda: leading[0]):
            await asyncio.sleep(60)
            leading[0] = False
            before = len(w.hub.writes)
            await asyncio.sleep(120)
            delete_rules(w, "plain")
            await asyncio.sleep(60)
            written = w.hub.writes[before:]
            await run_rules(w, 60)
        effective = bounds(w)

        assert written == []
        assert effective == (1, 30)
        assert len(history(w)["successfulExecutions"]) == 1


async def test_a_leader_that_is_frozen_over_a_write_is_followed_once() -> None:
    """The old leader hangs in its effect while the new one applies it. Its late write is a conflict."""
    async with autoscaled() as w:
        leading = [True]
        put_rules(w, rule_up(w, 2))

        def lose_the_lease(method: str, path: str) -> None:
            if method == "GET" and path.endswith("/federatedhpas/web") and w.clock.wall() % 60 < 5:
                leading[0] = False

        async with rules_running(w, leads=lambda: leading[0]):
            w.hub.before = lose_the_lease
            await asyncio.sleep(130)
            before = bounds(w)
            w.hub.before = lambda method, path: None
            await run_rules(w, 60)

        assert before in ((1, 20), (5, 20))
        assert bounds(w) == (5, 20)
        assert len(history(w)["successfulExecutions"]) == 1
        assert w.hub.request_count("PATCH", "/federatedhpas/web") == 1


@pytest.mark.parametrize("contested", [False, True], ids=["paused", "contested"])
async def test_a_deleted_object_is_let_go_by_a_controller_that_must_not_write(*, contested: bool) -> None:
    """The finalizer goes without restoring. It is the only write."""
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "30m"))
        await run_rules(w, 150)
        delete_rules(w)
        if contested:
            found = stored(w)
            entry = {
                "manager": "karmada-controller-manager",
                "subresource": "status",
                "time": format_time(w.clock.wall()),
            }
            w.hub.put(CRONS, {**found, "metadata": {**found["metadata"], "managedFields": [entry]}})
        before = len(w.hub.writes)
        async with rules_running(w, paused=not contested):
            await asyncio.sleep(30)
        written = [line for line in w.hub.writes[before:] if "/status" not in line and "/events" not in line]

        assert not stored(w)["metadata"].get("finalizers")
        assert len(written) == 1
        assert bounds(w) == (5, 20)


async def test_an_object_that_is_gone_costs_no_further_requests() -> None:
    """The object vanishes with its window open, as after a forced deletion. Nothing is asked for it again."""
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "10m"))
        async with rules_running(w):
            await asyncio.sleep(150)
            w.hub.remove(CRONS, "office", NAMESPACE)
            await asyncio.sleep(10)
            asked = w.hub.request_count("GET", "/federatedhpas/web")
            await asyncio.sleep(900)

        assert w.hub.request_count("GET", "/federatedhpas/web") == asked
