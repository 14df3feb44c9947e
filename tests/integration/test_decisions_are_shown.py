"""/decisions shows the last decisions to who may see the objects, and to nobody else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry

from controller.decisions import MAX_DECISION_BYTES, PATH, DecisionLog, decisions_route
from controller.telemetry import ControllerMetrics
from fedhpa.decision import Decision
from fedhpa.kube.client import ApiClient
from tests.support.fakeapi import PATIENCE, FakeApi, Object
from tests.support.scenarios import cluster, decided, scenario


@pytest.fixture(autouse=True)
def _patient_reviews(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("authentication", "authorization"):
        monkeypatch.setattr(f"fedhpa.serving.{module}.REVIEW_DEADLINE", PATIENCE)


class Reviewing(FakeApi):
    """A hub that knows two tokens: jane may see one namespace, root all. `broken` has failing reviews."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Object] = []
        self.broken: dict[str, int] = {}

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        what = request.path.rpartition("/")[2]
        if what in self.broken:
            return web.json_response({"message": "no"}, status=self.broken[what])
        if what == "tokenreviews":
            token = (await request.json())["spec"]["token"]
            name = token.removeprefix("token-of-")
            known = name in ("jane", "root")
            return web.json_response({"status": {"authenticated": known, "user": {"username": name}}})
        if what == "subjectaccessreviews":
            spec = (await request.json())["spec"]
            self.asked.append(spec)
            allowed = spec["user"] == "root" or spec.get("resourceAttributes", {}).get("namespace") == "shop"
            return web.json_response({"status": {"allowed": allowed}})
        return await super()._serve(request)


def decision() -> Decision:
    return decided(scenario([cluster("m1", [80, 80])]))


def filled(*names: str) -> DecisionLog:
    ring = DecisionLog()
    for name in names:
        namespace, _, rest = name.partition("/")
        ring.add(namespace, rest, decision(), written=False)
    return ring


@asynccontextmanager
async def shown(ring: DecisionLog) -> AsyncIterator[tuple[TestClient[Any, Any], Reviewing]]:
    """The route, served, and the hub that it asks."""
    hub = Reviewing()
    await hub.start()
    try:
        async with ApiClient(hub.config()) as client:
            application = web.Application()
            application.add_routes([decisions_route(ring, client)])
            async with TestClient(TestServer(application)) as caller:
                yield caller, hub
    finally:
        await hub.stop()


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer token-of-{name}"}


async def test_who_may_see_the_object_sees_its_decisions() -> None:
    """The newest first, with metrics, clusters and steps; the hub was asked about exactly that object."""
    ring = filled("shop/web", "shop/api", "bank/web", "shop/web")
    async with shown(ring) as (caller, hub):
        answer = await caller.get(PATH, params={"namespace": "shop", "name": "web"}, headers=bearer("jane"))
        items = (await answer.json())["items"]

    assert answer.status == 200
    assert [(item["namespace"], item["name"]) for item in items] == [("shop", "web")] * 2
    assert items[0]["decision"]["metrics"][0]["clusters"] == {"m1": {"pods": 2, "value": "160m"}}
    assert [step["step"] for step in items[0]["decision"]["steps"]][:2] == ["metrics", "coverage"]
    (asked,) = hub.asked
    assert asked["resourceAttributes"] == {
        "namespace": "shop",
        "verb": "get",
        "group": "autoscaling.karmada.io",
        "version": "v1alpha1",
        "resource": "federatedhpas",
        "name": "web",
    }


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        ({}, {}, 401),
        ({}, {"Authorization": "Bearer stolen"}, 401),
        ({}, {"Authorization": "Basic amFuZTo="}, 401),
        ({}, {"X-Remote-User": "root"}, 401),
        ({}, bearer("jane"), 403),
        ({"namespace": "bank"}, bearer("jane"), 403),
        ({"namespace": "bank", "name": "web"}, bearer("jane"), 403),
        ({"name": "web"}, bearer("jane"), 403),
        ({"namespace": "shop"}, bearer("jane"), 200),
        ({}, bearer("root"), 200),
        ({"limit": "0"}, bearer("root"), 400),
        ({"limit": "all"}, bearer("root"), 400),
    ],
)
async def test_nobody_else_does(query: dict[str, str], headers: dict[str, str], status: int) -> None:
    """Without a token of the hub, or without the right, there is no decision in the answer."""
    async with shown(filled("shop/web", "bank/web")) as (caller, _):
        answer = await caller.get(PATH, params=query, headers=headers)
        text = await answer.text()

    assert answer.status == status
    assert ("currentReplicas" in text) == (status == 200)


@pytest.mark.parametrize(("what", "status"), [("tokenreviews", 401), ("subjectaccessreviews", 503)])
async def test_a_hub_that_cannot_be_asked_lets_nobody_in(what: str, status: int) -> None:
    """Denied by default."""
    async with shown(filled("shop/web")) as (caller, hub):
        hub.broken[what] = 500
        answer = await caller.get(PATH, headers=bearer("root"))
        text = await answer.text()

    assert answer.status == status
    assert "currentReplicas" not in text


async def test_a_limit_gives_the_newest() -> None:
    """So many, and the latest of them first."""
    async with shown(filled("shop/a", "shop/b", "shop/c")) as (caller, _):
        answer = await caller.get(PATH, params={"limit": "2"}, headers=bearer("root"))
        items = (await answer.json())["items"]

    assert [item["name"] for item in items] == ["c", "b"]


def test_the_ring_is_bounded_in_number() -> None:
    """The oldest go first."""
    ring = DecisionLog(max_count=3)
    for name in "abcde":
        ring.add("shop", name, decision(), written=False)

    assert [json.loads(body)["name"] for body in ring.newest()] == ["e", "d", "c"]


def test_the_ring_is_bounded_in_bytes() -> None:
    """However large decisions are."""
    one = DecisionLog()
    one.add("shop", "web", decision(), written=False)
    ring = DecisionLog(max_bytes=3 * one.size + 1)
    for _ in range(10):
        ring.add("shop", "web", decision(), written=False)

    assert len(ring) == 3
    assert ring.size == 3 * one.size


def test_a_huge_decision_is_kept_short() -> None:
    """One over a thousand clusters must not push all others out."""
    clusters = [cluster(f"cluster-{index:04}", [80]) for index in range(1000)]
    ring = DecisionLog()
    ring.add("shop", "web", decided(scenario(clusters)), written=False)

    (body,) = ring.newest()
    assert len(body) < MAX_DECISION_BYTES
    assert msgspec.json.decode(body)["decision"]["currentReplicas"] == 1000


def test_what_is_counted_is_kept() -> None:
    """Whoever counts a reconciliation keeps its decision, and whether it was written."""
    metrics = ControllerMetrics(CollectorRegistry())
    metrics.record_decision("shop", "web", decision(), written=True, seconds=0.1)

    (body,) = metrics.decisions.newest("shop", "web")
    assert json.loads(body)["written"] is True
