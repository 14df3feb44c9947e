"""`fedhpa cron preview` and `fedhpa explain cronfhpa/NAME`: what rules will do, and what they did."""

from __future__ import annotations

import json
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.cronfederatedhpa import planned_targets
from fedhpa.cli.cron.explain import explanation, explanation_text
from fedhpa.cli.cron.preview import (
    TargetPreview,
    previews,
    previews_of_manifests,
    read_live,
    to_json,
    to_text,
)
from fedhpa.cron.execution.model import OpenWindow, WindowRecord
from fedhpa.kube.client import ApiClient
from tests.support.commands import fedhpa
from tests.support.controller import HPAS, NAMESPACE, ControllerWorld, federated_hpa, world
from tests.support.fakeapi import Object
from tests.support.rules import put_rules, rule_up, run_rules, window

CRONS = ("autoscaling.karmada.io/v1alpha1", "cronfederatedhpas")
FHPA = {"apiVersion": HPAS[0], "kind": "FederatedHPA", "name": "web"}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
MONDAY = datetime.fromisoformat("2026-03-16T00:00:00+00:00").timestamp()


def calendar(name: str, *rules: Object, target: Object = FHPA, **more: Any) -> Object:
    """A CronFederatedHPA that was created an hour before Monday, 16 March 2026."""
    metadata = {"name": name, "namespace": NAMESPACE, "creationTimestamp": "2026-03-15T23:00:00Z"}
    spec = {"scaleTargetRef": target, "rules": [{"timeZone": "UTC", **rule} for rule in rules]}
    return {"apiVersion": CRONS[0], "kind": "CronFederatedHPA", "metadata": metadata, "spec": spec, **more}


def rule(name: str, schedule: str, low: int | None = None, high: int | None = None, **more: Any) -> Object:
    found = {"name": name, "schedule": schedule, "targetMinReplicas": low, "targetMaxReplicas": high, **more}
    return {key: value for key, value in found.items() if value is not None}


async def of_live(w: ControllerWorld, name: str, now: float = MONDAY) -> TargetPreview:
    async with ApiClient(w.hub.config()) as hub:
        (found,) = await previews(hub, await read_live(hub, NAMESPACE, name), now)
    assert w.hub.writes == []
    return found


async def of_manifests(*objects: Object, now: float = MONDAY) -> TargetPreview:
    (found,) = await previews_of_manifests(None, list(objects), NAMESPACE, now)
    return found


def reported(found: TargetPreview) -> list[tuple[str, str, str, dict[str, Any]]]:
    """When, the rule, the action, and the values after it."""
    return [
        (line["time"][5:16], f"{line['object']}/{line['rule']}", line["action"], line["then"])
        for line in to_json(found)["lines"]
    ]


@pytest.mark.looptime(noop_cycles=0)
async def test_all_objects_of_the_target_are_previewed_from_its_present_values() -> None:
    """A window of one object opens and closes over the plain rule of another one. Nothing is written."""
    async with world() as w:
        w.hub.put(HPAS, federated_hpa(minReplicas=2, maxReplicas=20))
        w.hub.put(CRONS, calendar("office", rule("day", "0 8 16 3 *", 10, 50, duration="9h")))
        w.hub.put(CRONS, calendar("sale", rule("noon", "0 12 16 3 *", None, 30)))
        w.hub.put(CRONS, calendar("other", rule("up", "0 9 * * *", 3), target={**FHPA, "name": "api"}))
        found = await of_live(w, "office")

    during, after = {"minReplicas": 10, "maxReplicas": 50}, {"minReplicas": 2, "maxReplicas": 30}
    assert reported(found) == [
        ("03-16T08:00", "office/day", "opens", during),
        ("03-16T12:00", "sale/noon", "fires", during),
        ("03-16T17:00", "office/day", "closes", after),
    ]
    assert to_json(found)["present"] == {"minReplicas": 2, "maxReplicas": 20}
    assert found.complete
    assert "now: minReplicas 2, maxReplicas 20" in to_text(found)


