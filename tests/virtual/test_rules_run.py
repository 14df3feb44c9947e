"""The rules of CronFederatedHPAs run against an API server: on time, after restarts, and after refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from controller.flags import KARMADA
from fedhpa.api.times import format_time
from tests.support import karmada_crds
from tests.support.controller import HPAS, NAMESPACE, ControllerWorld
from tests.support.rules import (
    CRONS,
    FINALIZER,
    autoscaled,
    bounds,
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

# On a hub with Karmada's CRDs, which drop the fields of our status, nothing is repeated or forgotten either.
ON_EACH_HUB = pytest.mark.parametrize("drops_fields", [False, True], ids=["our CRDs", "Karmada's status"])


def drop_fields(w: ControllerWorld) -> None:
    keeps_rules = {**karmada_crds.CRON_FEDERATED_HPA["properties"], "spec": {}}
    karmada_crds.install(w.hub, {CRONS: {"properties": keeps_rules}})


def once_before_a_write(w: ControllerWorld, act: Callable[[], object]) -> list[str]:
    """Lets another client act just before the first write of the autoscaler. Returns the paths of writes."""
    written: list[str] = []

    def before(method: str, path: str) -> None:
        if method == "PATCH" and path.endswith("/federatedhpas/web"):
            written.append(path)
            if len(written) == 1:
                act()

    w.hub.before = before
    return written


async def test_a_rule_fires_on_time_and_is_recorded() -> None:
    async with autoscaled() as w:
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


@ON_EACH_HUB
async def test_a_quiet_object_is_written_once(drops_fields: bool) -> None:
    async with autoscaled() as w:
        if drops_fields:
            drop_fields(w)
        put_rules(w, rule_up(w, 55))
        await run_rules(w, 3000)

        assert len([line for line in w.hub.writes if "/cronfederatedhpas/" in line]) == 1
        assert ("conditions" in status(w)) is not drops_fields


@ON_EACH_HUB
async def test_an_execution_while_no_controller_ran_is_caught_up_once(drops_fields: bool) -> None:
    async with autoscaled() as w:
        if drops_fields:
            drop_fields(w)
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


@ON_EACH_HUB
async def test_a_window_opens_survives_a_restart_and_restores(drops_fields: bool) -> None:
    async with autoscaled() as w:
        if drops_fields:
            drop_fields(w)
        put_rules(w, window(w, 2, "10m"))
        async with rules_running(w):
            await asyncio.sleep(150)
            during = bounds(w)
            finalizers = stored(w)["metadata"]["finalizers"]
        await run_rules(w, 900)

        assert during == (5, 20)
        assert finalizers == [FINALIZER]
        assert bounds(w) == (1, 20)
        assert not stored(w)["metadata"].get("finalizers")
        assert windows_of(w) == {}
        assert w.events("WindowClosed", "office") != []


async def test_a_refused_execution_is_tried_until_it_is_admitted() -> None:
    async with autoscaled() as w:
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
    async with autoscaled() as w:
        put_rules(w, rule_up(w, 2))
        async with rules_running(w, paused=True):
            await asyncio.sleep(300)

        assert bounds(w) == (1, 20)
        assert [line for line in w.hub.writes if "PATCH" in line or "PUT" in line] == []


async def test_bounds_are_written_under_the_names_in_use() -> None:
    async with autoscaled() as w:
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
    async with autoscaled() as w:
        put_rules(w, rule_up(w, 2))
        found = stored(w)
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
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "10m"))
        changed = once_before_a_write(w, lambda: w.scale(minReplicas=3))
        async with rules_running(w):
            await asyncio.sleep(150)
            during = bounds(w)
            await asyncio.sleep(600)

        assert changed
        assert during == (5, 20)
        assert bounds(w) == (3, 20)


async def test_a_finalizer_without_an_open_window_is_removed_at_the_start() -> None:
    """A controller that ended between two writes may leave it behind."""
    async with autoscaled() as w:
        put_rules(w, rule_up(w, 50))
        found = stored(w)
        metadata = {**found["metadata"], "finalizers": ["example.io/other", FINALIZER]}
        w.hub.put(CRONS, {**found, "metadata": metadata})
        async with rules_running(w):
            await asyncio.sleep(30)

        assert stored(w)["metadata"]["finalizers"] == ["example.io/other"]


async def test_a_change_of_another_field_before_the_write_is_kept() -> None:
    """The write meets a conflict. The execution is applied on the newer object, once."""
    async with autoscaled() as w:
        put_rules(w, rule_up(w, 2))
        changed = once_before_a_write(w, lambda: w.scale(dryRun=True))
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
    async with autoscaled() as w:
        rule = rule_up(w, 2)
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
