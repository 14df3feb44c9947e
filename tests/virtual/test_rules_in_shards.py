"""Rules of one target run in one process: that of the target which they name. Windows survive an edit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from controller.shards import CRON, Division, Shard
from tests.support.controller import HPAS, NAMESPACE, ControllerWorld, federated_hpa, world
from tests.support.fakeapi import Object
from tests.support.rules import (
    FHPA,
    RECORDS,
    bounds,
    delete_rules,
    put_rules,
    rules_running,
    stored,
    window,
    windows_of,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)

TWO = Division(2)
SHARDS = [Shard(index, TWO, CRON) for index in range(2)]
# The shard of the rules for FederatedHPA `web`, and a FederatedHPA whose rules are in the other one.
HOME = TWO.index_of((NAMESPACE, "FederatedHPA", "web"))
AWAY = next(
    name
    for name in (f"app-{number}" for number in range(100))
    if TWO.index_of((NAMESPACE, "FederatedHPA", name)) != HOME
)


def put_autoscaler(w: ControllerWorld, name: str = "web", workload: str = "web") -> None:
    """Creates a FederatedHPA, or changes its target."""
    found = w.hub.find(HPAS, name, NAMESPACE) or federated_hpa()
    target = {**found["spec"]["scaleTargetRef"], "name": workload}
    metadata = {**found["metadata"], "name": name, "uid": f"uid-{name}"}
    w.hub.put(HPAS, {**found, "metadata": metadata, "spec": {**found["spec"], "scaleTargetRef": target}})


def fhpa(name: str) -> Object:
    return {**FHPA, "name": name}


def writes(w: ControllerWorld, name: str = "web") -> int:
    """The number of writes of a FederatedHPA."""
    return sum(each.endswith(f"/federatedhpas/{name}") for each in w.hub.writes)


@asynccontextmanager
async def both_shards(w: ControllerWorld) -> AsyncIterator[None]:
    async with rules_running(w, shard=SHARDS[0]), rules_running(w, shard=SHARDS[1]):
        yield


async def test_rules_run_in_the_shard_of_the_target_that_they_name() -> None:
    """The other process alone does nothing."""
    async with world(m1=1) as w:
        put_autoscaler(w)
        put_rules(w, window(w, 2, "5m"))
        async with rules_running(w, shard=SHARDS[1 - HOME]):
            await asyncio.sleep(200)
            without = bounds(w)
        async with rules_running(w, shard=SHARDS[HOME]):
            await asyncio.sleep(10)
            within = bounds(w)

        assert without == (1, 20)
        assert within == (5, 20)


@pytest.mark.parametrize("workload", ["app-0", "app-1", "app-2", "app-3"])
async def test_an_edit_of_the_autoscaler_moves_no_rules(workload: str) -> None:
    """Its rules belong to its name. An open window stays, and closes in time, with the former value."""
    async with world(m1=1) as w:
        put_autoscaler(w)
        put_rules(w, window(w, 2, "20m"))
        async with both_shards(w):
            await asyncio.sleep(150)
            opened = bounds(w), writes(w)
            put_autoscaler(w, workload=workload)
            await asyncio.sleep(300)
            edited = bounds(w), writes(w), len(windows_of(w)["open"])
            await asyncio.sleep(1200)

        assert opened == ((5, 20), 1)
        assert edited == ((5, 20), 1, 1)
        assert bounds(w) == (1, 20)
        assert writes(w) == 2
        assert windows_of(w) == {}
        assert not stored(w)["metadata"].get("finalizers")


async def run_rules_of(w: ControllerWorld, shard: Shard, seconds: float) -> None:
    async with rules_running(w, shard=shard):
        await asyncio.sleep(seconds)


def other_bounds(w: ControllerWorld) -> int:
    found = w.hub.find(HPAS, AWAY, NAMESPACE)
    assert found is not None
    return int(found["spec"]["minReplicas"])


@pytest.mark.parametrize("away", [False, True])
async def test_an_object_with_an_open_window_gets_another_target(away: bool) -> None:
    """The shard of the former target restores its value, also if it did not run at the edit. The finalizer
    stays until the window on the new target is closed, too."""
    async with world(m1=1) as w:
        put_autoscaler(w)
        put_autoscaler(w, AWAY)
        rules = [window(w, 2, "40m"), window(w, 10, "20m", "later", targetMinReplicas=7)]
        put_rules(w, *rules)
        restored: tuple[int | None, int | None] = (1, 20)
        async with rules_running(w, shard=SHARDS[1 - HOME]):
            async with rules_running(w, shard=SHARDS[HOME]):
                await asyncio.sleep(150)
                opened = bounds(w), other_bounds(w)
                if not away:
                    put_rules(w, *rules, target=fhpa(AWAY))
                    await asyncio.sleep(5)
                    restored = bounds(w)
            if away:
                put_rules(w, *rules, target=fhpa(AWAY))
            await asyncio.sleep(600)
            kept = stored(w)["metadata"].get("finalizers")
            async with rules_running(w, shard=SHARDS[HOME]):
                await asyncio.sleep(60)
                after = bounds(w), other_bounds(w)
                kept_after = stored(w)["metadata"].get("finalizers")
                await asyncio.sleep(1200)

        assert opened == ((5, 20), 1)
        assert restored == (1, 20)
        assert kept
        assert after == ((1, 20), 7)
        assert kept_after
        assert (bounds(w), other_bounds(w)) == ((1, 20), 1)
        assert not stored(w)["metadata"].get("finalizers")
        assert windows_of(w) == windows_of(w, AWAY) == {}


async def test_a_deleted_object_leaves_windows_in_no_shard() -> None:
    """It is deleted right after its target was edited, while the shard of the former target is away."""
    async with world(m1=1) as w:
        put_autoscaler(w)
        put_autoscaler(w, AWAY)
        rule = window(w, 2, "40m")
        put_rules(w, rule)
        async with rules_running(w, shard=SHARDS[1 - HOME]):
            async with rules_running(w, shard=SHARDS[HOME]):
                await asyncio.sleep(150)
            put_rules(w, rule, target=fhpa(AWAY))
            await asyncio.sleep(10)
            delete_rules(w)
            await asyncio.sleep(60)
            waiting = stored(w)["metadata"].get("finalizers")
            async with rules_running(w, shard=SHARDS[HOME]):
                await asyncio.sleep(60)

        assert waiting
        assert not stored(w)["metadata"].get("finalizers")
        assert bounds(w) == (1, 20)
        assert w.hub.find(RECORDS, "cron-target.autoscaling.karmada.io.federatedhpa.web", NAMESPACE) is None


async def test_an_object_that_comes_back_keeps_its_window() -> None:
    """Its target is edited and edited back before either process could act on the edit."""
    async with world(m1=1) as w:
        put_autoscaler(w)
        put_autoscaler(w, AWAY)
        rule = window(w, 2, "20m")
        put_rules(w, rule)
        async with both_shards(w):
            await asyncio.sleep(150)
            put_rules(w, rule, target=fhpa(AWAY))
            put_rules(w, rule)
            await asyncio.sleep(300)
            edited = bounds(w), writes(w)
            await asyncio.sleep(1200)

        assert edited == ((5, 20), 1)
        assert bounds(w) == (1, 20)
        assert writes(w) == 2
        assert not stored(w)["metadata"].get("finalizers")


async def test_two_processes_lead_one_shard_for_a_moment() -> None:
    """Each execution has its effect once, and the window restores the value from before it."""
    async with world(m1=1) as w:
        put_autoscaler(w)
        put_rules(w, window(w, 2, "10m"))
        async with rules_running(w, shard=SHARDS[HOME]), both_shards(w):
            await asyncio.sleep(810)

        assert bounds(w) == (1, 20)
        assert writes(w) == 2
        assert windows_of(w) == {}
