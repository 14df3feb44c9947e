"""The bounds of what rules leave: messages, missed executions, a whole status, and a whole record."""

from __future__ import annotations

import msgspec

from controller.cronfederatedhpa.objects import CronObject
from controller.cronfederatedhpa.reporter import render_status
from fedhpa.cron.execution.model import Failed, ObjectRecord, RuleState, Succeeded
from fedhpa.cron.execution.objects import (
    MAX_BYTES,
    TargetReference,
    decode_rules,
    decode_windows,
    encode_rules,
    encode_windows,
)
from tests.unit.test_cron_execution import FHPA, Hub, at, rule


def test_a_message_is_cut_at_1_kib() -> None:
    """The failed execution and its event keep the begin of a long answer."""
    hub = Hub(rule("up", "0 9 * * *", 5))

    settled = hub.run("09:00:01", "x" * 5000)

    assert len(hub.state().failures[0].message) == 1024
    assert [len(note.message) for note in settled.notes] == [1024]


def test_the_oldest_missed_executions_become_one_entry() -> None:
    """It has the first and the last of them, and their number."""
    hub = Hub(rule("up", "0 * * * *", 5, maxDelaySeconds=60))
    for hour in range(1, 15):
        hub.run(f"{hour:02}:30")

    missed = hub.state().missed

    assert len(missed) == 10
    assert sum(each.count for each in missed) == 14
    assert (missed[-1].first, missed[-1].last) == (at("01:00"), at("05:00"))
    assert missed[0].first == at("14:00")


def test_a_status_has_at_most_256_kib() -> None:
    """A thousand rules with 32 failures each keep fewer failures."""
    rules = [rule(f"r{n}", "0 9 * * *", 5, failedHistoryLimit=32) for n in range(1000)]
    spec = {"scaleTargetRef": FHPA, "rules": rules}
    raw = {"metadata": {"name": "office", "namespace": "shop"}, "spec": spec}
    owner = CronObject.of(raw)
    failures = tuple(Failed(at("09:00"), at("09:00"), "x" * 1024) for _ in range(32))
    states = {f"r{n}": RuleState(at("09:00"), "0" * 16, failures=failures) for n in range(1000)}

    status = render_status(owner, owner.scheduled(owner.target).rules, states, None, at("10:00"))

    assert len(msgspec.json.encode(status)) <= MAX_BYTES
    assert len(status["executionHistories"]) == 1000


def test_a_record_has_at_most_256_kib() -> None:
    """A thousand rules with 32 failures each keep their watermarks, and fewer failures."""
    failures = tuple(Failed(at("09:00"), at("09:00"), "x" * 1024) for _ in range(32))
    states = {f"r{n}": RuleState(at("09:00"), "0" * 16, failures=failures) for n in range(1000)}

    content = encode_rules(ObjectRecord(states))

    assert len(msgspec.json.encode(content)) <= MAX_BYTES
    assert all(state.handled_until == at("09:00") for state in decode_rules(content).rules.values())


def test_a_thousand_windows_of_one_minute_fit_64_kib() -> None:
    """Each has other values and a name of 32 characters, and the record is read as it was written."""
    rules = [
        rule(f"{number:032d}", "0 9 * * *", 1 + number, 2000 + number, duration="3h")
        for number in range(1000)
    ]
    hub = Hub(*rules)
    hub.run("08:00")
    settled = hub.run("09:00:01")
    assert settled.record is not None
    content = encode_windows(
        TargetReference("autoscaling.karmada.io/v1alpha1", "FederatedHPA", "web"), settled.record
    )

    assert len(settled.record.open) == 1000
    assert len(msgspec.json.encode(content)) <= 64 * 1024
    assert decode_windows(msgspec.json.decode(msgspec.json.encode(content))).state == settled.record


def test_the_columns_are_short_and_in_the_zone_of_the_rule() -> None:
    """`kubectl get cronfhpa` fits into 80 columns, and shows the times that people wrote into the rule."""
    found = rule("office-hours", "0 9 * * *", 5, timeZone="America/New_York")
    spec = {"scaleTargetRef": FHPA, "rules": [found]}
    owner = CronObject.of({"metadata": {"name": "office", "namespace": "shop"}, "spec": spec})
    rules = owner.scheduled(owner.target).rules
    done = Succeeded(at("13:00"), at("13:00"), {"minReplicas": 5})
    state = RuleState(at("13:00"), "0" * 16, next_execution=at("13:00") + 86_400, successes=(done,))

    summary = render_status(owner, rules, {"office-hours": state}, None, at("14:00"))["summary"]

    assert summary["last"].endswith(" 09:00 office-hours")
    assert summary["next"].endswith(" 09:00 office-hours")
    columns = ["office", summary["target"], summary["next"], "SUSPENDED", "False", "365d"]
    assert len("   ".join(columns)) <= 80
