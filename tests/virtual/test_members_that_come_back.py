"""A member that returns is used again soon, for any length of absence and any jitter."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.support.federation import federation, until
from tests.support.plane_faults import Fault

pytestmark = pytest.mark.looptime(noop_cycles=0)

# The longest wait before a retry and its deadline, for the member and then for its pods, and two periods.
SOON = 45.0
# The outages end at different moments between two retries.
OUTAGES = (121.0, 123.3, 200.0)


class Unlucky(random.Random):
    """A random source that always yields the longest delay."""

    def random(self) -> float:
        return 1.0 - 2**-53


@pytest.mark.parametrize("fault", [Fault.REFUSE, Fault.EXPIRED, Fault.HANG])
async def test_a_member_that_is_back_is_soon_used(
    fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member is used again within 45 seconds, even if healthy members are rarely probed."""
    monkeypatch.setattr("fedhpa.kube.supervision.random.Random", Unlucky)
    async with federation(tmp_path, tls=True, m1=2, m2=2) as f, f.controller(calm=True):
        f.demand(200)
        f.scale()
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        waits = []
        for outage in OUTAGES:
            await f.members["m2"].faults.set(fault)
            await asyncio.sleep(outage)
            away = f.state("m2")
            await f.members["m2"].faults.clear()
            fixed = f.now()
            await until(lambda: f.state("m2") == "Answered", 600)
            waits.append((away, f.now() - fixed))

    assert {away for away, _ in waits} <= {"Missing", "Lost"}
    assert max(seconds for _, seconds in waits) <= SOON
