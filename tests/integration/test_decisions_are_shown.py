"""/decisions shows the last decisions only to callers that may see the objects."""

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

from controller.decision_series import MAX_DECISION_BYTES, ControllerMetrics, DecisionLog
from controller.decisions import PATH, decisions_route
from fedhpa.decision import Decision
from fedhpa.kube import SYSTEM
from fedhpa.kube.client import ApiClient
from tests.support.fake_responses import ACCESS_REVIEW, TOKEN_REVIEW, review
from tests.support.fakeapi import PATIENCE, FakeApi, Object
from tests.support.scenarios import cluster, decided, scenario


@pytest.fixture(autouse=True)
def _patient_reviews(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("authentication", "authorization"):
        monkeypatch.setattr(f"fedhpa.serving.{module}.REVIEW_DEADLINE", PATIENCE)


class Reviewing(FakeApi):
    """A hub with two tokens: jane may see one namespace, root all. With `broken` access reviews fail."""

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
            status = {"authenticated": known, "user": {"username": name}}
            return web.json_response(review(TOKEN_REVIEW, status))
        if what == "subjectaccessreviews":
            spec = (await request.json())["spec"]
            self.asked.append(spec)
            allowed = spec["user"] == "root" or spec.get("resourceAttributes", {}).get("namespace") == "shop"
            return web.json_response(review(ACCESS_REVIEW, {"allowed": allowed}))
        return await super()._serve(request)


def decision() -> Decision:
    return decided(scenario([cluster("m1", [80, 80])]))


def filled(*names: str) -> DecisionLog:
    decisions = DecisionLog()
    for name in names:
        namespace, _, rest = name.partition("/")
        decisions.add(namespace, rest, decision(), written=False)
    return decisions


@asynccontextmanager
async def shown(decisions: DecisionLog) -> AsyncIterator[tuple[TestClient[Any, Any], Reviewing]]:
    """A server with the route, and its hub."""
    hub = Reviewing()
    await hub.start()
    try:
        async with ApiClient(hub.config()) as client:
            application = web.Application()
            application.add_routes([decisions_route(decisions, client, SYSTEM)])
            async with TestClient(TestServer(application)) as caller:
                yield caller, hub
    finally:
        await hub.stop()


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer token-of-{name}"}


async def test_who_may_see_the_object_sees_its_decisions() -> None:
    """Decisions come newest first, with metrics, clusters and steps; the hub reviewed that access."""
    decisions = filled("shop/web", "shop/api", "bank/web", "shop/web")
    async with shown(decisions) as (caller, hub):
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


REQUESTS: list[tuple[dict[str, str], dict[str, str], int]] = [
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
]


async def test_nobody_else_does() -> None:
    """Without a token of the hub, or without permission, the answer has no decision. `limit` bounds their
    number, newest first.
    """
    async with shown(filled("shop/web", "bank/web", "shop/api")) as (caller, _):
        for query, headers, status in REQUESTS:
            answer = await caller.get(PATH, params=query, headers=headers)

            assert answer.status == status, (query, headers)
            assert ("currentReplicas" in await answer.text()) == (status == 200)
        limited = await caller.get(PATH, params={"limit": "2"}, headers=bearer("root"))

        assert [item["name"] for item in (await limited.json())["items"]] == ["api", "web"]


@pytest.mark.parametrize(("what", "status"), [("tokenreviews", 401), ("subjectaccessreviews", 503)])
async def test_a_hub_that_cannot_be_asked_lets_nobody_in(what: str, status: int) -> None:
    """If the hub cannot review the access, it is denied."""
    async with shown(filled("shop/web")) as (caller, hub):
        hub.broken[what] = 500
        answer = await caller.get(PATH, headers=bearer("root"))
        text = await answer.text()

    assert answer.status == status
    assert "currentReplicas" not in text


def test_the_ring_is_bounded_in_number() -> None:
    """The log drops the oldest decisions first."""
    decisions = DecisionLog(max_count=3)
    for name in "abcde":
        decisions.add("shop", name, decision(), written=False)

    assert [json.loads(body)["name"] for body in decisions.newest()] == ["e", "d", "c"]


def test_the_ring_is_bounded_in_bytes() -> None:
    """The log's size in bytes is bounded for decisions of any size."""
    one = DecisionLog()
    one.add("shop", "web", decision(), written=False)
    decisions = DecisionLog(max_bytes=3 * one.size + 1)
    for _ in range(10):
        decisions.add("shop", "web", decision(), written=False)

    assert len(decisions) == 3
    assert decisions.size == 3 * one.size


def test_a_huge_decision_is_kept_short() -> None:
    """A decision over a thousand clusters does not displace all others."""
    clusters = [cluster(f"cluster-{index:04}", [80]) for index in range(1000)]
    decisions = DecisionLog()
    decisions.add("shop", "web", decided(scenario(clusters)), written=False)

    (body,) = decisions.newest()
    assert len(body) < MAX_DECISION_BYTES
    assert msgspec.json.decode(body)["decision"]["currentReplicas"] == 1000


def test_what_is_counted_is_kept() -> None:
    """The metrics keep the decision of each counted reconciliation."""
    metrics = ControllerMetrics(CollectorRegistry(), clock=SYSTEM.monotonic)
    metrics.record_decision("shop", "web", decision(), written=True, seconds=0.1)

    (body,) = metrics.decisions.newest("shop", "web")
    assert json.loads(body)["written"] is True
