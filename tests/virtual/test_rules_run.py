"""The rules of CronFederatedHPAs run against an API server: on time, after restarts, and after refusals."""

from __future__ import annotations

import asyncio

import pytest

from controller.flags import KARMADA
from fedhpa.api.times import format_time
from tests.support.controller import HPAS, NAMESPACE, world
from tests.support.rules import (
    CRONS,
    FINALIZER,
    bounds,
    history,
    minute_after,
    put_rules,
    ready,
    rule_up,
    rules_running,
    run_rules,
    status,
    windows_of,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)


async def test_a_rule_fires_on_time_and_is_recorded() -> None:
    async with world(m1=1) as w:
        w.scale()
        put_rules(w, rule_up(w, 2))
        async with rules_running(w) as series:
            await asyncio.sleep(55)
            before = bounds(w)
            await asyncio.sleep(70)
            labels = {"namespace": NAMESPACE, "name": "office"}
            coming = series.get_sample_value("fedhpa_cron_next_execution_timestamp_seconds", labels)

        assert before == (1, 20)
        assert bounds(w) == (5, 20)
        assert len(history(w)["successfulExecutions"]) == 1
        assert history(w)["successfulExecutions"][0]["appliedMinReplicas"] == 5
        assert ready(w) == ("True", "RulesRun")
        assert status(w)["summary"]["target"] == "FederatedHPA/web"
        assert w.events("RuleApplied", "office") != []
        assert series.get_sample_value("fedhpa_cron_executions_total", {"outcome": "applied"}) == 1
        lateness = series.get_sample_value("fedhpa_cron_lateness_seconds_sum")
        assert lateness is not None
        assert lateness < 1
        assert coming is not None
        assert format_time(coming) == history(w)["nextExecutionTime"]


async def test_a_quiet_object_is_written_once() -> None:
    async with world(m1=1) as w:
        w.scale()
        put_rules(w, rule_up(w, 55))
        await run_rules(w, 3000)

        assert len([line for line in w.hub.writes if "/cronfederatedhpas/" in line]) == 1


async def test_an_execution_while_no_controller_ran_is_caught_up_once() -> None:
    async with world(m1=1) as w:
        w.scale()
        put_rules(w, rule_up(w, 2))
        await run_rules(w, 30)
        await asyncio.sleep(600)
        async with rules_running(w):
            await asyncio.sleep(5)
            caught_up = bounds(w)
            w.scale(minReplicas=2)
            await asyncio.sleep(60)
        await run_rules(w, 60)

        assert caught_up == (5, 20)
        assert bounds(w) == (2, 20)
        assert len(history(w)["successfulExecutions"]) == 1


async def test_a_window_opens_survives_a_restart_and_restores() -> None:
    async with world(m1=1) as w:
        w.scale()
        rule = {"name": "sale", "schedule": minute_after(w, 2), "targetMinReplicas": 5, "duration": "10m"}
        put_rules(w, rule)
        async with rules_running(w):
            await asyncio.sleep(150)
            during = bounds(w)
            finalizers = w.hub.find(CRONS, "office", NAMESPACE)["metadata"]["finalizers"]  # type: ignore[index]
        await run_rules(w, 900)
        obj = w.hub.find(CRONS, "office", NAMESPACE)

        assert during == (5, 20)
        assert finalizers == [FINALIZER]
        assert bounds(w) == (1, 20)
        assert obj is not None
        assert not obj["metadata"].get("finalizers")
        assert windows_of(w) == {}
        assert w.events("WindowClosed", "office") != []


async def test_a_refused_execution_is_tried_until_it_is_admitted() -> None:
    async with world(m1=1) as w:
        w.scale()
        put_rules(w, rule_up(w, 2))
        async with rules_running(w) as series:
            w.hub.refused["PATCH", "/federatedhpas/web"] = 403
            await asyncio.sleep(180)
            failed, condition = history(w)["failedExecutions"], ready(w)
            w.hub.refused.clear()
            await asyncio.sleep(120)

        assert len(failed) == 1
        assert "not for you" in failed[0]["message"]
        assert condition == ("False", "ScaleFailed")
        assert bounds(w) == (5, 20)
        assert ready(w) == ("True", "RulesRun")
        assert series.get_sample_value("fedhpa_cron_executions_total", {"outcome": "failed"}) == 1


async def test_a_paused_controller_writes_nothing() -> None:
    async with world(m1=1) as w:
        w.scale()
        put_rules(w, rule_up(w, 2))
        async with rules_running(w, paused=True):
            await asyncio.sleep(300)

        assert bounds(w) == (1, 20)
        assert [line for line in w.hub.writes if "PATCH" in line or "PUT" in line] == []


