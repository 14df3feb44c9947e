"""A rule that scales the workload of a FederatedHPA: both objects say so until one of them is gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.controller import HPAS, NAMESPACE, ControllerWorld, federated_hpa, world
from tests.support.fakeapi import Collection, Object
from tests.support.rules import CRONS, DEPLOYMENT, delete_rules, minute_after, put_rules, rules_running

pytestmark = pytest.mark.looptime(noop_cycles=0)

# The FederatedHPA's side lists the rules of its namespace once a minute.
NOTICED_SECONDS = 80
PERIOD = 5.0


def condition(w: ControllerWorld, kind: str, collection: Collection, name: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition; empty texts if it does not exist."""
    found = w.hub.find(collection, name, NAMESPACE)
    assert found is not None
    stored: list[Any] = (found.get("status") or {}).get("conditions", [])
    texts = ((each["status"], each["reason"], each["message"]) for each in stored if each["type"] == kind)
    return next(texts, ("", "", ""))


def rules_say(w: ControllerWorld, kind: str = "SoleOwner") -> tuple[str, str, str]:
    return condition(w, kind, CRONS, "office")


def autoscaler_says(w: ControllerWorld, kind: str = "SoleOwner") -> tuple[str, str, str]:
    return condition(w, kind, HPAS, "web")


def put_rule(w: ControllerWorld, target: Object = DEPLOYMENT, **more: Any) -> None:
    size = {"targetReplicas": 8} if target is DEPLOYMENT else {"targetMinReplicas": 2}
    put_rules(w, {"name": "up", "schedule": minute_after(w, 50), **size, **more}, target=target)


async def test_both_objects_name_the_other_until_one_is_gone() -> None:
    """Ready is False meanwhile. One event tells each new owner."""
    async with world(m1=2) as w:
        w.scale()
        put_rule(w)
        async with w.controller(sync_period=PERIOD), rules_running(w):
            await asyncio.sleep(NOTICED_SECONDS)
            contested = rules_say(w), rules_say(w, "Ready"), autoscaler_says(w), autoscaler_says(w, "Ready")
            events = w.events("AnotherAutoscaler", "office")
            delete_rules(w)
            await asyncio.sleep(2 * NOTICED_SECONDS)
            alone = autoscaler_says(w)

    by_autoscaler = "the target is also scaled by FederatedHPA shop/web: remove either"
    by_rules = "the target is also scaled by CronFederatedHPA shop/office: remove either"
    assert contested == (
        ("False", "AnotherAutoscaler", by_autoscaler),
        ("False", "AnotherAutoscaler", by_autoscaler),
        ("False", "AnotherAutoscaler", by_rules),
        ("False", "AnotherAutoscaler", by_rules),
    )
    assert len(events) == 1
    assert alone[:2] == ("True", "NoOtherAutoscaler")


async def test_the_rules_are_sole_owner_again_when_the_autoscaler_is_gone() -> None:
    """Also if it went while no controller ran."""
    async with world(m1=2) as w:
        w.scale()
        put_rule(w)
        async with rules_running(w):
            await asyncio.sleep(5)
            contested = rules_say(w)[0]
            w.hub.remove(HPAS, "web", NAMESPACE)
            await asyncio.sleep(5)
            alone = rules_say(w), rules_say(w, "Ready")
            w.hub.put(HPAS, federated_hpa())
            await asyncio.sleep(5)
            again = rules_say(w)[0]
        w.hub.remove(HPAS, "web", NAMESPACE)
        async with rules_running(w):
            await asyncio.sleep(5)
            after_restart = rules_say(w)[0]

    assert contested == again == "False"
    assert alone[0] == ("True", "NoOtherAutoscaler", "no FederatedHPA scales the target")
    assert alone[1][:2] == ("True", "RulesRun")
    assert after_restart == "True"


@pytest.mark.parametrize("how", ["of the FederatedHPA", "suspended", "of another workload", "dry run"])
async def test_rules_and_an_autoscaler_that_get_along_have_no_condition(how: str) -> None:
    """A rule may move the bounds of the FederatedHPA. A suspended rule and a dry run scale nothing."""
    async with world(m1=2) as w:
        w.hub.put(HPAS, federated_hpa(dryRun=how == "dry run"))
        if how == "of the FederatedHPA":
            put_rule(w, {"apiVersion": HPAS[0], "kind": "FederatedHPA", "name": "web"})
        elif how == "of another workload":
            put_rule(w, {**DEPLOYMENT, "name": "api"}, targetReplicas=8)
        else:
            put_rule(w, suspend=how == "suspended")
        async with w.controller(sync_period=PERIOD), rules_running(w):
            await asyncio.sleep(NOTICED_SECONDS)
            found = rules_say(w), autoscaler_says(w)

    expected = ("", "", "")
    assert found[0] == expected
    # The rules would still scale the workload of a dry run.
    assert found[1] == expected or how == "dry run"
