"""Callers share one list per member, namespace and period, also when it fails or a caller is cancelled."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import pytest

from fedhpa.api.errors import MemberUnavailable, MetricsUnavailable
from fedhpa.api.json import decode_json
from fedhpa.api.wire import ObjectList, PodMetrics
from fedhpa.cache import Fetched
from fedhpa.kube import Response
from fedhpa.members import lists as module
from fedhpa.members.lists import SharedLists, pod_metrics_path
from fedhpa.members.member import Member
from tests.support.fakeapi import Object
from tests.support.members import federation
from tests.support.timing import loop_time

pytestmark = pytest.mark.looptime(noop_cycles=0)

METRICS = ("metrics.k8s.io/v1beta1", "pods")
PATH = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"


def usage(name: str) -> Object:
    """Metrics of a pod."""
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "containers": [{"name": "app", "usage": {"cpu": "100m"}}],
    }


def decode_pod_metrics(body: bytes) -> list[PodMetrics]:
    """Returns the items of a PodMetricsList. Raises ValueError (msgspec.DecodeError) if it is not one."""
    return decode_json(body, ObjectList[PodMetrics]).items or []


async def pod_metrics(
    lists: SharedLists, member: Member, namespace: str, max_age: float
) -> Fetched[list[PodMetrics]]:
    """Returns the metrics of a namespace's pods."""
    return await lists.get(member, pod_metrics_path(namespace), None, decode_pod_metrics, max_age=max_age)


async def names(lists: SharedLists, member: Member, max_age: float = 10.0) -> list[str]:
    """Returns the names of the pods that have metrics."""
    fetched = await pod_metrics(lists, member, "shop", max_age)
    return [item.metadata.name for item in fetched.value]


@pytest.mark.parametrize("compressed", [False, True])
async def test_an_unchanged_answer_is_not_decoded_again(compressed: bool) -> None:
    """The bytes that arrive decide. An answer that changes and changes back is decoded each time."""
    async with federation("member1") as world, SharedLists(clock=loop_time) as lists:
        api, member = world.members["member1"], world["member1"]
        decoded: list[bytes] = []

        def decode(body: bytes) -> list[bytes]:
            decoded.append(body)
            return [body]

        found = []
        for text in (b"one", b"one", b"two", b"one", b"one"):
            api.faults.headers = {"Content-Encoding": "gzip"} if compressed else {}
            api.faults.status[PATH] = 200
            api.faults.body[PATH] = gzip.compress(text, mtime=0) if compressed else text
            found.append(await lists.get(member, PATH, None, decode, max_age=0))
            await asyncio.sleep(1)

        assert [one.value for one in found] == [[b"one"], [b"one"], [b"two"], [b"one"], [b"one"]]
        assert decoded == [b"one", b"two", b"one"]
        assert found[0].value is found[1].value
        assert [round(one.fetched_at - found[0].fetched_at) for one in found] == [0, 1, 2, 3, 4]
        assert lists.fetches == 5


async def test_an_answer_that_cannot_be_read_is_never_an_unchanged_one() -> None:
    """After an error, the answer of before is decoded again only if it is sent again."""
    async with federation("member1") as world, SharedLists(clock=loop_time) as lists:
        api, member = world.members["member1"], world["member1"]
        api.put(METRICS, usage("a"))
        before = await names(lists, member, 0)
        api.faults.body[PATH] = b"{"
        for _ in range(2):
            with pytest.raises(MetricsUnavailable):
                await names(lists, member, 0)
            await asyncio.sleep(3)
        api.faults.clear()

        assert await names(lists, member, 0) == before == ["a"]


async def test_a_failure_is_cached_briefly() -> None:
    """All waiting callers and those of the next two seconds get the error; then it is tried again."""
    now = 0.0
    async with federation("member1") as world, SharedLists(clock=lambda: now) as lists:
        api, member = world.members["member1"], world["member1"]
        api.faults.status[PATH] = 503
        errors = await asyncio.gather(*(names(lists, member) for _ in range(10)), return_exceptions=True)
        now = 1.9
        with pytest.raises(MetricsUnavailable):
            await names(lists, member)
        fetched = lists.fetches
        api.faults.clear()
        now = 2.1

        said = f"cluster 'member1': the server is currently unable to handle the request (GET {PATH})"
        assert {str(error) for error in errors} == {said}
        assert fetched == 1
        assert await names(lists, member) == []


