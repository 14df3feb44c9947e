"""Members of the embedded plane: their workloads get pods, and their pods nodes and readiness."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from testbed.embedded.cluster.controllers import NODES, Workloads
from testbed.embedded.cluster.pods import PODS, is_ready
from testbed.embedded.storage.store import Store
from tests.support.embedded_member import DEPLOYMENTS, ToyMember, condition


def cpu(amount: str) -> dict[str, object]:
    return {"resources": {"requests": {"cpu": amount}}}


def test_pods_become_ready_after_their_delay() -> None:
    """A pod runs at once, with a start time, and serves when its time has come; not before."""
    member = ToyMember()
    member.run("web", 2)

    due = member.workloads.step()

    assert due == 2.0
    assert member.ready() == []
    assert {pod["status"]["phase"] for pod in member.pods()} == {"Running"}
    assert {pod["status"]["startTime"] for pod in member.pods()} == {"2026-03-11T13:00:00Z"}
    member.now += timedelta(seconds=2)
    assert member.workloads.step() is None
    assert len(member.ready()) == 2
    assert {condition(pod, "Ready")["lastTransitionTime"] for pod in member.pods()} == {
        "2026-03-11T13:00:02Z"
    }
    assert condition(member.pods()[0], "PodScheduled")["lastTransitionTime"] == "2026-03-11T13:00:00Z"


def test_readiness_probe_says_how_long_a_pod_takes() -> None:
    """initialDelaySeconds of a readiness probe stands before the member's own delay."""
    member = ToyMember()
    member.run("web", 1, {"readinessProbe": {"initialDelaySeconds": 30}})

    assert member.workloads.step() == 30.0


def test_status_counts_the_pods() -> None:
    """A Deployment's status says how many pods there are, how many serve, and of which generation."""
    member = ToyMember()
    member.run("web", 3)
    member.settle()

    assert member.status("web") == {
        "observedGeneration": 1,
        "replicas": 3,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
    }
    member.resize("web", 0)
    member.settle()
    assert member.status("web") == {"observedGeneration": 2}


def test_pods_beyond_the_capacity_stay_pending() -> None:
    """What does not fit stays Pending, with the scheduler's reason, and runs as soon as there is room."""
    member = ToyMember(cpu="1")
    member.run("web", 3, cpu("400m"))
    member.settle()

    pending = [pod for pod in member.pods() if pod["status"]["phase"] == "Pending"]

    assert len(member.ready()) == 2
    assert [condition(pod, "PodScheduled")["message"] for pod in pending] == [
        "0/1 nodes are available: 1 Insufficient cpu."
    ]
    assert condition(pending[0], "PodScheduled")["reason"] == "Unschedulable"
    member.node("node2")
    member.settle()
    assert len(member.ready()) == 3


def test_limit_stands_for_a_request_that_is_not_there() -> None:
    """As Kubernetes defaults it."""
    member = ToyMember(cpu="1")
    member.run("web", 2, {"resources": {"limits": {"cpu": "600m"}}})
    member.settle()

    assert len(member.ready()) == 1


def test_node_takes_no_more_pods_than_it_allows() -> None:
    """allocatable.pods is a resource like the others."""
    member = ToyMember(pods="2")
    member.run("web", 3)
    member.settle()

    assert len(member.ready()) == 2
    assert member.status("web")["replicas"] == 3


def test_cordoned_node_takes_no_pods() -> None:
    """spec.unschedulable closes a node for new pods and leaves those that run."""
    member = ToyMember()
    member.run("web", 1)
    member.settle()
    node = member.store.get(NODES, "", "node1")
    member.store.update(NODES, node | {"spec": {"unschedulable": True}})
    member.resize("web", 2)
    member.settle()

    (pending,) = [pod for pod in member.pods() if not is_ready(pod)]

    assert len(member.ready()) == 1
    assert condition(pending, "PodScheduled")["message"] == (
        "0/1 nodes are available: 1 node(s) were unschedulable."
    )


