"""A cluster is the UID of its namespace kube-system, whatever its name is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from testbed.embedded.api.server import new_namespace
from testbed.embedded.api.types import Router
from testbed.embedded.objects.kinds import NAMESPACES
from tests.support.federation import Controller, Federation, adapter, federation, until
from tests.support.federation.planes import (
    CLUSTERS,
    DEPLOYMENTS,
    EVENTS,
    HPAS,
    NAME,
    NAMESPACE,
    SECRETS,
    Seen,
)
from tests.support.plane_faults import Fault

EQUAL = {"federatedHPAAssignmentType": "StaticWeighted"}
pytestmark = pytest.mark.looptime(noop_cycles=0)

MEMBER_HPAS = ("autoscaling", "horizontalpodautoscalers")
KUBE_SYSTEM = "/api/v1/namespaces/kube-system"
MAXIMUM = 8
# Several sync periods, and the time in which a changed readiness reaches the hub.
SETTLED = 200.0


def register_again(f: Federation, name: str, other: str, **spec: Any) -> None:
    """Registers the cluster of `name` under another name, with the same credentials."""
    store = f.hub.server.store
    known, secret = store.get(CLUSTERS, "", name), store.get(SECRETS, "kube-system", name)
    store.create(SECRETS, {**secret, "metadata": {"namespace": "kube-system", "name": other}})
    reference = {"secretRef": {"namespace": "kube-system", "name": other}}
    head = {"apiVersion": known["apiVersion"], "kind": known["kind"], "metadata": {"name": other}}
    store.create(CLUSTERS, {**head, "spec": {**known["spec"], **reference, **spec}})


def rebuild(f: Federation, name: str, *, workload: bool) -> None:
    """Replaces a cluster by a new one, with another UID, under the same name and address."""
    store = f.members[name].server.store
    store.delete(NAMESPACES, "", "kube-system")
    store.create(NAMESPACES, new_namespace("kube-system"))
    if not workload:
        store.delete(DEPLOYMENTS, NAMESPACE, NAME)


def shown(registry: CollectorRegistry) -> dict[str, str]:
    """Returns the series of duplicates: the other name by Cluster."""
    families = (each for each in registry.collect() if each.name == "fedhpa_controller_cluster_duplicate")
    return {one.labels["cluster"]: one.labels["same_as"] for each in families for one in each.samples}


def of_cluster(f: Federation, reason: str) -> list[tuple[str, str]]:
    """Returns Cluster and message of the events about Clusters, of one reason."""
    found = [
        e for e in f.hub.all(EVENTS) if (e["involvedObject"]["kind"], e["reason"]) == ("Cluster", reason)
    ]
    return [(e["involvedObject"]["name"], e["message"]) for e in found]


def ready(f: Federation, name: str) -> tuple[str, str, str]:
    """Returns status, reason and message of the condition Ready of a Cluster."""
    conditions = f.hub.server.store.get(CLUSTERS, "", name).get("status", {}).get("conditions", ())
    found: dict[str, Any] = next((each for each in conditions if each["type"] == "Ready"), {})
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


async def scaled(f: Federation, controller: Controller) -> None:
    """Waits until the object was reconciled a few times."""
    await until(lambda: f.condition("MetricsComplete")[0] != "", 600)
    await controller.more_reconciles(3)


@pytest.mark.parametrize("with_id", [False, True])
async def test_one_cluster_under_two_names_counts_once(tmp_path: Path, with_id: bool) -> None:
    """As many replicas run as are due, never more than the maximum, and all places name both names."""
    async with federation(tmp_path, m1=2, m3=2) as f:
        uid = f.members["m1"].server.store.get(NAMESPACES, "", "kube-system")["metadata"]["uid"]
        await asyncio.sleep(1)  # the older Cluster counts
        register_again(f, "m1", "a", **({"id": uid} if with_id else {}))
        f.demand(300)  # the load of six pods at 50 %
        f.scale(maxReplicas=MAXIMUM)
        async with f.controller() as controller:
            controller.counted.members.watch(
                lambda: controller.members.registered, lambda: controller.members.duplicates
            )
            await asyncio.sleep(SETTLED)
            assert f.total == 6
            assert f.status()["currentReplicas"] == 6
            f.demand(2_000)
            await asyncio.sleep(SETTLED)

            names = [entry["name"] for entry in f.status()["clusters"]]
            assert f.total == MAXIMUM
            assert names == ["m1", "m3"]
            assert max(sum_over_time(f)) <= MAXIMUM
            condition = f.condition("HubCompatible")
            assert condition[:2] == ("False", "DuplicateCluster")
            assert "a is the same cluster as m1" in condition[2]
            assert "fedhpa unjoin a" in condition[2]
            assert len(f.events("DuplicateCluster")) == 1
            ((cluster, message),) = of_cluster(f, "DuplicateCluster")
            assert cluster == "a"
            assert f"a is the same cluster as m1 (UID {uid}) and is left out" in message
            assert ready(f, "a")[:2] == ("False", "FedHPADuplicate")
            assert ready(f, "m1")[0] == "True"
            assert shown(controller.series) == {"a": "m1"}

            f.part("a")
            await asyncio.sleep(SETTLED)
            assert f.condition("HubCompatible")[0] == "True"
            assert shown(controller.series) == {}


async def test_pods_are_listed_once(tmp_path: Path) -> None:
    """The hub's HPA and kubectl see each pod of the cluster under the name that counts."""
    async with federation(tmp_path, m1=2, m3=2) as f:
        await asyncio.sleep(1)
        register_again(f, "m1", "a")
        f.demand(300)
        await asyncio.sleep(120)  # until the pods are ready
        async with adapter(f) as made:
            answer = await made.get()

        assert (answer.status, answer.clusters, answer.warnings) == (200, {"m1": 2, "m3": 2}, [])