async def test_a_hanging_api_costs_its_deadline_once() -> None:
    """After that it is tried in the background and no caller waits; its answers are used when it is back."""
    async with federation("member1", deadline=3) as world, SharedLists(clock=loop_time) as lists:
        api, member = world.members["member1"], world["member1"]
        api.faults.hang.add("/apis/metrics.k8s.io")
        waited: list[float] = []
        for _ in range(30):
            began = loop_time()
            with pytest.raises(MemberUnavailable, match="no answer within 3 s"):
                await names(lists, member)
            waited.append(loop_time() - began)
            await asyncio.sleep(4)
        tried = lists.fetches
        api.faults.clear()
        api.put(METRICS, usage("a"))
        await asyncio.sleep(10)

        assert waited[0] == pytest.approx(3, abs=0.1)
        assert max(waited[1:]) < 0.1
        assert tried >= 20
        assert await names(lists, member) == ["a"]


async def test_background_tries_end_without_callers() -> None:
    """The background tries stop when no caller has wanted the answer for a while."""
    async with federation("member1", deadline=3) as world, SharedLists(clock=loop_time) as lists:
        world.members["member1"].faults.hang.add("/apis/metrics.k8s.io")
        with pytest.raises(MemberUnavailable):
            await names(lists, world["member1"])
        await asyncio.sleep(module.WANTED_SECONDS + 10)
        tried = lists.fetches
        await asyncio.sleep(60)

        assert lists.fetches == tried > 3


@pytest.mark.parametrize("body", [b'{"items":[{"metadata":', b"[]", b'{"items":[{"containers":3}]}', b"\xff"])
async def test_an_invalid_list(body: bytes) -> None:
    """A body that cannot be decoded is MetricsUnavailable, never an empty list."""
    async with federation("member1") as world, SharedLists(clock=loop_time) as lists:
        world.members["member1"].faults.body[PATH] = body

        with pytest.raises(MetricsUnavailable, match="cluster 'member1'"):
            await names(lists, world["member1"])


async def test_an_empty_list_of_a_go_server() -> None:
    """`items: null` is an empty list."""
    assert decode_pod_metrics(b'{"kind":"PodMetricsList","metadata":{},"items":null}') == []
    assert [type(item) for item in decode_pod_metrics(b'{"items":[{}]}')] == [PodMetrics]


async def test_the_cache_is_bounded_in_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound the oldest are dropped, selections before whole lists; the others stay cached."""
    monkeypatch.setattr(module, "MAX_ENTRIES", 8)
    async with federation("member1") as world, SharedLists(clock=loop_time) as lists:
        member = world["member1"]
        await pod_metrics(lists, member, "shop", 60)
        for number in range(100):
            params = {"labelSelector": f"app=a{number}"}
            await lists.get(member, PATH, params, decode_pod_metrics, max_age=60)

            assert len(lists._cache._entries) <= 8

        await pod_metrics(lists, member, "shop", 60)
        await lists.get(member, PATH, {"labelSelector": "app=a99"}, decode_pod_metrics, max_age=60)
        asked = lists.fetches
        await lists.get(member, PATH, {"labelSelector": "app=a1"}, decode_pod_metrics, max_age=60)

        assert (asked, lists.fetches) == (101, 102)


async def test_the_cache_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large answers, long names and errors count; dropped entries do not."""
    monkeypatch.setattr(module, "MAX_BYTES", 100_000)
    async with federation("member1") as world, SharedLists(clock=loop_time) as lists:
        member = world["member1"]
        world.members["member1"].faults.body[PATH] = b'{"items":[]}' + b" " * 10_000
        for number in range(50):
            params = {"labelSelector": f"app=a{number}"}
            await lists.get(member, PATH, params, decode_pod_metrics, max_age=60)
            with pytest.raises(MetricsUnavailable):
                await lists.get(
                    member, f"/nowhere/{'a' * 1000}{number}", None, decode_pod_metrics, max_age=60
                )

            assert (
                sum(entry.weight for entry in lists._cache._entries.values())
                == lists._cache.weight
                <= 100_000
            )

        await asyncio.sleep(3 * module.KEEP_SECONDS)
        await names(lists, member)

        assert len(lists._cache._entries) == 1


async def test_concurrent_requests_to_a_member_are_bounded() -> None:
    """A hundred selections use a few connections; if these hang, the others fail with them."""
    async with federation("member1", deadline=3) as world, SharedLists(clock=loop_time) as lists:
        api, member = world.members["member1"], world["member1"]

        async def ask(number: int) -> None:
            params = {"labelSelector": f"app=a{number}"}
            await lists.get(member, PATH, params, decode_pod_metrics, max_age=60)

        await asyncio.gather(*(ask(number) for number in range(100)))
        answered = len(api.queries(PATH))
        api.faults.hang.add("/apis/metrics.k8s.io")
        began = loop_time()
        results = await asyncio.gather(*(ask(number) for number in range(100, 200)), return_exceptions=True)

        assert answered == 100
        assert {type(result) for result in results} == {MemberUnavailable}
        assert loop_time() - began == pytest.approx(3, abs=0.1)
        assert len(api.queries(PATH)) - answered == module.MAX_CONCURRENT


