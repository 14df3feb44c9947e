"""Pods and External metrics of the embedded members size a workload over time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from testbed.embedded.cluster.metrics import REQUESTS
from tests.support.federation import Federation, federation, until
from tests.support.nightly import NIGHT, NIGHTLY, examples
from tests.support.plane_faults import Fault

pytestmark = [*NIGHT, pytest.mark.looptime(noop_cycles=0)]

# Four windows of five minutes; hours in nightly runs.
LONG = examples(1200, 4 * 3600)

BY_REQUESTS = {
    "type": "Pods",
    "pods": {"metric": {"name": REQUESTS}, "target": {"type": "AverageValue", "averageValue": "5"}},
}
ORDERS = {"matchLabels": {"queue": "orders"}}
BY_QUEUE = {
    "type": "External",
    "external": {
        "metric": {"name": "messages", "selector": ORDERS},
        "target": {"type": "AverageValue", "averageValue": "10"},
    },
}


def enqueue(f: Federation, member: str, count: int) -> None:
    """From now on this many orders wait in a member, beside series of other names."""
    f.members[member].metrics.external["messages"] = [
        ({"queue": "orders"}, count * 1000),
        ({"queue": "mails"}, 900_000),
    ]


async def test_requests_per_second_size_a_workload(tmp_path: Path) -> None:
    """40 requests a second at 5 a pod need eight pods over both members; 10 need two, a window later."""
    async with federation(tmp_path, m1=2, m2=2) as f, f.controller(calm=True):
        f.demand(400)
        f.scale(metrics=[BY_REQUESTS])
        await until(lambda: f.total == 8)
        up = dict(f.replicas)
        f.demand(100)
        began = f.now()
        await until(lambda: f.total == 2, 900)

        assert up == {"m1": 4, "m2": 4}
        assert f.now() - began >= 300


@pytest.mark.nightly
@pytest.mark.parametrize("rubbish", [Fault.NAN, Fault.NEGATIVE] if NIGHTLY else [Fault.NAN])
async def test_rubbish_scales_nothing_down(tmp_path: Path, rubbish: Fault) -> None:
    """While a member reports impossible values and is not lost yet, the workload keeps its size."""
    async with federation(tmp_path, m1=4, m2=4) as f, f.controller(calm=True):
        f.demand(400)
        f.scale(metrics=[BY_REQUESTS], partialMetrics={"lostAfterSeconds": 2 * LONG})
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        await f.members["m2"].faults.set(rubbish)
        f.demand(50)
        await until(lambda: f.condition("MetricsComplete")[0] == "False")
        await asyncio.sleep(LONG)
        held = f.total
        await f.members["m2"].faults.clear()
        await until(lambda: f.total == 1, 900)

        assert held == 8


async def test_queue_puts_to_sleep_and_wakes(tmp_path: Path) -> None:
    """Five minutes without orders scale to zero. The first orders scale up within a period."""
    async with federation(tmp_path, m1=1, m2=1) as f, f.controller(calm=True):
        for member in f.members:
            enqueue(f, member, 0)
        f.scale(minReplicas=0, metrics=[BY_QUEUE])
        await until(lambda: f.total == 0, 900)
        await asyncio.sleep(LONG)
        asleep = f.total
        enqueue(f, "m2", 35)
        began = f.now()
        await until(lambda: f.total == 4)

        assert asleep == 0
        assert f.now() - began <= 20
