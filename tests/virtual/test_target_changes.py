"""The history of one workload says nothing about another one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.federation import Federation, federation, until
from tests.support.federation.planes import DEPLOYMENTS, HPAS, NAME, NAMESPACE, deployment

pytestmark = pytest.mark.looptime(noop_cycles=0)

PERIOD = 15.0


def add_idle(f: Federation) -> None:
    """Adds an idle workload of one replica to each member."""
    for member in f.members.values():
        idle = deployment(1)
        idle["metadata"]["name"] = "idle"
        idle["spec"]["selector"] = {"matchLabels": {"app": "idle"}}
        idle["spec"]["template"]["metadata"]["labels"] = {"app": "idle"}
        member.server.store.create(DEPLOYMENTS, idle)


def aim_at(f: Federation, name: str) -> None:
    """Changes the target of the autoscaler."""
    store = f.hub.server.store
    found = store.get(HPAS, NAMESPACE, NAME)
    found["spec"]["scaleTargetRef"]["name"] = name
    store.update(HPAS, found)


def idle_replicas(f: Federation) -> int:
    """The replicas of the idle workload."""
    found = [member.server.store.get(DEPLOYMENTS, NAMESPACE, "idle") for member in f.members.values()]
    return sum(int(one["spec"]["replicas"]) for one in found)


@pytest.mark.parametrize("restart", [False, True])
async def test_another_target_begins_with_its_own_size(tmp_path: Path, restart: bool) -> None:
    """An idle workload of two replicas stays as small as it is, although the one before had forty."""
    async with federation(tmp_path, m1=20, m2=20) as f:
        add_idle(f)
        f.demand(2000)
        f.scale(maxReplicas=60)
        async with f.controller(calm=True) as first:
            await until(lambda: f.condition("Ready")[0] == "True")
            await asyncio.sleep(60)
            if restart:
                await first.stop()
            aim_at(f, "idle")
            sizes = set()
            async with f.controller(calm=True):
                for _ in range(40):
                    await asyncio.sleep(PERIOD)
                    sizes.add(idle_replicas(f))

        assert max(sizes) == 2
        assert f.total == 40
