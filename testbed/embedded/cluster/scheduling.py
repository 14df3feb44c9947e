"""Where pods fit: what nodes offer, less what is taken, against what a pod asks for; all in milli-units."""

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from fedhpa.api.errors import InvalidQuantity
from fedhpa.api.quantity import parse_milli
from testbed.embedded.api.types import Object

Amounts = Mapping[str, int]


class Room:
    """What is free on the nodes that take pods; `place` takes it."""

    def __init__(self, nodes: Iterable[Object], pods: Iterable[Object]) -> None:
        self._nodes = 0
        self._free: dict[str, dict[str, int]] = {}
        for node in nodes:
            self._nodes += 1
            if takes_pods(node):
                self._free[node["metadata"]["name"]] = _milli(node.get("status", {}).get("allocatable"))
        for pod in pods:
            free = self._free.get(pod["spec"].get("nodeName", ""))
            if free is not None and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                with contextlib.suppress(InvalidQuantity):  # bound by somebody else
                    _take(free, requests(pod))

    def place(self, pod: Object) -> tuple[str, str]:
        """(node, "") for the node with the most CPU left, or ("", why none) in the scheduler's words."""
        try:
            asked = requests(pod)
        except InvalidQuantity as error:
            return "", str(error)
        short: Counter[str] = Counter()
        fitting: list[str] = []
        for name, free in self._free.items():
            lacking = [resource for resource, amount in asked.items() if amount > free.get(resource, 0)]
            short.update("Too many pods" if each == "pods" else f"Insufficient {each}" for each in lacking)
            if not lacking:
                fitting.append(name)
        if fitting:
            best = max(fitting, key=lambda name: self._free[name].get("cpu", 0))
            _take(self._free[best], asked)
            return best, ""
        closed = self._nodes - len(self._free)
        if closed:
            short["node(s) were unschedulable"] = closed
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(short.items()))
        why = f"0/{self._nodes} nodes are available"
        return "", f"{why}: {reasons}." if reasons else f"{why}."


def takes_pods(node: Object) -> bool:
    """Whether the node is ready and not cordoned."""
    conditions = node.get("status", {}).get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and not node.get("spec", {}).get("unschedulable")


def requests(pod: Object) -> dict[str, int]:
    """What the containers ask for (a limit stands for a request that is not there), and one pod."""
    asked = Counter({"pods": 1000})
    for container in pod["spec"].get("containers") or ():
        resources = container.get("resources") or {}
        asked.update(_milli({**(resources.get("limits") or {}), **(resources.get("requests") or {})}))
    return dict(asked)


def _milli(amounts: Mapping[str, Any] | None) -> dict[str, int]:
    return {resource: parse_milli(value) for resource, value in (amounts or {}).items()}


def _take(free: dict[str, int], asked: Amounts) -> None:
    for resource, amount in asked.items():
        free[resource] = free.get(resource, 0) - amount
