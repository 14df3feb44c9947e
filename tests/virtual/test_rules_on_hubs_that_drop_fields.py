"""On a hub with Karmada's CRDs, which drop our fields, no fire is repeated and no rule runs incomplete."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fedhpa.api.record_annotation import MAX_RECORD_BYTES, RECORD_ANNOTATION
from fedhpa.cli.cron.explain import explanation
from tests.support import karmada_crds
from tests.support.controller import HPAS, NAMESPACE, ControllerWorld, world
from tests.support.fakeapi import Object
from tests.support.rules import (
    CRONS,
    DEPLOYMENT,
    FINALIZER,
    bounds,
    history,
    minute_after,
    put_rules,
    rule_up,
    rules_running,
    run_rules,
    status,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
GARBAGE = (
    "{",
    "[" * 16_000,
    "x" * 200_000,
    '{"version":1,"uid":"uid-office","executionHistories":5}',
    '{"version":1,"uid":"uid-office","executionHistories":[1,{"ruleName":[]}]}',
    '{"version":1,"uid":"uid-office","executionHistories":[{"ruleName":"up","handledUntil":5}]}',
    '{"version":1,"uid":"uid-office","window":{"target":5}}',
    '{"version":1,"uid":"uid-office","handledUntil":[],"rules":{}}',
    '{"version":1,"uid":"another","executionHistories":[{"ruleName":"up","handledUntil":"2999-01-01T00:00:00Z"}]}',
)


def cron(w: ControllerWorld) -> Object:
    found = w.hub.find(CRONS, "office", NAMESPACE)
    assert found is not None
    return found


def annotate(w: ControllerWorld, **annotations: str) -> None:
    obj = cron(w)
    names = {"record": RECORD_ANNOTATION, "applied": LAST_APPLIED}
    added = {names[name]: text for name, text in annotations.items()}
    metadata = obj["metadata"]
    metadata = {**metadata, "annotations": {**metadata.get("annotations", {}), **added}}
    w.hub.put(CRONS, {**obj, "metadata": metadata})


def record(w: ControllerWorld) -> Any:
    return json.loads(cron(w)["metadata"].get("annotations", {}).get(RECORD_ANNOTATION, "{}"))


def set_bounds(w: ControllerWorld, **values: int) -> None:
    obj = w.hub.find(HPAS, "web", NAMESPACE)
    assert obj is not None
    w.hub.put(HPAS, {**obj, "spec": {**obj["spec"], **values}})


def apply(w: ControllerWorld, *rules: Object) -> None:
    """Writes an object as `kubectl apply` does, with the whole manifest in its annotation."""
    put_rules(w, *rules)
    annotate(w, applied=json.dumps({"spec": {"rules": list(rules)}}))


@asynccontextmanager
async def dropping_hub() -> AsyncIterator[ControllerWorld]:
    """A hub with Karmada's CRDs, which drop our fields, and an autoscaler."""
    async with world(m1=1) as w:
        karmada_crds.install(w.hub)
        w.scale()
        yield w


async def test_fires_are_not_repeated_after_a_restart() -> None:
    """A value that somebody set after a fire stays over a restart of the controller."""
    async with dropping_hub() as w:
        put_rules(w, rule_up(w, 2))
        await run_rules(w, 180)
        set_bounds(w, minReplicas=3)
        await run_rules(w, 600)

        assert bounds(w) == (3, 20)
        assert "handledUntil" not in history(w)
        assert len(history(w)["successfulExecutions"]) == 1
        assert (
            record(w)["executionHistories"][0]["handledUntil"]
            == history(w)["successfulExecutions"][0]["scheduleTime"]
        )


async def test_fires_while_no_controller_ran_are_caught_up() -> None:
    """The record knows what was handled, so a fire during the restart is applied once."""
    async with dropping_hub() as w:
        put_rules(w, rule_up(w, 5))
        await run_rules(w, 60)
        await asyncio.sleep(600)
        await run_rules(w, 60)

        assert bounds(w) == (5, 20)
        assert len(history(w)["successfulExecutions"]) == 1


async def test_edited_schedule_fires_nothing_of_the_past() -> None:
    """A schedule that was edited while no controller ran starts at the edit."""
    async with dropping_hub() as w:
        put_rules(w, rule_up(w, 50))
        await run_rules(w, 60)
        past = minute_after(w, 2)
        await asyncio.sleep(300)
        put_rules(w, {"name": "up", "schedule": past, "targetMinReplicas": 5})
        await run_rules(w, 120)

        assert bounds(w) == (1, 20)


async def keeps_spec(w: ControllerWorld) -> None:
    """Installs a CRD that keeps the rules as they are, and drops our fields of the status."""
    schema = {**karmada_crds.CRON_FEDERATED_HPA["properties"], "spec": {}}
    karmada_crds.install(w.hub, {CRONS: {"properties": schema}})


async def test_windows_close_after_a_restart() -> None:
    """A window that was open when the controller stopped closes in time, and the baseline returns."""
    async with world(m1=1) as w:
        await keeps_spec(w)
        w.scale()
        rule = {"name": "sale", "schedule": minute_after(w, 2), "targetMinReplicas": 8, "duration": "20m"}
        put_rules(w, rule)
        await run_rules(w, 300)
        opened = bounds(w), list(cron(w)["metadata"]["finalizers"])
        assert "window" not in status(w)
        assert record(w)["window"]["open"][0]["rule"] == "sale"
        async with rules_running(w):
            await asyncio.sleep(300)
            within = bounds(w)
            await asyncio.sleep(900)

        assert opened == ((8, 20), [FINALIZER])
        assert within == (8, 20)
        assert bounds(w) == (1, 20)
        assert "window" not in record(w)
        assert cron(w)["metadata"]["finalizers"] == []


