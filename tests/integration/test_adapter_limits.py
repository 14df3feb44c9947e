"""One tenant cannot block other tenants or the hub, nor overload the members."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.adapter.process import JANE, PODS_PATH, Answer, Caller, Fleet, fleet_of_one, pod_metrics
from tests.support.fakeapi import eventually

JOE = {"X-Remote-User": "joe"}
MASTER = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
HPA = {"X-Remote-User": "system:serviceaccount:kube-system:horizontal-pod-autoscaler"}
OF_NAMESPACE = "/apis/metrics.k8s.io/v1beta1/namespaces/ns{}/pods"
WITHIN = 30.0


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet_of_one(tmp_path, pod_metrics("web")) as made:
        yield made


async def refusals(caller: Caller) -> dict[str, float]:
    """Returns the series of refusals, by limit."""
    text = (await caller.call("GET", "/metrics", MASTER)).body.decode()
    name = "fedhpa_adapter_requests_refused_total"
    lines = [line for line in text.splitlines() if line.startswith(name)]
    return {line.split('"')[1]: float(line.split()[-1]) for line in lines}


def is_refusal(answer: Answer) -> bool:
    """Returns True for Kubernetes' 429, after which its clients retry."""
    found = {key: answer.json[key] for key in ("kind", "reason", "code", "message", "details")}
    return (
        answer.status == 429
        and answer.headers["Retry-After"] == "1"
        and found
        == {
            "kind": "Status",
            "reason": "TooManyRequests",
            "code": 429,
            "message": "Too many requests, please try again later.",
            "details": {"retryAfterSeconds": 1},
        }
    )


async def test_one_tenant_keeps_no_other_out(fleet: Fleet) -> None:
    """A user at the limit of concurrent requests is refused. Others, the hub and probes are served."""
    flags = ("--max-user-requests-inflight=3", "--max-requests-inflight=4", "--member-deadline=100s")
    async with fleet.world.adapter(*flags) as adapter, fleet.world.caller(adapter) as caller:
        assert (await caller.call("GET", PODS_PATH, JANE)).status == 200
        fleet.member.faults.hang.add("/apis/metrics.k8s.io/v1beta1/namespaces/")
        async with asyncio.TaskGroup() as group:
            hanging = [
                group.create_task(caller.call("GET", OF_NAMESPACE.format(number), JANE))
                for number in range(3)
            ]
            await eventually(lambda: sum("/ns" in seen.path for seen in fleet.member.seen) == 3, WITHIN)

            assert is_refusal(await caller.call("GET", PODS_PATH, JANE))
            assert (await caller.call("GET", PODS_PATH, JOE)).names == ["member1/shop/web"]
            hanging.append(group.create_task(caller.call("GET", OF_NAMESPACE.format(3), JOE)))
            await eventually(lambda: sum("/ns" in seen.path for seen in fleet.member.seen) == 4, WITHIN)

            assert is_refusal(await caller.call("GET", PODS_PATH, {"X-Remote-User": "third"}))
            for headers in (HPA, MASTER):
                assert (await caller.call("GET", PODS_PATH, headers)).status == 200
            assert (await caller.get("/readyz")).status == 200
            assert await refusals(caller) == {"user": 1, "total": 1, "questions": 0, "bytes": 0}
            for task in hanging:
                task.cancel()


async def test_what_has_ended_makes_room(fleet: Fleet) -> None:
    """Refused and failed requests free their slots too."""
    fleet.world.hub.denied.add("joe")
    async with (
        fleet.world.adapter("--max-user-requests-inflight=1") as adapter,
        fleet.world.caller(adapter) as caller,
    ):
        for _ in range(5):
            assert (await caller.call("GET", PODS_PATH, JOE)).status == 403
            assert (await caller.call("GET", "/apis/nowhere", JANE)).status == 404
            assert (await caller.call("GET", f"{PODS_PATH}?labelSelector=(", JANE)).status == 400
            assert (await caller.call("GET", PODS_PATH, JANE)).status == 200


async def test_a_tenant_cannot_have_members_asked_without_end(fleet: Fleet) -> None:
    """The rate of queries to members is limited. Cached answers are free, and other users are served."""
    flags = ("--user-qps=0.001", "--user-burst=5", "--metrics-max-age=1h")
    async with fleet.world.adapter(*flags) as adapter, fleet.world.caller(adapter) as caller:
        assert (await caller.call("GET", PODS_PATH, JANE)).status == 200
        before = len(fleet.member.seen)
        paths = [f"{PODS_PATH}?labelSelector=app%3Da{number}" for number in range(10)]
        found = [await caller.call("GET", path, JANE) for path in paths]
        asked = sum(seen.path == PODS_PATH for seen in fleet.member.seen[before:])

        assert [answer.status for answer in found] == [200] * 4 + [429] * 6
        assert all(is_refusal(answer) for answer in found[4:])
        assert asked == 4
        assert (await caller.call("GET", PODS_PATH, JANE)).status == 200
        assert (await caller.call("GET", paths[0], JANE)).status == 200
        for headers in (JOE, HPA):
            assert (
                await caller.call(
                    "GET", f"{PODS_PATH}?labelSelector=of%3D{headers['X-Remote-User'][0]}", headers
                )
            ).status == 200
        assert await refusals(caller) == {"user": 0, "total": 0, "questions": 6, "bytes": 0}


async def test_a_bound_of_zero_is_none(fleet: Fleet) -> None:
    """Zero switches off each limit."""
    flags = ("--user-qps=0", "--user-burst=1", "--max-user-requests-inflight=0", "--max-requests-inflight=0")
    async with fleet.world.adapter(*flags) as adapter, fleet.world.caller(adapter) as caller:
        found = await asyncio.gather(
            *(caller.call("GET", f"{PODS_PATH}?labelSelector=a%3D{number}", JANE) for number in range(20))
        )

        assert {answer.status for answer in found} == {200}
