"""After a rollback, objects that a newer release wrote lose neither their memory nor their fields."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.controller import HPAS, NAMESPACE, ControllerWorld, world
from tests.support.fakeapi import Object
from tests.support.rules import CRONS, bounds, history, put_rules, rules_running, window, windows_of
from tests.virtual.test_crashes_forget_nothing import (
    BEHAVIOR,
    HIGH,
    LOW,
    PERIOD,
    WINDOW,
    peak_at_the_end_of_the_window,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)

ADDED = "addedLater"
# The values of these fields have names of clusters, metrics or fields as keys.
MAPS = ("missing", "clusters", "absences", "lost", "values", "baseline", "applied", "current", "target")


def extended(value: Any, *, keys: bool = False) -> Any:
    """Returns JSON with one more field in every object; `keys` for a map, which gets none."""
    if isinstance(value, dict):
        found = {name: extended(inner, keys=name in MAPS) for name, inner in value.items()}
        return found if keys else {**found, ADDED: {"nested": [1]}}
    return [extended(inner) for inner in value] if isinstance(value, list) else value


def stored(w: ControllerWorld, collection: Any = HPAS, name: str = "web") -> Object:
    found = w.hub.find(collection, name, NAMESPACE)
    assert found is not None
    return found


def extend(w: ControllerWorld, collection: Any = HPAS, name: str = "web") -> None:
    """Adds fields of a newer release to the spec and the status of a stored object."""
    found = stored(w, collection, name)
    w.hub.put(collection, {**found, "spec": extended(found["spec"]), "status": extended(found["status"])})


async def test_the_peak_within_the_window_is_remembered() -> None:
    """The older controller knows the peak of 16 pods. It leaves the spec alone. Its next writes drop unknown
    fields of status and record.
    """
    async with world(m1=10, m2=10) as w:
        await peak_at_the_end_of_the_window(w, crash=False)
        extend(w)
        w.put_record(extended(w.record()))
        spec = stored(w)["spec"]
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(60)
            after = sum(w.replicas.values())
            await asyncio.sleep(WINDOW)

        assert after == 16
        assert sum(w.replicas.values()) == 5
        assert spec[ADDED] == {"nested": [1]}
        assert stored(w)["spec"] == spec
        assert f"'{ADDED}':" not in str(w.status()) + str(w.record())


async def test_a_record_of_another_version_is_left_alone() -> None:
    """It cannot be read, so the present size counts as recommended, for a whole window. Ready says so."""
    async with world(m1=10, m2=10) as w:
        w.load(HIGH)
        w.scale(behavior=BEHAVIOR)
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(WINDOW)
        newer = {"version": 2, "form": "another"}
        w.put_record(newer)
        w.load(LOW)
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(WINDOW - 2 * PERIOD)
            within = sum(w.replicas.values())
            await asyncio.sleep(4 * PERIOD)
            ready = w.condition("Ready")

        assert within == 20
        assert sum(w.replicas.values()) == 5
        assert w.record() == newer
        assert ready[:2] == ("False", "NoRecord")
        assert "version 2" in ready[2]


async def test_an_open_window_closes_and_no_execution_is_repeated() -> None:
    """The older controller closes the window that the newer one opened, and opens it once."""
    async with world(m1=2) as w:
        w.scale(minReplicas=1, maxReplicas=10)
        put_rules(w, window(w, 2, "10m"))
        async with rules_running(w):
            await asyncio.sleep(180)
            opened = bounds(w)
        extend(w, CRONS, "office")
        async with rules_running(w):
            await asyncio.sleep(60)
            held = bounds(w)
            await asyncio.sleep(600)

        assert (opened, held, bounds(w)) == ((5, 10), (5, 10), (1, 10))
        assert len(history(w)["successfulExecutions"]) == 1
        assert windows_of(w) == {}
        assert stored(w, CRONS, "office")["spec"]["rules"][0][ADDED] == {"nested": [1]}
