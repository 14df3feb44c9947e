"""One namespace is the work of several controllers, and objects move between them with their targets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from controller.shards import Division
from tests.support.federation import HPAS, Controller, Federation, federation, until
from tests.support.federation.planes import DEPLOYMENTS, NAMESPACE, REQUEST_MILLIS, deployment
from tests.support.nightly import NIGHTLY

pytestmark = pytest.mark.looptime(noop_cycles=0)

LEASE, PERIOD = 15.0, 15.0
FOUR = Division(4)
NAMES = [f"web-{number}" for number in range(40 if NIGHTLY else 16)]


def place(name: str) -> tuple[str, str, str]:
    return (NAMESPACE, "Deployment", name)


def of_shard(shard: int, division: Division = FOUR) -> str:
    """A name of a workload whose objects are in a shard."""
    names = (f"app-{number}" for number in range(1000))
    return next(name for name in names if division.index_of(place(name)) == shard)


def deploy(f: Federation, name: str, replicas: int = 2, **labels: str) -> None:
    """Create a workload in each member. It uses what its autoscaler aims at."""
    labels = labels or {"app": name}
    for member in f.members.values():
        made: Any = deployment(replicas)
        made["metadata"]["name"] = name
        made["spec"]["selector"]["matchLabels"] = {key: labels[key] for key in list(labels)[:1]}
        made["spec"]["template"]["metadata"]["labels"] = labels
        member.server.store.create(DEPLOYMENTS, made)
    f.load.demand(NAMESPACE, name, replicas * len(f.members) * REQUEST_MILLIS // 2)


def scale(f: Federation, name: str, target: str = "", **spec: Any) -> None:
    """Create an autoscaler of a workload, by default of its own name."""
    f.scale(
        name, scaleTargetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": target or name}, **spec
    )


def retarget(f: Federation, name: str, target: str) -> None:
    found = f.hub.server.store.get(HPAS, NAMESPACE, name)
    found["spec"]["scaleTargetRef"]["name"] = target
    found["metadata"]["generation"] = found["metadata"].get("generation", 1) + 1
    f.hub.server.store.update(HPAS, found)


def decisions(controllers: Iterable[Controller], name: str, since: float) -> dict[str, int]:
    """The number of decisions of each controller on an object, by identity; without those of none."""
    times = {one.identity: one.counted.decided.get((NAMESPACE, name), []) for one in controllers}
    counts = {who: sum(each >= since for each in found) for who, found in times.items()}
    return {who: count for who, count in counts.items() if count}


def reason(f: Federation, name: str) -> str:
    """The reason of the object's condition ScalingActive."""
    conditions = f.status(name).get("conditions") or ()
    return next((each["reason"] for each in conditions if each["type"] == "ScalingActive"), "")


async def test_a_hot_namespace_is_the_work_of_all(tmp_path: Path) -> None:
    """Each object is reconciled once a period by one of four processes. When one is killed, others take its
    objects within two Lease times; when it is back, it gets its share again. No replicas change meanwhile."""
    async with federation(tmp_path, m1=1) as f, AsyncExitStack() as stack:
        for name in NAMES:
            deploy(f, name)
            scale(f, name)
        four = [await stack.enter_async_context(f.controller(shards=4)) for _ in range(4)]
        await until(lambda: all(len(each.held) == 1 for each in four), 300)
        await until(lambda: all(f.status(name).get("currentReplicas") == 2 for name in NAMES), 60)
        before, begun = f.rescales[:], f.now()
        await asyncio.sleep(4 * PERIOD)
        steady = {name: decisions(four, name, begun) for name in NAMES}

        killed = f.now()
        lost = [name for name in NAMES if four[0].identity in steady[name]]
        await four[0].kill()
        left = four[1:]
        await until(lambda: all(decisions(left, name, killed) for name in lost), 120)
        taken = f.now() - killed
        back = await stack.enter_async_context(f.controller(shards=4))
        await until(lambda: len(back.held) == 1, 300)
        five, again = [*left, back], f.now() + PERIOD
        await asyncio.sleep(3 * PERIOD)
        after = {name: decisions(five, name, again) for name in NAMES}

        assert all(len(found) == 1 and 4 <= sum(found.values()) <= 5 for found in steady.values()), steady
        assert len({who for found in steady.values() for who in found}) == 4
        assert lost
        assert taken <= 2 * LEASE
        assert sorted(shard for each in five for shard in each.held) == [0, 1, 2, 3]
        assert all(len(found) == 1 and 2 <= sum(found.values()) <= 3 for found in after.values()), after
        assert any(back.identity in found for found in after.values())
        assert f.rescales == before


async def test_objects_with_the_same_pods_stop_each_other_in_two_processes(tmp_path: Path) -> None:
    """The selector in the status of one tells the process of the other. Both go on when one is gone."""
    first, second = of_shard(0, Division(2)), of_shard(1, Division(2))
    async with federation(tmp_path, m1=1) as f, AsyncExitStack() as stack:
        two = [await stack.enter_async_context(f.controller(shards=2)) for _ in range(2)]
        await until(lambda: all(len(each.held) == 1 for each in two), 300)
        deploy(f, first, app=first, tier="front")
        deploy(f, second, tier="front", app=second)
        f.load.demand(NAMESPACE, first, 1000)
        f.load.demand(NAMESPACE, second, 1000)
        scale(f, first)
        scale(f, second)
        rescales = len(f.rescales)
        await asyncio.sleep(4 * PERIOD)
        selectors = [f.status(name)["summary"]["selector"] for name in (first, second)]
        stopped = [reason(f, name) for name in (first, second)]
        unchanged = len(f.rescales) == rescales
        f.hub.server.store.delete(HPAS, NAMESPACE, second)
        await asyncio.sleep(4 * PERIOD)

        assert selectors == [f"app={first}", "tier=front"]
        assert stopped[0] == "AmbiguousSelector"
        assert unchanged
        assert reason(f, first) == "ValidMetricFound"
        assert len(f.rescales) > rescales


async def test_an_object_moves_with_its_target(tmp_path: Path) -> None:
    """Another process goes on with its record, and the former one never touches it again."""
    first, second = of_shard(0, Division(2)), of_shard(1, Division(2))
    async with federation(tmp_path, m1=1) as f, AsyncExitStack() as stack:
        two = [await stack.enter_async_context(f.controller(shards=2)) for _ in range(2)]
        await until(lambda: all(len(each.held) == 1 for each in two), 300)
        for name in (first, second):
            deploy(f, name)
        scale(f, "mine", first)
        await until(lambda: f.status("mine").get("currentReplicas") == 2, 60)
        f.load.demand(NAMESPACE, first, 4 * REQUEST_MILLIS // 2)
        await until(lambda: f.status("mine").get("currentReplicas") == 4, 120)
        owners = decisions(two, "mine", 0)
        retarget(f, "mine", second)
        moved = f.now()
        await asyncio.sleep(2 * PERIOD)
        unmoved = [each.replicas for each in f.rescales]
        f.load.demand(NAMESPACE, second, 6 * REQUEST_MILLIS // 2)
        await until(lambda: f.status("mine").get("currentReplicas") == 6, 120)
        others = decisions(two, "mine", moved + 1)

        assert len(owners) == len(others) == 1
        assert owners.keys() != others.keys()
        # The size of the former target, and the window in which it holds, are no longer counted.
        assert unmoved == [4]
