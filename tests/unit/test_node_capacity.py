"""What nodes have left is read node by node, from those that take pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.federatedhpa.node_capacity import Node, PlacedPod, free_capacity
from fedhpa.api.errors import InvalidObject

ONE = {"cpu": 500, "pods": 1000}


def node(name: str, cpu: str, *, ready: str = "True", cordoned: bool = False, pods: str = "110") -> Node:
    """A node that offers so much."""
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
    """A pod that asks for so much, on a node."""
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
        "no replica on two halves",
        "taken",
        "ended pods take nothing",
        "bound pods take, others do not",
        "not ready",
        "out of reach",
        "cordoned",
        "places for pods",
        "overcommitted takes nothing from others",
    ],
)
def test_what_fits(nodes: list[Node], pods: list[PlacedPod], expected: int) -> None:
    """500m CPU each, on whole nodes."""
    found = free_capacity(nodes, pods)

    assert found is not None
    assert [found.fits(ONE), found.fits(ONE)] == [expected] * 2


def test_another_size_is_another_answer() -> None:
    """The answers kept are by what is asked for; a resource that no node offers fits nowhere."""
    found = free_capacity([node("a", "2")], [])

    assert found is not None
    assert [found.fits({"cpu": 500}), found.fits({"cpu": 1000}), found.fits({"gpu": 1000})] == [4, 2, 0]


def test_without_nodes_nothing_is_known() -> None:
    """A list without any is no word on room, for pods run somewhere."""
    assert free_capacity([], [pod("a", "1")]) is None


def test_what_is_no_quantity_is_an_error() -> None:
    """It is not taken for nothing."""
    with pytest.raises(InvalidObject, match="cpu"):
        free_capacity([node("a", "many")], [])
