"""Rules of one target run in one process, also when an edit makes that another one. Windows survive it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from controller.shards import CRON, Division, Shard
from tests.support.controller import HPAS, NAMESPACE, ControllerWorld, federated_hpa, world
from tests.support.fakeapi import Object
from tests.support.rules import (
    CRONS,
    FHPA,
    RECORDS,
    bounds,
    delete_rules,
    put_rules,
    rules_running,
    run_rules,
    stored,
    window,
    windows_of,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)

TWO = Division(2)
SHARDS = [Shard(index, TWO, CRON) for index in range(2)]
# The FederatedHPA `web` scales one of these, and so belongs to the one or the other shard.
WORKLOADS = [
    next(
        name
        for name in (f"app-{number}" for number in range(100))
        if TWO.index_of((NAMESPACE, "Deployment", name)) == index
    )
    for index in range(2)
]


def aim(w: ControllerWorld, shard: int, name: str = "web") -> None:
    """Creates a FederatedHPA, or changes its target, so that it is in a shard."""
    found = w.hub.find(HPAS, name, NAMESPACE) or federated_hpa()
    target = {**found["spec"]["scaleTargetRef"], "name": WORKLOADS[shard]}
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


@pytest.mark.parametrize("home", [0, 1])
async def test_rules_run_in_the_shard_of_their_autoscalers_workload(home: int) -> None:
    """The other process alone does nothing."""
    async with world(m1=1) as w:
        aim(w, home)
        put_rules(w, window(w, 2, "5m"))
        async with rules_running(w, shard=SHARDS[1 - home]):
            await asyncio.sleep(200)
            without = bounds(w)
        async with rules_running(w, shard=SHARDS[home]):
            await asyncio.sleep(10)
            within = bounds(w)

        assert without == (1, 20)
        assert within == (5, 20)


@pytest.mark.parametrize("restart", [False, True])
async def test_an_open_window_moves_with_the_autoscaler(restart: bool) -> None:
    """An edit of the FederatedHPA's target moves it. The window closes in time, with the former value."""
    async with world(m1=1) as w:
        aim(w, 0)
        put_rules(w, window(w, 2, "20m"))
        async with both_shards(w):
            await asyncio.sleep(150)
            opened = bounds(w), writes(w)
            aim(w, 1)
            await asyncio.sleep(300)
            moved = bounds(w), writes(w), len(windows_of(w)["open"])
            aim(w, 0)
            aim(w, 1)
            if not restart:
                await asyncio.sleep(1200)
        if restart:
            await run_rules_of(w, SHARDS[1], 1200)

        assert opened == ((5, 20), 1)
        assert moved == ((5, 20), 1, 1)
        assert bounds(w) == (1, 20)
        assert writes(w) == 2
        assert windows_of(w) == {}
        assert not stored(w)["metadata"].get("finalizers")


async def test_the_former_process_leaves_a_moved_target_alone() -> None:
    """It does not close the window. The new process does so as soon as it runs, and finds the record."""
    async with world(m1=1) as w:
        aim(w, 0)
        put_rules(w, window(w, 2, "20m"))
        async with rules_running(w, shard=SHARDS[0]):
            async with rules_running(w, shard=SHARDS[1]):
                await asyncio.sleep(150)
                aim(w, 1)
                await asyncio.sleep(5)
            await asyncio.sleep(1500)
            alone = bounds(w), len(windows_of(w)["open"])
        await run_rules_of(w, SHARDS[1], 10)

        assert alone == ((5, 20), 1)
        assert bounds(w) == (1, 20)
        assert writes(w) == 2
        assert "MemoryLost" not in w.events(name="office")


async def run_rules_of(w: ControllerWorld, shard: Shard, seconds: float) -> None:
    async with rules_running(w, shard=shard):
        await asyncio.sleep(seconds)


def other_bounds(w: ControllerWorld) -> int:
    found = w.hub.find(HPAS, "other", NAMESPACE)
    assert found is not None
    return int(found["spec"]["minReplicas"])


@pytest.mark.parametrize("away", [False, True])
async def test_an_object_with_an_open_window_gets_another_target(away: bool) -> None:
    """The shard of the former target restores its value, also if it did not run at the edit. The finalizer
    stays until the window on the new target is closed, too."""
    async with world(m1=1) as w:
        aim(w, 0)
        aim(w, 1, "other")
        rules = [window(w, 2, "40m"), window(w, 10, "20m", "later", targetMinReplicas=7)]
        put_rules(w, *rules)
        restored: tuple[int | None, int | None] = (1, 20)
        async with rules_running(w, shard=SHARDS[1]):
            async with rules_running(w, shard=SHARDS[0]):
                await asyncio.sleep(150)
                opened = bounds(w), other_bounds(w)
                if not away:
                    put_rules(w, *rules, target=fhpa("other"))
                    await asyncio.sleep(5)
                    restored = bounds(w)
            if away:
                put_rules(w, *rules, target=fhpa("other"))
            await asyncio.sleep(600)
            kept = stored(w)["metadata"].get("finalizers")
            async with rules_running(w, shard=SHARDS[0]):
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
        assert windows_of(w) == windows_of(w, "other") == {}


async def test_a_deleted_object_leaves_windows_in_no_shard() -> None:
    """It is deleted right after its target was edited, while the shard of the former target is away."""
    async with world(m1=1) as w:
        aim(w, 0)
        aim(w, 1, "other")
        rule = window(w, 2, "40m")
        put_rules(w, rule)
        async with rules_running(w, shard=SHARDS[1]):
            async with rules_running(w, shard=SHARDS[0]):
                await asyncio.sleep(150)
            put_rules(w, rule, target=fhpa("other"))
            await asyncio.sleep(10)
            delete_rules(w)
            await asyncio.sleep(60)
            waiting = stored(w)["metadata"].get("finalizers")
            async with rules_running(w, shard=SHARDS[0]):
                await asyncio.sleep(60)

        assert waiting
        assert not stored(w)["metadata"].get("finalizers")
        assert bounds(w) == (1, 20)
        assert w.hub.find(RECORDS, "cron-target.autoscaling.karmada.io.federatedhpa.web", NAMESPACE) is None


async def test_two_processes_lead_one_shard_for_a_moment() -> None:
    """Each execution has its effect once, and the window restores the value from before it."""
    async with world(m1=1) as w:
        aim(w, 0)
        put_rules(w, window(w, 2, "10m"))
        async with rules_running(w, shard=SHARDS[0]), both_shards(w):
            await asyncio.sleep(150)
            opened = bounds(w)
            aim(w, 1)
            await asyncio.sleep(660)

        assert opened == (5, 20)
        assert bounds(w) == (1, 20)
        assert writes(w) == 2
        assert windows_of(w) == {}


async def test_rules_of_one_target_stay_together() -> None:
    """A rule of the workload and one of its FederatedHPA are in one shard, so that one process plans both."""
    async with world(m1=1) as w:
        aim(w, 1)
        deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "name": WORKLOADS[1]}
        put_rules(w, window(w, 2, "10m"), name="bounds")
        put_rules(w, window(w, 2, "10m", targetReplicas=3), name="size", target=deployment)
        async with rules_running(w, shard=SHARDS[1]):
            await asyncio.sleep(150)
            statuses = [(stored(w, name).get("status") or {}) for name in ("bounds", "size")]
        await run_rules(w, 900)

        assert all(each.get("conditions") for each in statuses)
        assert w.hub.find(CRONS, "size", NAMESPACE) is not None
        assert bounds(w) == (1, 20)
