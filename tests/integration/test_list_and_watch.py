"""A reflector's store equals the collection, whatever fails in list and watch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from benchmarks.world.network import MemoryNetwork
from fedhpa.api.wire import Pod
from fedhpa.kube import SYSTEM
from fedhpa.kube.client import ApiClient
from fedhpa.kube.records import Key
from fedhpa.kube.reflector import Reflector
from fedhpa.kube.supervision import Backoff
from tests.support.fakeapi import PATIENCE, PODS, FakeApi, eventually, fake_api, pod

PATH = "/api/v1/pods"
NAMED = {"name": "a", "namespace": "default"}


def app_of(item: Pod) -> str | None:
    """The record in these tests is the label `app`; a pod without it is left out."""
    return (item.metadata.labels or {}).get("app")


def quick() -> Backoff:
    """A backoff that is short enough for tests."""
    return Backoff(0.01, 0.05)


@asynccontextmanager
async def reflecting(
    client: ApiClient,
    make: Callable[[Pod], str | None] = app_of,
    *,
    watch_idle: float = 90.0,
    page_size: int = 500,
) -> AsyncIterator[Reflector[str]]:
    """A reflector that runs and has listed once."""
    reflector = Reflector(
        client,
        PATH,
        Pod,
        make,
        backoff=quick(),
        watch_idle=watch_idle,
        list_idle=PATIENCE,
        page_size=page_size,
        clock=SYSTEM.monotonic,
    )
    task = asyncio.create_task(reflector.run())
    try:
        async with asyncio.timeout(PATIENCE):
            await reflector.synced.wait()
        yield reflector
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


async def settled(api: FakeApi, reflector: Reflector[str]) -> None:
    """Wait until the watch is open and the store is complete."""
    await eventually(lambda: api.watching == 1 and reflector.problem is None)


def apps(reflector: Reflector[str]) -> dict[str, str]:
    """The store by pod name."""
    return {name: app for (_, name), app in reflector.store.items()}


async def test_changes_arrive_in_order() -> None:
    """Each addition, change and deletion is reported once, with the old record."""
    async with fake_api() as api, ApiClient(api.config()) as client:
        api.put(PODS, pod("a", app="web"))
        async with reflecting(client) as reflector:
            seen: list[tuple[Key, str | None, str | None]] = []
            reflector.subscribe(lambda *change: seen.append(change))
            await settled(api, reflector)
            api.put(PODS, pod("b", app="web"))
            api.put(PODS, pod("b", app="db"))
            api.remove(PODS, "a", "default")
            await eventually(lambda: apps(reflector) == {"b": "db"})

        assert seen == [
            (("default", "b"), None, "web"),
            (("default", "b"), "web", "db"),
            (("default", "a"), "web", None),
        ]


async def test_a_change_outside_the_record_is_not_reported() -> None:
    """A change in an unused field is not reported; a pod that leaves the selection is reported as deleted."""
    async with fake_api() as api, ApiClient(api.config()) as client:
        api.put(PODS, pod("a", app="web"))
        async with reflecting(client) as reflector:
            seen: list[tuple[Key, str | None, str | None]] = []
            reflector.subscribe(lambda *change: seen.append(change))
            await settled(api, reflector)
            api.put(PODS, pod("a", app="web", other="label"))
            api.put(PODS, pod("a"))
            await eventually(lambda: not reflector.store)

        assert seen == [(("default", "a"), "web", None)]


async def test_the_list_is_paged() -> None:
    """A large collection is listed completely, in pages."""
    async with fake_api() as api, ApiClient(api.config()) as client:
        for number in range(5):
            api.put(PODS, pod(f"web-{number}", app="web"))
        async with reflecting(client, page_size=2) as reflector:
            assert len(reflector.store) == 5

        assert [query.get("limit") for query in api.queries("/pods")][:3] == ["2", "2", "2"]


async def test_a_watch_continues_from_the_last_bookmark() -> None:
    """When a watch ends, the next one starts at the last bookmark, without a new list."""
    async with fake_api() as api, ApiClient(api.config()) as client, reflecting(client) as reflector:
        await settled(api, reflector)
        version = api.bookmark()
        await eventually(lambda: reflector.resource_version == version)
        api.end_watches()
        await eventually(lambda: len(api.queries("/pods")) == 3)
        await settled(api, reflector)

        assert api.queries("/pods")[-1]["resourceVersion"] == version
        assert api.queries("/pods")[-1]["allowWatchBookmarks"] == "true"
        assert reflector.lists == 1


async def test_an_expired_version_is_listed_again() -> None:
    """A 410 to the watch leads to a new list, which reports what was deleted meanwhile."""
    async with fake_api() as api, ApiClient(api.config()) as client:
        api.put(PODS, pod("a", app="web"))
        api.put(PODS, pod("b", app="web"))
        async with reflecting(client) as reflector:
            await settled(api, reflector)
            api.forget(PODS, "a", "default")
            api.expire()
            api.end_watches()
            await eventually(lambda: apps(reflector) == {"b": "web"})

            assert reflector.lists == 2


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b'{"type":"MODIFIED"}',
        b'{"type":"MODIFIED","object":{"metadata":{"name":7}}}',
        b'{"type":"MODIFIED","object":[]}',
        b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd"}}',
        b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}',
        b"\xff\xfe",
    ],
)
async def test_an_unreadable_line(line: bytes) -> None:
    """The change in the line is unknown, so the collection is listed again."""
    async with fake_api() as api, ApiClient(api.config()) as client:
        api.put(PODS, pod("a", app="web"))
        async with reflecting(client) as reflector:
            await settled(api, reflector)
            api.forget(PODS, "a", "default")
            api.send(line)
            await eventually(lambda: reflector.lists == 2 and not reflector.store)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "MODIFIED", "object": {"metadata": {"name": "a", "namespace": "default"}}},
        {"type": "DELETED", "object": {"metadata": {"name": "a", "namespace": "default"}}},
        {"type": "DELETED", "object": {"apiVersion": "v1", "kind": "Secret", "metadata": NAMED}},
        {"type": "DELETED", "object": {"apiVersion": "v2", "kind": "Pod", "metadata": NAMED}},
        {"type": "ADDED", "object": {"apiVersion": "v1", "kind": "PodList", "metadata": NAMED}},
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}},
        {"type": "BOOKMARK", "object": {"apiVersion": "v1", "kind": "Node", "metadata": NAMED}},
        {"type": "MODIFIED", "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {}}},
        {"type": "deleted", "object": {"apiVersion": "v1", "kind": "Pod", "metadata": NAMED}},
        {"type": "DELETED", "object": {"status": "ok"}},
    ],
    ids=json.dumps,
)
async def test_an_event_that_is_none_of_the_collection(event: dict[str, Any]) -> None:
    """An event about something else is a failure that is counted, and the collection is listed again."""
    async with fake_api() as api, ApiClient(api.config()) as client:
        api.put(PODS, pod("a", app="web"))
        async with reflecting(client) as reflector:
            await settled(api, reflector)
            seen: list[tuple[Key, str | None, str | None]] = []
            reflector.subscribe(lambda *change: seen.append(change))
            api.send(json.dumps(event).encode())
            await eventually(lambda: reflector.lists == 2)

            assert apps(reflector) == {"a": "web"}
            assert seen == []
            assert reflector.failures == 1


async def test_a_bookmark_with_a_name_changes_no_object() -> None:
    """A bookmark moves the version and nothing else, whatever its object has."""
    async with fake_api() as api, ApiClient(api.config()) as client:
        api.put(PODS, pod("a", app="web"))
        async with reflecting(client) as reflector:
            await settled(api, reflector)
            named = {**NAMED, "labels": {"app": "other"}, "resourceVersion": "900"}
            event = {"type": "BOOKMARK", "object": {"apiVersion": "v1", "kind": "Pod", "metadata": named}}
            api.send(json.dumps(event).encode())
            await eventually(lambda: reflector.resource_version == "900")

            assert apps(reflector) == {"a": "web"}


async def test_an_unreadable_object_is_left_out() -> None:
    """An object with a field of the wrong type does not hide the others, in the list or in the watch."""
    async with fake_api() as api, ApiClient(api.config()) as client:
        broken = {"metadata": {"name": "x", "namespace": "default"}, "spec": {"nodeName": 7}}
        api.put(PODS, dict(broken))
        api.put(PODS, pod("a", app="web"))
        with capture_logs() as logs:
            async with reflecting(client) as reflector:
                await settled(api, reflector)
                api.put(PODS, dict(broken))
                api.put(PODS, pod("b", app="web"))
                await eventually(lambda: apps(reflector) == {"a": "web", "b": "web"})

        assert [entry["name"] for entry in logs if entry["event"] == "object cannot be read"] == ["x", "x"]


async def test_a_record_that_cannot_be_made_is_left_out() -> None:
    """An object for which `make` fails is logged and left out."""

    def picky(item: Pod) -> str | None:
        if item.metadata.name == "x":
            raise KeyError("boom")
        return app_of(item)

    async with fake_api() as api, ApiClient(api.config()) as client:
        api.put(PODS, pod("x", app="web"))
        api.put(PODS, pod("a", app="web"))
        async with reflecting(client, picky) as reflector:
            assert apps(reflector) == {"a": "web"}


async def test_a_listener_that_fails_does_not_stop_the_others() -> None:
    """Every listener gets every change."""

    def bad(*_: object) -> None:
        raise RuntimeError("boom")

    async with fake_api() as api, ApiClient(api.config()) as client, reflecting(client) as reflector:
        seen: list[tuple[Key, str | None, str | None]] = []
        reflector.subscribe(bad)
        reflector.subscribe(lambda *change: seen.append(change))
        await settled(api, reflector)
        api.put(PODS, pod("a", app="web"))
        await eventually(lambda: len(seen) == 1)


@pytest.mark.looptime(noop_cycles=0)
@pytest.mark.parametrize("fault", ["status", "truncate", "hang", "garbage"])
async def test_a_list_that_fails_is_tried_again(fault: str) -> None:
    """A server that fails, hangs or answers nonsense is listed once it has recovered."""
    async with fake_api(network=MemoryNetwork()) as api, ApiClient(api.config()) as client:
        api.put(PODS, pod("a", app="web"))
        if fault == "status":
            api.faults.status[PATH] = 500
        elif fault == "garbage":
            api.faults.body[PATH] = b'{"items": [{'
        else:
            getattr(api.faults, fault).add(PATH)
        reflector = Reflector(
            client, PATH, Pod, app_of, backoff=quick(), list_idle=0.2, clock=SYSTEM.monotonic
        )
        task = asyncio.create_task(reflector.run())

        await eventually(lambda: reflector.failures >= 2)
        assert not reflector.synced.is_set()
        assert reflector.problem
        api.faults.clear()
        await eventually(lambda: apps(reflector) == {"a": "web"} and reflector.problem is None)

        task.cancel()
        await asyncio.wait([task])


async def test_a_silent_watch_is_replaced() -> None:
    """A watch without event or bookmark for its idle time is opened again, without a new list."""
    async with (
        fake_api() as api,
        ApiClient(api.config()) as client,
        reflecting(client, watch_idle=0.1) as reflector,
    ):
        await eventually(lambda: len(api.queries("/pods")) >= 4)

        assert reflector.lists == 1


async def test_a_server_that_goes_is_logged_once() -> None:
    """One line when it goes and one when it returns, however many collections are read from it."""
    async with fake_api() as api, ApiClient(api.config()) as client, AsyncExitStack() as stack:
        with capture_logs() as logs:
            found = [await stack.enter_async_context(reflecting(client)) for _ in range(20)]
            await eventually(lambda: api.watching == len(found))
            began = len(logs)
            api.faults.status["/"] = 503
            api.end_watches()
            await eventually(lambda: all(reflector.failures >= 3 for reflector in found))
            api.faults.clear()
            await eventually(lambda: all(reflector.problem is None for reflector in found))

    told = [entry["event"] for entry in logs[began:] if entry["log_level"] != "debug"]
    assert told == ["API server does not answer", "API server answers again"]


async def test_a_problem_of_one_collection_is_logged_of_it() -> None:
    """A missing permission is no outage: the line names the collection, and repetitions are at debug."""
    async with fake_api() as api, ApiClient(api.config()) as client:
        with capture_logs() as logs:
            async with reflecting(client) as reflector:
                await settled(api, reflector)
                began = len(logs)
                api.faults.status["/"] = 403
                api.end_watches()
                await eventually(lambda: reflector.failures >= 3)
                api.faults.clear()
                await settled(api, reflector)

    told = [(entry["event"], entry["collection"]) for entry in logs[began:] if entry["log_level"] == "info"]
    name = reflector._about["collection"]
    assert told == [("list or watch failed", name), ("list and watch work", name)]


async def test_no_task_is_left_behind() -> None:
    """Fifty reflectors that start and stop leave no task behind."""
    # Without TLS: fifty handshakes would take minutes on a slow machine.
    async with fake_api(tls=False) as api, ApiClient(api.config()) as client:
        before = len(asyncio.all_tasks())
        for _ in range(50):
            async with reflecting(client) as reflector:
                assert reflector.synced.is_set()
        await eventually(lambda: api.watching == 0)
        await client.close()
        await eventually(lambda: len(asyncio.all_tasks()) <= before)


HEAD = b'{"kind":"PodList","apiVersion":"v1",'


@pytest.mark.parametrize("levels", [300, 974, 1_200, 50_000])
async def test_an_object_that_is_nested_too_deeply_is_left_out(levels: int) -> None:
    """An object that cannot be decoded for its nesting hides no other, and is no obstacle to the watch."""
    deep = b'{"metadata":{"name":"deep","namespace":"default"},"spec":{"x":%b1%b}}' % (
        b"[" * levels,
        b"]" * levels,
    )
    well = b'{"metadata":{"name":"a","namespace":"default","labels":{"app":"web"}}}'
    body = b'%b"metadata":{"resourceVersion":"100"},"items":[%b,%b]}' % (HEAD, deep, well)

    def name(item: dict[str, Any]) -> str:
        return str(item["metadata"]["name"])

    async with fake_api() as api, ApiClient(api.config()) as client:
        api.faults.body[PATH] = body
        reflector = Reflector(client, PATH, dict[str, Any], name, backoff=quick(), clock=SYSTEM.monotonic)
        task = asyncio.create_task(reflector.run())
        await eventually(lambda: reflector.synced.is_set())

        assert list(reflector.store.values()) == ["a"]
        api.faults.clear()
        await eventually(lambda: api.watching == 1)
        api.send(b'{"type":"MODIFIED","object":' + deep + b"}")
        api.put(PODS, pod("b", app="web"))
        await eventually(lambda: "b" in reflector.store.values())
        assert not task.done()
        task.cancel()
        await asyncio.wait([task])