async def test_a_quiet_object_is_written_once() -> None:
    """Our own annotation is no reason for another pass."""
    async with dropping_hub() as w:
        put_rules(w, rule_up(w, 55))
        await run_rules(w, 3000)

        written = [line for line in w.hub.writes if "/cronfederatedhpas/" in line]
        assert [line.rpartition("/")[2] for line in written] == ["status", "office"]


@pytest.mark.parametrize("text", GARBAGE, ids=map(str, range(len(GARBAGE))))
async def test_garbage_in_the_record_stops_no_rule(text: str) -> None:
    """A rule fires on time although somebody wrote nonsense into the annotation."""
    async with dropping_hub() as w:
        put_rules(w, rule_up(w, 2))
        annotate(w, record=text)
        await run_rules(w, 180)

        assert bounds(w) == (5, 20)
        assert len(record(w)["executionHistories"]) == 1


@pytest.mark.parametrize(
    ("field", "value"), [("duration", "8h"), ("maxDelaySeconds", 60), ("excludeDates", ["2026-12-25"])]
)
async def test_rules_whose_fields_were_dropped_do_not_run(field: str, value: object) -> None:
    """A rule lost a field of its manifest. It does not fire, and an event names rule and field."""
    async with dropping_hub() as w:
        plain = {"name": "plain", "schedule": minute_after(w, 3), "targetMaxReplicas": 30}
        whole = {"name": "whole", "schedule": minute_after(w, 2), "targetMinReplicas": 5, field: value}
        apply(w, plain, whole)
        await run_rules(w, 300)

        assert bounds(w) == (1, 30)
        told = w.events("FieldsPruned", "office")
        assert len(told) == 2
        assert f"rule whole does not run: spec.rules[1].{field}" in told[1]


async def test_rules_run_again_once_the_hub_has_our_crd() -> None:
    """After our CRD and the manifest were applied the rule starts there, and fires nothing of before."""
    async with world(m1=1) as w:
        original = w.hub.put
        karmada_crds.install(w.hub)
        w.scale()
        rule = {"name": "up", "schedule": minute_after(w, 2), "targetMinReplicas": 5, "maxDelaySeconds": 3000}
        apply(w, rule)
        await run_rules(w, 300)
        w.hub.put = original  # type: ignore[method-assign]  # the CRD of this product
        w.hub.answers.clear()
        async with rules_running(w):
            await asyncio.sleep(60)
            before = bounds(w)
            await asyncio.sleep(60)
            apply(w, rule)
            await asyncio.sleep(600)
            after = bounds(w)
            await asyncio.sleep(3600)

        assert (before, after) == ((1, 20), (1, 20))
        assert bounds(w) == (5, 20)
        assert RECORD_ANNOTATION not in cron(w)["metadata"]["annotations"]


async def test_a_field_that_somebody_removed_is_no_loss() -> None:
    """On a hub that keeps all fields a rule runs without a field that was removed by an edit."""
    async with world(m1=1) as w:
        w.scale()
        rule = rule_up(w, 2)
        put_rules(w, rule)
        annotate(w, applied=json.dumps({"spec": {"rules": [{**rule, "duration": "8h"}]}}))
        await run_rules(w, 300)

        assert bounds(w) == (5, 20)


async def test_condition_where_conditions_are_kept() -> None:
    """A CRD that drops only fields of rules keeps the conditions, which then tell."""
    async with world(m1=1) as w:
        known = karmada_crds.CRON_FEDERATED_HPA["properties"]
        karmada_crds.install(w.hub, {CRONS: {"properties": {"spec": known["spec"], "status": {}}}})
        w.scale()
        apply(w, {"name": "up", "schedule": minute_after(w, 2), "targetMinReplicas": 5, "duration": "8h"})
        await run_rules(w, 300)

        found = {each["type"]: (each["status"], each["reason"]) for each in status(w)["conditions"]}
        assert found == {"Ready": ("False", "FieldsPruned"), "HubCompatible": ("False", "FieldsPruned")}
        assert bounds(w) == (1, 20)


async def test_explain_reads_the_record() -> None:
    """`fedhpa explain cronfhpa/NAME` shows the windows that the record has."""
    async with world(m1=1) as w:
        await keeps_spec(w)
        w.scale()
        put_rules(
            w, {"name": "sale", "schedule": minute_after(w, 2), "targetMinReplicas": 8, "duration": "20m"}
        )
        async with rules_running(w):
            await asyncio.sleep(300)
            found = explanation(cron(w))

        assert [window["rule"] for window in found["windows"]] == ["office/sale"]


async def test_a_thousand_rules_fit_and_are_not_repeated() -> None:
    """With 1,000 rules the record is at most 16 KiB, and a restart repeats none of them."""
    async with world(m1=1) as w:
        karmada_crds.install(w.hub)
        first, second = minute_after(w, 2), minute_after(w, 3)
        rules = [
            {
                "name": f"rule-{place:04}",
                "schedule": (first, second)[place % 2],
                "targetReplicas": 2 + place % 2,
            }
            for place in range(1000)
        ]
        put_rules(w, *rules, target=DEPLOYMENT)
        await run_rules(w, 300)
        written = w.replicas
        w.members["m1"].deploy(7)
        await run_rules(w, 300)

        assert written == {"m1": 3}
        assert w.replicas == {"m1": 7}
        assert len(cron(w)["metadata"]["annotations"][RECORD_ANNOTATION].encode()) <= MAX_RECORD_BYTES
