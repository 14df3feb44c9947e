"""A metric that is slow in one namespace costs no other namespace its metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from fedhpa.api.errors import ApiError, MemberUnavailable
from fedhpa.members.client import COOLDOWN_SECONDS, SLOW_IN_A_ROW
from fedhpa.members.lists import MAX_CONCURRENT_RETRIES, SharedLists
from fedhpa.members.member import Member
from tests.support.members import FollowedMembers, federation
from tests.support.timing import background, loop_time

pytestmark = pytest.mark.looptime(noop_cycles=0)

GROUP = "/apis/custom.metrics.k8s.io"
ROOT = f"{GROUP}/v1beta2"
OTHERS = ("bank", "shop", "mail")


def path(namespace: str, metric: str = "hits") -> str:
    """The path of a metric of the pods of a namespace."""
    return f"{ROOT}/namespaces/{namespace}/pods/*/{metric}"


def values(body: bytes) -> tuple[bytes, ...]:
    """Returns the answer as one item; each test has only answers and time-outs."""
    return (body,)


async def reading(lists: SharedLists, member: Member, paths: Iterable[str], answered: list[bool]) -> None:
    """Reads all paths every second, as autoscalers of several tenants do, and notes who was answered."""
    while True:
        for each in paths:
            try:
                await lists.get(member, each, None, values, max_age=0.5)
            except MemberUnavailable:
                answered.append(False)
            else:
                answered.append(True)
        await asyncio.sleep(1)


def serve(world: FollowedMembers, *paths: str) -> None:
    """Lets the member answer these paths."""
    world.members["member1"].faults.body.update(dict.fromkeys(paths, b"{}"))


async def test_a_slow_metric_leaves_the_metrics_of_others() -> None:
    """Two tenants' metrics hang for two minutes; each answer to the three others is complete."""
    async with federation("member1", deadline=3) as world, SharedLists(clock=loop_time) as lists:
        serve(world, *map(path, OTHERS))
        world.members["member1"].faults.hang.update((path("slow"), path("slower")))
        others: list[bool] = []
        slow: list[bool] = []
        member = world["member1"]
        async with (
            background(reading(lists, member, map(path, ("slow",)), slow)),
            background(reading(lists, member, [path("slower", "hits")], slow)),
            background(reading(lists, member, [path(name) for name in OTHERS], others)),
        ):
            await asyncio.sleep(120)

        assert len(others) > 300
        assert all(others)
        assert not any(slow)


async def test_any_number_of_slow_metrics_of_one_namespace_leaves_others() -> None:
    """Thirty metrics of one namespace hang at once, and nobody was answered before: the next is answered."""
    async with federation("member1", deadline=3) as world, SharedLists(clock=loop_time) as lists:
        serve(world, path("shop"))
        world.members["member1"].faults.hang.add(f"{ROOT}/namespaces/slow/")
        member = world["member1"]
        results = await asyncio.gather(
            *(
                lists.get(member, path("slow", f"m{number}"), None, values, max_age=10)
                for number in range(30)
            ),
            return_exceptions=True,
        )
        found = await lists.get(member, path("shop"), None, values, max_age=10)

        assert {type(result) for result in results} == {MemberUnavailable}
        assert found.value == (b"{}",)


async def test_an_api_that_hangs_for_several_namespaces_is_refused() -> None:
    """The next namespace does not wait, and the group is tried again after its cooldown."""
    async with federation("member1", deadline=3) as world:
        world.members["member1"].faults.hang.add(ROOT)
        client = world["member1"].client
        waits = []
        for number in range(SLOW_IN_A_ROW + 1):
            began = loop_time()
            with pytest.raises(MemberUnavailable, match="no answer within 3 s"):
                await client.request("GET", path(f"n{number}"))
            waits.append(loop_time() - began)
        world.members["member1"].faults.clear()
        serve(world, path("shop"))
        with pytest.raises(MemberUnavailable):
            await client.request("GET", path("shop"))
        await asyncio.sleep(COOLDOWN_SECONDS)

        assert min(waits[:-1]) == pytest.approx(3, abs=0.1)
        assert waits[-1] < 0.1
        assert (await client.request("GET", path("shop"))).body == b"{}"


async def test_a_namespace_that_hangs_is_refused() -> None:
    """After several time-outs of its metrics the next one does not wait; other namespaces are answered."""
    async with federation("member1", deadline=3) as world:
        world.members["member1"].faults.hang.add(f"{ROOT}/namespaces/slow/")
        serve(world, path("shop"))
        client = world["member1"].client
        waits = []
        for number in range(SLOW_IN_A_ROW + 1):
            began = loop_time()
            with pytest.raises(MemberUnavailable, match="no answer within 3 s"):
                await client.request("GET", path("slow", f"m{number}"))
            waits.append(loop_time() - began)

        assert min(waits[:-1]) == pytest.approx(3, abs=0.1)
        assert waits[-1] < 0.1
        assert (await client.request("GET", path("shop"))).body == b"{}"


