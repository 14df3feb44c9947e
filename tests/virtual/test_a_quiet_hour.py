"""The load that the controller causes while nothing happens, and while the same error persists."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fedhpa.kube.events import SPAM_BURST, SPAM_REFILL_SECONDS
from tests.support.federation import federation, until
from tests.support.nightly import QUIET_SECONDS
from tests.support.plane_faults import Fault

pytestmark = pytest.mark.looptime(noop_cycles=0)

HOUR = 3600


@pytest.mark.nightly
async def test_a_quiet_hour_writes_next_to_nothing(tmp_path: Path) -> None:
    """In quiet time there is one status in ten minutes, no event, and no write to any member."""
    async with federation(tmp_path, m1=4, m2=4) as f, f.controller(calm=True) as controller:
        f.demand(400)
        f.scale()
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        await asyncio.sleep(600)
        began, before = f.now(), controller.reconciles
        await asyncio.sleep(QUIET_SECONDS)
        written = [seen for seen in f.hub.writes() if seen.at > began and "/leases/" not in seen.path]

        assert {(seen.method, seen.path.rpartition("/")[2]) for seen in written} == {("PUT", "status")}
        assert {seen.path.split("/")[-3] for seen in written} == {"federatedhpas"}
        assert QUIET_SECONDS / 600 - 1 <= len(written) <= QUIET_SECONDS / 600
        assert QUIET_SECONDS / 15 - 5 <= controller.reconciles - before <= QUIET_SECONDS / 15 + 30
        assert [seen for member in f.members.values() for seen in member.writes()] == []
        assert f.rescales == []


async def test_what_goes_wrong_for_hours_is_told_at_a_bounded_rate(tmp_path: Path) -> None:
    """In an hour without metrics each event is written a few dozen times, not at each reconcile."""
    async with federation(tmp_path, m1=4, m2=4) as f, f.controller(calm=True) as controller:
        f.demand(400)
        f.scale()
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        for member in f.members.values():
            await member.faults.set(Fault.SERVER_ERROR, ["/apis/metrics.k8s.io"])
        began, before = f.now(), controller.reconciles
        await asyncio.sleep(HOUR)
        written = [seen for seen in f.hub.writes("/events") if seen.at > began]
        reasons = {event["reason"] for event in f.events()}
        bound = SPAM_BURST + HOUR / SPAM_REFILL_SECONDS + 1

        assert controller.reconciles - before >= HOUR / 15
        assert {"FailedGetResourceMetric", "FailedComputeMetricsReplicas"} <= reasons
        assert 2 <= len(written) <= bound * len(reasons) < controller.reconciles - before
        assert f.rescales == []
