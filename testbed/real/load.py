"""The load of workloads on real members: kwok reports the usage of each pod as one expression says."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import aiohttp

from fedhpa.api.errors import ApiError
from testbed.real.member import Member
from testbed.stage import gather, ready_pods

NO_ANSWER = (ApiError, aiohttp.ClientError, OSError)
EVERY_SECONDS = 1.0
READ_SECONDS = 5.0
# As in embedded members.
IDLE_CPU, IDLE_MEMORY = "1m", "40Mi"

Workload = tuple[str, str]  # namespace and name


class Load:
    """The demand on workloads, shared equally by their ready pods. A lost member keeps its last usage."""

    def __init__(self, members: Mapping[str, Member]) -> None:
        self._members = members
        self._demand: dict[tuple[Workload, str], int] = {}
        self._pods: dict[tuple[Workload, str], list[str]] = {}
        self._written: dict[str, str] = {}

    def demand(self, namespace: str, name: str, millis: int, cluster: str = "") -> None:
        """Sets the CPU demand in milli-units: on all members, or in addition on one."""
        self._demand[(namespace, name), cluster] = millis

    async def follow(self) -> None:
        """Writes the usage of all pods whenever pods or demands changed, until it is cancelled."""
        while True:
            await gather(*(self._read(name) for name in self._members))
            await gather(*(self._write(name) for name in self._members))
            await asyncio.sleep(EVERY_SECONDS)

    async def _read(self, cluster: str) -> None:
        with contextlib.suppress(*NO_ANSWER):
            async with asyncio.timeout(READ_SECONDS), self._members[cluster].api() as api:
                for workload in {workload for workload, _ in self._demand}:
                    self._pods[workload, cluster] = await ready_pods(api, *workload)

    async def _write(self, cluster: str) -> None:
        expression = self._expression(cluster)
        if self._written.get(cluster) == expression:
            return
        usage = {"cpu": {"expression": expression}, "memory": {"value": IDLE_MEMORY}}
        manifest: dict[str, Any] = {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "ClusterResourceUsage",
            "metadata": {"name": "load"},
            "spec": {"usages": [{"usage": usage}]},
        }
        # A failed write is repeated.
        with contextlib.suppress(*NO_ANSWER):
            async with asyncio.timeout(READ_SECONDS), self._members[cluster].api() as api:
                await api.apply(manifest)
            self._written[cluster] = expression

    def _expression(self, cluster: str) -> str:
        """Returns the CPU of a pod of the cluster, in CEL."""
        expression = f'Quantity("{IDLE_CPU}")'
        for workload in sorted({workload for workload, _ in self._demand}):
            pods = self._pods.get((workload, cluster), [])
            total = sum(len(self._pods.get((workload, name), [])) for name in self._members)
            if not pods:
                continue
            each = self._demand.get((workload, ""), 0) / total
            each += self._demand.get((workload, cluster), 0) / len(pods)
            if each >= 1:
                names = ", ".join(f'"{workload[0]}/{pod}"' for pod in sorted(pods))
                is_one = f'(pod.metadata.namespace + "/" + pod.metadata.name) in [{names}]'
                expression = f'{is_one} ? Quantity("{round(each)}m") : ({expression})'
        return expression
