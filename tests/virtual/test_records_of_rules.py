"""The ScalingRecords of cron: crashes at every write, a second leader, lost and foreign records."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from controller.flags import KARMADA
from tests.support.controller import HPAS, NAMESPACE, ControllerWorld, world
from tests.support.fakeapi import Object
from tests.support.rules import (
    CRONS,
    DEPLOYMENT,
    FHPA,
    RECORDS,
    autoscaled,
    bounds,
    delete_rules,
    history,
    minute_after,
    put_rules,
    ready,
    rule_up,
    rules_running,
    run_rules,
    states_of,
    status,
    stored,
    window,
    windows_of,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)

TARGET_RECORD = "cron-target.autoscaling.karmada.io.federatedhpa.web"
BASELINE = "autoscaling.karmada.io/cron-baseline"
WRITES = ("POST", "PUT", "PATCH", "DELETE")


def baseline(w: ControllerWorld) -> Any:
    """The baseline that the target names; None without one."""
    found = w.hub.find(HPAS, "web", NAMESPACE)
    assert found is not None
    text = found["metadata"].get("annotations", {}).get(BASELINE)
    return None if text is None else json.loads(text)


def forget_record(w: ControllerWorld, name: str = TARGET_RECORD) -> None:
    """Somebody deletes a record."""
    w.hub.remove(RECORDS, name, NAMESPACE)


def change_record(w: ControllerWorld, name: str, content: Object) -> None:
    """Somebody writes the content of a record."""
    found = w.hub.find(RECORDS, name, NAMESPACE)
    assert found is not None
    w.hub.put(RECORDS, {**found, "status": content})


def die_after(w: ControllerWorld, last: int) -> asyncio.Event:
    """From its write with this number on the controller cannot write any more. Sets the event then."""
    dead = asyncio.Event()
    left = last

    def count(method: str, path: str) -> None:
        nonlocal left
        if method in WRITES and "/events" not in path and not dead.is_set():
            left -= 1
            if left < 0:
                dead.set()
                w.hub.refused |= {(each, ""): 500 for each in WRITES}
                for member in w.members.values():
                    member.refused |= {(each, ""): 500 for each in WRITES}

    for plane in (w.hub, *w.members.values()):
        plane.before = count
    return dead


async def crash(w: ControllerWorld, last: int, propagation: str) -> None:
    """Runs a controller that dies after a write with this number, and for an hour the next one."""
    dead = die_after(w, last)
    async with rules_running(w, propagation=propagation):
        await asyncio.wait_for(dead.wait(), 1800)
        await asyncio.sleep(3)
    for plane in (w.hub, *w.members.values()):
        plane.before = lambda method, path: None
        plane.refused.clear()
    async with rules_running(w, propagation=propagation):
        await asyncio.sleep(2400)


@pytest.mark.parametrize("last", range(1, 19))
async def test_a_crash_at_any_write_loses_no_window_of_a_federatedhpa(last: int) -> None:
    """The window closes, the plain rule under it was applied once, and nothing is left behind."""
    async with autoscaled() as w:
        plain = {
            "name": "high",
            "schedule": minute_after(w, 5),
            "targetMinReplicas": 2,
            "targetMaxReplicas": 30,
        }
        put_rules(w, window(w, 2, "10m"), plain)
        await crash(w, last, KARMADA)

        assert bounds(w) == (2, 30)
        assert windows_of(w) == {}
        assert baseline(w) is None
        assert not stored(w)["metadata"].get("finalizers")
        assert [len(history(w, place)["successfulExecutions"]) for place in range(2)] == [1, 1]


@pytest.mark.parametrize("last", range(1, 15))
async def test_a_crash_at_any_write_loses_no_window_of_a_scale(last: int) -> None:
    """The replicas from before the window return, in the members."""
    async with world(m1=2, m2=2) as w:
        put_rules(w, window(w, 2, "10m", targetReplicas=8), target=DEPLOYMENT)
        await crash(w, last, "direct")

        assert w.replicas == {"m1": 2, "m2": 2}
        assert windows_of(w, kind="deployment") == {}
        assert not stored(w)["metadata"].get("finalizers")
        assert len(history(w)["successfulExecutions"]) == 1


async def test_a_second_leader_overwrites_no_record() -> None:
    """For a minute two processes lead. The window of each execution keeps the baseline from before it."""
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "10m"))
        async with rules_running(w):
            await asyncio.sleep(90)
            async with rules_running(w):
                await asyncio.sleep(60)
                during = bounds(w), windows_of(w)["baseline"]
        await run_rules(w, 1200)

        assert during == ((5, 20), {"minReplicas": 1})
        assert bounds(w) == (1, 20)
        assert len(history(w)["successfulExecutions"]) == 1


async def test_a_record_that_another_process_wrote_is_read_again() -> None:
    """Its content changed under the controller, which plans anew and writes nothing over it."""
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "30m"), window(w, 5, "30m", name="more", targetMaxReplicas=40))
        async with rules_running(w):
            await asyncio.sleep(150)
            kept = w.hub.find(RECORDS, TARGET_RECORD, NAMESPACE)
            assert kept is not None
            kept["status"]["state"]["baseline"] = {"minReplicas": 3}
            w.hub.put(RECORDS, kept)
            await asyncio.sleep(180)
            both = windows_of(w)["baseline"]
            await asyncio.sleep(3000)

        assert both == {"minReplicas": 3, "maxReplicas": 20}
        assert bounds(w) == (3, 20)


@pytest.mark.parametrize("away", [60, 1200])
async def test_a_lost_record_of_a_target_is_restored_from_the_target(away: int) -> None:
    """While no controller runs the record is deleted, and maybe the window ends. The baseline returns."""
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "15m"))
        await run_rules(w, 180)
        during = bounds(w), baseline(w)
        forget_record(w)
        await asyncio.sleep(away)
        async with rules_running(w):
            await asyncio.sleep(30)
            back = bounds(w)
            await asyncio.sleep(1200)

        assert during == ((5, 20), {"minReplicas": 1})
        assert back == ((5, 20) if away == 60 else (1, 20))
        assert bounds(w) == (1, 20)
        assert baseline(w) is None
        assert windows_of(w) == {}


async def test_a_lost_record_leaves_what_somebody_set_since() -> None:
    """The target does not have the value of the window any more, so nothing is restored."""
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "15m"))
        await run_rules(w, 180)
        forget_record(w)
        w.scale(minReplicas=7)
        await run_rules(w, 1500)

        assert bounds(w) == (7, 20)
        assert baseline(w) is None


@pytest.mark.parametrize("away", [60, 1200])
async def test_a_lost_record_of_a_scale_is_told(away: int) -> None:
    """Nobody knows the replicas from before the window. The event comes once, and the finalizer goes."""
    async with world(m1=2, m2=2) as w:
        put_rules(w, window(w, 2, "15m", targetReplicas=8), target=DEPLOYMENT)
        await run_rules(w, 180)
        forget_record(w, "cron-target.apps.deployment.web")
        await asyncio.sleep(away)
        await run_rules(w, 1200)
        await run_rules(w, 300)

        assert w.replicas == {"m1": 4, "m2": 4}
        (text,) = w.events("NotRestored", "office")
        assert text.startswith("rule sale: the record of its window was deleted")
        assert text.endswith("so 8 replicas stay: set them")
        assert not stored(w)["metadata"].get("finalizers")


async def test_the_process_that_opened_a_window_restores_it_without_its_record() -> None:
    """The memory of the process serves as long as it runs."""
    async with world(m1=2, m2=2) as w:
        put_rules(w, window(w, 2, "15m", targetReplicas=8), target=DEPLOYMENT)
        async with rules_running(w):
            await asyncio.sleep(180)
            forget_record(w, "cron-target.apps.deployment.web")
            await asyncio.sleep(1500)

        assert w.replicas == {"m1": 2, "m2": 2}
        assert w.events("NotRestored", "office") == []
        assert windows_of(w, kind="deployment") == {}


async def test_a_lost_record_of_an_object_repeats_nothing() -> None:
    """The newest execution of the target counts for all rules: up at 9 is not repeated over down at 11."""
    async with autoscaled() as w:
        put_rules(w, rule_up(w, 2), {"name": "down", "schedule": minute_after(w, 4), "targetMinReplicas": 2})
        await run_rules(w, 300)
        forget_record(w, "cronfederatedhpa.office")
        w.scale(minReplicas=3)
        await run_rules(w, 600)

        assert bounds(w) == (3, 20)
        lost = f"ScalingRecord {NAMESPACE}/cronfederatedhpa.office is gone; the rules go on"
        assert [text.startswith(lost) for text in w.events("MemoryLost", "office")] == [True]
        assert len(states_of(w)) == 2


GARBAGE: tuple[Object, ...] = (
    {"version": 1, "rules": 5},
    {"version": 1, "rules": {"up": {"handledUntil": "late"}}},
    {"version": True},
    {"rules": {}},
)


@pytest.mark.parametrize("content", GARBAGE, ids=map(str, range(len(GARBAGE))))
async def test_garbage_in_a_record_stops_no_rule(content: Object) -> None:
    """A fresh start, with an event. The execution that is due is applied, and the record is written anew."""
    async with autoscaled() as w:
        put_rules(w, rule_up(w, 6))
        await run_rules(w, 60)
        change_record(w, "cronfederatedhpa.office", content)
        await run_rules(w, 400)

        assert bounds(w) == (5, 20)
        assert len(w.events("MemoryLost", "office")) == 1
        assert states_of(w)["up"]["hash"]


async def test_the_record_of_an_earlier_object_is_deleted() -> None:
    """An object is deleted and created again. The executions of the first one do not count for the second."""
    async with autoscaled() as w:
        put_rules(w, rule_up(w, 2))
        await run_rules(w, 180)
        w.hub.remove(CRONS, "office", NAMESPACE)
        w.scale(minReplicas=1)
        put_rules(w, rule_up(w, 2), uid="uid-second")
        await run_rules(w, 180)
        found = w.hub.find(RECORDS, "cronfederatedhpa.office", NAMESPACE)

        assert bounds(w) == (5, 20)
        assert found is not None
        assert found["metadata"]["ownerReferences"][0]["uid"] == "uid-second"


async def test_records_of_a_newer_release_stay_as_they_are() -> None:
    """Plain rules run, no window opens, and Ready says which version there is."""
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "3m"))
        await run_rules(w, 130)
        newer = {"version": 2, "something": ["else"]}
        change_record(w, TARGET_RECORD, newer)
        put_rules(w, window(w, 4, "5m", name="next", targetMinReplicas=9), rule_up(w, 6))
        async with rules_running(w):
            await asyncio.sleep(600)

        kept = w.hub.find(RECORDS, TARGET_RECORD, NAMESPACE)
        assert kept is not None
        assert kept["status"] == newer
        assert bounds(w) == (5, 20)
        assert ready(w) == ("False", "NoRecord")
        assert "version 2" in status(w)["conditions"][0]["message"]


async def test_a_record_that_another_target_has_under_the_same_name_stays() -> None:
    """Group, kind and name of a made-up target join to the name of a real one's record."""
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "30m"))
        fake = {"apiVersion": "autoscaling.karmada/v1", "kind": "Io", "name": "federatedhpa.web"}
        put_rules(w, window(w, 3, "5m", targetReplicas=1), target=fake, name="fake")
        async with rules_running(w):
            await asyncio.sleep(300)
            opened = bounds(w), len(windows_of(w)["open"])
            await asyncio.sleep(600)
        async with rules_running(w):
            await asyncio.sleep(300)
            kept, other = (bounds(w), len(windows_of(w)["open"])), ready(w, "fake")
            await asyncio.sleep(900)

        assert other == ("False", "NoRecord")
        assert opened == kept == ((5, 20), 1)
        assert bounds(w) == (1, 20)


