"""A hostile member and hostile objects beside the good members of a plane, and what is watched meanwhile."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from certs import CertificateAuthority
from fedhpa.api.errors import ApiError
from testbed.real.plane import Plane
from testbed.stage.api import PlaneApi
from testbed.stage.ports import free_port
from testbed.stage.processes import CONTROLLER, Processes
from testbed.stage.registrations import ADAPTER, Credentials, cluster_objects
from testbed.stage.waiting import eventually
from tests.real.workloads import SECONDS, deployment, namespace
from tests.support.hostile.objects import (
    CLUSTERS,
    FEDERATED,
    JUNK,
    SECRETS,
    SPACES,
    UNCHECKED,
    Generator,
)
from tests.support.hostile.server import COUNTS

HOSTILE = "hostile"
LATENCY = "latency"
# Edits of the hub are this far apart, in seconds.
EDIT_SECONDS = 0.3
CONFIGURATIONS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/fedhpa-webhook"
    for kind in ("mutating", "validating")
)
# The last pods that a junk workload may have in a member, whatever its size says.
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "few"},
    "spec": {"hard": {"pods": "3"}},
}


class HostileCluster:
    """The hostile member as a program of the run, and its registration."""

    def __init__(self, plane: Plane, folder: Path, seed: int) -> None:
        self._plane = plane
        self._folder = folder
        self._authority = CertificateAuthority.create("hostile-ca")
        self._port = free_port()
        self.endpoint = f"https://127.0.0.1:{self._port}"
        self.bundle = self._authority.bundle_pem
        now = dt.datetime.now(dt.UTC)
        week, minute = dt.timedelta(days=7), dt.timedelta(minutes=1)
        own = ["127.0.0.1"]
        pairs = {
            "good": self._authority.issue_server(HOSTILE, ips=own),
            "expired": self._authority.issue_server(HOSTILE, ips=own, now=now - week, validity=minute),
            "brief": self._authority.issue_server(HOSTILE, ips=own, validity=minute),
            "elsewhere": self._authority.issue_server(HOSTILE, dns=["elsewhere.example"]),
            "foreign": CertificateAuthority.create("foreign-ca").issue_server(HOSTILE, ips=own),
        }
        for name, pair in pairs.items():
            pair.save(folder / name)
        command = [
            sys.executable,
            "-m",
            "tests.support.hostile.server",
            str(folder),
            str(self._port),
            str(seed),
        ]
        plane.run.spawn(HOSTILE, command, folder / "log")

    async def start(self, hub: PlaneApi) -> None:
        """Registers it once it serves."""

        async def serves() -> bool:
            return self.counts() is not None

        await eventually(serves, what="the hostile member serves", seconds=SECONDS)
        await hub.apply_all(self.objects())

    def objects(self) -> list[dict[str, Any]]:
        """Returns the objects that register it."""
        return cluster_objects(HOSTILE, self.endpoint, Credentials("hostile-token", self.bundle))

    def counts(self) -> Counter[str]:
        """Returns its answers so far, by kind."""
        self._plane.run.check(HOSTILE, self._folder / "log")
        return Counter(json.loads((self._folder / COUNTS).read_text()))

    async def calm(self, hub: PlaneApi) -> None:
        """From now on it tells the truth. Its Secret is restored, which an edit may have spoiled."""
        await hub.apply_all(self.objects())
        self._plane.run.signal(HOSTILE, signal.SIGUSR1)

    def stop(self) -> None:
        """Ends it."""
        self._plane.run.stop([HOSTILE], grace=1.0)


class Edits:
    """Hostile objects that are created, changed and deleted on the hub and in the good members at random."""

    def __init__(
        self,
        hub: PlaneApi,
        members: dict[str, PlaneApi],
        cluster: HostileCluster,
        chance: random.Random,
        space: str,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._hub = hub
        self._members = members
        self._cluster = cluster
        self._chance = chance
        self._space = space
        self._made = Generator(chance, cluster.endpoint, cluster.bundle)

    async def run(self) -> None:
        """Edits until cancelled."""
        while True:
            await self._edit()
            await asyncio.sleep(EDIT_SECONDS)

    async def _edit(self) -> None:
        edits: tuple[Callable[[], Awaitable[object]], ...] = (
            *(self._cluster_edited, self._cluster_edited, self._cluster_status, self._cluster_deleted),
            *(self._cluster_edited, self._secret_edited, self._secret_edited, self._secret_edited),
            *(self._secret_deleted, self._own_secret_broken, self._odd_pod, self._odd_pod),
            *(self._autoscaler_edited,) * 8,
            *(self._autoscaler_status, self._autoscaler_status, self._autoscaler_deleted),
        )
        edit = self._chance.choice(edits)
        name = edit.__name__.strip("_").replace("_", " ")
        try:
            await edit()
        except ApiError as error:
            self.counts[f"{name}: {error.status}"] += 1
        except (aiohttp.ClientError, OSError):
            self.counts[f"{name}: no answer"] += 1
        else:
            self.counts[f"{name}: stored"] += 1

    async def _replaced(self, api: PlaneApi, collection: str, made: dict[str, Any]) -> None:
        path = f"{collection}/{made['metadata']['name']}"
        stored = await api.find(path)
        if stored is None:
            await api.send("POST", collection, body=made)
            return
        version = stored["metadata"]["resourceVersion"]
        await api.send(
            "PUT", path, body={**made, "metadata": {**made["metadata"], "resourceVersion": version}}
        )

    async def _cluster_edited(self) -> None:
        await self._replaced(self._hub, CLUSTERS, self._made.cluster(self._chance.choice(JUNK)))

    async def _cluster_status(self) -> None:
        path = f"{CLUSTERS}/{self._chance.choice(JUNK)}/status"
        await self._hub.patch(path, self._made.cluster_status())

    async def _cluster_deleted(self) -> None:
        await self._hub.send("DELETE", f"{CLUSTERS}/{self._chance.choice(JUNK)}")

    async def _secret_edited(self) -> None:
        await self._replaced(self._hub, SECRETS, self._made.secret(self._chance.choice(JUNK)))

    async def _secret_deleted(self) -> None:
        await self._hub.send("DELETE", f"{SECRETS}/{self._chance.choice(JUNK)}")

    async def _own_secret_broken(self) -> None:
        """Spoils the hostile member's Secret or CA for a second."""
        spoiled = self._chance.choice(({"token": None}, {"caBundle": "eA=="}, {"token": "AP8="}))
        await self._hub.patch(f"{SECRETS}/{HOSTILE}", {"data": spoiled})
        await asyncio.sleep(1.0)
        data = {
            "token": base64.b64encode(b"hostile-token").decode(),
            "caBundle": base64.b64encode(self._cluster.bundle).decode(),
        }
        await self._hub.patch(f"{SECRETS}/{HOSTILE}", {"data": data})

    async def _autoscaler_edited(self) -> None:
        space = self._chance.choice(SPACES)
        clusters = self._chance.choice(((HOSTILE, *self._members), (HOSTILE, *JUNK), tuple(self._members)))
        made = self._made.autoscaler(self._chance.choice(JUNK), space, clusters)
        await self._replaced(self._hub, f"{FEDERATED}/{space}/{made['kind'].lower()}s", made)

    async def _autoscaler_status(self) -> None:
        path = f"{FEDERATED}/{self._chance.choice(SPACES)}/federatedhpas/{self._chance.choice(JUNK)}"
        made = self._made.status()
        await self._hub.patch(path, {"metadata": made["metadata"]})
        await self._hub.patch(f"{path}/status", {"status": made["status"]})

    async def _autoscaler_deleted(self) -> None:
        kind = self._chance.choice(("federatedhpas", "cronfederatedhpas"))
        await self._hub.send(
            "DELETE", f"{FEDERATED}/{self._chance.choice(SPACES)}/{kind}/{self._chance.choice(JUNK)}"
        )

    async def _odd_pod(self) -> None:
        api = self._members[self._chance.choice(sorted(self._members))]
        pods = f"/api/v1/namespaces/{self._space}/pods"
        name = f"odd-{self._chance.randrange(6)}"
        if await api.find(f"{pods}/{name}") is not None:
            await api.send("DELETE", f"{pods}/{name}", body={"gracePeriodSeconds": 0})
        else:
            await api.send("POST", pods, body=self._made.odd_pod(name))


