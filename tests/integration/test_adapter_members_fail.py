"""Members that refuse, hang, answer 500, have no metrics, or go: each missing member is named."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiohttp import web

from fedhpa.serving.error_responses import status_response
from metrics_adapter import process
from tests.support.adapter.process import (
    JANE,
    METRICS,
    PODS_PATH,
    AdapterWorld,
    Caller,
    pod_metrics,
    until,
    world,
)
from tests.support.fake_responses import with_list_head
from tests.support.fakeapi import FakeApi, eventually, fake_api, join

# Seconds that a request waits for a hanging member.
SHORT = "--member-deadline=500ms"
WEB = f"{PODS_PATH.removesuffix('/pods')}/namespaces/shop/pods/web"


class Fleet:
    """A hub with two members, the adapter, and the hub's front proxy acting for jane."""

    def __init__(self, world: AdapterWorld, first: FakeApi, second: FakeApi) -> None:
        self.world = world
        self.first = first
        self.second = second


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with world(tmp_path) as made, fake_api() as first, fake_api() as second:
        first.put(METRICS, pod_metrics("web", app="web"))
        second.put(METRICS, pod_metrics("web", app="web"))
        second.put(METRICS, pod_metrics("db", app="db"))
        join(made.hub, "member1", first)
        join(made.hub, "member2", second)
        yield Fleet(made, first, second)


@pytest.fixture
async def caller(fleet: Fleet) -> AsyncIterator[Caller]:
    async with AsyncExitStack() as stack:
        adapter = await stack.enter_async_context(fleet.world.adapter())
        yield await stack.enter_async_context(fleet.world.caller(adapter))


