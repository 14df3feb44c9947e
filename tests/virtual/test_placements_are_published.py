"""The clusters that should have a workload are published as PlacementDecisions, for others to deliver it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.federatedhpa.one_shot import one_shot_reader, settings_for
from fedhpa.api.member_sources import MemberSources
from fedhpa.api.placement_decisions import INDEX_LABEL, KEY_LABEL
from fedhpa.cli.replay import answer
from fedhpa.decision import to_text
from fedhpa.kube import ApiClient
from tests.support.controller import (
    DEPLOYMENTS,
    HPAS,
    NAMESPACE,
    ControllerWorld,
    cluster_object,
    world,
)
from tests.support.fakeapi import CLUSTERS, Collection, Object, eventually

pytestmark = pytest.mark.looptime(noop_cycles=0)

DECISIONS: Collection = ("multicluster.x-k8s.io/v1alpha1", "placementdecisions")
PROFILES: Collection = ("multicluster.x-k8s.io/v1alpha1", "clusterprofiles")
FLEET = "fleet"
ALL: Object = {"labelSelector": {"matchLabels": {}}}
PUBLISH: Object = {"placement": {"publish": True}, "clusterAffinity": ALL}
FLAGS: dict[str, Any] = {"sources": MemberSources(profile_namespaces=(FLEET,))}


def profiles(w: ControllerWorld, *names: str) -> None:
    """The ClusterProfiles of members."""
    for name in names:
        w.hub.put(PROFILES, {"metadata": {"name": name, "namespace": FLEET}})


def published(w: ControllerWorld, name: str = "web-0") -> list[tuple[str, str]]:
    """The clusters in a PlacementDecision with the reasons; empty without one."""
    found = w.hub.find(DECISIONS, name, NAMESPACE)
    listed = [] if found is None else found["decisions"]
    return [(one["clusterProfileRef"]["name"], one["reason"]) for one in listed]


def entry(w: ControllerWorld, cluster: str) -> Object:
    """The entry of a cluster in status.clusters."""
    return next((one for one in w.status().get("clusters") or () if one["name"] == cluster), {})


def taint(w: ControllerWorld, cluster: str, *taints: Object) -> None:
    """Set the taints of a Cluster."""
    found = cluster_object(w, cluster)
    w.hub.put(CLUSTERS, {**found, "spec": {**found["spec"], "taints": list(taints)}})


@asynccontextmanager
async def hosting(**replicas: int | None) -> AsyncIterator[ControllerWorld]:
    """A hub with the ClusterProfiles of its members. Those with None replicas have no workload."""
    async with world(**{name: count or 0 for name, count in replicas.items()}) as w:
        profiles(w, *replicas)
        for name, count in replicas.items():
            if count is None:
                w.members[name].remove(DEPLOYMENTS, "web", NAMESPACE)
        yield w


def writes(w: ControllerWorld) -> list[str]:
    """The writes of PlacementDecisions."""
    return [one for one in w.hub.writes if "placementdecisions" in one]


async def test_the_hosts_and_the_awaited_are_published() -> None:
    """A selected cluster without the workload is Awaited: it is published, and nothing else counts it."""
    async with hosting(m1=2, m2=2, m3=None) as w:
        w.scale(**PUBLISH)
        async with w.controller(**FLAGS) as controller:
            await eventually(lambda: w.condition("Published")[0] == "True")
            decision = w.hub.find(DECISIONS, "web-0", NAMESPACE)
            written = writes(w)
            await w.reconciles(controller, 5)

            assert published(w) == [("m1", "Member"), ("m2", "Member"), ("m3", "Awaited")]
            assert decision is not None
            assert decision["metadata"]["labels"] == {KEY_LABEL: "uid-web", INDEX_LABEL: "0"}
            assert [one["uid"] for one in decision["metadata"]["ownerReferences"]] == ["uid-web"]
            assert decision["schedulerName"] == "fedhpa"
            assert decision["decisions"][0]["clusterProfileRef"] == {"namespace": FLEET, "name": "m1"}
            assert entry(w, "m3")["membership"] == "Awaited"
            assert w.status()["summary"]["clusters"] == "2/2"
            assert w.condition("MetricsComplete")[0] == "True"
            assert "m3" not in w.record()["state"].get("absences", {})
            # It is written on a change only.
            assert writes(w) == written

            w.members["m3"].deploy(1)
            await eventually(lambda: published(w)[-1] == ("m3", "Member"))
            await eventually(lambda: w.status()["summary"]["clusters"] == "3/3")

        assert "membership" not in entry(w, "m3")


async def test_a_workload_that_runs_nowhere_is_published_all_the_same() -> None:
    """A tool that delivers the workload must learn first where it should run."""
    async with hosting(m1=None, m2=None) as w:
        w.scale(**PUBLISH)
        async with w.controller(**FLAGS):
            await eventually(lambda: len(published(w)) == 2)

            assert published(w) == [("m1", "Awaited"), ("m2", "Awaited")]
            await eventually(lambda: w.condition("AbleToScale")[1] == "FailedGetScale")
            nowhere = "Deployment shop/web runs in no cluster yet, and is awaited in m1, m2"
            assert w.condition("AbleToScale")[2] == nowhere

            w.members["m1"].deploy(1)
            await eventually(lambda: w.status().get("currentReplicas") == 1)

        assert published(w) == [("m1", "Member"), ("m2", "Awaited")]


async def test_a_long_wait_is_a_warning_once() -> None:
    """After ten minutes an event names the cluster, and a restart does not repeat it."""
    async with hosting(m1=1, m2=None) as w:
        w.scale(**PUBLISH)
        async with w.controller(**FLAGS, sync_period=15.0):
            await asyncio.sleep(540)
            assert w.events("ClusterAwaited") == []
        async with w.controller(**FLAGS, sync_period=15.0):
            await asyncio.sleep(120)
            assert len(w.events("ClusterAwaited")) == 1
        async with w.controller(**FLAGS, sync_period=15.0):
            await asyncio.sleep(900)

        assert len(w.events("ClusterAwaited")) == 1
        assert w.events("ClusterAwaited")[0].startswith("m2 has been awaited for ten minutes")


async def test_an_unreachable_host_is_no_awaited_cluster() -> None:
    """A cluster that ran the workload and does not answer any more is missing, after a restart too."""
    async with hosting(m1=2, m2=2) as w:
        w.scale(**PUBLISH)
        async with w.controller(**FLAGS):
            await eventually(lambda: len(published(w)) == 2)
        w.members["m2"].faults.status["/"] = 503
        async with w.controller(**FLAGS):
            await eventually(lambda: w.state("m2") == "Missing")

        assert published(w) == [("m1", "Member"), ("m2", "Member")]
        assert "membership" not in entry(w, "m2")


async def test_a_drained_cluster_is_published_until_it_is_empty() -> None:
    """It is Leaving until it runs nothing, and then it is left out."""
    async with hosting(m1=2, m2=2) as w:
        w.scale(**PUBLISH, minReplicas=4, maxReplicas=4)
        async with w.controller(**FLAGS):
            await eventually(lambda: len(published(w)) == 2)
            taint(w, "m2", {"key": "fedhpa.io/drain", "effect": "NoSchedule"})
            await eventually(lambda: published(w)[-1] == ("m2", "Leaving"))
            await eventually(lambda: published(w) == [("m1", "Member")], within=120)

        assert w.replicas == {"m1": 4, "m2": 0}


async def test_a_cordoned_cluster_without_the_workload_is_not_begun() -> None:
    """One that is Awaited already stays, because somebody may be delivering."""
    cordon = {"key": "fedhpa.io/cordon", "effect": "NoSchedule"}
    async with hosting(m1=2, m2=None, m3=None) as w:
        taint(w, "m3", cordon)
        w.scale(**PUBLISH)
        async with w.controller(**FLAGS) as controller:
            await eventually(lambda: len(published(w)) == 2)
            taint(w, "m2", cordon)
            await w.reconciles(controller, 5)

        assert published(w) == [("m1", "Member"), ("m2", "Awaited")]


async def test_a_member_without_profile_is_named() -> None:
    """It is left out, and the condition says which one and where its ClusterProfile was looked for."""
    async with world(m1=1, m2=1) as w:
        profiles(w, "m1")
        w.scale(**PUBLISH)
        async with w.controller(**FLAGS):
            await eventually(lambda: w.condition("Published")[1] == "NoClusterProfile")

            assert w.condition("Published")[2].startswith("m2 has no ClusterProfile in fleet")
            assert published(w) == [("m1", "Member")]

            labelled = {"name": "other", "namespace": FLEET, "labels": {"fedhpa.io/cluster": "m2"}}
            w.hub.put(PROFILES, {"metadata": labelled})
            await eventually(lambda: w.condition("Published")[0] == "True")

        assert published(w) == [("m1", "Member"), ("other", "Member")]


async def test_a_decision_of_somebody_else_is_never_touched() -> None:
    """A PlacementDecision of the name that another scheduler wrote stays, and the condition names it."""
    theirs = {"metadata": {"name": "web-0", "namespace": NAMESPACE}, "decisions": [], "schedulerName": "x"}
    async with hosting(m1=1) as w:
        w.hub.put(DECISIONS, theirs)
        w.scale(**PUBLISH)
        async with w.controller(**FLAGS) as controller:
            await eventually(lambda: w.condition("Published")[1] == "NotOwned")
            await w.reconciles(controller)

        assert not writes(w)
        assert "web-0" in w.condition("Published")[2]


async def test_what_somebody_changes_or_deletes_is_restored() -> None:
    """The watch shows it, and the next decision writes it again."""
    async with hosting(m1=1) as w:
        w.scale(**PUBLISH)
        async with w.controller(**FLAGS):
            await eventually(lambda: len(published(w)) == 1)
            w.hub.remove(DECISIONS, "web-0", NAMESPACE)
            await eventually(lambda: len(published(w)) == 1)
            w.hub.put(DECISIONS, {**(w.hub.find(DECISIONS, "web-0", NAMESPACE) or {}), "decisions": []})
            await eventually(lambda: len(published(w)) == 1)


async def test_a_hub_without_the_api_scales_all_the_same() -> None:
    """The condition says what to install, and nothing else stops."""
    async with hosting(m1=1) as w:
        w.hub.refused["GET", "/placementdecisions"] = 404
        w.scale(**PUBLISH)
        w.load(400)
        async with w.controller(**FLAGS):
            await eventually(lambda: w.condition("Published")[1] == "NotServed")
            await eventually(lambda: w.replicas["m1"] > 1)

            del w.hub.refused["GET", "/placementdecisions"]
            await eventually(lambda: len(published(w)) == 1, within=120)


async def test_a_refused_write_is_told_and_scaling_goes_on() -> None:
    """A missing right is a condition."""
    async with hosting(m1=1) as w:
        w.hub.refused["POST", "/placementdecisions"] = 403
        w.scale(**PUBLISH)
        w.load(400)
        async with w.controller(**FLAGS):
            await eventually(lambda: w.condition("Published")[1] == "NotWritten")
            await eventually(lambda: w.replicas["m1"] > 1)


async def test_the_end_of_publication_removes_what_was_published() -> None:
    """The decisions go with the field, and the condition with them."""
    async with hosting(m1=1) as w:
        w.scale(**PUBLISH)
        async with w.controller(**FLAGS):
            await eventually(lambda: w.condition("Published")[0] == "True")
            w.scale(clusterAffinity=ALL)
            await eventually(lambda: not w.condition("Published")[0])

        assert not published(w)


@pytest.mark.parametrize("change", [{"dryRun": True}, {}], ids=["dry run", "paused"])
async def test_nothing_is_written_in_a_dry_run(change: Object) -> None:
    """Neither with spec.dryRun nor with --pause."""
    async with hosting(m1=1) as w:
        w.scale(**PUBLISH, **change)
        async with w.controller(**FLAGS, paused=not change) as controller:
            await w.reconciles(controller, 4)

        assert not writes(w)


async def test_with_karmada_the_field_is_ignored() -> None:
    """It is told by a condition and holds nothing; the PropagationPolicy places the workload."""
    async with hosting(m1=2) as w:
        w.hub.deploy(2)
        w.scale(placement={"publish": True})
        w.load(400)
        async with w.controller(**FLAGS, propagation="karmada"):
            await eventually(lambda: w.condition("Published")[1] == "NotSupported")
            await eventually(lambda: w.hub.replicas() > 2)

        assert not writes(w)


async def test_hundreds_of_clusters_are_published_in_slices() -> None:
    """At most 100 in each, in the order of the priorities; slices that are no longer needed are removed."""
    names = [f"c{number:03}" for number in range(150)]
    preferred = {"targetCluster": {"clusterNames": ["c140"]}, "priority": 1}
    assignment = {
        "federatedHPAAssignmentType": "Prioritized",
        "clusterAutoscalingPreference": [preferred],
    }
    async with world(m1=1) as w:
        member = cluster_object(w, "m1")
        for name in names:
            copied = {"name": name, "uid": f"uid-{name}"}
            w.hub.put(CLUSTERS, {"metadata": copied, "spec": {**member["spec"], "id": f"uid-{name}"}})
        profiles(w, "m1", *names)
        w.members["m1"].refused["GET", "/namespaces/kube-system"] = 403
        w.scale(**{**PUBLISH, "federatedHPAAssignment": assignment})
        async with w.controller(**FLAGS, sync_period=5.0):
            await eventually(lambda: len(published(w, "web-1")) > 0, within=60)
            await eventually(lambda: len(published(w)) + len(published(w, "web-1")) == 151, within=60)

            assert published(w)[0] == ("c140", "Member")
            assert len(published(w)) == 100
            found = w.hub.find(DECISIONS, "web-1", NAMESPACE)
            assert found is not None
            assert found["metadata"]["labels"][INDEX_LABEL] == "1"


async def test_a_record_replays_what_is_published() -> None:
    """A scenario has the awaited clusters, their ClusterProfiles, and the result of the last write."""
    async with hosting(m1=2, m2=None) as w:
        w.scale(**PUBLISH)
        async with w.controller(**FLAGS):
            await eventually(lambda: w.condition("Published")[0] == "True")
        raw = w.hub.find(HPAS, "web", NAMESPACE)
        assert raw is not None
        async with ApiClient(w.hub.config()) as hub:
            settings = await settings_for(hub, raw, sources=FLAGS["sources"])
            async with one_shot_reader(hub, settings, clock=w.clock) as reader:
                found = await reader.read(raw)

        scenario = json.dumps(found.scenario())
        line, readable = answer(scenario.encode())
        assert readable, line
        assert json.loads(line)["published"] == [
            {"cluster": "m1", "reason": "Member", "profile": f"{FLEET}/m1"},
            {"cluster": "m2", "reason": "Awaited", "profile": f"{FLEET}/m2"},
        ]
        assert "published: m1 (Member), m2 (Awaited)" in to_text(found.decide())