@asynccontextmanager
async def junk_room(plane: Plane, hub: PlaneApi, members: dict[str, PlaneApi]) -> AsyncIterator[None]:
    """Has namespaces for hostile autoscalers, one of them unseen by the webhook, with a small workload.

    On exit all hostile objects are deleted, and the webhook sees every namespace again.
    """
    async with AsyncExitStack() as stack:
        for path in CONFIGURATIONS:
            stored = await hub.get(path)
            unseen = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [UNCHECKED]}
            hooks = [
                {**one, "namespaceSelector": {"matchExpressions": [unseen]}} for one in stored["webhooks"]
            ]
            await hub.patch(path, {"webhooks": hooks})
            stack.push_async_callback(hub.patch, path, {"webhooks": stored["webhooks"]})
        stack.push_async_callback(_delete_junk, hub)
        for space in SPACES:
            await hub.apply_all([namespace(space)])
            for api in members.values():
                quota = {**QUOTA, "metadata": {"name": "few", "namespace": space}}
                await api.apply_all([namespace(space), quota, deployment("web", space, replicas=1)])
                workload = f"/apis/apps/v1/namespaces/{space}/deployments/web"
                stack.push_async_callback(api.delete, workload)
        yield


async def _delete_junk(hub: PlaneApi) -> None:
    for name in (*JUNK, HOSTILE):
        await hub.delete(f"{CLUSTERS}/{name}")
        await hub.delete(f"{SECRETS}/{name}")
        for space in SPACES:
            for kind in ("federatedhpas", "cronfederatedhpas"):
                await hub.delete(f"{FEDERATED}/{space}/{kind}/{name}")


