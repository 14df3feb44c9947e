"""Windows of rules nest, follow edits, leave what people change, and close on the target they opened on."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.controller import NAMESPACE
from tests.support.rules import (
    CRONS,
    autoscaled,
    bounds,
    put_rules,
    rules_running,
    run_rules,
    stored,
    window,
    windows_of,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)


async def test_windows_of_two_objects_nest_in_one_record() -> None:
    """The first window closes first; the other one holds its value and restores the baseline."""
    async with autoscaled() as w:
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


async def test_a_new_duration_counts_from_the_opening() -> None:
    async with autoscaled() as w:
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


@pytest.mark.parametrize("holder", ["first", "second"])
async def test_windows_survive_the_forced_deletion_of_an_object(holder: str) -> None:
    """One object vanishes with its finalizer, and with it perhaps the record. The other one carries on."""
    async with autoscaled() as w:
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