def test_scale_down_takes_pending_and_young_pods_first() -> None:
    """Pods that serve are kept before those that wait, old before young."""
    member = ToyMember(cpu="1")
    member.run("web", 1, cpu("400m"))
    member.settle()
    (oldest,) = member.ready()
    member.resize("web", 3)
    member.settle()

    member.resize("web", 2)
    member.settle()
    kept = member.ready()
    member.resize("web", 1)
    member.settle()

    assert len(kept) == 2
    assert member.ready() == [oldest]
    assert len(member.pods()) == 1


def test_changed_template_replaces_the_pods() -> None:
    """Pods of the old template go, and as many of the new one come."""
    member = ToyMember()
    member.run("web", 2, cpu("100m"))
    member.settle()
    before = set(member.ready())
    workload = member.store.get(DEPLOYMENTS, "shop", "web")
    workload["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    member.store.update(DEPLOYMENTS, workload)
    member.settle()

    assert len(member.ready()) == 2
    assert before.isdisjoint(member.ready())


def test_statefulset_numbers_its_pods() -> None:
    """Its pods are NAME-0 and up, and the highest goes first."""
    member = ToyMember()
    member.run("db", 3, kind="StatefulSet")
    member.settle()

    assert member.ready() == ["db-0", "db-1", "db-2"]
    member.store.delete(PODS, "shop", "db-0")
    member.resize("db", 2, kind="StatefulSet")
    member.settle()
    assert member.ready() == ["db-0", "db-1"]


def test_deleted_workload_takes_its_pods_along() -> None:
    """Pods whose owner is gone are deleted; a pod on its own stays."""
    member = ToyMember()
    member.run("web", 2)
    lone = {"metadata": {"name": "lone", "namespace": "shop"}, "spec": {"containers": [{"name": "c"}]}}
    member.store.create(PODS, lone)
    member.settle()
    member.store.delete(DEPLOYMENTS, "shop", "web")
    member.settle()

    assert member.ready() == ["lone"]


@pytest.mark.parametrize(
    "spec", [{}, {"replicas": "many"}, {"replicas": 1, "template": None}, {"replicas": 1, "template": []}]
)
def test_workload_that_makes_no_sense_stops_no_other(spec: dict[str, object]) -> None:
    """The embedded server checks less than Kubernetes; what cannot be read is passed over."""
    member = ToyMember()
    member.store.create(DEPLOYMENTS, {"metadata": {"name": "bad", "namespace": "shop"}, "spec": spec})
    member.run("web", 1)
    member.settle()

    assert len(member.ready()) == 1


def test_quantity_that_makes_no_sense_keeps_its_pod_pending() -> None:
    """The pod says so, and others run."""
    member = ToyMember()
    member.run("bad", 1, cpu("lots"))
    member.run("web", 1)
    member.settle()

    (pending,) = [pod for pod in member.pods() if not is_ready(pod)]

    assert len(member.ready()) == 1
    assert "lots" in condition(pending, "PodScheduled")["message"]


@pytest.mark.looptime
async def test_controllers_follow_what_is_written() -> None:
    """While they run, a write is followed at once and readiness comes when the clock says so."""
    loop = asyncio.get_running_loop()
    start = datetime(2026, 3, 11, 13, 0, 0, tzinfo=UTC)
    began = loop.time()
    toy = ToyMember()
    store = Store(lambda: start + timedelta(seconds=loop.time() - began))
    workloads = Workloads(store, store._now, ready_after=5.0)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(workloads.run())
        toy.store = store
        await asyncio.sleep(1)
        toy.node("node1")
        toy.run("web", 2)
        await asyncio.sleep(4.5)
        early = toy.ready()
        await asyncio.sleep(1)
        late = toy.ready()
        running.cancel()

    assert early == []
    assert len(late) == 2
