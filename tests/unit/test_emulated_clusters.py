"""The emulated clusters of the closed loop behave as Kubernetes does, in cases worked out by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from benchmarks.world.api import Api
from benchmarks.world.cluster import NAME, NAMESPACE, Cluster, ClusterPlan, by_place
from benchmarks.world.fleet import Fleet
from benchmarks.world.http import Answer, Request
from benchmarks.world.loop import VirtualLoop
from benchmarks.world.network import MemoryNetwork
from benchmarks.world.nodes import Autoscaler, Nodes
from benchmarks.world.store import Kind, Object, Refused, Store
from benchmarks.world.workload import Pod, Revision, Workload, victims

PODS = Kind("v1", "pods", "Pod")
METRICS = f"/apis/metrics.k8s.io/v1beta1/namespaces/{NAMESPACE}/pods"


class Seconds:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def cluster_of(clock: Seconds, **plan: Any) -> Cluster:
    return Cluster(ClusterPlan("m1", **plan), MemoryNetwork(), clock)


def lived(cluster: Cluster, clock: Seconds, seconds: int, load: float = 0.0) -> None:
    for _ in range(seconds):
        clock.now += 1
        cluster.step(load, 1.0)


def counts(workload: Workload) -> tuple[int, int, int]:
    """Returns the ready old pods, the new pods, and the ready new pods."""
    new = [pod for pod in workload.active if pod.revision == workload.newest]
    old = [pod for pod in workload.active if pod.revision != workload.newest]
    return sum(pod.ready for pod in old), len(new), sum(pod.ready for pod in new)


# -- workloads ---------------------------------------------------------------------------------------------
def test_a_rollout_keeps_three_quarters_ready() -> None:
    """Of eight pods at most two more exist and at most two are missing, until all are new."""
    clock = Seconds()
    cluster = cluster_of(clock, replicas=8)
    cluster.release()
    seen = []
    for _ in range(200):
        lived(cluster, clock, 1)
        old, new, ready = counts(cluster.workload)
        seen.append((old + ready, old + new))

    assert min(ready for ready, _ in seen) >= 6
    assert max(size for _, size in seen) <= 10
    assert counts(cluster.workload) == (0, 8, 8)


def test_a_broken_release_stops_at_three_quarters() -> None:
    """New pods that never get ready replace no more than the rollout may miss."""
    clock = Seconds()
    cluster = cluster_of(clock, replicas=8)
    cluster.release(broken=True)

    lived(cluster, clock, 600)

    assert counts(cluster.workload) == (6, 4, 0)


def test_a_change_of_size_is_divided_over_both_revisions() -> None:
    """While a rollout is stuck at 6 old and 4 new pods, 16 replicas make 20 pods: 12 and 8."""
    clock = Seconds()
    cluster = cluster_of(clock, replicas=8)
    cluster.release(broken=True)
    lived(cluster, clock, 120)

    cluster.resize(16)
    lived(cluster, clock, 60)

    assert counts(cluster.workload) == (12, 8, 0)


def test_a_stateful_set_starts_one_pod_at_a_time() -> None:
    """The next pod begins when the one before is ready, and the last one ends first."""
    clock = Seconds()
    cluster = cluster_of(clock, replicas=1, ordered=True, start_seconds=30.0)
    cluster.resize(3)

    lived(cluster, clock, 20)
    first = [pod.name for pod in cluster.workload.active]
    lived(cluster, clock, 100)
    cluster.resize(2)
    lived(cluster, clock, 1)

    assert first == ["web-0", "web-1"]
    assert [pod.name for pod in cluster.workload.active] == ["web-0", "web-1"]


def test_a_stateful_set_replaces_the_last_pod_first() -> None:
    """Each pod of an old template ends once all others are ready, and a broken template stops it."""
    clock = Seconds()
    cluster = cluster_of(clock, replicas=3, ordered=True, start_seconds=30.0)
    cluster.release()

    lived(cluster, clock, 50)
    half = [(pod.name, pod.revision) for pod in cluster.workload.active]
    lived(cluster, clock, 100)
    whole = [pod.revision for pod in cluster.workload.active]
    cluster.release(broken=True)
    lived(cluster, clock, 200)

    assert sorted(half) == [("web-0", 0), ("web-1", 1), ("web-2", 1)]
    assert whole == [1, 1, 1]
    assert sorted(pod.revision for pod in cluster.workload.active) == [1, 1, 2]


def test_pods_are_removed_in_the_order_of_a_replica_set() -> None:
    """Pods without a node go first, then unready ones, then those that became ready last."""
    old = Pod("old", 0, 0, -1, "n", 1, ready=True, changed=10)
    young = Pod("young", 900, 0, -1, "n", 1, ready=True, changed=950)
    unready = Pod("unready", 0, 0, -1, "n", 1)
    pending = Pod("pending", 0, 0, -1)

    assert [pod.name for pod in victims([old, pending, young, unready], 1000)] == [
        "pending",
        "unready",
        "young",
        "old",
    ]


def test_an_ending_pod_keeps_its_node() -> None:
    """On a full node a new pod waits until an old one has stopped."""
    clock = Seconds()
    cluster = cluster_of(clock, replicas=4, nodes=lambda: Nodes({"n": 4}), stop_seconds=30.0)
    cluster.release()

    lived(cluster, clock, 20)
    during = sum(pod.bound is None for pod in cluster.workload.active)
    lived(cluster, clock, 400)

    assert during > 0
    assert counts(cluster.workload) == (0, 4, 4)


# -- nodes -------------------------------------------------------------------------------------------------
def test_nodes_come_after_pods_have_waited() -> None:
    """With a patience of 60 s and a boot of 60 s a waiting pod gets its node after 120 s."""
    clock = Seconds()
    cluster = cluster_of(clock, replicas=2, nodes=lambda: Nodes({"n": 2}, Autoscaler(60, 60, size=3)))
    cluster.resize(4)

    lived(cluster, clock, 119)
    before = sum(pod.bound is not None for pod in cluster.workload.active)
    lived(cluster, clock, 5)

    assert (before, cluster.nodes.room) == (2, 5)
    assert sum(pod.bound is not None for pod in cluster.workload.active) == 4


def test_pods_that_go_before_their_patience_order_no_node() -> None:
    """A cluster autoscaler does not count pods that waited for a moment only."""
    clock = Seconds()
    cluster = cluster_of(clock, replicas=2, nodes=lambda: Nodes({"n": 2}, Autoscaler(60, 60)))
    for _ in range(5):
        cluster.resize(4)
        lived(cluster, clock, 40)
        cluster.resize(2)
        lived(cluster, clock, 5)

    assert cluster.nodes.room == 2


# -- metrics and the HPA -----------------------------------------------------------------------------------
def usage(cluster: Cluster) -> dict[str, str]:
    answer = cluster.server.handle(Request("GET", METRICS, {}, b"", ""))
    items = msgspec.json.decode(answer.body)["items"]
    return {item["metadata"]["name"]: item["containers"][0]["usage"]["cpu"] for item in items}


def test_metrics_are_an_average_and_late() -> None:
    """A scrape has the mean since the one before, and is visible after its lag."""
    clock = Seconds()
    cluster = cluster_of(clock, replicas=2, metrics_lag=20.0)
    lived(cluster, clock, 30, load=1.0)
    lived(cluster, clock, 15, load=2.0)
    during = set(usage(cluster).values())
    lived(cluster, clock, 20, load=2.0)

    assert during == {"500m"}
    assert set(usage(cluster).values()) == {"1000m"}


def test_a_new_pod_has_no_metrics_until_two_scrapes() -> None:
    """A value is the difference of two readings."""
    clock = Seconds()
    cluster = cluster_of(clock, replicas=1, start_seconds=1.0)
    lived(cluster, clock, 16)
    cluster.resize(2)
    lived(cluster, clock, 15)
    early = len(usage(cluster))
    lived(cluster, clock, 15)

    assert (early, len(usage(cluster))) == (1, 2)


def test_a_pod_serves_at_most_its_request() -> None:
    """More load than the pods can serve is unserved, and shows as full usage."""
    clock = Seconds()
    cluster = cluster_of(clock, replicas=2)
    fleet = Fleet([cluster], lambda _: 5.0, minimum=1, maximum=10, target=0.5)
    for second in range(1, 46):
        clock.now += 1
        fleet.step(float(second))

    assert set(usage(cluster).values()) == {"1000m"}
    assert fleet.tally.unserved == 45 * 3.0
    assert fleet.tally.ideal == 45 * 10


def test_an_hpa_scales_its_cluster() -> None:
    """Twice the target doubles the pods, and the status says so."""
    clock = Seconds()
    cluster = cluster_of(clock, replicas=4)
    cluster.add_hpa(1, 20, 50)

    lived(cluster, clock, 45, load=4.0)

    found = cluster.store.all("autoscaling/v2", "horizontalpodautoscalers")[0]
    assert (cluster.replicas, found["status"]["desiredReplicas"]) == (8, 8)


def test_a_dead_cluster_serves_nothing_and_returns_with_its_replicas() -> None:
    """Its pods start again after the return."""
    clock = Seconds()
    cluster = cluster_of(clock, replicas=3)
    cluster.die()
    dead = cluster.ready
    cluster.revive()
    lived(cluster, clock, 20)
    starting = cluster.ready
    lived(cluster, clock, 20)

    assert (dead, starting, cluster.ready, cluster.replicas) == (0, 0, 3, 3)


# -- figures -----------------------------------------------------------------------------------------------
def test_changes_in_opposite_directions_are_counted() -> None:
    """A change that undoes one within ten minutes goes back and forth; changes at one moment are one."""
    clock = Seconds()
    one, two = (Cluster(ClusterPlan(name, 5), MemoryNetwork(), clock, i) for i, name in enumerate("ab"))
    fleet = Fleet([one, two], lambda _: 0.0, minimum=1, maximum=12, target=0.5)
    plan: dict[int, Callable[[], None]] = {
        10: lambda: one.resize(6),
        12: lambda: two.resize(6),
        100: lambda: one.resize(5),
        200: lambda: one.resize(9),
        1000: lambda: one.resize(4),
    }
    for second in range(1, 1011):
        clock.now += 1
        plan.get(second, lambda: None)()
        fleet.step(float(second))

    assert [change for _, change in fleet.tally.changes] == [2, -1, 4, -5]
    assert fleet.tally.reversals == 2
    assert fleet.tally.above_maximum == 800


# -- the API -----------------------------------------------------------------------------------------------
@pytest.fixture
def store() -> Store:
    return Store(by_place((PODS,)), lambda: "2027-01-15T08:00:00Z")


def pod(name: str, **metadata: Any) -> Object:
    return {"metadata": {"namespace": "shop", "name": name, **metadata}, "spec": {"node": "a"}}


def ask(store: Store, method: str, path: str, body: Object | None = None, **query: str) -> Answer:
    raw = b"" if body is None else msgspec.json.encode(body)
    return Api(store).handle(Request(method, path, query, raw, ""))


def test_a_write_of_an_old_version_is_a_conflict(store: Store) -> None:
    """The version in the body must be the present one."""
    first = store.create("v1", "pods", pod("a"))
    store.replace("v1", "pods", {**first, "spec": {"node": "b"}})

    with pytest.raises(Refused) as refused:
        store.replace("v1", "pods", {**first, "spec": {"node": "c"}})

    assert (refused.value.status, refused.value.reason) == (409, "Conflict")


def test_spec_and_status_are_written_apart(store: Store) -> None:
    """A write of the object keeps the status, and one of the status keeps the rest."""
    store.create("v1", "pods", pod("a"))
    path = "/api/v1/namespaces/shop/pods/a"

    ask(store, "PATCH", f"{path}/status", {"spec": {"node": "z"}, "status": {"phase": "Running"}})
    ask(store, "PATCH", path, {"spec": {"node": "b"}, "status": {"phase": "Failed"}})

    found = store.find("v1", "pods", "a", "shop")
    assert found is not None
    assert (found["spec"], found["status"]) == ({"node": "b"}, {"phase": "Running"})
    assert found["metadata"]["generation"] == 2


# -- virtual time ------------------------------------------------------------------------------------------
def test_an_hour_passes_at_once() -> None:
    """Timers run in their order, and the clock shows their times."""
    loop = VirtualLoop()

    async def work() -> list[float]:
        times = []
        for _ in range(3):
            await asyncio.sleep(1200)
            times.append(loop.time())
        return times

    try:
        assert loop.run_until_complete(work()) == [1200, 2400, 3600]
    finally:
        loop.close()


def test_a_deadlock_is_an_error() -> None:
    """Where nothing can happen any more, the loop does not wait for ever."""
    loop = VirtualLoop()
    try:
        with pytest.raises(RuntimeError, match="all tasks wait"):
            loop.run_until_complete(loop.create_future())
    finally:
        loop.close()


def test_a_new_revision_may_be_broken() -> None:
    """Its pods get a node and never get ready."""
    workload = Workload(NAME, revisions=[Revision(broken=True)])
    workload.step(1, 0.0)
    workload.pods[0].bound = 0.0

    workload.start(lambda _: None, 3600.0)

    assert not workload.pods[0].ready
