"""Another client that keeps changing the size is named, and a change by a person is not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.federation import Federation, federation, until
from tests.support.federation.planes import (
    DEPLOYMENTS,
    NAME,
    NAMESPACE,
    Member,
    Plane,
    Seen,
    deployment,
)
from tests.support.plane_faults import Fault
from tests.support.timing import background

pytestmark = pytest.mark.looptime(noop_cycles=0)

QUIET = 600.0


def resize(plane: Plane, replicas: int, manager: str) -> None:
    """Sets the replicas as another client would, with an entry in the managed fields."""
    found = plane.server.store.get(DEPLOYMENTS, NAMESPACE, NAME)
    found["spec"]["replicas"] = replicas
    entry: dict[str, Any] = {"manager": manager, "operation": "Update", "time": "2026-03-11T13:00:00Z"}
    found["metadata"]["managedFields"] = [
        {"manager": "helm", "time": "2026-03-11T14:00:00Z", "fieldsV1": {"f:spec": {"f:template": {}}}},
        {**entry, "fieldsV1": {"f:spec": {"f:replicas": {}}}},
    ]
    plane.server.store.update(DEPLOYMENTS, found)


async def reset_for_ever(member: Member, replicas: int) -> None:
    """Sets the same replicas every five seconds."""
    while True:
        if member.replicas != replicas:
            resize(member, replicas, "argocd-controller")
        await asyncio.sleep(5)


def sole_owner(f: Federation) -> tuple[str, str]:
    """The status and the reason of SoleOwner."""
    return f.condition("SoleOwner")[:2]


async def test_writer_that_resets_the_size_is_named(tmp_path: Path) -> None:
    """SoleOwner and Ready are False with the field manager and both numbers, until ten minutes are quiet."""
    async with federation(tmp_path, m1=2, m2=2) as f, f.controller(calm=True) as controller:
        f.demand(600)  # 12 replicas
        f.scale()
        await until(lambda: f.total == 12)
        async with background(reset_for_ever(f.members["m1"], 3)):
            await until(lambda: sole_owner(f)[0] == "False", QUIET)
            await asyncio.sleep(QUIET)
            during = f.condition("SoleOwner"), f.condition("Ready"), f.events("AnotherWriter")
            series = controller.series.get_sample_value(
                "fedhpa_controller_contested", {"namespace": NAMESPACE, "hpa_name": NAME}
            )
        await asyncio.sleep(QUIET - 60)
        kept = sole_owner(f)
        await asyncio.sleep(120)

        owner, ready, events = during
        assert owner[:2] == ready[:2] == ("False", "AnotherWriter")
        assert owner[2].startswith(
            "argocd-controller keeps changing the size: last in m1 to 3 replicas, where the controller had "
        )
        assert (len(events), series) == (1, 1.0)
        assert kept == ("False", "AnotherWriter")
        assert sole_owner(f) == ("True", "NoOtherAutoscaler")
        assert f.condition("Ready")[0] == "True"


async def test_conflict_survives_a_restart(tmp_path: Path) -> None:
    """The next process names the writer from its first decision on."""
    async with federation(tmp_path, m1=2, m2=2) as f:
        f.demand(600)
        f.scale()
        async with background(reset_for_ever(f.members["m1"], 3)):
            async with f.controller(calm=True) as first:
                await until(lambda: sole_owner(f)[0] == "False", QUIET)
                await first.stop()
            seen = set()
            async with f.controller(calm=True) as second:
                await until(lambda: second.reconciles >= 1)
                for _ in range(60):
                    seen.add(sole_owner(f))
                    await asyncio.sleep(1)

        assert seen == {("False", "AnotherWriter")}


@pytest.mark.parametrize("changes", [1, 2])
async def test_changes_by_a_person_are_no_conflict(tmp_path: Path, changes: int) -> None:
    """One change, or two within ten minutes, is reported nowhere."""
    async with federation(tmp_path, m1=4, m2=4) as f, f.controller(calm=True):
        f.demand(400)
        f.scale()
        await until(lambda: f.condition("Ready")[0] == "True")
        for _ in range(3):
            for number in range(changes):
                resize(f.members["m1"], 6 - number, "kubectl-edit")
                await asyncio.sleep(60)
            await asyncio.sleep(QUIET)

        assert sole_owner(f) == ("", "")
        assert f.events("AnotherWriter") == []


async def answer_late(seen: Seen) -> None:
    """The hook that lets the write of a scale be made, and gives no answer in time."""
    if seen.writes and seen.path.endswith("/scale"):
        await asyncio.sleep(30)


async def test_writes_without_an_answer_are_no_conflict(tmp_path: Path) -> None:
    """A scale whose answer is lost was written by the controller, although it cannot know that."""
    async with federation(tmp_path, m1=2, m2=2) as f, f.controller(calm=True):
        f.members["m1"].after = answer_late
        f.scale(maxReplicas=60)
        for load in (300, 700, 1100, 1500, 1900, 2300):
            f.demand(load)
            await asyncio.sleep(90)

        assert f.events("FailedRescale")
        assert sole_owner(f) == ("", "")


async def test_member_that_comes_and_goes_is_no_conflict(tmp_path: Path) -> None:
    """Writes around the outages of a member are those of the controller itself."""
    async with federation(tmp_path, m1=2, m2=2, m3=2) as f, f.controller(calm=True):
        f.scale(maxReplicas=60)
        for load in (300, 900, 300, 1500, 600, 1800):
            f.demand(load)
            await f.members["m2"].faults.set(Fault.REFUSE)
            await asyncio.sleep(60)
            await f.members["m2"].faults.clear()
            await asyncio.sleep(60)

        assert sole_owner(f) == ("", "")


async def test_changes_in_a_dry_run_are_no_conflict(tmp_path: Path) -> None:
    """In a dry run another autoscaler is meant to scale the workload."""
    async with federation(tmp_path, m1=2, m2=2) as f, f.controller(calm=True):
        f.demand(600)
        f.scale(dryRun=True)
        for number in range(12):
            resize(f.members["m1"], 3 + number % 2, "kube-controller-manager")
            await asyncio.sleep(30)

        assert sole_owner(f) == ("", "")


async def test_writer_without_a_name_is_told_with_both_numbers(tmp_path: Path) -> None:
    """Where no managed fields have the replicas, nobody is named."""

    async def reset(member: Member) -> None:
        while True:
            member.resize(3)
            await asyncio.sleep(5)

    async with federation(tmp_path, m1=2, m2=2) as f, f.controller(calm=True):
        f.demand(600)
        f.scale()
        await until(lambda: f.total == 12)
        async with background(reset(f.members["m1"])):
            await until(lambda: sole_owner(f)[0] == "False", QUIET)

        assert f.condition("SoleOwner")[2].startswith(
            "another client keeps changing the size: last in m1 to 3 "
        )


@pytest.mark.parametrize("writer", ["", "kubectl-scale"])
async def test_template_is_compared_and_members_that_lag_are_not(tmp_path: Path, writer: str) -> None:
    """With Karmada only the template's size counts: members may follow late, or never."""
    async with federation(tmp_path, m1=2, m2=2) as f:
        f.hub.server.store.create(DEPLOYMENTS, deployment(4))
        f.demand(600)
        f.scale()
        async with f.controller(calm=True, propagation="karmada"):
            for _ in range(12):
                await asyncio.sleep(30)
                if writer:
                    resize(f.hub, 5, writer)
            found = f.condition("SoleOwner")

        if not writer:
            assert found == ("", "", "")
        else:
            assert found[2].startswith(
                "kubectl-scale keeps changing the size: last to 5 replicas, where the controller had left "
            )
