"""A hanging leader stops before its Lease expires, and is replaced after that."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.federation import Controller, Federation, federation, until

pytestmark = pytest.mark.looptime(noop_cycles=0)

# LeaseTiming's defaults.
LEASE, RENEW, RETRY = 15.0, 10.0, 2.0


async def leader_and_follower(f: Federation, first: Controller, second: Controller) -> None:
    """Wait until the first leads and the second has seen it."""
    await until(lambda: first.leads and f.status())
    await until(lambda: second.elector.holder == first.identity)


def writers(f: Federation, since: float) -> list[tuple[float, str]]:
    """(time, identity) of every write to the hub except to Leases."""
    return [
        (seen.at, seen.user) for seen in f.hub.writes() if seen.at >= since and "/leases/" not in seen.path
    ]


async def test_a_leader_that_hangs_is_followed(tmp_path: Path) -> None:
    """A leader without connection stops after ten seconds; the other leads after the Lease's fifteen."""
    async with federation(tmp_path, m1=2, m2=2) as f, f.controller() as first:
        f.scale()
        await until(lambda: first.leads)
        async with f.controller() as second:
            await leader_and_follower(f, first, second)
            first.cable.freeze()
            hung = f.now()
            await until(lambda: not first.leads)
            ended = f.now() - hung
            await until(lambda: second.leads)
            taken = f.now() - hung
            f.demand(400)
            await until(lambda: f.total == 8)

            assert RENEW - RETRY <= ended <= RENEW + 1
            assert LEASE - RETRY <= taken <= LEASE + RETRY * 2.2 + 1
            assert {who for _, who in writers(f, hung)} == {second.identity}


async def test_a_leader_that_comes_back_writes_nothing(tmp_path: Path) -> None:
    """Late writes of the former leader are conflicts or change nothing."""
    async with federation(tmp_path, m1=2, m2=2) as f, f.controller() as first:
        f.scale()
        await until(lambda: first.leads)
        async with f.controller() as second:
            await leader_and_follower(f, first, second)
            first.cable.freeze()
            await until(lambda: second.leads)
            f.demand(400)
            await until(lambda: f.total == 8)
            first.cable.thaw()
            back = f.now()
            await asyncio.sleep(600)

            assert second.leads
            assert not first.leads
            assert f.holder == second.identity
            assert {who for at, who in writers(f, back) if at > back + 1} == {second.identity}
            assert [rescale.replicas for rescale in f.rescales] == [4, 4]