class Watched:
    """Controller and adapter, started again with their series, and measured from then on."""

    def __init__(self, plane: Plane, processes: Processes) -> None:
        self.resident: dict[str, list[int]] = {CONTROLLER: [], ADAPTER: []}
        self._plane = plane
        self._processes = processes
        self._ports = {name: free_port() for name in self.resident}
        self._pids: dict[str, int] = {}
        self._out = processes.folder / "latency.json"

    async def start(self) -> None:
        """Starts both processes again, and the program that measures their latency."""
        targets = []
        for name, port in self._ports.items():
            await self._processes.stop(name)
            await self._processes.start_one(name, f"--metrics-bind-address=127.0.0.1:{port}")
            self._pids[name] = self.pid(name)
            scheme = "http" if name == CONTROLLER else "https"
            url = f"{scheme}://127.0.0.1:{self._processes.ports[name]}/healthz"
            targets.append(f"{name}={self._pids[name]}={url}")
        ca = self._processes.folder / "ca.crt"
        command = [sys.executable, "-m", "tests.support.hostile.latency", str(self._out), str(ca), *targets]
        self._plane.run.spawn(LATENCY, command, self._processes.folder / "latency.log")

    async def stop(self) -> None:
        """Ends the measurement, and starts both processes again as they were before."""
        self._plane.run.stop([LATENCY], grace=1.0)
        for name in self.resident:
            await self._processes.stop(name)
            await self._processes.start_one(name)

    def pid(self, name: str) -> int:
        """Returns the pid of a process of the run."""
        return int((self._plane.run.folder / "pids" / name).read_text().split()[0])

    def sample(self) -> None:
        """Checks that both processes run, with the same pids, and notes their memory."""
        for name, sizes in self.resident.items():
            self._plane.run.check(name, self._processes.log(name))
            assert self.pid(name) == self._pids[name], f"{name} was started again"
            lines = Path(f"/proc/{self._pids[name]}/status").read_text().splitlines()
            sizes.append(next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) // 1024)

    def latencies(self) -> dict[str, dict[str, Any]]:
        """Returns what was measured, by process."""
        found: dict[str, dict[str, Any]] = json.loads(self._out.read_text())
        return found

    async def series(self, name: str) -> dict[tuple[str, ...], float]:
        """Returns the samples of a process, by name and label values."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self._ports[name]}/metrics") as answer,
        ):
            text = await answer.text()
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