def sum_over_time(f: Federation) -> list[int]:
    """Returns the replicas of all members after each change."""
    now = {"m1": 2, "m3": 2}
    totals = [sum(now.values())]
    for change in f.rescales:
        now[change.member] = change.replicas
        totals.append(sum(now.values()))
    return totals


@pytest.mark.parametrize("with_id", [False, True])
async def test_a_name_joined_while_the_controller_runs_changes_nothing(tmp_path: Path, with_id: bool) -> None:
    """Nothing is scaled because a cluster gets a second name, and the second name is never missing."""
    async with federation(tmp_path, m1=3, m3=3) as f, f.controller() as controller:
        f.demand(300)
        f.scale(maxReplicas=MAXIMUM, clusterAffinity={"clusterNames": ["a", "m1", "m3"]})
        f.members["m3"].resize(3)
        await until(lambda: f.condition("MetricsComplete")[0] != "")
        await asyncio.sleep(1)
        uid = f.members["m1"].server.store.get(NAMESPACES, "", "kube-system")["metadata"]["uid"]
        register_again(f, "m1", "a", **({"id": uid} if with_id else {}))
        await asyncio.sleep(1_000)  # longer than until a cluster is lost

        assert f.rescales == []
        assert f.condition("MetricsComplete")[0] == "True"
        assert [entry["name"] for entry in f.status()["clusters"]] == ["m1", "m3"]
        assert controller.members.duplicates.keys() == {"a"}


async def test_a_name_counts_once_it_is_known_whose_it_is(tmp_path: Path) -> None:
    """A slow answer to the first question is waited for, so no pass counts the cluster twice."""
    async with federation(tmp_path, m1=3, m3=3) as f:

        async def slow(seen: Seen) -> None:
            await asyncio.sleep(2.0 if seen.path == KUBE_SYSTEM else 0.0)

        f.members["m1"].before = slow
        f.demand(300)
        f.scale(maxReplicas=MAXIMUM, syncPeriodSeconds=1)
        async with f.controller() as controller:
            await scaled(f, controller)
            register_again(f, "m1", "b")
            seen: set[str] = set()
            for _ in range(100):
                await asyncio.sleep(0.1)
                seen |= controller.members.members.keys()

        assert f.rescales == []
        assert seen == {"m1", "m3"}