async def test_discovery_that_hangs_stands_for_its_group() -> None:
    """One time-out of the group's resource list refuses all its metrics; other groups are answered."""
    async with federation("member1", deadline=3) as world:
        world.members["member1"].faults.hang.add(ROOT)
        client = world["member1"].client
        with pytest.raises(MemberUnavailable, match="no answer within"):
            await client.request("GET", ROOT)
        began = loop_time()
        with pytest.raises(MemberUnavailable, match="no answer within"):
            await client.request("GET", path("shop"))

        assert loop_time() - began < 0.1
        assert await client.get_json("/version")


async def test_the_list_of_versions_says_nothing_about_its_group() -> None:
    """The member's own API server answers it, also while the server of the metrics hangs."""
    async with federation("member1", deadline=3) as world:
        world.members["member1"].faults.hang.add(ROOT)
        serve(world, GROUP)
        client = world["member1"].client
        for number in range(SLOW_IN_A_ROW):
            with pytest.raises(MemberUnavailable):
                await client.request("GET", path(f"n{number}"))
            if number == 0:
                await client.request("GET", GROUP)
        began = loop_time()
        with pytest.raises(MemberUnavailable):
            await client.request("GET", path("shop"))

        assert loop_time() - began < 0.1


async def test_a_slow_selection_leaves_the_others_of_its_path() -> None:
    """The key of a call has its selectors: only the selection that timed out is refused."""
    async with federation("member1", deadline=3) as world:
        client, faults = world["member1"].client, world.members["member1"].faults
        faults.hang.add(path("shop"))
        with pytest.raises(MemberUnavailable):
            await client.request("GET", path("shop"), params={"labelSelector": "app=slow"})
        faults.clear()
        serve(world, path("shop"))
        with pytest.raises(MemberUnavailable):
            await client.request("GET", path("shop"), params={"labelSelector": "app=slow"})
        answer = await client.request("GET", path("shop"), params={"labelSelector": "app=web"})

        assert answer.body == b"{}"


async def test_repetitions_take_no_trial() -> None:
    """While a group is refused, a caller's first request after the cooldown is let through.

    Requests of three namespaces are repeated in the background all the time.
    """
    async with federation("member1", deadline=3) as world, SharedLists(clock=loop_time) as lists:
        faults = world.members["member1"].faults
        faults.hang.add(ROOT)
        member, slow = world["member1"], [path(f"n{number}") for number in range(SLOW_IN_A_ROW)]
        async with background(reading(lists, member, slow, [])):
            await asyncio.sleep(SLOW_IN_A_ROW * 4 + COOLDOWN_SECONDS)
            faults.hang = {*slow}
            serve(world, path("shop"))
            found = await lists.get(member, path("shop"), None, values, max_age=10)

        assert found.value == (b"{}",)


async def test_a_repetition_ends_the_refusal_of_a_group() -> None:
    """Once the API answers again, a repeated request finds out, without a caller's trial."""
    async with federation("member1", deadline=3) as world, SharedLists(clock=loop_time) as lists:
        faults = world.members["member1"].faults
        faults.hang.add(ROOT)
        member, paths = world["member1"], [path(f"n{number}") for number in range(SLOW_IN_A_ROW)]
        for each in paths:
            with pytest.raises(MemberUnavailable):
                await lists.get(member, each, None, values, max_age=10)
        faults.clear()
        serve(world, *paths, path("shop"))
        await asyncio.sleep(3)

        assert (await member.client.request("GET", path("shop"))).body == b"{}"


async def test_repetitions_leave_slots_for_other_apis() -> None:
    """A hundred metrics that hang are repeated a few at a time, so other requests do not wait for a slot."""
    async with federation("member1", deadline=3) as world, SharedLists(clock=loop_time) as lists:
        faults = world.members["member1"].faults
        faults.hang.add(ROOT)
        member = world["member1"]
        hanging = [path("slow", f"m{number}") for number in range(100)]
        calls = (lists.get(member, each, None, values, max_age=10) for each in hanging)
        await asyncio.gather(*calls, return_exceptions=True)
        world.members["member1"].seen.clear()
        await asyncio.sleep(30)
        tried = len([seen for seen in world.members["member1"].seen if seen.path.startswith(ROOT)])
        began = loop_time()
        with pytest.raises(ApiError):
            await member.client.request("GET", "/apis/apps/v1/deployments/none")

        assert 100 < tried <= 11 * MAX_CONCURRENT_RETRIES
        assert loop_time() - began < 0.1