@pytest.mark.looptime(noop_cycles=0)
async def test_due_executions_are_late_superseded_or_too_late() -> None:
    """At 11:30 nobody has run the executions of the morning."""
    now = MONDAY + 11.5 * 3600
    async with world() as w:
        w.hub.put(HPAS, federated_hpa(minReplicas=2, maxReplicas=20))
        rules = (
            rule("up", "0 9 16 3 *", 5),
            rule("down", "0 11 16 3 *", 3),
            rule("high", "0 10 16 3 *", None, 15),
            rule("strict", "0 11 16 3 *", None, 9, maxDelaySeconds=60),
        )
        w.hub.put(CRONS, calendar("office", *rules))
        found = await of_live(w, "office", now)

    assert [(each[1], each[2]) for each in reported(found)] == [
        ("office/up", "missed"),
        ("office/high", "missed"),
        ("office/strict", "missed"),
        ("office/down", "fires"),
    ]
    text = to_text(found)
    assert "superseded by office/down at 2026-03-16T11:00:00Z" in text
    assert "1800 s late, and maxDelaySeconds is 60" in text
    assert "fires: minReplicas 3 (30m0s late)" in text


@pytest.mark.looptime(noop_cycles=0)
async def test_a_minimum_above_the_maximum_is_a_conflict_until_another_rule_resolves_it() -> None:
    """The refused execution is applied, late, together with the rule that raises the maximum."""
    async with world() as w:
        w.hub.put(HPAS, federated_hpa(minReplicas=2, maxReplicas=6))
        rules = (rule("up", "0 9 16 3 *", 8), rule("wide", "0 10 16 3 *", None, 9))
        w.hub.put(CRONS, calendar("office", *rules))
        found = await of_live(w, "office")

    assert [each[1:3] for each in reported(found)] == [
        ("office/up", "refused"),
        ("office/up", "fires"),
        ("office/wide", "fires"),
    ]
    assert reported(found)[-1][3] == {"minReplicas": 8, "maxReplicas": 9}
    assert found.conflicts == 1
    assert "minReplicas 8 would be above maxReplicas 6" in to_text(found)


@pytest.mark.looptime(noop_cycles=0)
async def test_a_target_that_does_not_exist_is_said() -> None:
    """The rules are shown all the same, without values that nobody knows."""
    async with world() as w:
        w.hub.put(CRONS, calendar("day", rule("up", "0 9 16 3 *", 4), target={**FHPA, "name": "gone"}))
        found = await of_live(w, "day")

    assert reported(found) == [("03-16T09:00", "day/up", "fires", {"minReplicas": 4})]
    assert "FederatedHPA shop/gone does not exist; until this is fixed, each execution fails" in to_text(
        found
    )
    assert "now: minReplicas ?, maxReplicas ?" in to_text(found)


async def test_manifests_are_previewed_without_a_hub() -> None:
    """The values come from the target's manifest. A Deployment is sized to zero and back."""
    night = [
        {"name": "off", "schedule": "0 1 16 3 *", "targetReplicas": 0},
        {"name": "on", "schedule": "0 5 16 3 *", "targetReplicas": 7},
    ]
    deployment = {**DEPLOYMENT, "metadata": {"name": "web"}, "spec": {"replicas": 4}}
    found = await of_manifests(calendar("night", *night, target=DEPLOYMENT), deployment)

    assert to_json(found)["present"] == {"replicas": 4}
    assert [(each[1], each[3]) for each in reported(found)] == [
        ("night/off", {"replicas": 0}),
        ("night/on", {"replicas": 7}),
    ]


async def test_a_rule_that_cannot_run_is_named() -> None:
    found = await of_manifests(calendar("office", rule("up", "0 9 16 3 *", 5, duration="6d")))

    assert reported(found) == []
    assert found.notes[0].startswith("office/up cannot run: ")


async def test_a_preview_is_bounded() -> None:
    """It stops after a thousand lines, and says so."""
    found = await of_manifests(calendar("busy", rule("each", "* * * * *", 2)))

    assert len(found.lines) == 1000
    assert not found.complete
    assert "only the first 1000 lines are shown" in to_text(found)


