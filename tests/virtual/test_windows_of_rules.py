"""Windows of rules nest, follow edits, leave what people change, and close on the target they opened on."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.controller import HPAS, NAMESPACE, world
from tests.support.fakeapi import Object
from tests.support.rules import (
    CRONS,
    FHPA,
    bounds,
    put_rules,
    rules_running,
    run_rules,
    stored,
    window,
    windows_of,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)

HOUR = 3600.0


async def test_windows_of_two_objects_nest_in_one_record() -> None:
    """The first window closes first; the other one holds its value and restores the baseline."""
    async with world(m1=1) as w:
        w.scale()
        put_rules(w, window(w, 2, "10m"), name="first")
        put_rules(w, window(w, 5, "20m", targetMinReplicas=8), name="second")
        async with rules_running(w):
            await asyncio.sleep(150)
            one = bounds(w), len(windows_of(w)["open"])
        async with rules_running(w):
            await asyncio.sleep(210)
            both = bounds(w), len(windows_of(w)["open"])
            await asyncio.sleep(420)
            left = bounds(w), [each["object"] for each in windows_of(w)["open"]]
            first_finalizers = stored(w, "first")["metadata"].get("finalizers")
        await run_rules(w, 900)

        assert one == ((5, 20), 1)
        assert both == ((8, 20), 2)
        assert left == ((8, 20), ["second"])
        assert not first_finalizers
        assert bounds(w) == (1, 20)
        assert windows_of(w) == {}
        assert not stored(w, "second")["metadata"].get("finalizers")


async def test_the_value_below_returns_when_the_upper_window_closes() -> None:
    """The second window ends within the first one, whose value then holds until its own end."""
    async with world(m1=1) as w:
        w.scale()
        put_rules(w, window(w, 2, "30m"), name="long")
        put_rules(w, window(w, 5, "5m", targetMinReplicas=8), name="short")
        seen = []
        async with rules_running(w):
            for pause in (150, 180, 360, 1500):
                await asyncio.sleep(pause)
                seen.append(bounds(w)[0])

        assert seen == [5, 8, 5, 1]


async def test_new_values_of_an_open_window_hold_at_once() -> None:
    async with world(m1=1) as w:
        w.scale()
        rule = window(w, 2, "10m")
        put_rules(w, rule)
        async with rules_running(w):
            await asyncio.sleep(150)
            put_rules(w, {**rule, "targetMinReplicas": 7, "targetMaxReplicas": 30})
            await asyncio.sleep(5)
            edited = bounds(w)
            await asyncio.sleep(600)

        assert edited == (7, 30)
        assert bounds(w) == (1, 20)


async def test_a_new_duration_counts_from_the_opening() -> None:
    async with world(m1=1) as w:
        w.scale()
        rule = window(w, 2, "30m")
        put_rules(w, rule)
        async with rules_running(w):
            await asyncio.sleep(150)
            put_rules(w, {**rule, "duration": "5m"})
            await asyncio.sleep(120)
            before_end = bounds(w)
            await asyncio.sleep(180)

        assert before_end == (5, 20)
        assert bounds(w) == (1, 20)


@pytest.mark.parametrize(
    "change",
    [{"suspend": True}, {"schedule": "0 0 1 1 *"}, {"timeZone": "Asia/Kolkata"}, {"name": "other"}],
)
async def test_an_edit_of_the_schedule_closes_the_window(change: Object) -> None:
    """Suspension, another name, and a calendar without the opening restore the baseline at once."""
    async with world(m1=1) as w:
        w.scale()
        rule = window(w, 2, "30m")
        put_rules(w, rule)
        async with rules_running(w):
            await asyncio.sleep(150)
            put_rules(w, {**rule, **change})
            await asyncio.sleep(5)

        assert bounds(w) == (1, 20)
        assert windows_of(w) == {}
        assert not stored(w)["metadata"].get("finalizers")


async def test_a_new_target_restores_the_old_one() -> None:
    """The window closes on the target that it was opened for, and the new target waits for an execution."""
    async with world(m1=1) as w:
        w.scale()
        w.scale("other")
        rule = window(w, 2, "30m")
        put_rules(w, rule)
        async with rules_running(w):
            await asyncio.sleep(150)
            put_rules(w, rule, target={**FHPA, "name": "other"})
            await asyncio.sleep(10)
            moved = bounds(w)
            other = w.hub.find(HPAS, "other", NAMESPACE)
            finalizers = stored(w)["metadata"].get("finalizers")
            await asyncio.sleep(HOUR)
        later = w.hub.find(HPAS, "other", NAMESPACE)

        assert moved == (1, 20)
        assert other is not None
        assert other["spec"]["minReplicas"] == 1
        assert not finalizers
        assert later is not None
        assert later["spec"]["minReplicas"] == 5


async def test_a_change_of_the_target_in_a_window_stays() -> None:
    """Somebody scales while a window is open: the value stays, and the end restores nothing."""
    async with world(m1=1) as w:
        w.scale()
        put_rules(w, window(w, 2, "10m"))
        async with rules_running(w):
            await asyncio.sleep(150)
            w.scale(minReplicas=3)
            await asyncio.sleep(900)

        assert bounds(w) == (3, 20)
        assert len(w.events("WindowOverridden", "office")) == 1
        assert windows_of(w) == {}
        assert not stored(w)["metadata"].get("finalizers")


async def test_a_target_that_goes_away_ends_the_window() -> None:
    """Nothing can be restored, so the object is free to be deleted."""
    async with world(m1=1) as w:
        w.scale()
        put_rules(w, window(w, 2, "10m"))
        async with rules_running(w):
            await asyncio.sleep(150)
            w.hub.remove(HPAS, "web", NAMESPACE)
            await asyncio.sleep(900)

        assert windows_of(w) == {}
        assert not stored(w)["metadata"].get("finalizers")
        assert w.events("NotRestored", "office") != []


@pytest.mark.parametrize("holder", ["first", "second"])
async def test_windows_survive_the_forced_deletion_of_an_object(holder: str) -> None:
    """One object vanishes with its finalizer, and with it perhaps the record. The other one carries on."""
    async with world(m1=1) as w:
        w.scale()
        put_rules(w, window(w, 2, "20m"), name="first")
        put_rules(w, window(w, 5, "20m", targetMinReplicas=8, targetMaxReplicas=30), name="second")
        async with rules_running(w):
            await asyncio.sleep(360)
            both = bounds(w)
            w.hub.remove(CRONS, holder, NAMESPACE)
            await asyncio.sleep(30)
            one = bounds(w)
        await run_rules(w, 1800)

        assert both == (8, 30)
        assert one == ((8, 30) if holder == "first" else (5, 20))
        assert bounds(w) == (1, 20)
        assert not stored(w, "second" if holder == "first" else "first")["metadata"].get("finalizers")


async def test_a_tool_that_reverts_each_window_is_named() -> None:
    """The second revert of the same value by the same manager is reported as that of a GitOps tool."""
    async with world(m1=1) as w:
        w.scale()
        minutes = [window(w, start, "5m")["schedule"].split(" ")[0] for start in (2, 12, 22)]
        rule = {**window(w, 2, "5m"), "schedule": f"{','.join(minutes)} * * * *"}
        put_rules(w, rule)

        def revert(manager: str) -> None:
            found = w.hub.find(HPAS, "web", NAMESPACE)
            assert found is not None
            fields: Object = {"f:spec": {"f:minReplicas": {}}}
            metadata = {**found["metadata"], "managedFields": [{"manager": manager, "fieldsV1": fields}]}
            w.hub.put(HPAS, {**found, "metadata": metadata, "spec": {**found["spec"], "minReplicas": 1}})

        reported = []
        async with rules_running(w):
            await asyncio.sleep(150)
            for manager in ("kubectl-edit", "argocd-controller", "argocd-controller"):
                revert(manager)
                await asyncio.sleep(600)
                reported.append(w.events("RevertedAgain", "office"))

        assert reported[:2] == [[], []]
        assert len(reported[2]) == 1
        assert "argocd-controller" in reported[2][0]
        assert "ignoreDifferences" in reported[2][0]