async def test_an_object_that_selects_only_the_other_name_says_so(tmp_path: Path) -> None:
    """Nothing is scaled, and the object says which name counts."""
    async with federation(tmp_path, m1=3) as f, f.controller():
        await asyncio.sleep(1)
        register_again(f, "m1", "a")
        await asyncio.sleep(SETTLED)
        f.demand(2_000)
        f.scale(maxReplicas=MAXIMUM, clusterAffinity={"clusterNames": ["a"]})
        await asyncio.sleep(SETTLED)

        assert f.rescales == []
        assert f.condition("AbleToScale")[:2] == ("False", "FailedGetScale")
        assert "a is the same cluster as m1" in f.condition("HubCompatible")[2]


async def test_the_name_that_answers_counts(tmp_path: Path) -> None:
    """If the address of the older name fails, the younger one is used, until the older one answers."""
    async with federation(tmp_path, m1=3, m3=3) as f:
        await asyncio.sleep(1)
        register_again(f, "m1", "a")
        f.demand(300)
        f.scale(maxReplicas=MAXIMUM)
        async with f.controller() as controller:
            await scaled(f, controller)
            good = move(f, "m1", "https://nowhere.invalid:1")
            await asyncio.sleep(SETTLED)
            assert {name: each.same_as for name, each in controller.members.duplicates.items()} == {"m1": "a"}
            assert f.total == 6

            move(f, "m1", good)
            await asyncio.sleep(SETTLED)
            assert {name: each.same_as for name, each in controller.members.duplicates.items()} == {"a": "m1"}
            assert f.total == 6


async def test_the_hpa_of_both_names_is_not_reported_as_left(tmp_path: Path) -> None:
    """A person who deletes it in the cluster of the one name would delete that of the other."""
    async with federation(tmp_path, m1=2, m3=2) as f:
        await asyncio.sleep(1)
        register_again(f, "m1", "a")
        f.demand(300)
        f.scale(mode="Distributed", maxReplicas=MAXIMUM, federatedHPAAssignment=EQUAL)
        async with f.controller() as controller:
            await until(lambda: f.condition("Assigned")[0] == "True", 600)
            move(f, "m1", "https://nowhere.invalid:1")
            await until(lambda: "a" in controller.members.members, 600)
            await asyncio.sleep(SETTLED)
            held = f.members["m1"].all(MEMBER_HPAS)
            f.hub.server.store.delete(HPAS, NAMESPACE, NAME)
            await asyncio.sleep(SETTLED)

        assert len(held) == 1
        assert f.members["m1"].all(MEMBER_HPAS) == []
        assert f.events("MemberHPALeft") == []


def move(f: Federation, name: str, endpoint: str) -> str:
    """Registers another address of a cluster. Returns the address before."""
    store = f.hub.server.store
    cluster = store.get(CLUSTERS, "", name)
    before: str = cluster["spec"]["apiEndpoint"]
    store.update(CLUSTERS, {**cluster, "spec": {**cluster["spec"], "apiEndpoint": endpoint}})
    return before


async def test_two_clusters_with_one_id_are_two(tmp_path: Path) -> None:
    """spec.id may be a copy. What the members themselves answer counts."""
    async with federation(tmp_path, m1=2, m2=2) as f:
        store = f.hub.server.store
        for name in ("m1", "m2"):
            cluster = store.get(CLUSTERS, "", name)
            cluster["spec"]["id"] = "copied"
            store.update(CLUSTERS, cluster)
        f.demand(300)
        f.scale(maxReplicas=MAXIMUM)
        async with f.controller() as controller:
            await asyncio.sleep(SETTLED)

            assert not controller.members.duplicates
            assert [entry["name"] for entry in f.status()["clusters"]] == ["m1", "m2"]
            assert f.total == 6


