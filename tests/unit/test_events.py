"""Events are counted, combined and bounded, and recording them never waits or fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from fedhpa.kube.events import QUEUE_SIZE, EventRecorder, InvolvedObject
from tests.support.memory_api import MemoryApi

WEB = InvolvedObject("autoscaling.karmada.io/v1alpha1", "FederatedHPA", "web", "shop", uid="u1")
EVENTS = "/api/v1/namespaces/shop/events"

pytestmark = pytest.mark.looptime


@asynccontextmanager
async def recording(api: MemoryApi) -> AsyncIterator[EventRecorder]:
    """A recorder that writes, by the loop's clock."""
    now: Callable[[], float] = asyncio.get_running_loop().time
    recorder = EventRecorder(api, "fedhpa-controller", wall=lambda: 1_800_000_000.0 + now())
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder
    finally:
        task.cancel()
        await asyncio.wait([task])


def written(api: MemoryApi) -> list[tuple[int, str]]:
    """(count, message) of the events on the server."""
    return [(obj["count"], obj["message"]) for obj in api.objects.values()]


async def test_an_event_has_all_fields() -> None:
    """The written object has all fields that kubectl shows."""
    api = MemoryApi()
    async with recording(api) as recorder:
        recorder.event(WEB, "Normal", "SuccessfulRescale", "New size: 5")
        await recorder.flush(5)

    (path, event), *rest = api.objects.items()
    assert rest == []
    assert path.startswith(f"{EVENTS}/web.")
    assert event["involvedObject"] == {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "FederatedHPA",
        "namespace": "shop",
        "name": "web",
        "uid": "u1",
    }
    assert (event["type"], event["reason"], event["count"]) == ("Normal", "SuccessfulRescale", 1)
    assert event["source"] == {"component": "fedhpa-controller"}
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2027-01-15T08:00:00Z"


async def test_a_repetition_is_counted() -> None:
    """The same event again raises the count and the last time of the first."""
    api = MemoryApi()
    async with recording(api) as recorder:
        for _ in range(3):
            recorder.event(WEB, "Warning", "FailedGetScale", "not found")
            await asyncio.sleep(15)
        await recorder.flush(5)

    assert written(api) == [(3, "not found")]
    (event,) = api.objects.values()
    assert event["lastTimestamp"] == "2027-01-15T08:00:30Z"


async def test_similar_events_are_combined() -> None:
    """From the tenth message of one reason within ten minutes on they share one event."""
    api = MemoryApi()
    async with recording(api) as recorder:
        for number in range(12):
            recorder.event(WEB, "Normal", "SuccessfulRescale", f"New size: {number}")
        await recorder.flush(5)

    assert written(api)[:9] == [(1, f"New size: {number}") for number in range(9)]
    assert written(api)[9:] == [(3, "(combined from similar events): New size: 11")]


async def test_a_flood_of_events_is_limited() -> None:
    """After 25 events about one object one in five minutes is written; other objects are not affected."""
    api = MemoryApi()
    other = InvolvedObject("v1", "ConfigMap", "other", "shop")
    async with recording(api) as recorder:
        for _ in range(40):
            recorder.event(WEB, "Warning", "FailedGetScale", "not found")
        recorder.event(other, "Normal", "Fine", "fine")
        await recorder.flush(5)
        dropped = recorder.dropped
        await asyncio.sleep(301)
        recorder.event(WEB, "Warning", "FailedGetScale", "not found")
        await recorder.flush(5)

    assert dropped == 15
    assert written(api) == [(26, "not found"), (1, "fine")]


async def test_a_flood_of_one_reason_does_not_suppress_another() -> None:
    """A metric that fails at every reconcile does not suppress the event that the object was scaled."""
    api = MemoryApi()
    async with recording(api) as recorder:
        for _ in range(40):
            recorder.event(WEB, "Warning", "FailedGetResourceMetric", "no metrics")
        recorder.event(WEB, "Normal", "SuccessfulRescale", "New size: 5")
        await recorder.flush(5)

    assert written(api) == [(25, "no metrics"), (1, "New size: 5")]


async def test_a_deleted_event_is_written_again() -> None:
    """Events live for an hour; the next repetition creates a new one."""
    api = MemoryApi()
    async with recording(api) as recorder:
        recorder.event(WEB, "Normal", "Fine", "fine")
        await recorder.flush(5)
        api.objects.clear()
        await asyncio.sleep(1)
        recorder.event(WEB, "Normal", "Fine", "fine")
        await recorder.flush(5)

    assert written(api) == [(1, "fine")]


async def test_long_messages_are_truncated() -> None:
    """A message is at most 1,024 bytes of valid UTF-8."""
    api = MemoryApi()
    async with recording(api) as recorder:
        recorder.event(WEB, "Normal", "Long", "ä" * 2000)
        await recorder.flush(5)

    ((_, message),) = written(api)
    assert len(message.encode()) <= 1024
    assert message == "ä" * 510 + "..."


async def test_an_event_survives_an_outage() -> None:
    """A server that fails for a few seconds gets the event afterwards."""
    api = MemoryApi()
    api.fail = 503
    async with recording(api) as recorder:
        recorder.event(WEB, "Normal", "Fine", "fine")
        await asyncio.sleep(2)
        api.fail = None
        await recorder.flush(30)

    assert written(api) == [(1, "fine")]
    assert recorder.dropped == 0


async def test_a_refused_event_is_dropped() -> None:
    """A namespace that is being deleted refuses events; there is no second try."""
    api = MemoryApi()
    api.fail = 403
    async with recording(api) as recorder:
        recorder.event(WEB, "Normal", "Fine", "fine")
        await recorder.flush(5)

    assert recorder.dropped == 1
    assert len(api.calls) == 1


async def test_recording_never_waits() -> None:
    """With a server that hangs and a full queue, recording returns at once and counts the dropped events."""
    api = MemoryApi()
    api.hang = True
    async with recording(api) as recorder:
        for _ in range(QUEUE_SIZE + 10):
            recorder.event(WEB, "Normal", "Fine", "fine")

        assert recorder.dropped == 10


async def test_a_cluster_scoped_object() -> None:
    """Events about objects without a namespace go to `default`, as kubectl expects."""
    api = MemoryApi()
    async with recording(api) as recorder:
        about = InvolvedObject("cluster.karmada.io/v1alpha1", "Cluster", "member1")
        recorder.event(about, "Warning", "MemberLost", "gone")
        await recorder.flush(5)

    (path,) = api.objects
    assert path.startswith("/api/v1/namespaces/default/events/member1.")
