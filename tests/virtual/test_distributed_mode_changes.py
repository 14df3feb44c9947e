"""Mode Distributed: neither a change of the mode nor a deletion changes replicas."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.federation import until
from tests.support.federation.distributed import Distributed, distributed
from tests.support.plane_faults import Fault

pytestmark = pytest.mark.looptime(noop_cycles=0)

PER_POD = 50
FINALIZER = "autoscaling.karmada.io/member-hpas"


async def begun(d: Distributed) -> None:
    """Lets a workload of 6 replicas run in mode Distributed for a while."""
    await d.begin()
    await asyncio.sleep(60)


def finalizers(d: Distributed) -> list[str]:
    found = d.object
    assert found is not None
    return list(found["metadata"].get("finalizers") or ())


@pytest.mark.parametrize("policy", ["StaticWeighted", "Duplicated"])
async def test_switching_both_ways_changes_no_replica(tmp_path: Path, policy: str) -> None:
    """Centralized removes the member HPAs before it scales, and Distributed begins around what runs."""
    assignment = {"federatedHPAAssignmentType": policy}
    async with distributed(tmp_path, m1=4, m2=2) as d, d.f.controller(calm=True):
        d.f.demand(6 * PER_POD)
        d.scale(mode="Centralized", minReplicas=1, maxReplicas=12, federatedHPAAssignment=assignment)
        if policy == "Duplicated":
            await asyncio.sleep(120)
            d.f.rescales.clear()
        else:
            await asyncio.sleep(120)
        before = d.f.replicas
        d.change(mode="Distributed")
        await until(lambda: d.f.condition("Assigned")[0] == "True")
        await asyncio.sleep(120)
        bounds, rescales = d.bounds, list(d.f.rescales)
        d.change(mode="Centralized")
        await until(lambda: finalizers(d) == [], 300)
        await asyncio.sleep(120)

        assert rescales == []
        assert d.f.replicas == before
        assert None not in bounds.values()
        assert set(d.bounds.values()) == {None}
        assert d.f.condition("SoleOwner")[0] in ("", "True")


async def test_a_deletion_leaves_the_workloads_as_they_run(tmp_path: Path) -> None:
    """The member HPAs go first, then the object."""
    async with distributed(tmp_path, m1=4, m2=2) as d, d.f.controller(calm=True):
        await begun(d)
        before = d.f.replicas
        d.delete()
        await until(lambda: d.object is None, 60)
        await asyncio.sleep(300)

        assert set(d.bounds.values()) == {None}
        assert d.f.replicas == before


async def test_a_deletion_waits_for_a_member_up_to_the_lost_time_out(tmp_path: Path) -> None:
    """Then an event names the cluster and the command, and the object goes."""
    async with distributed(tmp_path, m1=4, m2=2) as d, d.f.controller(calm=True):
        await begun(d)
        await d.f.members["m2"].faults.set(Fault.REFUSE)
        await asyncio.sleep(30)
        began = d.f.now()
        d.delete()
        await asyncio.sleep(240)
        waiting = d.object
        await until(lambda: d.object is None, 600)
        gone = d.f.now() - began
        (event,) = d.f.events("MemberHPALeft")

        assert waiting is not None
        assert d.bounds["m1"] is None
        assert 300 <= gone <= 340
        assert event["type"] == "Warning"
        assert "'m2'" in event["message"]
        assert "kubectl -n shop delete horizontalpodautoscaler web" in event["message"]


async def test_a_member_that_comes_back_in_time_ends_the_deletion(tmp_path: Path) -> None:
    """No HPA is left behind."""
    async with distributed(tmp_path, m1=4, m2=2) as d, d.f.controller(calm=True):
        await begun(d)
        await d.f.members["m2"].faults.set(Fault.HANG)
        await asyncio.sleep(30)
        d.delete()
        await asyncio.sleep(120)
        await d.f.members["m2"].faults.clear()
        await until(lambda: d.object is None, 120)

        assert set(d.bounds.values()) == {None}
        assert d.f.events("MemberHPALeft") == []


async def test_an_absent_mode_holds_everything(tmp_path: Path) -> None:
    """A CRD that drops the field must not change the mode silently. An explicit mode ends the hold."""
    async with distributed(tmp_path, m1=4, m2=2) as d, d.f.controller(calm=True):
        await begun(d)
        before, began = d.bounds, d.f.now()
        d.change(mode=None)
        d.f.demand(9 * PER_POD)
        await asyncio.sleep(600)
        held = d.f.condition("Assigned")
        members_scaled, writes, during = d.f.total, d.writes(began), d.bounds
        d.change(mode="Distributed")
        await until(lambda: d.f.condition("Assigned")[0] == "True", 300)

        assert held[:2] == ("False", "DistributedHeld")
        assert "Set spec.mode" in held[2]
        assert d.f.events("DistributedHeld") != []
        assert (during, writes) == (before, [])
        assert members_scaled >= 9


async def test_dry_run_and_pause_write_nothing(tmp_path: Path) -> None:
    """Neither creates an HPA nor a finalizer."""
    async with distributed(tmp_path, m1=4, m2=2) as d:
        d.f.demand(6 * PER_POD)
        d.scale(minReplicas=2, maxReplicas=12, dryRun=True)
        async with d.f.controller(calm=True):
            await asyncio.sleep(200)
            assert d.writes() == []
        d.change(dryRun=None)
        async with d.f.controller(calm=True, paused=True):
            await asyncio.sleep(1200)

        assert d.writes() == []
        assert finalizers(d) == []


async def test_a_dry_run_of_a_running_object_writes_nothing_to_members(tmp_path: Path) -> None:
    """The status says what would be written, and that the HPAs go on. Other changes of the spec wait, too."""
    async with distributed(tmp_path, m1=4, m2=4, m3=4) as d, d.f.controller(calm=True):
        await d.begin(12, minReplicas=3)
        await asyncio.sleep(300)
        before, began = d.bounds, d.f.now()
        d.change(dryRun=True)
        d.change(maxReplicas=36)
        d.f.demand(30 * PER_POD)
        await asyncio.sleep(120)
        shown, ready = d.f.condition("Assigned"), d.f.condition("Ready")
        d.change(clusterAffinity={"exclude": ["m3"]})
        await asyncio.sleep(120)
        d.change(clusterAffinity=None, mode="Centralized")
        await asyncio.sleep(600)
        changing = d.f.condition("Assigned")
        written, during = d.writes(began), d.bounds
        d.change(mode="Distributed")
        await asyncio.sleep(120)
        d.change(dryRun=None)
        await until(lambda: d.maximum == 36, 60)
        await asyncio.sleep(60)

        assert (written, during) == ([], before)
        assert shown[:2] == ("True", "DryRun")
        assert "would assign m1 1-4 -> 1-12, m2 1-4 -> 1-12, m3 1-4 -> 1-12" in shown[2]
        assert "go on scaling within the bounds that they have" in shown[2]
        assert ready[:2] == ("True", "DryRun")
        assert changing[:2] == ("False", "RemovingMemberHPAs")
        assert "spec.dryRun" in changing[2]
        assert d.f.condition("Assigned")[:2] == ("True", "Assigned")


async def test_a_switch_without_a_policy_is_held(tmp_path: Path) -> None:
    """The seeds' default would let each cluster run maxReplicas. The message has the line to write."""
    async with distributed(tmp_path, m1=2, m2=2) as d, d.f.controller(calm=True):
        d.f.demand(4 * PER_POD)
        d.scale(mode="Centralized", minReplicas=2, maxReplicas=12, federatedHPAAssignment=None)
        await asyncio.sleep(60)
        before = d.f.replicas
        d.change(mode="Distributed")
        await asyncio.sleep(120)
        held = d.f.condition("Assigned")
        d.change(federatedHPAAssignment={"federatedHPAAssignmentType": "StaticWeighted"})
        await until(lambda: d.f.condition("Assigned")[0] == "True", 120)

        assert held[:2] == ("False", "NoPolicy")
        assert "federatedHPAAssignmentType" in held[2]
        assert d.f.replicas == before
        assert d.maximum == 12