async def test_a_record_that_may_not_be_deleted_ends_its_windows_all_the_same() -> None:
    """The hub refuses the deletion of the record. The baseline returns, once, and Ready names the right."""
    async with autoscaled() as w:
        w.hub.refused["DELETE", TARGET_RECORD] = 403
        put_rules(w, window(w, 2, "5m"))
        async with rules_running(w):
            await asyncio.sleep(600)
            w.scale(minReplicas=3)
            await asyncio.sleep(600)
            reported = ready(w)
            w.hub.refused.clear()
            await asyncio.sleep(120)

        assert bounds(w) == (3, 20)
        assert reported == ("False", "NoRecord")
        assert ready(w) == ("True", "RulesRun")
        assert len(w.events("WindowClosed", "office")) == 1
        assert windows_of(w) == {}


@pytest.mark.parametrize("code", [403, 404])
async def test_without_a_record_plain_rules_run_and_windows_do_not_begin(code: int) -> None:
    """The hub refuses records, or lacks their kind. No execution is repeated, and Ready names the remedy."""
    async with autoscaled() as w:
        w.hub.refused |= {(method, "/scalingrecords"): code for method in ("GET", "POST")}
        put_rules(w, window(w, 3, "20m", targetMinReplicas=9), rule_up(w, 2))
        async with rules_running(w):
            await asyncio.sleep(150)
            first = bounds(w)
            w.scale(minReplicas=3)
            await asyncio.sleep(300)
            waiting, reported = bounds(w), status(w)["conditions"][0]
            w.hub.refused.clear()
            await asyncio.sleep(90)
            opened = bounds(w)
            await asyncio.sleep(1200)

        assert first == (5, 20)
        assert waiting == (3, 20)
        assert reported["status"] == "False"
        assert "ScalingRecord" in reported["message"]
        assert ("fedhpa crds --records" if code == 404 else "fedhpa rbac") in reported["message"]
        assert opened == (9, 20)
        assert bounds(w) == (3, 20)
        assert ready(w) == ("True", "RulesRun")


