"""A member that hangs, refuses, fails or disappears: the cost, and the recovery."""

from __future__ import annotations

import asyncio

import pytest

from fedhpa.api.errors import ApiError, MemberUnavailable
from fedhpa.members.client import COOLDOWN_SECONDS
from tests.support.fakeapi import CLUSTERS, eventually
from tests.support.members import DEADLINE, federation
from tests.support.timing import loop_time

pytestmark = pytest.mark.looptime(noop_cycles=0)

METRICS = "/apis/metrics.k8s.io/v1beta1/pods"
VERSION = "/version"


async def test_a_hung_member_costs_its_deadline_once() -> None:
    """The first call takes the deadline and the next one fails at once; other members are not affected."""
    async with federation("member1", "member2") as world:
        world.members["member1"].faults.hang.add("/")
        took = []
        for _ in range(2):
            began = loop_time()
            with pytest.raises(MemberUnavailable, match=r"no answer within 0\.4 s"):
                await world["member1"].client.get_json(VERSION)
            took.append(loop_time() - began)
        await world["member2"].client.get_json(VERSION)

        # A probe may have opened the breaker before the first call.
        assert took[0] < DEADLINE + 0.5
        assert took[1] < 0.1


async def test_concurrent_calls_to_a_hung_member_take_one_deadline() -> None:
    """Twenty calls at the same time take one deadline."""
    async with federation("member1") as world:
        world.members["member1"].faults.hang.add("/")
        began = loop_time()
        results = await asyncio.gather(
            *(world["member1"].client.get_json(VERSION) for _ in range(20)), return_exceptions=True
        )

        assert {type(result) for result in results} == {MemberUnavailable}
        assert loop_time() - began < DEADLINE + 0.8


async def test_a_member_whose_readyz_fails() -> None:
    """A member whose /readyz fails gets no requests."""
    async with federation("member1") as world:
        world.members["member1"].faults.status["/readyz"] = 500
        reason = await world.away("member1")
        with pytest.raises(MemberUnavailable):
            await world["member1"].client.get_json(VERSION)

        assert reason == "its /readyz answers HTTP 500"


async def test_a_member_whose_readyz_is_forbidden() -> None:
    """A 403 for /readyz does not make the member unavailable."""
    async with federation("member1") as world:
        api = world.members["member1"]
        api.faults.status["/readyz"] = 403
        probes = len(api.queries("/readyz"))
        await eventually(lambda: len(api.queries("/readyz")) > probes + 3)

        assert world["member1"].state.ready


async def test_a_failed_or_malformed_answer_keeps_the_member() -> None:
    """A member that answers 500 to one request, and nonsense to another, stays available for others."""
    async with federation("member1") as world:
        world.members["member1"].faults.status[METRICS] = 500
        world.members["member1"].faults.body["/healthz"] = b"<html>"
        with pytest.raises(ApiError, match="answer cannot be read"):
            await world["member1"].client.get_json("/healthz")
        for _ in range(5):
            with pytest.raises(ApiError) as caught:
                await world["member1"].client.get_json(METRICS)
            assert caught.value.status == 500

        assert await world["member1"].client.get_json(VERSION)
        assert world["member1"].state.ready


async def test_a_hanging_metrics_api_opens_only_its_breaker() -> None:
    """Requests to the hanging aggregated API are refused; pods and scales stay available."""
    async with federation("member1") as world:
        world.members["member1"].faults.hang.add("/apis/metrics.k8s.io")
        member = world["member1"]
        with pytest.raises(MemberUnavailable, match="no answer within"):
            await member.client.get_json(METRICS)
        began = loop_time()
        with pytest.raises(MemberUnavailable):
            await member.client.get_json(METRICS)

        assert loop_time() - began < 0.1
        assert await member.client.get_json(VERSION)
        assert member.state.ready
        assert COOLDOWN_SECONDS > DEADLINE


async def test_a_member_that_hangs_from_the_start_does_not_delay_the_rest() -> None:
    """The registry is synced when the hanging member had its deadline; the others are ready by then."""
    async with federation("member1", "member2") as world:
        world.members["member2"].faults.hang.add("/")
        hung = world.members["member2"]
        world.hub.put(
            CLUSTERS,
            {
                "metadata": {"name": "member3"},
                "spec": {"apiEndpoint": hung.url, "secretRef": {"namespace": "creds", "name": "member2"}},
            },
        )
        await eventually(lambda: "member3" in world.registry.members)
        began = loop_time()
        await eventually(world.registry.synced)

        assert loop_time() - began < DEADLINE + 0.8
        assert world["member1"].state.ready
        assert not world["member3"].state.ready


async def test_no_task_or_connection_is_left_behind() -> None:
    """Members that are added and removed leave no task behind."""
    async with federation("member1") as world:
        before = len(asyncio.all_tasks())
        for _ in range(20):
            obj = world.hub.find(CLUSTERS, "member1")
            assert obj is not None
            world.hub.put(CLUSTERS, {**obj, "metadata": {"name": "member9"}})
            await world.ready("member9")
            world.hub.remove(CLUSTERS, "member9")
            await eventually(lambda: "member9" not in world.registry.members)
        await eventually(lambda: len(asyncio.all_tasks()) <= before + 2)
