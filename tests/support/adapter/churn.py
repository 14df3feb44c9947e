"""A fleet that changes all the time, and clients that come and go."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Protocol

import aiohttp
import trustme
from aiohttp import web

from tests.support.adapter.process import METRICS, NODE_METRICS, Hub, pod_metrics
from tests.support.fakeapi import CLUSTERS, FakeApi, join

METRICS_API = "/apis/metrics.k8s.io"
NAMESPACES = ("shop", "bank", "mail")
PODS_EACH = 200
CALL_SECONDS = 60.0
HUB_IS_SILENT = b"access could not be reviewed"
LIES = (
    b"<html>",
    b'{"items":[{"metadata":{}}]}',
    b'{"items":[{"metadata":{"name":"\\u0000"},"containers":7}]}',
)


class Reach(Protocol):
    """The address and credentials of the adapter."""

    def session(self) -> aiohttp.ClientSession:
        """Opens a client's session with its own connections."""

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Opens one connection."""


class ChurnMember(FakeApi):
    """A member that serves only metrics.k8s.io."""

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if request.path.startswith(("/apis/custom.", "/apis/external.")):
            return web.Response(status=404, text="404 page not found")
        return await super()._serve(request)


class Churn:
    """Members by name, and the events that may happen to one of them."""

    def __init__(self, hub: Hub, reach: Reach, seed: int) -> None:
        self.answers: Counter[int] = Counter()
        self.happened: Counter[str] = Counter()
        self._hub = hub
        self._reach = reach
        self._random = random.Random(seed)
        self._members: dict[str, FakeApi] = {}
        self._turn = 0

    async def start(self, names: tuple[str, ...]) -> None:
        """Starts and registers the members."""
        for name in names:
            member = self._members[name] = ChurnMember()
            await member.start()
            for number in range(PODS_EACH):
                self._pod(member, number)
            member.put(
                NODE_METRICS, {"metadata": {"name": f"{name}-node"}, "usage": {"cpu": "1", "memory": "1Gi"}}
            )
            join(self._hub, name, member)

    async def stop(self) -> None:
        for member in self._members.values():
            await member.stop()

    async def round(self) -> None:
        """Applies one event to a member or the hub while clients send requests."""
        self._turn += 1
        happening = self._random.choice(self._happenings())
        name = self._random.choice(sorted(self._members))
        self.happened[happening.__name__.strip("_")] += 1
        async with asyncio.TaskGroup() as group:
            for _ in range(6):
                group.create_task(self._caller())
            group.create_task(self._half_a_caller())
            await happening(name, self._members[name])
        for api in (self._hub, *self._members.values()):
            # The memory of the fleet itself is not measured.
            api.seen.clear()
            del api._history[:-50]
        self._hub.reviews.clear()

    async def calm(self) -> None:
        """Restores all members and their registrations."""
        for name, member in self._members.items():
            member.faults.clear()
            join(self._hub, name, member)

    # -- events --------------------------------------------------------------------------------------
    def _happenings(self) -> list[Callable[[str, FakeApi], Awaitable[None]]]:
        once = [self._token, self._ca, self._endpoint, self._hangs, self._lies, self._breaks, self._goes]
        return [*once, self._comes, self._hub_forgets, *2 * [self._pods, self._well]]

    def _pod(self, member: FakeApi, number: int) -> None:
        space = NAMESPACES[number % len(NAMESPACES)]
        cpu = f"{self._random.randrange(1000)}m"
        member.put(METRICS, pod_metrics(f"web-{number}", space, cpu, app="web", number=str(number)))

    async def _pods(self, _: str, member: FakeApi) -> None:
        for number in range(0, PODS_EACH, 7):
            self._pod(member, number)

    async def _token(self, name: str, member: FakeApi) -> None:
        member.token = f"token-{self._turn}"
        join(self._hub, name, member)

    async def _ca(self, name: str, member: FakeApi) -> None:
        await member.stop()
        member.ca = trustme.CA()
        await member.start()
        join(self._hub, name, member)

    async def _endpoint(self, name: str, member: FakeApi) -> None:
        await member.stop()
        member.port = 0
        await member.start()
        join(self._hub, name, member)

    async def _hangs(self, _: str, member: FakeApi) -> None:
        member.faults.hang.add(self._random.choice(["/", METRICS_API]))

    async def _lies(self, _: str, member: FakeApi) -> None:
        member.faults.body[METRICS_API] = self._random.choice(LIES)

    async def _breaks(self, _: str, member: FakeApi) -> None:
        if self._random.random() < 0.5:
            member.faults.truncate.add(METRICS_API)
        else:
            member.faults.status[METRICS_API] = self._random.choice([302, 401, 403, 404, 429, 500, 503])

    async def _goes(self, name: str, _: FakeApi) -> None:
        if self._hub.find(CLUSTERS, name) is not None:
            self._hub.remove(CLUSTERS, name)

    async def _comes(self, name: str, member: FakeApi) -> None:
        join(self._hub, name, member)

    async def _well(self, name: str, member: FakeApi) -> None:
        member.faults.clear()
        join(self._hub, name, member)

    async def _hub_forgets(self, _: str, __: FakeApi) -> None:
        self._hub.expire()
        self._hub.end_watches()

    # -- clients -------------------------------------------------------------------------------------
    async def _caller(self) -> None:
        """A client that sends some requests and leaves."""
        user = {"X-Remote-User": f"user-{self._random.randrange(1000)}"}
        async with self._reach.session() as session:
            for _ in range(4):
                async with asyncio.timeout(CALL_SECONDS):
                    async with session.get(self._question(), headers={**user, **self._form()}) as response:
                        body = await response.read()
                # A hub that a busy machine makes late is not a fault of the adapter.
                silent = response.status == 500 and HUB_IS_SILENT in body
                self.answers[503 if silent else response.status] += 1

    def _question(self) -> str:
        any_number, space = (
            self._random.randrange(10_000),
            self._random.choice([*NAMESPACES, f"ns-{self._turn}"]),
        )
        return self._random.choice(
            [
                f"{METRICS_API}/v1beta1/pods",
                f"{METRICS_API}/v1beta1/nodes",
                f"{METRICS_API}/v1beta1/namespaces/{space}/pods",
                f"{METRICS_API}/v1beta1/namespaces/{space}/pods?labelSelector=number%3D{any_number}",
                f"{METRICS_API}/v1beta1/namespaces/{space}/pods/web-{any_number}",
                f"/apis/custom.metrics.k8s.io/v1beta2/namespaces/{space}/pods/*/m{any_number}",
                f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{space}/depth?labelSelector=q%3D{any_number}",
                f"{METRICS_API}/v1beta1/pods?cluster=m{any_number % 8}",
                f"/nowhere/{any_number}",
                "/apis",
                "/openapi/v2",
                "/metrics",
            ]
        )

    def _form(self) -> dict[str, str]:
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        return {
            "Accept": self._random.choice(["application/json", "application/json", table, "application/yaml"])
        }

    async def _half_a_caller(self) -> None:
        """A client that sends a request and does not wait for the response."""
        async with asyncio.timeout(CALL_SECONDS):
            # Cut after the handshake, because aiohttp's handling of a cut handshake is not tested here.
            _, writer = await self._reach.connect()
            writer.write(f"GET {METRICS_API}/v1beta1/pods HTTP/1.1\r\nHost: x\r\n".encode())
            if self._random.random() < 0.5:
                writer.write(b"X-Remote-User: hasty\r\n\r\n")
            await asyncio.sleep(0)
            writer.transport.abort()
