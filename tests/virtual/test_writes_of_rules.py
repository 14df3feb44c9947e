"""The writes of rules: each names its field manager, and a minute's effects come before its results."""

from __future__ import annotations

import asyncio

import pytest

from controller.flags import DIRECT, KARMADA
from tests.support.controller import HPAS, NAMESPACE, ControllerWorld, Plane, federated_hpa, world
from tests.support.rules import (
    DEPLOYMENT,
    FHPA,
    autoscaled,
    bounds,
    history,
    minute_after,
    put_rules,
    rule_up,
    rules_running,
    window,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)

CRON = "cronfederatedhpas/office"
RECORDED = ("PUT", "scalingrecords/cronfederatedhpa.office/status", "fedhpa-cron")
WINDOWS = "scalingrecords/cron-target.autoscaling.karmada.io.federatedhpa.web"


def writes(plane: Plane) -> set[tuple[str, str, str]]:
    """Method, end of path and field manager of all writes, except of Events."""
    return {
        (seen.method, seen.path.partition(f"/namespaces/{NAMESPACE}/")[2], seen.query.get("fieldManager", ""))
        for seen in plane.seen
        if seen.method != "GET" and "/events" not in seen.path
    }


async def test_every_write_for_a_federatedhpa_names_its_field_manager() -> None:
    """The finalizer, the record of the window, the bounds and the results are writes of fedhpa-cron."""
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "5m"))
        async with rules_running(w):
            await asyncio.sleep(150)
            opened = bounds(w)
            await asyncio.sleep(300)

        assert (opened, bounds(w)) == ((5, 20), (1, 20))
        assert writes(w.hub) == {
            ("PATCH", "federatedhpas/web", "fedhpa-cron"),
            ("PATCH", CRON, "fedhpa-cron"),
            ("PATCH", f"{CRON}/status", "fedhpa-cron"),
            ("POST", "scalingrecords", "fedhpa-cron"),
            RECORDED,
            ("PUT", f"{WINDOWS}/status", "fedhpa-cron"),
            ("DELETE", WINDOWS, ""),
        }


@pytest.mark.parametrize("propagation", [DIRECT, KARMADA])
async def test_every_write_of_a_scale_names_its_field_manager(propagation: str) -> None:
    """With --propagation=direct the scales of the members are written, else the one of the hub."""
    async with world(m1=1, m2=1) as w:
        w.hub.deploy(2)
        put_rules(w, {"name": "up", "schedule": minute_after(w, 2), "targetReplicas": 8}, target=DEPLOYMENT)
        async with rules_running(w, propagation=propagation):
            await asyncio.sleep(150)

        scale = ("PUT", "deployments/web/scale", "fedhpa-cron")
        status = ("PATCH", f"{CRON}/status", "fedhpa-cron")
        results = {status, RECORDED, ("POST", "scalingrecords", "fedhpa-cron")}
        assert len(history(w)["successfulExecutions"]) == 1
        if propagation == DIRECT:
            assert w.replicas == {"m1": 4, "m2": 4}
            assert writes(w.hub) == results
            assert [writes(member) for member in w.members.values()] == [{scale}, {scale}]
        else:
            assert w.hub.replicas() == 8
            assert writes(w.hub) == {scale, *results}
            assert [writes(member) for member in w.members.values()] == [set(), set()]


def put_targets(w: ControllerWorld, count: int) -> list[str]:
    """Puts FederatedHPAs, each with an object whose rule fires in two minutes. Returns their names."""
    names = [f"web{number:02}" for number in range(count)]
    for name in names:
        w.hub.put(HPAS, federated_hpa(name))
        put_rules(w, rule_up(w, 2), target={**FHPA, "name": name}, name=name)
    return names


def kind_of(line: str) -> str:
    """The kind of a write: effect, result or event."""
    if "/events" in line:
        return "event"
    return "effect" if "/federatedhpas/" in line else "result"


async def test_the_effects_of_a_minute_come_before_its_results_and_those_before_events() -> None:
    """One effect is late, because its object is changed by another client at the same time."""
    async with world(m1=1) as w:
        names = put_targets(w, 100)
        slow: list[str] = []

        def change(method: str, path: str) -> None:
            if method == "PATCH" and path.endswith(f"/federatedhpas/{names[50]}") and len(slow) < 3:
                slow.append(path)
                w.hub.put(HPAS, federated_hpa(names[50], dryRun=True))

        w.hub.before = change
        async with rules_running(w):
            await asyncio.sleep(60)
            before = len(w.hub.writes)
            await asyncio.sleep(90)
            order = [kind_of(line) for line in w.hub.writes[before:]]

        assert len(slow) == 3
        assert order == ["effect"] * 103 + ["result"] * 200 + ["event"] * 100


async def test_events_wait_for_results_that_hang_for_a_bounded_time() -> None:
    """The statuses of four objects hang for 40 s. The event of another object comes after 20 s."""
    async with world(m1=1) as w:
        put_targets(w, 1)
        for number in range(4):
            put_rules(w, rule_up(w, 2), target={**FHPA, "name": "hanging"}, name=f"hanging{number}")
        w.hub.put(HPAS, federated_hpa("hanging"))
        async with rules_running(w):
            await asyncio.sleep(60)
            w.hub.held |= {("PATCH", f"/hanging{number}/status") for number in range(4)}
            await asyncio.sleep(60 + 18)
            early = w.events("RuleApplied", "web00")
            await asyncio.sleep(4)
            late = w.events("RuleApplied", "web00")

        assert early == []
        assert len(late) == 1