def test_the_command_reads_a_file_and_finds_conflicts(tmp_path: Path) -> None:
    """Exit 0 if all is well, 1 for a conflict or a refused object, 2 for wrong usage; never a traceback."""
    hpa = {**FHPA, "metadata": {"name": "web"}, "spec": {"minReplicas": 1, "maxReplicas": 5}}

    def run(*objects: object, more: tuple[str, ...] = ("--offline",)) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "rules.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        return fedhpa("cron", "preview", "-f", str(file), "-n", NAMESPACE, *more)

    fine = run(calendar("office", rule("up", "* * * * *", 3)), hpa)
    crossed = run(calendar("office", rule("up", "* * * * *", 9)), hpa)
    refused = run(calendar("office", rule("up", "99 * * * *", 9)), hpa)
    data = run(calendar("office", rule("up", "@hourly", 3)), more=("--offline", "-o", "json"))
    usage = [
        run(hpa),
        run(["text"]),
        run({"kind": "CronFederatedHPA", "metadata": "x"}),
        fedhpa("cron", "preview"),
        fedhpa("cron", "preview", "fhpa/web"),
        fedhpa("cron", "preview", "cronfhpa/x", "--offline"),
        fedhpa("cron", "preview", "-f", str(tmp_path / "none.yaml")),
    ]

    assert (fine.returncode, fine.stderr) == (0, "")
    assert (crossed.returncode, crossed.stderr) == (1, "")
    assert "conflicts: " in crossed.stdout
    assert refused.returncode == 1
    assert "CronFederatedHPA office would be refused: " in refused.stdout
    assert json.loads(data.stdout)[0]["objects"] == ["office"]
    assert [(one.returncode, one.stdout) for one in usage] == [(2, "")] * len(usage)
    assert all(len(one.stderr.splitlines()) == 1 for one in usage)


def test_a_manifest_without_a_namespace_is_previewed(tmp_path: Path) -> None:
    """It gets the namespace of -n, else that of the context, as from `kubectl apply`."""
    one = calendar("office", rule("up", "@hourly", 3))
    del one["metadata"]["namespace"]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(one))

    def namespaces(*more: str) -> list[str]:
        answer = fedhpa("cron", "preview", "-f", str(file), "--offline", "-o", "json", *more)
        assert answer.returncode == 0, answer.stdout
        return [found["target"]["namespace"] for found in json.loads(answer.stdout)]

    assert namespaces() == ["default"]
    assert namespaces("-n", "shop") == ["shop"]


@pytest.mark.parametrize("count", [1, 2])
def test_a_rule_whose_name_has_another_field_is_answered_with_the_right_one(
    tmp_path: Path, count: int
) -> None:
    """In `ruleName`, the status has the names of rules."""
    rules = [{"ruleName": f"r{n}", "schedule": "@hourly", "targetMinReplicas": 3} for n in range(count)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(calendar("office", *rules)))

    answer = fedhpa("cron", "preview", "-f", str(file), "--offline")

    assert answer.returncode == 1
    assert "\n  spec.rules[0].name: each rule needs a name; the field is name, not ruleName" in answer.stdout


async def test_clock_changes_of_a_year_are_told() -> None:
    """They are no mistake, so admission says nothing about them."""
    nightly = rule("up", "30 2 * * *", 3, timeZone="Europe/Berlin")
    rules = (nightly, rule("day", "0 8 * * *", 4), {**nightly, "name": "off", "suspend": True})
    found = await of_manifests(calendar("office", *rules))

    assert [note.split(" in Europe/Berlin")[0] for note in found.notes] == [
        "office/up: 02:30 does not exist on 2026-03-29",
        "office/up: 02:30 occurs twice on 2026-10-25",
    ]


