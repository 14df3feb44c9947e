"""clusterAffinity.placementDecision selects the clusters that another scheduler has decided on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controller.federatedhpa.one_shot import one_shot_reader, settings_for
from fedhpa.api.placement_decisions import INDEX_LABEL, KEY_LABEL
from fedhpa.kube import ApiClient
from tests.support.controller import HPAS, NAMESPACE, ControllerWorld, world
from tests.support.fakeapi import Object, eventually
from tests.virtual.test_placements_are_published import DECISIONS, FLAGS, FLEET, entry, profiles

pytestmark = pytest.mark.looptime(noop_cycles=0)

FOLLOW: Object = {"clusterAffinity": {"placementDecision": {"name": "chosen"}}}
SETTINGS: dict[str, Any] = {**FLAGS, "sync_period": 5.0}


def decide(w: ControllerWorld, *clusters: str, name: str = "chosen", index: int | None = None) -> None:
    """Write a PlacementDecision of another scheduler, or one slice of it."""
    labels = {} if index is None else {KEY_LABEL: "k", INDEX_LABEL: str(index)}
    references = [{"clusterProfileRef": {"name": one, "namespace": FLEET}} for one in clusters]
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    w.hub.put(DECISIONS, {"metadata": metadata, "decisions": references, "schedulerName": "ocm"})


def taking_part(w: ControllerWorld) -> list[str]:
    """The clusters in the status that are Members."""
    return [one["name"] for one in w.status().get("clusters") or () if "membership" not in one]


async def test_the_listed_clusters_take_part() -> None:
    """A change of the decision acts after it stood for a minute."""
    async with world(m1=2, m2=2, m3=2) as w:
        profiles(w, "m1", "m2", "m3")
        decide(w, "m1", "m2")
        w.scale(**FOLLOW)
        async with w.controller(**SETTINGS):
            await eventually(lambda: taking_part(w) == ["m1", "m2"])
            decide(w, "m1", "m3")
            await asyncio.sleep(50)
            assert taking_part(w) == ["m1", "m2"]
            await eventually(lambda: taking_part(w) == ["m1", "m3"], within=120)


async def test_a_decision_that_flaps_changes_nothing() -> None:
    """Each half minute another one: none stands for a minute."""
    async with world(m1=2, m2=2) as w:
        profiles(w, "m1", "m2")
        decide(w, "m1")
        w.scale(**FOLLOW)
        async with w.controller(**SETTINGS):
            await eventually(lambda: taking_part(w) == ["m1"])
            for _ in range(6):
                decide(w, "m1", "m2")
                await asyncio.sleep(30)
                decide(w, "m1")
                await asyncio.sleep(30)
                assert taking_part(w) == ["m1"]


def absent(w: ControllerWorld) -> None:
    w.hub.remove(DECISIONS, "chosen", NAMESPACE)


def empty(w: ControllerWorld) -> None:
    decide(w, index=0)


def gap(w: ControllerWorld) -> None:
    decide(w, "m1", index=1)


def strangers(w: ControllerWorld) -> None:
    decide(w, "somewhere", index=0)


@pytest.mark.parametrize("breaks", [absent, empty, gap, strangers])
@pytest.mark.parametrize("restarts", [False, True], ids=["", "after a restart"])
async def test_one_that_cannot_be_followed_changes_nothing(breaks: Any, restarts: bool) -> None:
    """The selection stays for however long, also in the next process, and a condition says why."""
    async with world(m1=2, m2=2, m3=2) as w:
        profiles(w, "m1", "m2", "m3")
        decide(w, "m1", "m2", index=0)
        w.scale(**FOLLOW)
        async with w.controller(**SETTINGS):
            await eventually(lambda: taking_part(w) == ["m1", "m2"])
            breaks(w)
            if not restarts:
                await asyncio.sleep(300)
        async with w.controller(**SETTINGS):
            await eventually(lambda: w.condition("PlacementUnreadable")[0] == "True")
            await asyncio.sleep(200)

            assert taking_part(w) == ["m1", "m2"]
            assert w.condition("PlacementUnreadable")[2].endswith("the selection stays as it was")
            assert w.replicas == {"m1": 2, "m2": 2, "m3": 2}

            decide(w, "m1", "m2", index=0)
            await eventually(lambda: w.condition("PlacementUnreadable")[0] == "False")
            w.scale()
            await eventually(lambda: not w.condition("PlacementUnreadable")[0])

            assert len(w.events("PlacementUnreadable")) == 1
            assert w.condition("Ready")[0] == "True"


async def test_a_field_that_is_added_while_it_cannot_be_read_changes_nothing() -> None:
    """The clusters that take part go on, because nothing says that they should not."""
    async with world(m1=2, m2=2) as w:
        profiles(w, "m1", "m2")
        w.scale()
        async with w.controller(**SETTINGS):
            await eventually(lambda: taking_part(w) == ["m1", "m2"])
            w.scale(**FOLLOW)
            await eventually(lambda: w.condition("PlacementUnreadable")[0] == "True")
            await asyncio.sleep(200)

        assert taking_part(w) == ["m1", "m2"]


async def test_several_slices_are_one_decision() -> None:
    """The name is that of any slice of it."""
    async with world(m1=2, m2=2, m3=2) as w:
        profiles(w, "m1", "m2", "m3")
        decide(w, "m3", index=1)
        decide(w, "m1", name="first", index=0)
        w.scale(**FOLLOW)
        async with w.controller(**SETTINGS):
            await eventually(lambda: taking_part(w) == ["m1", "m3"])


async def test_a_cluster_that_is_not_listed_any_more_leaves() -> None:
    """As one that clusterAffinity does not select any more, so its replicas move first."""
    async with world(m1=2, m2=2) as w:
        profiles(w, "m1", "m2")
        decide(w, "m1", "m2")
        w.scale(**FOLLOW, minReplicas=4, maxReplicas=4)
        async with w.controller(**SETTINGS):
            await eventually(lambda: taking_part(w) == ["m1", "m2"])
            decide(w, "m1")
            await eventually(lambda: entry(w, "m2").get("membership") == "Leaving", within=200)
            await eventually(lambda: w.replicas == {"m1": 4, "m2": 0}, within=200)


@pytest.mark.parametrize("served", [True, False])
async def test_a_preview_shows_which_clusters_would_be_selected(served: bool) -> None:
    """It shows what the decision leads to, without the minute. One that cannot be read is named."""
    async with world(m1=2, m2=2, m3=2) as w:
        profiles(w, "m1", "m2", "m3")
        decide(w, "m1", "m3")
        w.scale()
        async with w.controller(**SETTINGS):
            await eventually(lambda: taking_part(w) == ["m1", "m2", "m3"])
        if not served:
            w.hub.refused["GET", "/placementdecisions"] = 403
        raw = w.hub.find(HPAS, "web", NAMESPACE)
        assert raw is not None
        changed = {**raw, "spec": {**raw["spec"], **FOLLOW}}
        async with ApiClient(w.hub.config()) as hub:
            settings = await settings_for(hub, raw, sources=FLAGS["sources"])
            async with one_shot_reader(hub, settings, clock=w.clock) as reader:
                found = await reader.read(changed)

        told = {one.type for one in found.decide().conditions}
        assert ("PlacementUnreadable" in told) is not served
        left = {one.name for one in found.snapshot.clusters if not one.selected}
        assert left == ({"m2"} if served else set())
