"""No reconcile waits for the write of a status, and no status is lost or overtaken."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.federation import Federation, federation, until
from tests.support.federation.planes import Seen

pytestmark = pytest.mark.looptime(noop_cycles=0)

PERIOD = 15.0
STATUS = "/federatedhpas/web/status"


def slow_statuses(f: Federation, seconds: float) -> None:
    """From now on the hub takes this long to store a status."""

    async def wait(seen: Seen) -> None:
        if seen.writes and seen.path.endswith(STATUS):
            await asyncio.sleep(seconds)

    f.hub.before = wait


def statuses(f: Federation) -> int:
    """The number of writes of the status so far."""
    return len(f.hub.writes(STATUS))


async def test_scales_do_not_wait_for_statuses(tmp_path: Path) -> None:
    """While the hub stores one status, the object is scaled; the last status that is stored is the newest."""
    async with federation(tmp_path, m1=4, m2=4) as f, f.controller(calm=True):
        f.demand(400)
        f.scale(maxReplicas=40)
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        await asyncio.sleep(PERIOD)
        slow_statuses(f, 9.0)
        began, before = f.now(), statuses(f)
        f.demand(800)
        await until(lambda: f.total == 16)
        scaled = f.now() - began
        f.demand(1600)
        await until(lambda: f.total == 32)
        scaled_again = f.now() - began
        await until(lambda: f.status()["currentReplicas"] == 32, 60)
        await asyncio.sleep(4 * PERIOD)

        assert scaled <= PERIOD + 1
        assert scaled_again <= 3 * PERIOD
        assert f.status()["desiredReplicas"] == 32
        # At most one for each change: a status that waited was replaced, and none was written twice.
        assert statuses(f) - before <= 5


async def test_a_status_that_is_being_written_is_the_basis_of_the_next(tmp_path: Path) -> None:
    """A condition that changed once has one time and one event, however slowly the hub stores it."""
    async with federation(tmp_path, m1=4, m2=4) as f, f.controller(calm=True):
        f.demand(400)
        f.scale(syncPeriodSeconds=2)
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        slow_statuses(f, 9.0)
        changed = f.now()
        await f.members["m2"].listener.stop()
        await until(lambda: f.condition("MetricsComplete")[0] == "False")
        (condition,) = [one for one in f.status()["conditions"] if one["type"] == "MetricsComplete"]
        first = condition["lastTransitionTime"]
        await asyncio.sleep(60)
        (condition,) = [one for one in f.status()["conditions"] if one["type"] == "MetricsComplete"]

        assert condition["lastTransitionTime"] == first
        assert f.now() - changed > 60


@pytest.mark.parametrize(("takes", "most", "writes"), [(1.5, 3, True), (3600.0, 5, False)])
async def test_a_stop_writes_the_last_status(tmp_path: Path, takes: float, most: float, writes: bool) -> None:
    """A status that waits when the controller stops is written within two seconds, or left unwritten."""
    async with federation(tmp_path, m1=4, m2=4) as f, f.controller(calm=True) as controller:
        f.demand(400)
        f.scale(maxReplicas=40)
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        await asyncio.sleep(PERIOD)
        slow_statuses(f, takes)
        f.demand(800)
        await until(lambda: f.total == 16)
        began = f.now()
        await controller.stop()

        assert (f.status()["desiredReplicas"] == 16) is writes
        assert f.now() - began <= most
