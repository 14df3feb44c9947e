"""Statuses and records that somebody edited: the rules are planned, and no execution is applied twice."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.decode import decode
from fedhpa.api.errors import InvalidObject
from fedhpa.cron.execution.model import ObjectRecord, ObservedTarget, RuleState, Values, WindowRecord
from fedhpa.cron.execution.objects import decode_rules, decode_windows, read_object, with_record
from fedhpa.cron.execution.outcome import settle
from fedhpa.cron.execution.planning import CronPlan
from tests.property.cron.hub import FHPA
from tests.support.costs import least_cpu_seconds
from tests.support.nightly import examples

NOW = 1_773_651_600.0
times = st.sampled_from(
    ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-03-16T08:00:00Z", "2026-03-16T10:00:00Z", "", "x")
)
names = st.sampled_from(("up", "day", "gone", ""))
values = st.lists(
    st.fixed_dictionaries(
        {"field": st.sampled_from(("minReplicas", "maxReplicas", "replicas", "x"))},
        optional={"value": st.integers(-(2**31), 2**31 - 1)},
    ),
    max_size=4,
)
execution = st.fixed_dictionaries(
    {},
    optional={
        "scheduleTime": times,
        "executionTime": times,
        "lastScheduleTime": times,
        "message": st.text(max_size=5),
        "count": st.integers(-(2**63), 2**63 - 1),
        "unknown": st.none(),
    },
)
executions = st.lists(execution, max_size=20)
history = st.fixed_dictionaries(
    {"ruleName": names},
    optional={
        "nextExecutionTime": times,
        "successfulExecutions": executions,
        "failedExecutions": executions,
        "missedExecutions": executions,
    },
)
instants = st.sampled_from((0.0, NOW - 7200, NOW - 60, NOW, NOW + 86400, 3.1e10, 4e10, -1.0))
replicas = st.integers(-1, 2**31)
by_field = st.dictionaries(
    st.sampled_from(("minReplicas", "maxReplicas", "replicas", "x")), replicas | st.none()
)
group = st.fixed_dictionaries(
    {
        "opened": instants,
        "closes": instants,
        "fields": st.lists(st.sampled_from(("minReplicas", "maxReplicas", "x")), max_size=2, unique=True),
        "rules": st.dictionaries(
            st.sampled_from(("office", "other", "")),
            st.dictionaries(names, st.lists(replicas, max_size=2), max_size=2),
        ),
    },
    optional={
        "left": st.lists(st.text(max_size=3), max_size=3),
        "atLeast": st.booleans(),
        "ending": instants,
        "unknown": st.none(),
    },
)
state = st.fixed_dictionaries(
    {},
    optional={
        "baseline": by_field,
        "pending": by_field,
        "applied": by_field,
        "open": st.lists(group, max_size=5),
        "shares": st.dictionaries(names, replicas),
        "uids": st.dictionaries(names, st.text(max_size=3)),
    },
)
done = st.fixed_dictionaries({"scheduled": instants, "executed": instants, "values": by_field})
rule_state = st.fixed_dictionaries(
    {},
    optional={"handledUntil": instants, "hash": st.text(max_size=3), "successes": st.lists(done, max_size=5)},
)
reference = {"apiVersion": FHPA["apiVersion"], "kind": FHPA["kind"], "name": FHPA["name"]}
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
statuses = st.fixed_dictionaries({}, optional={"executionHistories": st.lists(history, max_size=4) | junk})
recorded_rules = st.fixed_dictionaries(
    {"version": st.just(1), "rules": st.dictionaries(names, rule_state) | junk}
)
recorded_windows = st.fixed_dictionaries(
    {"version": st.just(1), "target": st.just(reference), "state": state | junk}
)


def cron(status: Any) -> CronFederatedHPA:
    """Returns an object with two rules, the second with windows. Raises InvalidObject."""
    rules = [
        {"name": "up", "schedule": "0 9 * * *", "targetMinReplicas": 5},
        {"name": "day", "schedule": "* * * * *", "targetMaxReplicas": 20, "duration": "1h"},
    ]
    metadata = {"name": "office", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return decode(
        CronFederatedHPA,
        {"metadata": metadata, "spec": {"scaleTargetRef": FHPA, "rules": rules}, "status": status},
    )


def rules_in(content: Any) -> ObjectRecord | None:
    """Returns what the controller takes from the record of an object."""
    try:
        return decode_rules(content)
    except InvalidObject:
        return None


def windows_in(content: Any) -> WindowRecord | None:
    """Returns what the controller takes from the record of a target."""
    try:
        return decode_windows(content).state
    except InvalidObject:
        return None


@given(statuses, recorded_rules | junk.filter(lambda found: isinstance(found, dict)), recorded_windows)
@settings(max_examples=examples(150, 20_000), deadline=None)
def test_any_state_can_be_planned_and_applies_nothing_twice(status: Any, rules: Any, windows: Any) -> None:
    """Unreadable objects are errors of their own. A second plan of the same instant has nothing left."""
    try:
        found = cron(status)
    except InvalidObject:
        return
    owner, record = with_record(read_object(found), 0, rules_in(rules)), windows_in(windows)
    present: Values = {"minReplicas": 1, "maxReplicas": 10}
    planned = CronPlan([owner], record, ObservedTarget(dict(present)), NOW)
    settled = settle(planned, NOW)
    states = settled.states["office"]
    type_of = type(owner)
    again = CronPlan(
        [type_of(owner.name, owner.created, owner.rules, states, known=True)],
        settled.record,
        ObservedTarget(present | planned.write),
        NOW,
    )

    assert again.applied == []
    assert all(state.handled_until is not None for state in states.values())


def test_ten_thousand_entries_and_a_watermark_of_year_one_cost_little() -> None:
    """A rule of every minute has the executions of nine years due then, which are counted without a visit."""
    entry = {"scheduleTime": "0001-01-01T00:00:00Z", "executionTime": "0001-01-01T00:00:00Z"}
    status = {
        "executionHistories": [
            {
                "ruleName": "day",
                "nextExecutionTime": "0001-01-01T00:00:00Z",
                "successfulExecutions": [entry] * 10_000,
            }
        ]
    }
    found = cron(status)
    record = ObjectRecord({"day": RuleState(0.0)})

    def planned() -> None:
        for known in (None, record):
            owner = with_record(read_object(found), 0, known)
            CronPlan([owner], None, ObservedTarget({"minReplicas": 1, "maxReplicas": 10}), NOW)

    assert least_cpu_seconds(planned, 0.5) < 0.5
