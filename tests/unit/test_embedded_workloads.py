"""Members of the embedded plane: workloads get pods, and pods get nodes and become ready."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from testbed.embedded.api.types import Object
from testbed.embedded.cluster.controllers import NODES, Controllers
from testbed.embedded.cluster.pods import PODS, is_ready
from testbed.embedded.storage.store import Store
from tests.support.embedded_member import DEPLOYMENTS, SimulatedMember, condition


def cpu(amount: str) -> dict[str, object]:
    return {"resources": {"requests": {"cpu": amount}}}


def test_pods_become_ready_after_their_delay() -> None:
    """A pod runs immediately, and becomes ready after the delay."""
    member = SimulatedMember()
    member.run("web", 2)

    due = member.controllers.step()

    assert due == 2.0
    assert member.ready() == []
    assert {pod["status"]["phase"] for pod in member.pods()} == {"Running"}
    assert {pod["status"]["startTime"] for pod in member.pods()} == {"2026-03-11T13:00:00Z"}
    member.now += timedelta(seconds=2)
    assert member.controllers.step() is None
    assert len(member.ready()) == 2
    assert {condition(pod, "Ready")["lastTransitionTime"] for pod in member.pods()} == {
        "2026-03-11T13:00:02Z"
    }
    assert condition(member.pods()[0], "PodScheduled")["lastTransitionTime"] == "2026-03-11T13:00:00Z"


def test_status_counts_the_pods() -> None:
    """A Deployment's status has the number of pods, of ready pods, and the generation."""
    member = SimulatedMember()
    member.run("web", 3)
    member.settle()

    assert without_conditions(member.status("web")) == {
        "observedGeneration": 1,
        "replicas": 3,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
    }
    member.resize("web", 0)
    member.settle()
    assert without_conditions(member.status("web")) == {"observedGeneration": 2}


def without_conditions(status: Object) -> Object:
    return {name: value for name, value in status.items() if name != "conditions"}


def test_a_deployment_is_available_with_three_quarters_of_its_pods() -> None:
    """`kubectl wait --for=condition=Available` works. The time is that of the last change."""
    member = SimulatedMember()
    member.run("web", 4)
    member.controllers.step()
    before = condition(member.store.get(DEPLOYMENTS, "shop", "web"), "Available")
    member.settle()
    member.settle()
    after = condition(member.store.get(DEPLOYMENTS, "shop", "web"), "Available")
    member.resize("web", 5)
    member.controllers.step()
    growing = condition(member.store.get(DEPLOYMENTS, "shop", "web"), "Available")

    assert before["status"] == "False"
    assert after["status"] == "True"
    assert growing == after
    member.resize("web", 8)
    member.controllers.step()
    status = condition(member.store.get(DEPLOYMENTS, "shop", "web"), "Available")["status"]
    assert status == "False"


def test_pods_beyond_the_capacity_stay_pending() -> None:
    """A pod that does not fit stays Pending with the scheduler's reason, until a node has capacity."""
    member = SimulatedMember(cpu="1")
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


def test_cordoned_node_takes_no_pods() -> None:
    """spec.unschedulable refuses new pods and keeps running pods."""
    member = SimulatedMember()
    member.run("web", 1)
    member.settle()
    node = member.store.get(NODES, "", "node1")
    member.store.update(NODES, node | {"spec": {"unschedulable": True}})
    member.resize("web", 2)
    member.settle()

    (pending,) = [pod for pod in member.pods() if not is_ready(pod)]

    assert len(member.ready()) == 1
    assert condition(pending, "PodScheduled")["message"] == (
        "0/1 nodes are available: node(s) were unschedulable."
    )


def test_scale_down_takes_pending_and_young_pods_first() -> None:
    """Ready pods are kept before pending ones, and old pods before young ones."""
    member = SimulatedMember(cpu="1")
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


def test_pods_of_a_deleted_workload_are_deleted() -> None:
    """Pods of a deleted owner are deleted; a pod without an owner stays."""
    member = SimulatedMember()
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
def test_an_unreadable_workload_does_not_stop_others(spec: dict[str, object]) -> None:
    """An unreadable workload is skipped, because the embedded server validates less than Kubernetes."""
    member = SimulatedMember()
    member.store.create(DEPLOYMENTS, {"metadata": {"name": "bad", "namespace": "shop"}, "spec": spec})
    member.run("web", 1)
    member.settle()

    assert len(member.ready()) == 1


@pytest.mark.looptime
async def test_controllers_follow_writes() -> None:
    """A write takes effect immediately, and readiness comes at its time."""
    loop = asyncio.get_running_loop()
    start = datetime(2026, 3, 11, 13, 0, 0, tzinfo=UTC)
    began = loop.time()
    member = SimulatedMember()
    store = Store(lambda: start + timedelta(seconds=loop.time() - began))
    controllers = Controllers(store, store._now, ready_after=5.0)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(controllers.run())
        member.store = store
        await asyncio.sleep(1)
        member.node("node1")
        member.run("web", 2)
        await asyncio.sleep(4.5)
        early = member.ready()
        await asyncio.sleep(1)
        late = member.ready()
        running.cancel()

    assert early == []
    assert len(late) == 2
