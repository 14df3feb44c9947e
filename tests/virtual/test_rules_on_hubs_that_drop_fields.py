"""On a hub with Karmada's CRDs, which drop our fields, nothing is repeated and no rule runs incomplete."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support import karmada_crds
from tests.support.controller import ControllerWorld, world
from tests.support.fakeapi import Object
from tests.support.rules import (
    CRONS,
    DEPLOYMENT,
    autoscaled,
    bounds,
    minute_after,
    put_rules,
    rule_up,
    rules_running,
    run_rules,
    status,
    stored,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def annotate(w: ControllerWorld, applied: str) -> None:
    obj = stored(w)
    metadata = {**obj["metadata"], "annotations": {LAST_APPLIED: applied}}
    w.hub.put(CRONS, {**obj, "metadata": metadata})


def apply(w: ControllerWorld, *rules: Object) -> None:
    """Writes an object as `kubectl apply` does, with the whole manifest in its annotation."""
    put_rules(w, *rules)
    annotate(w, json.dumps({"spec": {"rules": list(rules)}}))


@asynccontextmanager
async def dropping_hub() -> AsyncIterator[ControllerWorld]:
    """A hub with Karmada's CRDs, which drop our fields, and an autoscaler."""
    async with world(m1=1) as w:
        karmada_crds.install(w.hub)
        w.scale()
        yield w


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


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("duration", "8h"),
        ("maxDelaySeconds", 60),
        ("excludeDates", ["2026-12-25"]),
        ("startDate", "2026-01-01"),
        ("endDate", "2099-01-01"),
        ("atLeast", True),
    ],
)
async def test_rules_whose_fields_were_dropped_do_not_run(field: str, value: object) -> None:
    """A rule lost a field of its manifest. It does not fire, and an event names rule and field."""
    async with dropping_hub() as w:
        plain = {"name": "plain", "schedule": minute_after(w, 3), "targetMaxReplicas": 30}
        whole = {"name": "whole", "schedule": minute_after(w, 2), "targetMinReplicas": 5, field: value}
        apply(w, plain, whole)
        await run_rules(w, 300)

        assert bounds(w) == (1, 30)
        reported = w.events("FieldsPruned", "office")
        assert len(reported) == 2
        assert f"rule whole does not run: spec.rules[1].{field}" in reported[1]


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


async def test_a_field_that_somebody_removed_is_no_loss() -> None:
    """On a hub that keeps all fields a rule runs without a field that was removed by an edit."""
    async with autoscaled() as w:
        rule = rule_up(w, 2)
        put_rules(w, rule)
        annotate(w, json.dumps({"spec": {"rules": [{**rule, "duration": "8h"}]}}))
        await run_rules(w, 300)

        assert bounds(w) == (5, 20)


async def test_condition_where_conditions_are_kept() -> None:
    """A CRD that drops only fields of rules keeps the conditions, which then say so."""
    async with world(m1=1) as w:
        known = karmada_crds.CRON_FEDERATED_HPA["properties"]
        karmada_crds.install(w.hub, {CRONS: {"properties": {"spec": known["spec"], "status": {}}}})
        w.scale()
        apply(w, {"name": "up", "schedule": minute_after(w, 2), "targetMinReplicas": 5, "duration": "8h"})
        await run_rules(w, 300)

        found = {each["type"]: (each["status"], each["reason"]) for each in status(w)["conditions"]}
        assert found == {"Ready": ("False", "FieldsPruned"), "HubCompatible": ("False", "FieldsPruned")}
        assert bounds(w) == (1, 20)


async def test_a_thousand_rules_are_not_repeated() -> None:
    """A restart repeats none of 1,000 rules."""
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
