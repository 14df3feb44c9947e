"""A crash between an effect and its result: the annotation of the FederatedHPA shows what was applied."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fedhpa.api.times import format_time
from tests.support.controller import HPAS, NAMESPACE, ControllerWorld
from tests.support.rules import (
    autoscaled,
    bounds,
    history,
    minute_after,
    put_rules,
    rules_running,
    window,
    windows_of,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)

ANNOTATION = "autoscaling.karmada.io/last-cron-execution"


def change(w: ControllerWorld, annotation: str | None = None, manager: str = "", **spec: int) -> None:
    """A person changes the target, and may write the annotation, too."""
    found: Any = w.hub.find(HPAS, "web", NAMESPACE)
    metadata = dict(found["metadata"])
    if annotation is not None:
        metadata["annotations"] = {ANNOTATION: annotation}
    if manager:
        fields: Any = {"f:metadata": {"f:annotations": {f"f:{ANNOTATION}": {}}}}
        metadata["managedFields"] = [{"manager": manager, "fieldsV1": fields}]
    w.hub.put(HPAS, {**found, "metadata": metadata, "spec": {**found["spec"], **spec}})


def annotation_of(w: ControllerWorld) -> str:
    found: Any = w.hub.find(HPAS, "web", NAMESPACE)
    return str(found["metadata"]["annotations"][ANNOTATION])


async def crash_after_the_effect(w: ControllerWorld, *names: str) -> None:
    """Runs the rules for 150 s. From a minute on, no result can be stored."""
    async with rules_running(w):
        await asyncio.sleep(60)
        for name in names:
            w.hub.refused["PUT", f"/cronfederatedhpa.{name}/status"] = 500
        await asyncio.sleep(61)
    w.hub.refused.clear()


async def test_a_change_of_a_person_after_the_effect_stands() -> None:
    async with autoscaled() as w:
        put_rules(w, {"name": "up", "schedule": minute_after(w, 2), "targetMinReplicas": 5})
        await crash_after_the_effect(w, "office")
        effect = bounds(w)
        change(w, minReplicas=3)
        async with rules_running(w):
            await asyncio.sleep(120)

        assert effect == (5, 20)
        assert bounds(w) == (3, 20)
        assert len(history(w)["successfulExecutions"]) == 1
        assert len(w.events("RuleApplied", "office")) == 1
        assert annotation_of(w).startswith("office/up@")


async def test_all_executions_of_one_write_are_known() -> None:
    """Two objects set one bound each. The annotation names both executions, and both changes stand."""
    async with autoscaled() as w:
        put_rules(w, {"name": "up", "schedule": minute_after(w, 2), "targetMinReplicas": 5}, name="a")
        put_rules(w, {"name": "up, up", "schedule": minute_after(w, 2), "targetMaxReplicas": 30}, name="b")
        await crash_after_the_effect(w, "a", "b")
        effect = bounds(w)
        change(w, minReplicas=3, maxReplicas=33)
        async with rules_running(w):
            await asyncio.sleep(120)

        assert effect == (5, 30)
        assert bounds(w) == (3, 33)
        assert len(history(w, name="a")["successfulExecutions"]) == 1
        assert len(history(w, name="b")["successfulExecutions"]) == 1


async def test_a_change_of_a_person_after_a_window_opened_ends_the_window() -> None:
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "10m"))
        async with rules_running(w):
            await asyncio.sleep(60)

            def refuse_the_result(method: str, path: str) -> None:
                if method == "PATCH" and path.endswith("/federatedhpas/web"):
                    w.hub.refused["PUT", "federatedhpa.web/status"] = 500

            w.hub.before = refuse_the_result
            await asyncio.sleep(61)
        w.hub.before = lambda method, path: None
        w.hub.refused.clear()
        effect, pending = bounds(w), windows_of(w)["pending"]
        change(w, minReplicas=3)
        async with rules_running(w):
            await asyncio.sleep(900)

        assert effect == (5, 20)
        assert pending == {"minReplicas": 5}
        assert bounds(w) == (3, 20)
        assert len(w.events("WindowOverridden", "office")) == 1
        assert windows_of(w) == {}


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "office/up@", "office/up@2026-01-01T00:00:00Z", "office/up", ",,,", "x" * 100_000],
    ids=["empty", "nonsense", "no time", "past", "no at", "commas", "long"],
)
async def test_an_annotation_that_somebody_else_wrote_does_nothing(text: str) -> None:
    async with autoscaled() as w:
        put_rules(w, {"name": "up", "schedule": minute_after(w, 2), "targetMinReplicas": 5})
        change(w, text)
        async with rules_running(w):
            await asyncio.sleep(150)

        assert bounds(w) == (5, 20)
        assert annotation_of(w).startswith("office/up@2")


async def test_an_execution_that_a_person_names_before_it_is_due_is_applied() -> None:
    """The managed fields show that this controller did not write the annotation."""
    async with autoscaled() as w:
        put_rules(w, {"name": "up", "schedule": minute_after(w, 2), "targetMinReplicas": 5})
        due = w.clock.wall() // 60 * 60 + 120
        change(w, f"office/up@{format_time(due)}", manager="kubectl-edit")
        async with rules_running(w):
            await asyncio.sleep(150)

        assert bounds(w) == (5, 20)
        assert len(history(w)["successfulExecutions"]) == 1


async def test_two_crashes_in_a_row_forget_no_effect() -> None:
    """A second execution of another bound is applied and not stored either. The first one is still known."""
    async with autoscaled() as w:
        put_rules(w, {"name": "up", "schedule": minute_after(w, 2), "targetMinReplicas": 5}, name="a")
        put_rules(w, {"name": "up", "schedule": minute_after(w, 4), "targetMaxReplicas": 30}, name="b")
        await crash_after_the_effect(w, "a")
        change(w, minReplicas=3)
        w.hub.refused["PUT", "/cronfederatedhpa.a/status"] = 500
        w.hub.refused["PUT", "/cronfederatedhpa.b/status"] = 500
        async with rules_running(w):
            await asyncio.sleep(121)
        w.hub.refused.clear()
        async with rules_running(w):
            await asyncio.sleep(30)

        assert bounds(w) == (3, 30)
        assert len(history(w, name="a")["successfulExecutions"]) == 1
        assert len(history(w, name="b")["successfulExecutions"]) == 1
