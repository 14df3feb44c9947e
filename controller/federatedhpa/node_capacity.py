"""What the nodes of members have left, asked of the members themselves where the hub does not know it.

Only where a policy needs it, at most every 30 seconds, and nobody waits for it but who is the first to ask.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
import structlog

from fedhpa.api.quantity import RawQuantity
from fedhpa.api.wire import ObjectMeta, PodCondition, PodSpec
from fedhpa.kube.paths import resource_path
from fedhpa.members.member import Member
from fedhpa.scaling.requests import PodRequests, amounts, shared_requests

log = structlog.get_logger(__name__)

KEEP_SECONDS: Final = 30.0
# Who asks first waits no longer than for any other call of a member.
FIRST_SECONDS: Final = 3.0
# All pods of a large cluster are many pages; a page that stays away ends the list sooner.
LIST_SECONDS: Final = 30.0
NODES_PATH: Final = resource_path("v1", "nodes")
PODS_PATH: Final = resource_path("v1", "pods")
_ENDED: Final = frozenset(("Succeeded", "Failed"))
# Replicas of one workload differ little; a tenant could make every look ask for something else.
_MOST_ANSWERS: Final = 256


class NodeSpec(msgspec.Struct, frozen=True):
    """core/v1 NodeSpec: whether it is cordoned."""

    unschedulable: bool = False


class NodeStatus(msgspec.Struct, frozen=True):
    """core/v1 NodeStatus: what it offers, and whether it is ready."""

    allocatable: dict[str, RawQuantity] | None = None
    conditions: list[PodCondition] | None = None


class Node(msgspec.Struct, frozen=True):
    """core/v1 Node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def takes_pods(self) -> bool:
        """Whether it is ready and not cordoned."""
        ready = any(one.type == "Ready" and one.status == "True" for one in self.status.conditions or ())
        return ready and not self.spec.unschedulable


class _Phase(msgspec.Struct, frozen=True):
    phase: str = ""


class PlacedPod(msgspec.Struct, frozen=True):
    """core/v1 Pod: where it is and what it asks for."""

    spec: PodSpec = PodSpec()
    status: _Phase = _Phase()


class Free:
    """What each node has left, and what all of them offer, in milli-units by resource."""

    def __init__(self, nodes: Iterable[Mapping[str, int]], offered: Mapping[str, int]) -> None:
        self.offered = offered
        self._nodes = tuple(nodes)
        self._answers: dict[tuple[tuple[str, int], ...], int] = {}

    def fits(self, asked: Mapping[str, int]) -> int:
        """How often what is asked for fits, node by node, each by its scarcest resource."""
        key = tuple(sorted((resource, milli) for resource, milli in asked.items() if milli > 0))
        found = self._answers.get(key)
        if found is None:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            found = self._answers[key] = sum(
                min((max(node.get(resource, 0), 0) // milli for resource, milli in key), default=0)
                for node in self._nodes
            )
        return found


def total(requests: PodRequests) -> Mapping[str, int]:
    """What a pod asks for in all, in milli-units by resource."""
    if requests.pod_level is not None:
        return requests.pod_level
    found: dict[str, int] = {}
    for _, each in requests.containers:
        for resource, milli in each.items():
            found[resource] = found.get(resource, 0) + milli
    return found


def free(nodes: Iterable[Node], pods: Iterable[PlacedPod]) -> Free | None:
    """What the nodes that take pods have left; None where no node is shown at all, for pods run somewhere.

    Raises InvalidObject for quantities that are none.
    """
    shown = list(nodes)
    left = {
        node.metadata.name: dict(amounts(node.status.allocatable, "status.allocatable"))
        for node in shown
        if node.takes_pods
    }
    offered: dict[str, int] = {}
    for one in left.values():
        for resource, milli in one.items():
            offered[resource] = offered.get(resource, 0) + milli
    for pod in pods:
        node = left.get(pod.spec.nodeName)
        if node is None or pod.status.phase in _ENDED:
            continue
        for resource, milli in total(shared_requests(pod.spec)).items():
            node[resource] = node.get(resource, 0) - milli
        node["pods"] = node.get("pods", 0) - 1000
    return Free(left.values(), offered) if shown else None


@dataclass
class _Entry:
    """What is known of one member: `free` None is not known, `at` when that was found out."""

    member: Member
    free: Free | None = None
    at: float = float("-inf")
    task: asyncio.Task[None] | None = field(default=None, repr=False)


class NodeCapacity:
    """The rooms of members, for all objects; `run` does the asking until it is cancelled."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Ask in the background whatever `look` wants to know."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                await asyncio.Event().wait()  # until cancelled, and the tasks with it
            finally:
                self._group = None
                self._entries.clear()

    async def look(self, members: Mapping[str, Member]) -> dict[str, Free]:
        """What is known of these members; one that cannot be asked, or may not, is left out."""
        entries = {name: self._entry(member) for name, member in members.items()}
        first = [
            entry.task
            for entry in entries.values()
            if entry.task is not None and entry.at == float("-inf")  # nobody knows anything yet
        ]
        if first:
            await asyncio.wait(first, timeout=FIRST_SECONDS)
        return {name: entry.free for name, entry in entries.items() if entry.free is not None}

    def _entry(self, member: Member) -> _Entry:
        entry = self._entries.get(member.name)
        if entry is None or entry.member is not member:
            entry = self._entries[member.name] = _Entry(member)
        if entry.task is None and self._group is not None and self._clock() - entry.at >= KEEP_SECONDS:
            entry.task = self._group.create_task(self._ask(entry))
        return entry

    async def _ask(self, entry: _Entry) -> None:
        client = entry.member.client
        try:
            async with asyncio.timeout(LIST_SECONDS):
                nodes = (await client.list(NODES_PATH, Node)).items
                pods = (await client.list(PODS_PATH, PlacedPod)).items
            entry.free = free(nodes, pods)
        # Whatever the answer makes stumble is the member's fault, and must not end the asking of others.
        except Exception as error:
            entry.free = None  # not known is not the same as full
            log.debug("nodes not listed", cluster=entry.member.name, error=str(error))
        finally:
            entry.at, entry.task = self._clock(), None
            self._drop_closed()

    def _drop_closed(self) -> None:
        for name in [name for name, entry in self._entries.items() if entry.member.closed]:
            del self._entries[name]
