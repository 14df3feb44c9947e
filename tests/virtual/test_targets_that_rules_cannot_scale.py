"""Rules that can scale nothing, by their target or their own fields: the reason says what to write."""

from __future__ import annotations

import asyncio

import pytest

from controller.flags import DIRECT, KARMADA
from tests.support.controller import HPAS, world
from tests.support.fakeapi import Object
from tests.support.rules import history, minute_after, put_rules, ready, rules_running, status

pytestmark = pytest.mark.looptime(noop_cycles=0)

RESOURCES = [
    {"name": "configmaps", "kind": "ConfigMap", "namespaced": True},
    {"name": "nodes", "kind": "Node", "namespaced": False},
    {"name": "fleets", "kind": "Fleet", "namespaced": False},
    {"name": "fleets/scale", "kind": "Scale", "namespaced": False, "group": "autoscaling", "version": "v1"},
]


def target(api_version: str, kind: str) -> Object:
    return {"apiVersion": api_version, "kind": kind, "name": "web"}


@pytest.mark.parametrize("propagation", [KARMADA, DIRECT])
@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (
            target("autoscaling.karmada.io/v1", "FederatedHPA"),
            "autoscaling.karmada.io/v1 is not that of a FederatedHPA: write autoscaling.karmada.io/v1alpha1",
        ),
        (
            target("apps/v1", "FederatedHPA"),
            "apiVersion apps/v1 is not that of a FederatedHPA: write autoscaling.karmada.io/v1alpha1",
        ),
        (
            target(HPAS[0], "CronFederatedHPA"),
            "kind CronFederatedHPA of autoscaling.karmada.io cannot be scaled: write kind FederatedHPA",
        ),
        (target("v1", "ConfigMap"), "ConfigMap has no scale subresource, so it cannot be scaled"),
        (
            target("v1", "Node"),
            "Node is cluster-scoped, and rules scale objects of their own namespace only",
        ),
        (
            target("v1", "Fleet"),
            "Fleet is cluster-scoped, and rules scale objects of their own namespace only",
        ),
        (target("example.com/v1", "Thing"), 'no matches for kind "Thing" in group "example.com"'),
    ],
)
async def test_the_execution_fails_with_the_reason(wanted: Object, reason: str, propagation: str) -> None:
    async with world(m1=1) as w:
        for plane in (w.hub, w.members["m1"]):
            plane.answers["/api/v1"] = lambda: {"kind": "APIResourceList", "resources": RESOURCES}
        put_rules(w, {"name": "up", "schedule": minute_after(w, 2), "targetReplicas": 3}, target=wanted)
        async with rules_running(w, propagation=propagation):
            await asyncio.sleep(130)

        failures = history(w)["failedExecutions"]

    assert len(failures) == 1
    assert failures[0]["message"].endswith(reason)
    assert ready(w) == ("False", "ScaleFailed")
    assert not any(line.startswith(("PUT", "PATCH")) and "/scale" in line for line in w.hub.writes)


@pytest.mark.parametrize("propagation", [KARMADA, DIRECT])
@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"schedule": "0 * * * * *"}, "found 6: seconds and years are not supported; drop that field"),
        ({"schedule": "99 * * * *"}, "'99' is out of range; write 0 to 59"),
        ({"timeZone": "UTC+8"}, "unknown time zone UTC+8"),
        ({"duration": "soon"}, "is no duration; write one such as 8h or 90m, or seconds"),
        ({"excludeDates": ["25.12.2026"]}, "is no date of the calendar; write YYYY-MM-DD"),
        ({"targetReplicas": None, "targetMinReplicas": 3}, "nothing is set, so an execution changes nothing"),
    ],
    ids=str,
)
async def test_a_rule_that_only_the_webhook_refuses_changes_nothing(
    rule: Object, reason: str, propagation: str
) -> None:
    """A hub without the webhook stores these rules. `Ready` names the rule."""
    async with world(m1=1) as w:
        w.hub.deploy(1)
        written = {"name": "up", "schedule": minute_after(w, 2), "targetReplicas": 3, **rule}
        put_rules(w, written, target=target("apps/v1", "Deployment"))
        async with rules_running(w, propagation=propagation):
            await asyncio.sleep(130)

        [condition] = [each for each in status(w)["conditions"] if each["type"] == "Ready"]
        assert (w.hub.replicas(), w.replicas) == (1, {"m1": 1})
        assert (condition["status"], condition["reason"]) == ("False", "RuleInvalid")
        assert reason in condition["message"]
