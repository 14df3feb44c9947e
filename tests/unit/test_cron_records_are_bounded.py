"""The record annotation of a CronFederatedHPA has at most 16 KiB, and restores what a restart needs."""

from __future__ import annotations

from typing import Any

import pytest

from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.decode import decode
from fedhpa.api.record_annotation import MAX_RECORD_BYTES, RECORD_ANNOTATION
from fedhpa.cron.execution import read_object, read_record, record_text, schedule_hash, with_record

EARLY, LATE, NEXT = "2026-03-11T08:00:00Z", "2026-03-11T09:00:00Z", "2026-03-12T08:00:00Z"
SHORTEST, LONGEST = 2, 1_000


def cron(rules: int) -> Any:
    """An object as a hub with Karmada's CRD stores it."""
    return {
        "metadata": {"name": "office", "namespace": "shop", "uid": "u", "creationTimestamp": EARLY},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "rules": [
                {"name": f"rule-{place:04}" + "n" * 20, "schedule": "0 8 * * *", "targetReplicas": 5}
                for place in range(rules)
            ],
        },
    }


def status(raw: Any, *, windows: int = 0, behind: int = 0) -> Any:
    """The whole status of an object, in which the first `behind` rules still owe a fire."""
    spec = decode(CronFederatedHPA, raw).spec
    rules = spec.rules
    opened = [
        {
            "object": "office",
            "rule": rules[place].name,
            "opened": f"2026-03-11T0{place // 3600}:{place // 60 % 60:02}:{place % 60:02}Z",
            "closes": NEXT,
            "values": [{"field": "replicas", "value": place}],
        }
        for place in range(windows)
    ]
    window = {"target": raw["spec"]["scaleTargetRef"], "open": opened, "revision": 7}
    window["baseline"] = [{"field": "replicas", "value": 3}]
    return {
        "observedGeneration": 1,
        "executionHistories": [
            {
                "ruleName": rule.name,
                "handledUntil": EARLY if place < behind or place % 2 else LATE,
                "nextExecutionTime": LATE if place < behind else NEXT,
                "scheduleHash": schedule_hash(rule, spec.scale_target_ref),
                "missedExecutions": [{"scheduleTime": EARLY, "message": "m" * 1_000}],
            }
            for place, rule in enumerate(rules)
        ],
    } | ({"window": window} if windows else {})


def restored(raw: Any, text: str) -> CronFederatedHPA:
    metadata = {**raw["metadata"], "annotations": {RECORD_ANNOTATION: text}}
    return decode(CronFederatedHPA, with_record({**raw, "metadata": metadata}))


@pytest.mark.parametrize("rules", [SHORTEST, 100, LONGEST])
@pytest.mark.parametrize("windows", [0, 2, 1_000])
@pytest.mark.parametrize("behind", [0, 2])
def test_bound_holds(rules: int, windows: int, behind: int) -> None:
    """No rule of any record fires again, no fire that is owed is lost, and the baseline stays known."""
    raw, windows = cron(rules), min(windows, rules)
    text = record_text("u", status(raw, windows=windows, behind=behind))
    found = restored(raw, text)
    marks = {history.rule_name: history.handled_until for history in found.status.execution_histories}
    record = read_record(found.status)

    assert 0 < len(text.encode()) <= MAX_RECORD_BYTES
    assert len(marks) == rules
    names = [rule.name for rule in found.spec.rules]
    assert [marks[name] for name in names[:behind]] == [EARLY] * behind
    # A common watermark is the latest one, before which none of these rules owes a fire.
    assert all(marks[name] in (EARLY, LATE) for name in names[behind:])
    if windows:
        assert record is not None
        assert record.baseline == {"replicas": 3}
        assert record.open[-1].values == {"replicas": windows - 1}


def test_new_and_edited_rules_start_at_the_edit() -> None:
    """A small record has no watermark for a rule that was added or edited after it was written."""
    raw = cron(LONGEST)
    text = record_text("u", status(raw))
    raw["spec"]["rules"][0] = {**raw["spec"]["rules"][0], "schedule": "30 7 * * *"}
    raw["spec"]["rules"].append({"name": "added", "schedule": "0 8 * * *", "targetReplicas": 5})
    owner = read_object(restored(raw, text))

    assert owner.known
    assert {rule.name for rule in owner.rules} - owner.states.keys() == {
        raw["spec"]["rules"][0]["name"],
        "added",
    }


def test_fires_that_the_status_shows_are_handled() -> None:
    """A crash between the status and the record repeats no fire."""
    raw = cron(1)
    name = raw["spec"]["rules"][0]["name"]
    text = record_text("u", status(raw, behind=1))
    done = {"scheduleTime": LATE, "executionTime": LATE, "appliedReplicas": 5}
    raw["status"] = {"executionHistories": [{"ruleName": name, "successfulExecutions": [done]}]}
    history = restored(raw, text).status.execution_histories[0]

    assert history.handled_until == LATE
    assert len(history.successful_executions) == 1


def test_a_status_of_another_controller_has_no_record() -> None:
    """While Karmada runs the rules nothing is recorded."""
    raw = cron(1)
    name = raw["spec"]["rules"][0]["name"]

    assert record_text("u", {"executionHistories": [{"ruleName": name, "nextExecutionTime": NEXT}]}) == ""
