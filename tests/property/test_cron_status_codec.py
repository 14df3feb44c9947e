"""Statuses that somebody edited: whatever they hold, the rules are planned, and no fire is applied twice."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.decode import decode
from fedhpa.api.errors import InvalidObject
from fedhpa.cron.execution import Target, Values, plan, read_object, read_record, settle
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
        "handledUntil": times,
        "scheduleHash": st.text(max_size=3),
        "successfulExecutions": executions,
        "failedExecutions": executions,
        "missedExecutions": executions,
    },
)
opened = st.fixed_dictionaries(
    {"object": st.sampled_from(("office", "other", "")), "rule": names, "opened": times, "closes": times},
    optional={"values": values, "left": st.lists(st.text(max_size=3), max_size=3)},
)
window = st.fixed_dictionaries(
    {"target": st.just(FHPA)},
    optional={
        "baseline": values,
        "pending": values,
        "applied": values,
        "open": st.lists(opened, max_size=5),
        "revision": st.integers(-(2**63), 2**63 - 1),
    },
)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
statuses = st.fixed_dictionaries(
    {}, optional={"executionHistories": st.lists(history, max_size=4) | junk, "window": window | junk}
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


@given(statuses)
@settings(max_examples=examples(150, 20_000), deadline=None)
def test_any_status_can_be_planned_and_applies_nothing_twice(status: Any) -> None:
    """Unreadable objects are errors of their own. A second plan of the same instant has nothing left."""
    try:
        found = cron(status)
    except InvalidObject:
        return
    owner, record = read_object(found), read_record(found.status)
    present: Values = {"minReplicas": 1, "maxReplicas": 10}
    planned = plan([owner], record, Target(dict(present)), NOW)
    settled = settle(planned, NOW)
    states = settled.states["office"]
    type_of = type(owner)
    again = plan(
        [type_of(owner.name, owner.created, owner.rules, states, known=True)],
        settled.record,
        Target(present | planned.write),
        NOW,
    )

    assert again.applied == ()
    assert all(state.handled_until is not None for state in states.values())


def test_ten_thousand_entries_and_a_watermark_of_year_one_cost_little() -> None:
    """A rule of every minute owes the fires of nine years then, and they are counted without a visit."""
    entry = {"scheduleTime": "0001-01-01T00:00:00Z", "executionTime": "0001-01-01T00:00:00Z"}
    status = {
        "executionHistories": [
            {
                "ruleName": "day",
                "handledUntil": "0001-01-01T00:00:00Z",
                "successfulExecutions": [entry] * 10_000,
            }
        ]
    }
    found = cron(status)

    def planned() -> None:
        plan([read_object(found)], None, Target({"minReplicas": 1, "maxReplicas": 10}), NOW)

    assert least_cpu_seconds(planned, 0.5) < 0.5