@pytest.mark.parametrize("restart", [False, True])
async def test_a_rebuilt_cluster_is_a_new_one(tmp_path: Path, restart: bool) -> None:
    """The memory of the old cluster is dropped, and an event says so."""
    async with federation(tmp_path, m1=4, m2=4) as f:
        f.demand(400)
        f.scale(minReplicas=2, clusterAffinity={"clusterNames": ["m1", "m2"]})
        async with f.controller() as controller:
            await scaled(f, controller)
            await f.members["m2"].faults.set(Fault.REFUSE)
            await until(lambda: f.state("m2") == "Lost", 900)
            if restart:
                await controller.stop()
                rebuild(f, "m2", workload=False)
                await f.members["m2"].faults.clear()
            else:
                rebuild(f, "m2", workload=False)
                await f.members["m2"].faults.clear()
                await until(lambda: f.events("ClusterReplaced") != [], 900)
        async with f.controller() as controller:
            await scaled(f, controller)
            await until(lambda: f.events("ClusterReplaced") != [], 900)
            await asyncio.sleep(SETTLED)

        (event,) = f.events("ClusterReplaced")
        assert event["message"].startswith("cluster m2 is another cluster than before")
        assert event["count"] == 1
        assert f.state("m2") == "Missing"  # named, and without the workload
        entry = next(each for each in f.status()["clusters"] if each["name"] == "m2")
        assert not entry.get("currentReplicas")


async def test_an_absence_is_no_replacement(tmp_path: Path) -> None:
    """A cluster that comes back, or whose namespace can no longer be read, is the same cluster."""
    async with federation(tmp_path, m1=4, m2=4) as f:
        store = f.hub.server.store
        cluster = store.get(CLUSTERS, "", "m2")
        store.update(CLUSTERS, {**cluster, "spec": {**cluster["spec"], "id": "another-id"}})
        f.demand(400)
        f.scale(minReplicas=2)
        async with f.controller() as controller:
            await scaled(f, controller)
            await f.members["m2"].faults.set(Fault.REFUSE)
            await until(lambda: f.state("m2") == "Missing", 900)
            f.members["m2"].server.allowed = lambda asked: asked.resource != "namespaces"
            await f.members["m2"].faults.clear()
            await until(lambda: f.state("m2") == "Answered", 900)
            await asyncio.sleep(SETTLED)

        assert f.events("ClusterReplaced") == []


def asked(f: Federation, name: str) -> list[Seen]:
    """Returns the requests for the identity of a member."""
    return [seen for seen in f.members[name].seen if seen.path == KUBE_SYSTEM]


async def test_each_appearance_costs_one_request(tmp_path: Path) -> None:
    """Nobody asks again while a member answers."""
    async with federation(tmp_path, m1=1, m2=1) as f, f.controller() as controller:
        f.demand(100)
        f.scale()
        await scaled(f, controller)
        await asyncio.sleep(1_000)
        first = [len(asked(f, "m1")), len(asked(f, "m2"))]
        await f.members["m2"].faults.set(Fault.REFUSE)
        await asyncio.sleep(100)
        await f.members["m2"].faults.clear()
        await asyncio.sleep(100)

        assert first == [1, 1]
        assert [len(asked(f, "m1")), len(asked(f, "m2"))] == [1, 2]


@pytest.mark.parametrize("answer", ["", "x" * 129, "../../pods", 7, None, [], "a\nb"])
async def test_an_identity_that_is_none_is_not_believed(tmp_path: Path, answer: Any) -> None:
    """Two members with the same nonsense are two clusters, as ready as any other."""
    async with federation(tmp_path, m1=1, m2=1) as f:
        for member in f.members.values():
            member.server.route = answering(member.server.route, answer)
        f.demand(100)
        f.scale()
        async with f.controller() as controller:
            await scaled(f, controller)

            assert not controller.members.duplicates
            assert [each.state.ready for each in controller.members.members.values()] == [True, True]


def answering(others: Router, uid: Any) -> Router:
    """Returns a router that answers a question for the identity with this UID."""
    metadata = {"name": "kube-system", "uid": uid}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}

    async def answer(_: web.Request, __: object) -> web.Response:
        return web.json_response(body)

    return lambda path: answer if path == KUBE_SYSTEM else others(path)


async def test_a_question_without_an_answer_hurts_nothing(tmp_path: Path) -> None:
    """The member stays ready, and its pods are read as before."""
    async with federation(tmp_path, m1=2, m2=2) as f:
        await f.members["m2"].faults.set(Fault.HANG, [KUBE_SYSTEM])
        f.demand(300)
        f.scale()
        async with f.controller():
            await asyncio.sleep(SETTLED)

            assert f.total == 6
            assert f.condition("MetricsComplete")[0] == "True"
            assert f.events("ClusterMissing") == []