async def test_concurrent_large_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Possibly large answers wait for a slot, across members; selections and small answers do not."""
    monkeypatch.setattr(module, "MAX_CONCURRENT_LARGE", 2)
    async with federation("member1", "member2", deadline=20) as world, SharedLists(clock=loop_time) as lists:
        one, two = world["member1"], world["member2"]
        await names(lists, two, max_age=0)
        world.members["member1"].faults.hang.add("/apis/metrics.k8s.io")
        waits = [asyncio.create_task(pod_metrics(lists, one, space, 0)) for space in ("a", "b")]
        await asyncio.sleep(1)
        began = loop_time()
        await names(lists, two, max_age=0)
        await lists.get(two, PATH, {"labelSelector": "app=a"}, decode_pod_metrics, max_age=0)
        quick = loop_time() - began
        waits.append(asyncio.create_task(pod_metrics(lists, two, "new", 0)))
        await asyncio.sleep(10)

        assert quick < 0.1
        assert not waits[2].done()
        first, second, third = await asyncio.gather(*waits, return_exceptions=True)
        assert isinstance(first, MemberUnavailable)
        assert isinstance(second, MemberUnavailable)
        assert not isinstance(third, BaseException)
        assert loop_time() - began == pytest.approx(19, abs=0.5)


async def test_waiting_for_a_slot_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a request without a slot names the number of requests before it."""
    monkeypatch.setattr(module, "MAX_CONCURRENT", 2)
    monkeypatch.setattr(module, "QUEUE_SECONDS", 5.0)
    async with federation("member1", deadline=60) as world, SharedLists(clock=loop_time) as lists:
        world.members["member1"].faults.hang.add("/apis/metrics.k8s.io")
        waits = [
            asyncio.create_task(
                lists.get(world["member1"], PATH, {"n": str(number)}, decode_pod_metrics, max_age=60)
            )
            for number in range(3)
        ]
        await asyncio.sleep(6)

        assert [wait.done() for wait in waits] == [False, False, True]
        with pytest.raises(MemberUnavailable, match="2 requests to it are under way, and none ended in 5 s"):
            await waits[2]
        for wait in waits:
            wait.cancel()
        await asyncio.wait(waits)


async def test_a_caller_over_its_limit_gets_cached_answers_only() -> None:
    """A refused request leaves no entry behind."""

    def enough() -> None:
        raise PermissionError

    async with federation("member1") as world, SharedLists(clock=loop_time) as lists:
        member = world["member1"]
        await names(lists, member)
        token = module.CALLER_QUOTA.set(enough)
        try:
            await names(lists, member)
            with pytest.raises(PermissionError):
                await lists.get(member, PATH, {"labelSelector": "a=b"}, decode_pod_metrics, max_age=60)
        finally:
            module.CALLER_QUOTA.reset(token)

        assert (lists.fetches, len(lists._cache._entries)) == (1, 1)


@pytest.mark.parametrize(("huge", "requests", "at_once"), [(False, 20, 2), (True, 30, 1)])
async def test_a_member_cannot_send_many_large_answers_at_once(
    monkeypatch: pytest.MonkeyPatch, huge: bool, requests: int, at_once: int
) -> None:
    """Selections are expected to be small. Those that are not wait for the slots of large answers.

    A member with 64 answers of 96 MB would otherwise end the process. So would eight, and one that is larger
    than 24 MB waits until no other one is awaited.
    """
    small, large = 1_000, 1_500 if huge else 10_000
    monkeypatch.setattr(module, "MAX_CONCURRENT_LARGE", 2)
    monkeypatch.setattr(module, "LIMIT_OF_SMALL", small)
    monkeypatch.setattr(module, "LIMIT_OF_LARGE", large)
    async with federation("member1", "member2", deadline=3) as world, SharedLists(clock=loop_time) as lists:
        api, member = world.members["member1"], world["member1"]
        head = b'{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[]}'
        api.faults.body[PATH] = head + b" " * 2_000
        request, now, most = member.client.request, 0, 0

        async def counted(*arguments: Any, limit: int | None, **options: Any) -> Response:
            nonlocal now, most
            counts = limit == (None if huge else large)
            now += counts
            most = max(most, now)
            await asyncio.sleep(counts)
            try:
                return await request(*arguments, limit=limit, **options)
            finally:
                now -= counts

        monkeypatch.setattr(member.client, "request", counted)
        asked = [
            lists.get(member, PATH, {"labelSelector": f"app=a{number}"}, decode_pod_metrics, max_age=0)
            for number in range(10)
        ]
        answers = await asyncio.gather(*asked)

    assert [one.value for one in answers] == [[]] * 10
    assert lists.fetches == requests
    assert most == at_once
