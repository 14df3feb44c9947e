"""On a hub with Karmada's CRDs, which drop our fields, a restart of the controller forgets nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from fedhpa.api.record_annotation import RECORD_ANNOTATION
from fedhpa.cli.explain import ExplainFormat, explanation_of, render
from fedhpa.kube import ApiClient
from tests.support import karmada_crds
from tests.support.controller import HPAS, NAMESPACE, ControllerWorld, world
from tests.support.fakeapi import Object, eventually
from tests.virtual.test_crashes_forget_nothing import (
    BEHAVIOR,
    HIGH,
    LOW,
    PERIOD,
    WINDOW,
    peak_at_the_end_of_the_window,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)

GARBAGE = (
    "",
    "{",
    "[" * 16_000,
    '{"a":' * 1_500 + "1" + "}" * 1_500,
    "x" * 200_000,
    "\u00fc" * 16_000,
    '{"version":1,"uid":"uid-web"}',
    '{"version":1,"uid":"uid-web","decision":{}}',
    '{"version":1,"uid":"uid-web","decision":{"version":1,"time":"x"},"clusters":[1]}',
    '{"version":1,"uid":"uid-web","decision":{"version":1,"history":{"recommendations":[{"time":1}]}}}',
    '{"version":2,"uid":"uid-web","decision":[],"clusters":{}}',
    '{"version":1e999}',
)


def stored(w: ControllerWorld) -> Object:
    found = w.hub.find(HPAS, "web", NAMESPACE)
    assert found is not None
    return found


def record(w: ControllerWorld) -> Any:
    return json.loads(stored(w)["metadata"].get("annotations", {}).get(RECORD_ANNOTATION, "{}"))


def record_writes(w: ControllerWorld) -> int:
    return w.hub.request_count("PATCH", "/web")


def annotate(w: ControllerWorld, text: str) -> None:
    obj = stored(w)
    metadata = {**obj["metadata"], "annotations": {RECORD_ANNOTATION: text}}
    w.hub.put(HPAS, {**obj, "metadata": metadata})


@pytest.mark.parametrize("crash", [True, False])
async def test_peak_just_before_the_end_is_remembered(crash: bool) -> None:
    """The peak of 16 pods within the window holds the size after a restart, too."""
    async with world(m1=10, m2=10) as w:
        karmada_crds.install(w.hub)
        await peak_at_the_end_of_the_window(w, crash=crash)
        async with w.controller(sync_period=4 * PERIOD):
            await asyncio.sleep(60)
            after = sum(w.replicas.values())
            await asyncio.sleep(WINDOW)

        assert "decision" not in w.status()
        assert after == 16
        assert sum(w.replicas.values()) == 5


async def test_window_holds_over_a_restart() -> None:
    """The 20 pods of the window stay after a restart, and 5 follow when the window is over."""
    async with world(m1=10, m2=10) as w:
        karmada_crds.install(w.hub)
        w.load(HIGH)
        w.scale(behavior=BEHAVIOR)
        async with w.controller(sync_period=2 * PERIOD):
            await asyncio.sleep(WINDOW / 5)
            w.load(LOW)
            await asyncio.sleep(WINDOW / 2)
        async with w.controller(sync_period=2 * PERIOD):
            await asyncio.sleep(WINDOW / 3)
            within = sum(w.replicas.values())
            await asyncio.sleep(WINDOW / 2)

        assert within == 20
        assert sum(w.replicas.values()) == 5


async def test_record_is_written_as_rarely_as_the_status() -> None:
    """In an hour in which nothing but times change the record is written every ten minutes."""
    async with world(m1=2, m2=2) as w:
        karmada_crds.install(w.hub)
        w.load(200)
        w.scale()
        async with w.controller(sync_period=12 * PERIOD):
            await asyncio.sleep(600)
            before = record_writes(w), w.status_writes
            await asyncio.sleep(3600)
            written = record_writes(w) - before[0], w.status_writes - before[1]

        assert record(w)["decision"]["currentReplicas"] == 4
        assert written == (6, 6)


@pytest.mark.parametrize("text", GARBAGE, ids=map(str, range(len(GARBAGE))))
async def test_garbage_in_the_record_is_a_fresh_start(text: str) -> None:
    """The workload is scaled and the record renewed after somebody wrote nonsense into the annotation."""
    async with world(m1=2, m2=2) as w:
        karmada_crds.install(w.hub)
        w.load(400)
        w.scale()
        annotate(w, text)
        async with w.controller(sync_period=PERIOD) as controller:
            await eventually(lambda: sum(w.replicas.values()) == 8, 60)
            await eventually(lambda: "decision" in record(w), 60)
            failures = controller.total("fedhpa_controller_reconcile_failures_total")

        assert failures == 0
        assert record(w)["decision"]["desiredReplicas"] == 8


async def test_the_record_of_another_object_does_not_count() -> None:
    """A copy of an object, from a backup for example, does not start with the past of the original."""
    async with world(m1=10, m2=10) as w:
        karmada_crds.install(w.hub)
        w.load(HIGH)
        w.scale(behavior=BEHAVIOR)
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(60)
        text = stored(w)["metadata"]["annotations"][RECORD_ANNOTATION]
        w.hub.remove(HPAS, "web", NAMESPACE)
        for member in w.members.values():
            member.deploy(2)
        w.load(200)
        w.scale(behavior=BEHAVIOR)
        obj = stored(w)
        w.hub.put(HPAS, {**obj, "metadata": {**obj["metadata"], "uid": "another"}})
        annotate(w, text)
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(60)

        assert sum(w.replicas.values()) == 4


async def test_a_hub_that_keeps_fields_has_no_record() -> None:
    """A hub with our CRDs gets no annotation, and one from before is removed with the next status."""
    async with world(m1=2, m2=2) as w:
        w.load(200)
        w.scale()
        annotate(w, '{"version":1,"uid":"uid-web","decision":{}}')
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(60)

        assert RECORD_ANNOTATION not in stored(w)["metadata"].get("annotations", {})
        assert record_writes(w) == 1


async def test_a_record_that_is_refused_fails_the_object_visibly() -> None:
    """The workload is scaled although the hub refuses the annotation, and the failure is counted."""
    async with world(m1=2, m2=2) as w:
        karmada_crds.install(w.hub)
        w.hub.refused["PATCH", "/web"] = 403
        w.load(400)
        w.scale()
        async with w.controller(sync_period=PERIOD) as controller:
            await eventually(lambda: sum(w.replicas.values()) == 8, 60)
            await asyncio.sleep(60)
            failures = controller.total("fedhpa_controller_status_write_failures_total")

        assert failures > 0


async def test_explain_reads_the_record() -> None:
    """`fedhpa explain` shows the controller's own decision, and asks nobody else for it."""
    async with world(m1=2, m2=2) as w:
        karmada_crds.install(w.hub)
        w.load(400)
        w.scale()
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(60)
        before = len(w.hub.seen)
        async with ApiClient(w.hub.config()) as hub:
            found = await explanation_of(hub, stored(w), clock=w.clock)

        assert len(w.hub.seen) == before
        assert found.note == ""
        assert not found.is_fresh
        assert "8 replicas" in render(found.status, found.where, ExplainFormat.TEXT, w.clock.wall())