async def test_bounds_are_written_under_the_names_in_use() -> None:
    async with world(m1=1) as w:
        w.scale()
        found = w.hub.find(HPAS, "web", NAMESPACE)
        assert found is not None
        spec = {
            key: value for key, value in found["spec"].items() if key not in ("minReplicas", "maxReplicas")
        }
        w.hub.put(HPAS, {**found, "spec": {**spec, "federatedMinReplicas": 1, "federatedMaxReplicas": 9}})
        rule = {
            "name": "up",
            "schedule": minute_after(w, 2),
            "targetMinReplicas": 12,
            "targetMaxReplicas": 30,
        }
        put_rules(w, rule)
        async with rules_running(w, propagation=KARMADA):
            await asyncio.sleep(150)
        changed = w.hub.find(HPAS, "web", NAMESPACE)

        assert changed is not None
        assert changed["spec"]["federatedMinReplicas"] == 12
        assert changed["spec"]["federatedMaxReplicas"] == 30
        assert "minReplicas" not in changed["spec"]
        annotation = changed["metadata"]["annotations"]["autoscaling.karmada.io/last-cron-execution"]
        assert annotation.startswith("office/up@")


async def test_karmadas_own_controller_is_left_alone() -> None:
    async with world(m1=1) as w:
        w.scale()
        put_rules(w, rule_up(w, 2))
        found = w.hub.find(CRONS, "office", NAMESPACE)
        assert found is not None
        entry = {
            "manager": "karmada-controller-manager",
            "subresource": "status",
            "time": format_time(w.clock.wall()),
        }
        w.hub.put(CRONS, {**found, "metadata": {**found["metadata"], "managedFields": [entry]}})
        async with rules_running(w):
            await asyncio.sleep(130)
            effective, condition = bounds(w), ready(w)

        assert effective == (1, 20)
        assert condition == ("False", "AnotherController")


async def test_a_change_of_the_target_just_before_the_write_becomes_the_baseline() -> None:
    """The window was planned with 1, and another client writes 3 before the window's own write."""
    async with world(m1=1) as w:
        w.scale()
        rule = {"name": "sale", "schedule": minute_after(w, 2), "targetMinReplicas": 5, "duration": "10m"}
        put_rules(w, rule)
        changed: list[str] = []

        def change(method: str, path: str) -> None:
            if method == "PATCH" and path.endswith("/federatedhpas/web") and not changed:
                changed.append(path)
                w.scale(minReplicas=3)

        w.hub.before = change
        async with rules_running(w):
            await asyncio.sleep(150)
            during = bounds(w)
            await asyncio.sleep(600)

        assert changed
        assert during == (5, 20)
        assert bounds(w) == (3, 20)


async def test_a_finalizer_without_an_open_window_is_removed_at_the_start() -> None:
    """A controller that ended between two writes may leave it behind."""
    async with world(m1=1) as w:
        w.scale()
        put_rules(w, {"name": "up", "schedule": minute_after(w, 50), "targetMinReplicas": 5})
        found = w.hub.find(CRONS, "office", NAMESPACE)
        assert found is not None
        metadata = {**found["metadata"], "finalizers": ["example.io/other", FINALIZER]}
        w.hub.put(CRONS, {**found, "metadata": metadata})
        async with rules_running(w):
            await asyncio.sleep(30)
        found = w.hub.find(CRONS, "office", NAMESPACE)

        assert found is not None
        assert found["metadata"]["finalizers"] == ["example.io/other"]


async def test_a_change_of_another_field_before_the_write_is_kept() -> None:
    """The write meets a conflict. The execution is applied on the newer object, once."""
    async with world(m1=1) as w:
        w.scale()
        put_rules(w, {"name": "up", "schedule": minute_after(w, 2), "targetMinReplicas": 5})
        changed: list[str] = []

        def change(method: str, path: str) -> None:
            if method == "PATCH" and path.endswith("/federatedhpas/web") and not changed:
                changed.append(path)
                w.scale(dryRun=True)

        w.hub.before = change
        async with rules_running(w):
            await asyncio.sleep(150)
        found = w.hub.find(HPAS, "web", NAMESPACE)

        assert found is not None
        assert changed
        assert found["spec"]["dryRun"] is True
        assert bounds(w) == (5, 20)
        assert len(history(w)["successfulExecutions"]) == 1
        assert w.events("ScaleFailed", "office") == []


async def test_a_suspended_rule_shows_no_next_execution() -> None:
    async with world(m1=1) as w:
        w.scale()
        rule = {"name": "up", "schedule": minute_after(w, 2), "targetMinReplicas": 5}
        put_rules(w, {**rule, "suspend": True})
        async with rules_running(w):
            await asyncio.sleep(200)
            suspended = history(w), status(w)["summary"]["suspended"]
            put_rules(w, rule)
            await asyncio.sleep(30)

        assert "nextExecutionTime" not in suspended[0]
        assert suspended[1] == "1/1"
        assert "nextExecutionTime" in history(w)
        assert bounds(w) == (1, 20)