async def test_the_rules_of_an_object_are_explained() -> None:
    """The output has the present values, the next, failed and missed executions, and the conditions."""
    status = {
        "conditions": [{"type": "Ready", "status": "True", "reason": "RulesRun", "message": "the rules run"}],
        "executionHistories": [
            {
                "ruleName": "up",
                "nextExecutionTime": "2026-03-17T09:00:00Z",
                "successfulExecutions": [
                    {
                        "scheduleTime": "2026-03-16T09:00:00Z",
                        "executionTime": "2026-03-16T09:00:01Z",
                        "appliedMinReplicas": 5,
                    }
                ],
                "missedExecutions": [
                    {
                        "scheduleTime": "2026-03-13T09:00:00Z",
                        "lastScheduleTime": "2026-03-15T09:00:00Z",
                        "count": 3,
                        "message": "superseded by office/up at 2026-03-16T09:00:00Z",
                    }
                ],
            }
        ],
    }
    sale = OpenWindow("office", "sale", MONDAY + 8 * 3600, MONDAY + 17 * 3600, {"maxReplicas": 50})
    record = WindowRecord({"maxReplicas": 20}, None, {"maxReplicas": 50}, (sale,))
    rules = (
        rule("up", "0 9 * * *", 5),
        rule("sale", "0 8 16 3 *", None, 50, duration="9h"),
        rule("off", "0 1 * * *", 1, suspend=True),
    )

    raw = calendar("office", *rules, status=status)
    (unit,) = await planned_targets(None, [raw], ["office"])
    unit = unit._replace(record=record, notes=("ScalingRecord shop/x cannot be read: 403",))
    text = explanation_text(explanation(raw, unit))

    assert text == (
        "CronFederatedHPA shop/office scales FederatedHPA web\n"
        "holds:\n"
        "  maxReplicas 50 since 2026-03-16T08:00:00Z by rule office/sale until 2026-03-16T17:00:00Z\n"
        "  minReplicas 5 since 2026-03-16T09:00:01Z by rule up\n"
        "open windows:\n"
        "  office/sale until 2026-03-16T17:00:00Z: maxReplicas 50, then maxReplicas 20\n"
        "next:\n"
        "  2026-03-17T09:00:00+00:00 up: minReplicas 5\n"
        "missed:\n"
        "  2026-03-13T09:00:00Z to 2026-03-15T09:00:00Z up (3 executions): superseded by office/up at "
        "2026-03-16T09:00:00Z\n"
        "suspended: off\n"
        "note: ScalingRecord shop/x cannot be read: 403\n"
        "conditions:\n"
        "  Ready=True RulesRun: the rules run\n"
    )


@pytest.mark.looptime(noop_cycles=0)
async def test_what_the_records_have_is_previewed_and_explained() -> None:
    """A window that a controller has opened closes in the preview. Its execution is not repeated."""
    async with world(m1=1) as w:
        w.scale()
        put_rules(w, window(w, 2, "20m", targetMinReplicas=8), rule_up(w, 1))
        await run_rules(w, 180)
        writes = len(w.hub.writes)
        now = w.clock.wall()
        async with ApiClient(w.hub.config()) as hub:
            objects = await read_live(hub, NAMESPACE, "office")
            (found,) = await previews(hub, objects, now)
            (unit,) = await planned_targets(hub, [objects.raws["office"]], ["office"])

    assert len(w.hub.writes) == writes
    assert [window.rule for window in unit.record.open] == ["sale"]  # type: ignore[union-attr]
    assert sorted(unit.objects[0].states) == ["sale", "up"]
    closing = to_json(found)["lines"][0]
    assert (closing["rule"], closing["action"], closing["then"]["minReplicas"]) == ("sale", "closes", 5)


@pytest.mark.looptime(noop_cycles=0)
async def test_a_workload_of_the_members_is_previewed_from_its_size_there() -> None:
    """The hub has no Deployments. The size is the sum of those in the members."""
    async with world(m1=3, m2=4) as w:
        w.hub.put(CRONS, calendar("night", {"name": "up", "schedule": "0 9 16 3 *", "targetReplicas": 9}))
        obj = w.hub.find(CRONS, "night", NAMESPACE)
        assert obj is not None
        w.hub.put(CRONS, {**obj, "spec": {**obj["spec"], "scaleTargetRef": DEPLOYMENT}})
        found = await of_live(w, "night")

    assert to_json(found)["present"] == {"replicas": 7}
    assert found.notes == ()


@pytest.mark.looptime(noop_cycles=0)
async def test_a_size_that_nobody_may_read_is_unknown_with_its_reason() -> None:
    """Without the right to list Clusters the preview says that the members cannot be read."""
    async with world(m1=3) as w:
        night = calendar("night", {"name": "up", "schedule": "0 9 16 3 *", "targetReplicas": 9})
        w.hub.put(CRONS, {**night, "spec": {**night["spec"], "scaleTargetRef": DEPLOYMENT}})
        w.hub.refused["GET", "/clusters"] = 403
        found = await of_live(w, "night")

    assert to_json(found)["present"] == {}
    assert "the members cannot be read" in found.notes[0]
    assert "permission to list and watch Clusters" in found.notes[0]
