"""If a leader is killed while it scales, the next one decides again and repeats no step."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.federation import Controller, Federation, Seen, federation, until
from tests.support.recordings import recorded

pytestmark = pytest.mark.looptime(noop_cycles=0)

# Two pods in two minutes, however much the load asks for.
PERIOD = 120.0
SLOWLY = {"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": int(PERIOD)}]}}
WANTED = 900  # right for 18 pods


def scales(seen: Seen) -> bool:
    return seen.method == "PUT" and seen.path.endswith("/scale")


def writes_status(seen: Seen) -> bool:
    return seen.method == "PUT" and "/federatedhpas/" in seen.path


class Killer:
    """Kills a controller at the moment of a request, before the request or its answer arrives."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._kill: asyncio.Task[None] | None = None
        self.done = False

    async def strike(self) -> None:
        self.done = True
        self._kill = self._kill or asyncio.create_task(self._controller.kill())
        await asyncio.Event().wait()  # until the connection is gone

    async def ended(self) -> None:
        await until(lambda: self._kill is not None and self._kill.done())

    def at_scale(self, f: Federation, *, served: bool) -> None:
        """Kill before the members are scaled, or after that and before they answer."""

        async def hook(seen: Seen) -> None:
            if scales(seen) and (not self.done or not served):
                await self.strike()

        for member in f.members.values():
            if served:
                member.after = hook
            else:
                member.before = hook

    def at_status(self, f: Federation) -> None:
        """Kill when the status of a rescale is about to be written."""

        async def hook(seen: Seen) -> None:
            if writes_status(seen) and f.rescales:
                await self.strike()

        f.hub.before = hook


async def disarm(f: Federation) -> None:
    for plane in (f.hub, *f.members.values()):
        plane.before = plane.after = calm


async def calm(_: Seen) -> None:
    """No hook."""


async def settled(f: Federation) -> None:
    f.demand(200)
    f.scale(behavior=SLOWLY)
    await until(lambda: f.condition("MetricsComplete")[0] == "True")
    await asyncio.sleep(PERIOD)


def recommended(f: Federation) -> list[int]:
    return [entry["replicas"] for entry in recorded(f.hub.server)["history"]["recommendations"]]


async def test_killed_between_decision_and_write(tmp_path: Path) -> None:
    """If nothing was written, the next leader takes the one step that is due."""
    async with federation(tmp_path, m1=2, m2=2) as f:
        async with f.controller() as first:
            await settled(f)
            killer = Killer(first)
            killer.at_scale(f, served=False)
            f.demand(WANTED)
            await until(lambda: killer.done)
            await killer.ended()
            untouched, before = f.total, f.status()
        await disarm(f)
        async with f.controller() as second:
            await until(lambda: f.total != 4)
            await second.more_reconciles(4)

        assert untouched == 4
        assert before["desiredReplicas"] == 4
        assert f.total == 6
        assert sorted(rescale.replicas for rescale in f.rescales) == [3, 3]
        assert f.condition("ScalingLimited")[:2] == ("True", "ScaleUpLimit")
        assert [e["change"] for e in recorded(f.hub.server)["history"]["scaleUps"]] == [2]
        assert recommended(f)[-1] == 18


async def test_killed_between_the_writes_to_two_members(tmp_path: Path) -> None:
    """If only one member was scaled, the next leader takes exactly the rest of the step."""
    async with federation(tmp_path, m1=2, m2=2) as f:
        async with f.controller() as first:
            await settled(f)
            killer = Killer(first)
            killer.at_scale(f, served=False)
            f.members["m1"].before = calm
            f.demand(WANTED)
            await until(lambda: killer.done)
            await killer.ended()
            half = f.replicas
        await disarm(f)
        async with f.controller() as second:
            await second.more_reconciles(4)

        assert half == {"m1": 3, "m2": 2}
        assert f.total == 6


@pytest.mark.parametrize("moment", ["answer", "status"])
async def test_killed_after_the_write(tmp_path: Path, moment: str) -> None:
    """If the members were scaled and no status was written, the step still counts."""
    async with federation(tmp_path, m1=2, m2=2) as f:
        async with f.controller() as first:
            await settled(f)
            killer = Killer(first)
            if moment == "answer":
                killer.at_scale(f, served=True)
            else:
                killer.at_status(f)
            f.demand(WANTED)
            await until(lambda: killer.done)
            await killer.ended()
            scaled = f.total
        await disarm(f)
        async with f.controller() as second:
            await second.more_reconciles(4)
            soon = f.total
            await asyncio.sleep(PERIOD)

        assert scaled == 6
        assert soon == 6
        assert f.total == 8


async def test_leaders_that_are_killed_again_and_again(tmp_path: Path) -> None:
    """Leaders that are all killed before their status exceed no rate limit."""
    async with federation(tmp_path, m1=2, m2=2) as f:
        async with f.controller() as first:
            await settled(f)
            await first.stop()
        f.demand(WANTED)
        began = f.now()
        while f.now() - began < 3 * PERIOD:
            async with f.controller() as controller:
                killer = Killer(controller)
                f.rescales.clear()
                killer.at_status(f)
                await asyncio.sleep(60)
            await disarm(f)
            if killer.done:
                await killer.ended()

        assert 6 <= f.total <= 4 + 2 * (1 + 3)
