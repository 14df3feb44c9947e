"""A CronFederatedHPA without its target is not Ready, long before one of its rules is due."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controller.flags import DIRECT, KARMADA
from tests.support.controller import EVENTS, HPAS, NAMESPACE, ControllerWorld, world
from tests.support.fakeapi import Object
from tests.support.rules import DEPLOYMENT, FHPA, minute_after, put_rules, ready, rules_running, status

pytestmark = pytest.mark.looptime(noop_cycles=0)

ABSENT = {**DEPLOYMENT, "name": "wbe"}


def late_rule(w: ControllerWorld, field: str = "targetReplicas") -> Object:
    """A rule that is due in half an hour."""
    return {"name": "up", "schedule": minute_after(w, 30), field: 3}


def message(w: ControllerWorld) -> Any:
    return next(each["message"] for each in status(w)["conditions"] if each["type"] == "Ready")


@pytest.mark.parametrize(
    ("propagation", "text"),
    [
        (DIRECT, f"Deployment {NAMESPACE}/wbe does not exist in any member"),
        (KARMADA, f"Deployment {NAMESPACE}/wbe does not exist"),
    ],
)
async def test_a_workload_that_does_not_exist(propagation: str, text: str) -> None:
    """Condition and event name the target and the remedy, and a restart does not repeat the event."""
    async with world(m1=1) as w:
        put_rules(w, late_rule(w), target=ABSENT)
        async with rules_running(w, propagation=propagation):
            await asyncio.sleep(300)
            assert ready(w) == ("False", "TargetNotFound")
        async with rules_running(w, propagation=propagation):
            await asyncio.sleep(300)
        events = [one for one in w.hub.all(EVENTS) if one["reason"] == "TargetNotFound"]

    assert message(w) == f"{text}: create it, or correct spec.scaleTargetRef"
    assert [(one["message"], one["count"]) for one in events] == [(message(w), 1)]


async def test_a_target_that_appears_makes_it_ready() -> None:
    """A workload is found within a minute, and the event returns only with the next absence."""
    async with world(m1=1) as w:
        put_rules(w, late_rule(w), target=ABSENT)
        async with rules_running(w, propagation=KARMADA):
            await asyncio.sleep(30)
            before = ready(w)
            w.hub.deploy(1, name="wbe")
            await asyncio.sleep(61)
            after = ready(w)

    assert (before, after) == (("False", "TargetNotFound"), ("True", "RulesRun"))


async def test_a_federatedhpa_that_comes_and_goes_is_seen_at_once() -> None:
    """The watch of FederatedHPAs tells: no time passes between the change and the condition but a pass."""
    async with world(m1=1) as w:
        put_rules(w, late_rule(w, "targetMinReplicas"), target=FHPA)
        async with rules_running(w):
            await asyncio.sleep(2)
            seen = [ready(w)]
            w.scale()
            await asyncio.sleep(2)
            seen.append(ready(w))
            w.hub.remove(HPAS, "web", NAMESPACE)
            await asyncio.sleep(2)
            seen.append(ready(w))

    assert seen == [("False", "TargetNotFound"), ("True", "RulesRun"), ("False", "TargetNotFound")]
    [event] = [one for one in w.hub.all(EVENTS) if one["reason"] == "TargetNotFound"]
    assert event["count"] == 2


async def test_a_workload_that_is_deleted_is_missed() -> None:
    """Nobody watches workloads, so one that was there is looked for every ten minutes."""
    async with world(m1=1) as w:
        w.hub.deploy(1)
        put_rules(w, late_rule(w), target=DEPLOYMENT)
        async with rules_running(w, propagation=KARMADA):
            await asyncio.sleep(10)
            before = ready(w)
            w.hub.remove(("apps/v1", "deployments"), "web", NAMESPACE)
            await asyncio.sleep(600)
            after = ready(w)

    assert (before, after) == (("True", "RulesRun"), ("False", "TargetNotFound"))


async def test_a_member_that_does_not_answer_is_no_absence() -> None:
    """An error says nothing of the target: the condition stays as it was."""
    async with world(m1=1) as w:
        w.members["m1"].held.add(("GET", "/deployments/wbe/scale"))
        put_rules(w, late_rule(w), target=ABSENT)
        async with rules_running(w, propagation=DIRECT):
            await asyncio.sleep(120)
            assert ready(w) == ("True", "RulesRun")

    assert not w.events("TargetNotFound", "office")