async def test_clusters_that_were_never_listed_are_no_empty_list(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub refuses the list of Clusters. The adapter is not ready, and answers 503 with the reason."""
    serve = fleet.world.hub._serve

    async def refuse(request: web.Request) -> web.StreamResponse:
        return (
            status_response(403, "no right to clusters")
            if "/clusters" in request.path
            else await serve(request)
        )

    monkeypatch.setattr(fleet.world.hub, "_serve", refuse)
    async with fleet.world.adapter(ready=False) as adapter, fleet.world.caller(adapter) as caller:
        await eventually(lambda: adapter._registry.problem is not None)
        answer = await caller.get(PODS_PATH, **JANE)

    assert not adapter.health.ready
    assert answer.status == 503
    assert "no right to clusters" in answer.json["message"]


async def test_all_members_are_one_list(caller: Caller) -> None:
    """Items are listed by cluster. Pods with the same name stay separate."""
    answer = await caller.call("GET", PODS_PATH, JANE)

    assert answer.status == 200
    assert answer.names == ["member1/shop/web", "member2/shop/db", "member2/shop/web"]
    assert answer.warnings == []


async def test_selectors_choose(caller: Caller) -> None:
    """Labels, fields and the cluster can be selected."""
    selected = await caller.call("GET", f"{PODS_PATH}?labelSelector=app%20in%20(db)", JANE)
    named = await caller.call("GET", f"{PODS_PATH}?fieldSelector=metadata.name=web", JANE)
    of_one = await caller.call("GET", f"{PODS_PATH}?cluster=member1", JANE)

    assert selected.names == ["member2/shop/db"]
    assert named.names == ["member1/shop/web", "member2/shop/web"]
    assert of_one.names == ["member1/shop/web"]


async def test_a_member_without_metrics_api_is_named(fleet: Fleet, caller: Caller) -> None:
    """The member's 404 does not count as an empty list."""
    fleet.second.faults.status["/apis/metrics.k8s.io"] = 404

    answer = await caller.call("GET", PODS_PATH, JANE)

    reason = "it does not serve metrics.k8s.io/v1beta1 (HTTP 404)"
    assert answer.warnings == [f'299 - "member2 did not answer: {reason}"']


async def test_what_is_young_enough_outlives_its_member(fleet: Fleet) -> None:
    """Within --metrics-max-age a list is served with its own timestamps. Other lists are missing."""
    async with (
        fleet.world.adapter("--metrics-max-age=1h") as adapter,
        fleet.world.caller(adapter) as caller,
    ):
        before = await caller.call("GET", PODS_PATH, JANE)
        await fleet.second.stop()

        async def noticed() -> bool:
            return "member2" in str((await caller.call("GET", f"{WEB}?cluster=member2", JANE)).json)

        await until(noticed)
        after = await caller.call("GET", PODS_PATH, JANE)
        new = await caller.call("GET", PODS_PATH.replace("/pods", "/namespaces/shop/pods"), JANE)

    assert (after.names, after.warnings) == (before.names, [])
    assert {item["timestamp"] for item in after.json["items"]} == {"2026-03-11T13:00:00Z"}
    assert new.names == ["member1/shop/web"]
    assert len(new.warnings) == 1


async def test_a_name_in_several_clusters_must_be_chosen(caller: Caller) -> None:
    """The 409 names the clusters, ?cluster= selects one, and an unknown cluster is not found."""
    both = await caller.call("GET", WEB, JANE)
    one = await caller.call("GET", f"{WEB}?cluster=member2", JANE)
    none = await caller.call("GET", f"{WEB}?cluster=elsewhere", JANE)

    assert both.status == 409
    assert both.json["reason"] == "Conflict"
    assert "member1, member2" in both.json["message"]
    assert one.status == 200
    assert one.json["metadata"]["annotations"] == {"resource.karmada.io/query-from-cluster": "member2"}
    assert none.status == 404


async def test_a_pod_that_nobody_has_is_not_found(fleet: Fleet, caller: Caller) -> None:
    """If all members answer, the pod is not found. If one is missing, its metrics are, with a warning."""
    absent = await caller.call("GET", f"{WEB}-x", JANE)
    fleet.second.faults.status["/apis/metrics.k8s.io"] = 500
    unsure = await caller.call("GET", f"{WEB}-y", JANE)

    assert (absent.status, absent.json["message"]) == (404, 'pods "web-x" not found')
    assert absent.warnings == []
    assert unsure.status == 404
    assert unsure.json["message"] == 'podmetrics.metrics.k8s.io "shop/web-y" not found'
    assert "member2 did not answer" in unsure.warnings[0]


async def test_a_hub_without_members_has_no_pods(tmp_path: Path) -> None:
    """The response is 200 with an empty list, because no member was expected to answer."""
    async with world(tmp_path) as made, made.adapter() as adapter, made.caller(adapter) as caller:
        answer = await caller.call("GET", PODS_PATH, JANE)

        assert answer.status == 200
        assert answer.json["items"] == []
        assert answer.warnings == []


async def test_readiness_does_not_depend_on_members(fleet: Fleet) -> None:
    """A member that hangs from the start costs its deadline once. A later loss changes nothing."""
    fleet.second.faults.hang.add("/")
    async with fleet.world.adapter(SHORT) as adapter:
        assert adapter.health.ready
        await fleet.first.stop()
        async with fleet.world.caller(adapter) as caller:
            answer = await caller.call("GET", PODS_PATH, JANE)

            assert answer.status == 503
            assert (await caller.get("/readyz")).body == b"ok"


async def test_losing_the_hub_clears_readiness_until_it_is_back(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Discovery and metrics are still served, and /readyz names the reason."""
    monkeypatch.setattr(process, "HUB_PROBE_SECONDS", 0.2)  # Two seconds are enough for this test.
    async with fleet.world.adapter() as adapter, fleet.world.caller(adapter) as caller:
        assert (await caller.call("GET", PODS_PATH, JANE)).status == 200
        await fleet.world.hub.stop()
        await eventually(lambda: not adapter.health.ready)

        verbose = (await caller.get("/readyz?verbose")).body.decode()
        assert "[+]members ok" in verbose
        assert "[-]hub failed: " in verbose
        assert (await caller.get("/livez")).status == 200
        assert (await caller.call("GET", PODS_PATH, JANE)).status == 200

        await fleet.world.hub.start()
        await eventually(lambda: adapter.health.ready)


async def test_members_whose_metrics_have_no_labels_select_themselves(fleet: Fleet, caller: Caller) -> None:
    """If the items lack their pods' labels, the member receives the selector."""
    unlabelled = with_list_head(PODS_PATH, {"items": [pod_metrics("web")]})
    fleet.second.faults.body[PODS_PATH] = json.dumps(unlabelled).encode()

    answer = await caller.call("GET", f"{PODS_PATH}?labelSelector=app%3Dweb", JANE)

    assert answer.names == ["member1/shop/web", "member2/shop/web"]
    assert [query.get("labelSelector") for query in fleet.second.queries(PODS_PATH)] == [None, "app=web"]