async def test_windows_of_an_object_that_vanished_are_closed() -> None:
    """Somebody removed the finalizer and the object while no controller ran. The value holds no longer."""
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "8h"))
        await run_rules(w, 180)
        during = bounds(w)
        w.hub.remove(CRONS, "office", NAMESPACE)
        await run_rules(w, 30)

        assert during == (5, 20)
        assert bounds(w) == (1, 20)
        assert windows_of(w) == {}


async def test_a_former_target_that_cannot_be_closed_holds_up_nothing() -> None:
    """The window on the former target cannot close. The rules of the new target run, and it is retried."""
    async with autoscaled() as w:
        w.scale("other")
        put_rules(w, window(w, 2, "8h"))
        async with rules_running(w):
            await asyncio.sleep(150)
            w.hub.refused["PATCH", "/federatedhpas/web"] = 403
            put_rules(w, rule_up(w, 3), target={**FHPA, "name": "other"})
            await asyncio.sleep(300)
            other = w.hub.find(HPAS, "other", NAMESPACE)
            effective = bounds(w)
            w.hub.refused.clear()
            await asyncio.sleep(120)

        assert other is not None
        assert other["spec"]["minReplicas"] == 5
        assert effective == (5, 20)
        assert bounds(w) == (1, 20)


async def test_a_deleted_object_restores_and_takes_no_record_along() -> None:
    """The window's record is gone with the window, and that of the object with the object."""
    async with autoscaled() as w:
        put_rules(w, window(w, 2, "8h"))
        async with rules_running(w):
            await asyncio.sleep(150)
            delete_rules(w)
            await asyncio.sleep(10)
            finalizers = stored(w)["metadata"]["finalizers"]
        owned = w.hub.find(RECORDS, "cronfederatedhpa.office", NAMESPACE)

        assert bounds(w) == (1, 20)
        assert finalizers == []
        assert windows_of(w) == {}
        assert owned is not None
        assert owned["metadata"]["ownerReferences"][0]["uid"] == "uid-office"


async def test_a_rule_that_cannot_be_read_is_named_and_the_others_run() -> None:
    """The API server let a rule of a wrong type pass."""
    async with autoscaled() as w:
        bad = {"name": "bad", "schedule": minute_after(w, 2), "targetMaxReplicas": "many"}
        put_rules(w, bad, rule_up(w, 2))
        await run_rules(w, 180)

        assert bounds(w) == (5, 20)
        condition = status(w)["conditions"][0]
        assert (condition["status"], condition["reason"]) == ("False", "RuleInvalid")
        assert "spec.rules[0]" in condition["message"]
        assert "targetMaxReplicas" in condition["message"]
