"""A member whose ClusterProfile or Secret goes is Lost at once, because no credentials for it are left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedhpa.api.member_sources import SERVERS_MAP, TAINTS_MAP, MemberSources
from fedhpa.cli.cron.preview import PreviewedObjects, previews
from fedhpa.kube import ApiClient
from tests.integration.test_cron_preview import DEPLOYMENT, MONDAY, calendar, rule
from tests.support.controller import ControllerWorld, world_on_sockets
from tests.support.fakeapi import CLUSTERS, SECRETS, eventually
from tests.support.fleets import (
    ARGOCD,
    CONFIG_MAPS,
    FLEET,
    NAMESPACE,
    PROFILES,
    argocd_of,
    cluster_secret,
    plugin,
    printing,
    profile,
    profiles_of,
    provider_file,
)

HPAS = ("autoscaling/v2", "horizontalpodautoscalers")
SOURCES = ("clusterprofiles", "argocd")


@dataclass
class ForeignWorld:
    """A world whose members are registered by another kind of objects than Clusters."""

    world: ControllerWorld
    sources: MemberSources
    register: Callable[[str], None]
    unregister: Callable[[str], None]


@asynccontextmanager
async def foreign(source: str, folder: Path, **replicas: int) -> AsyncIterator[ForeignWorld]:
    """A hub without Clusters, and members that `source` registers."""
    async with world_on_sockets(**replicas) as w:
        for name in (TAINTS_MAP, SERVERS_MAP):
            w.hub.put(CONFIG_MAPS, {"metadata": {"name": name, "namespace": NAMESPACE}})
        for name, member in w.members.items():
            member.token = "fleet-token"
            w.hub.remove(CLUSTERS, name)
        if source == "clusterprofiles":
            sources = profiles_of(provider_file(folder, plugin(folder, printing("fleet-token"))))
        else:
            sources = argocd_of(*w.members)

        def register(name: str) -> None:
            member = w.members[name]
            if source == "clusterprofiles":
                w.hub.put(PROFILES, profile(name, member.url, member.ca_pem))
            else:
                w.hub.put(SECRETS, cluster_secret(name, member.url, "fleet-token", member.ca_pem))

        def unregister(name: str) -> None:
            if source == "clusterprofiles":
                w.hub.remove(PROFILES, name, FLEET)
            else:
                w.hub.remove(SECRETS, f"cluster-{name}", ARGOCD)

        for name in replicas:
            register(name)
        yield ForeignWorld(w, sources, register, unregister)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """All objects of a source are gone within half a second."""
    monkeypatch.setattr("fedhpa.members.registry.SETTLED_SECONDS", 0.5)


@pytest.mark.parametrize("source", SOURCES)
async def test_load_is_followed(tmp_path: Path, source: str) -> None:
    """Members of any source are scaled as Clusters are, and nothing is written to their objects."""
    async with foreign(source, tmp_path, m1=2, m2=2) as f:
        w = f.world
        w.scale()
        async with w.controller(sources=f.sources):
            await eventually(lambda: w.status().get("currentReplicas") == 4)
            w.load(400)
            await eventually(lambda: sum(w.replicas.values()) == 8)
            w.load(200)
            await eventually(lambda: sum(w.replicas.values()) == 4)

        written = {path for path in w.hub.writes if "clusterprofiles" in path or "/secrets" in path}
        assert written == set()
        assert min(w.replicas.values()) >= 1


@pytest.mark.parametrize("source", SOURCES)
async def test_a_member_whose_object_goes_is_lost_at_once(tmp_path: Path, source: str) -> None:
    """An event says so, and the others take its replicas without the wait of a cluster that is silent."""
    async with foreign(source, tmp_path, m1=4, m2=4, m3=4) as f:
        w = f.world
        w.scale()
        async with w.controller(sources=f.sources):
            await eventually(lambda: w.status().get("currentReplicas") == 12)
            f.unregister("m3")
            await eventually(lambda: w.state("m3") == "Lost")
            await eventually(lambda: w.members["m1"].replicas() + w.members["m2"].replicas() == 12)
            await eventually(lambda: bool(w.events("FailedOver")))
            f.register("m3")
            await eventually(lambda: w.state("m3") == "Answered")

        (gone,) = w.events("SourceGone")
        assert gone.startswith("cluster m3 is lost at once: its ")
        assert w.events("ClusterLost") == []


async def test_a_source_that_is_emptied_moves_nothing(tmp_path: Path) -> None:
    """A person who deletes all objects at once has hardly lost all clusters at once."""
    async with foreign("clusterprofiles", tmp_path, m1=4, m2=4) as f:
        w = f.world
        w.scale()
        async with w.controller(sources=f.sources) as controller:
            await eventually(lambda: w.status().get("currentReplicas") == 8)
            for name in ("m1", "m2"):
                f.unregister(name)
            await eventually(lambda: {w.state("m1"), w.state("m2")} == {"Lost"})
            await eventually(lambda: bool(w.events("FailoverHeld")))
            await w.reconciles(controller, 5)
            for name in ("m1", "m2"):
                f.register(name)
            await eventually(lambda: w.status()["currentReplicas"] == 8)

        assert w.replicas == {"m1": 4, "m2": 4}
        assert w.events("FailedOver") == []


async def test_a_preview_of_rules_reads_these_members(tmp_path: Path) -> None:
    """A workload that only members have is read there, with the options of the controller."""
    cron = calendar("nightly", rule("down", "0 20 * * *"), target=DEPLOYMENT)
    cron["spec"]["rules"][0]["targetReplicas"] = 1
    async with foreign("argocd", tmp_path, m1=2, m2=3) as f, ApiClient(f.world.hub.config()) as hub:
        objects = PreviewedObjects({"nightly": cron}, ("nightly",))
        (found,) = await previews(hub, objects, MONDAY, f.sources)
        (without,) = await previews(hub, objects, MONDAY)

    assert found.values["replicas"] == 5
    assert without.values["replicas"] != 5


@pytest.mark.parametrize("all_go", [False, True])
async def test_bounds_are_failed_over_unless_the_whole_source_goes(tmp_path: Path, all_go: bool) -> None:
    """In mode Distributed a lost share goes to the others, too, and an emptied source moves none."""

    def bounds(name: str) -> tuple[int, int]:
        found = f.world.members[name].find(HPAS, "web", "shop")
        return (0, 0) if found is None else (found["spec"]["minReplicas"], found["spec"]["maxReplicas"])

    async with foreign("argocd", tmp_path, m1=4, m2=4, m3=4) as f:
        w = f.world
        for member in w.members.values():
            member.answers["/apis/autoscaling"] = lambda: {"versions": [{"groupVersion": HPAS[0]}]}
        weights = {"federatedHPAAssignmentType": "StaticWeighted"}
        w.scale(mode="Distributed", federatedHPAAssignment=weights, minReplicas=3, maxReplicas=18)
        async with w.controller(sources=f.sources) as controller:
            await eventually(lambda: all(bounds(name) == (1, 6) for name in w.members))
            for name in w.members if all_go else ("m3",):
                f.unregister(name)
            await eventually(lambda: w.state("m3") == "Lost")
            if all_go:
                await eventually(lambda: bool(w.events("FailoverHeld")))
                await w.reconciles(controller, 5)
            else:
                await eventually(lambda: bounds("m1")[1] + bounds("m2")[1] == 18)

        assert w.events("SourceGone")
        assert {name: bounds(name)[1] for name in w.members} == (
            {"m1": 6, "m2": 6, "m3": 6} if all_go else {"m1": 9, "m2": 9, "m3": 6}
        )


async def test_a_profile_that_goes_while_no_controller_runs_is_missed(tmp_path: Path) -> None:
    """The record knows the cluster, and no source does. Its replicas are failed over all the same."""
    async with foreign("clusterprofiles", tmp_path, m1=4, m2=4, m3=4) as f:
        w = f.world
        w.scale()
        async with w.controller(sources=f.sources):
            await eventually(lambda: w.status().get("currentReplicas") == 12)
            await eventually(lambda: bool(w.record()))
        f.unregister("m3")
        async with w.controller(sources=f.sources):
            await eventually(lambda: w.members["m1"].replicas() + w.members["m2"].replicas() == 12)
            await eventually(lambda: bool(w.events("SourceGone")))

        assert w.events("SourceGone") == ["cluster m3 is lost at once: no source registers it any more"]


async def test_a_cordon_in_the_config_map_is_a_cordon(tmp_path: Path) -> None:
    """A member that is no Cluster is cordoned as one, and gets nothing more."""
    async with foreign("argocd", tmp_path, m1=2, m2=2) as f:
        w = f.world
        taint = '[{"key": "fedhpa.io/cordon", "effect": "NoSchedule"}]'
        w.hub.put(
            CONFIG_MAPS, {"metadata": {"name": TAINTS_MAP, "namespace": NAMESPACE}, "data": {"m2": taint}}
        )
        w.scale()
        async with w.controller(sources=f.sources):
            await eventually(lambda: w.status().get("currentReplicas") == 4)
            w.load(400)
            await eventually(lambda: sum(w.replicas.values()) == 8)

        assert w.replicas == {"m1": 6, "m2": 2}
