"""When the controllers decided and metrics-server measured during a recorded run, noted beside the recording.

A recording of a store has none of these times. A recorded run is simulated at its own times, so that a
difference is one of the model and not of the second in which something was decided.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import aiohttp
import msgspec

from fedhpa.api.errors import ApiError
from fedhpa.api.rights import service_account
from testbed.real.plane import Plane
from testbed.stage import CONTROLLER, PlaneApi, Processes

TIMES: Final = ".times.json.gz"
READER: Final = "reader-of-decisions"
SPACE: Final = "default"
NODES: Final = "/apis/metrics.k8s.io/v1beta1/nodes"
HPAS: Final = "/apis/autoscaling/v2/horizontalpodautoscalers"
DECISIONS: Final = {"limit": "100"}
# Seconds between two looks at the decisions, of which the controller keeps more than are made in that time.
DECISIONS_EVERY: Final = 5
READ_SECONDS: Final = 4.0
TOKEN_SECONDS: Final = 7200
NO_ANSWER: Final = (ApiError, aiohttp.ClientError, OSError, TimeoutError)


class Moments(msgspec.Struct, frozen=True):
    """The times of one run, in seconds since the recording began.

    `decisions` are those of our controller, `scrapes` by member the times of samples, in whole seconds, and
    `syncs` by member when a status of its HPA was first seen, up to a second after it was written.
    """

    decisions: list[float]
    scrapes: dict[str, list[float]]
    syncs: dict[str, list[float]]


def phase(times: Iterable[float], period: float) -> float:
    """Returns when in a period the earliest of these times lies. All are one time, seen more or less late."""
    places = sorted(value % period for value in times)
    # The earliest one comes after the longest time without any.
    gaps = [(after - before, after) for before, after in itertools.pairwise(places)]
    return max([*gaps, (places[0] + period - places[-1], places[0])])[1]


def phase_range(times: Iterable[float], period: float) -> tuple[float, float]:
    """Returns between which times of a period something happened whose times are cut to whole seconds.

    Times of two seconds, as the nodes of a member have them, lie around the beginning of the second one.
    """
    found = list(times)
    earliest = phase(found, period)
    latest = max((at - earliest) % period for at in found)
    return earliest + latest, earliest + max(latest, 1.0)


class Times:
    """Notes the decisions of the controller, the writes of member HPAs and the scrapes of metrics-servers."""

    def __init__(self, plane: Plane, processes: Processes, apis: Mapping[str, PlaneApi]) -> None:
        self._plane, self._processes, self._apis = plane, processes, apis
        self._decisions: dict[str, set[str]] = {}
        self._scrapes: dict[str, set[str]] = {name: set() for name in apis}
        self._syncs: dict[tuple[str, str], dict[str, float]] = {}

    async def follow(self) -> None:
        """Looks once a second, until it is cancelled."""
        url = f"http://127.0.0.1:{self._processes.ports[CONTROLLER]}/decisions"
        headers = {"Authorization": f"Bearer {await self._token()}"}
        timeout = aiohttp.ClientTimeout(total=READ_SECONDS)
        async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
            for turn in itertools.count():
                with contextlib.suppress(*NO_ANSWER):
                    if turn % DECISIONS_EVERY == 0:
                        async with session.get(url, params=DECISIONS) as answer:
                            self._note((await answer.json())["items"])
                for name, api in self._apis.items():
                    with contextlib.suppress(*NO_ANSWER):
                        async with asyncio.timeout(READ_SECONDS):
                            await self._look(name, api)
                await asyncio.sleep(1 - time.time() % 1)

    def moments(self, namespace: str, start: float) -> Moments:
        """Returns the times of a workload's run, whose recording began at `start` (Unix seconds)."""

        def since(times: Iterable[float]) -> list[float]:
            return sorted(round(at - start, 1) for at in times if at >= start)

        return Moments(
            since(map(_seconds, self._decisions.get(namespace, ()))),
            {name: since(map(_seconds, found)) for name, found in self._scrapes.items()},
            {
                name: since(found.values())
                for (name, space), found in self._syncs.items()
                if space == namespace
            },
        )

    def _note(self, items: Iterable[Mapping[str, Any]]) -> None:
        for one in items:
            self._decisions.setdefault(one["namespace"], set()).add(one["decision"]["now"])

    async def _look(self, name: str, api: PlaneApi) -> None:
        nodes = await api.get(NODES)
        self._scrapes[name].update(item["timestamp"] for item in nodes["items"])
        for item in (await api.get(HPAS))["items"]:
            found = self._syncs.setdefault((name, item["metadata"]["namespace"]), {})
            found.setdefault(item["metadata"]["resourceVersion"], time.time())

    async def _token(self) -> str:
        """Returns a token that may read the decisions of all namespaces."""
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": READER, "namespace": SPACE},
        }
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": READER},
            "roleRef": role,
            "subjects": [service_account(SPACE, READER)],
        }
        async with self._plane.hub.api() as hub:
            await hub.apply_all([account, binding])
            return await hub.token(SPACE, READER, expirationSeconds=TOKEN_SECONDS)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
