"""Free capacity is counted node by node, on the nodes that take pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.federatedhpa.capacity import Node, PlacedPod, free_capacity
from fedhpa.api.errors import InvalidObject

ONE = {"cpu": 500, "pods": 1000}


def node(name: str, cpu: str, *, ready: str = "True", cordoned: bool = False, pods: str = "110") -> Node:
    """A node with this much allocatable."""
    raw = {
        "metadata": {"name": name},
        "spec": {"unschedulable": cordoned},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": pods},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }
    return msgspec.convert(raw, Node)


def pod(on: str, cpu: str, phase: str = "Running", **spec: Any) -> PlacedPod:
    """A pod with this CPU request on a node."""
    containers = [{"name": "app", "resources": {"requests": {"cpu": cpu}}}]
    return msgspec.convert(
        {"spec": {"nodeName": on, "containers": containers, **spec}, "status": {"phase": phase}}, PlacedPod
    )


@pytest.mark.parametrize(
    ("nodes", "pods", "expected"),
    [
        ([node("a", "2")], [], 4),
        ([node("a", "2"), node("b", "1")], [], 6),
        ([node("a", "750m"), node("b", "750m")], [], 2),
        ([node("a", "2")], [pod("a", "600m"), pod("a", "1")], 0),
        ([node("a", "2")], [pod("a", "1", "Succeeded"), pod("a", "1", "Failed")], 4),
        ([node("a", "2")], [pod("a", "1", "Pending"), pod("", "1", "Pending"), pod("z", "1")], 2),
        ([node("a", "2"), node("b", "2", ready="False")], [], 4),
        ([node("a", "2"), node("b", "2", ready="Unknown")], [], 4),
        ([node("a", "2"), node("b", "2", cordoned=True)], [pod("b", "1")], 4),
        ([node("a", "2", pods="3")], [pod("a", "1m")], 2),
        ([node("a", "1"), node("b", "2")], [pod("a", "9")], 4),
    ],
    ids=[
        "one node",
        "two nodes",
        "no replica over two nodes",
        "taken",
        "completed pods take nothing",
        "only bound pods take capacity",
        "not ready",
        "unreachable",
        "cordoned",
        "limit of pods",
        "an overcommitted node takes nothing from others",
    ],
)
def test_what_fits(nodes: list[Node], pods: list[PlacedPod], expected: int) -> None:
    """Replicas of 500m CPU fit only as a whole on one node."""
    found = free_capacity(nodes, pods)

    assert found is not None
    assert [found.fits(ONE), found.fits(ONE)] == [expected] * 2


def test_another_size_is_another_answer() -> None:
    """Cached results depend on the requests. A resource that no node offers fits nowhere."""
    found = free_capacity([node("a", "2")], [])

    assert found is not None
    assert [found.fits({"cpu": 500}), found.fits({"cpu": 1000}), found.fits({"gpu": 1000})] == [4, 2, 0]


def test_without_nodes_nothing_is_known() -> None:
    """An empty list of nodes says nothing about capacity, because pods run somewhere."""
    assert free_capacity([], [pod("a", "1")]) is None


def test_what_is_no_quantity_is_an_error() -> None:
    """An invalid quantity does not count as zero."""
    with pytest.raises(InvalidObject, match="cpu"):
        free_capacity([node("a", "many")], [])
