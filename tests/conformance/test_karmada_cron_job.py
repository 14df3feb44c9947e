"""Recorded executions and reconciles of Karmada's rules, run with the same input here.

docs/explanation/differences.md lists each record whose result differs, and no other.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import pytest

from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.decode import decode
from fedhpa.api.times import format_time
from fedhpa.cron.execution.model import ObservedTarget, Values
from fedhpa.cron.execution.objects import read_object, write_histories
from fedhpa.cron.execution.outcome import settle
from fedhpa.cron.execution.planning import CronPlan
from fedhpa.cron.execution.simulation import crossed_bounds
from tests.conformance.tables import table
from tests.conformance.test_differences_are_listed import listed

Json = dict[str, Any]

JOB = table("karmada_cron_job")
DUE = datetime.fromisoformat("2026-03-11T00:00:00+00:00").timestamp()
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def cron(rules: list[Json], target: Json, histories: list[Json] | None, created: float) -> CronFederatedHPA:
    metadata = {"name": "c1", "namespace": "ns1", "creationTimestamp": format_time(created)}
    raw: Json = {"metadata": metadata, "spec": {"rules": rules, "scaleTargetRef": target}}
    return decode(
        CronFederatedHPA, raw | ({"status": {"executionHistories": histories}} if histories else {})
    )


def present(case: Json) -> ObservedTarget:
    """The target as the controller reads it."""
    if not case["targetExists"]:
        return ObservedTarget({}, "the target does not exist or cannot be scaled", gone=True)
    if "federatedHPABefore" in case:
        return ObservedTarget(dict(case["federatedHPABefore"]))
    return ObservedTarget({"replicas": case["deploymentReplicasBefore"]})


def here(case: Json) -> str:
    """The writes and records here, one second after the rule was due."""
    owner = read_object(cron([case["rule"]], case["scaleTargetRef"], case["historyBefore"], DUE - 3600))
    target = present(case)
    planned = CronPlan([owner], None, target, DUE + 1)
    after: Values = target.values | planned.write
    conflict = crossed_bounds(after)
    settled = settle(planned, DUE + 1, "" if conflict is None else str(conflict))
    (history,) = write_histories(settled.states["c1"], ["r"])
    return reported(target.values if conflict else after, history)


def recorded(case: Json) -> str:
    """The same of Karmada."""
    if "panic" in case:
        return "the process ends"
    values: Values = case.get("federatedHPAAfter") or {}
    if "deploymentReplicasAfter" in case and case["targetExists"]:
        values = {"replicas": case["deploymentReplicasAfter"]}
    return reported(values, (case["historyAfter"] or [{}])[0])


def reported(values: Values, history: Json) -> str:
    """The values of the target, and the records of the execution."""
    size = ", ".join(f"{name} {values[name]}" for name in sorted(values)) or "no target"
    done = history.get("successfulExecutions", [])
    failed = history.get("failedExecutions", [])
    nameless = " (without scheduleTime)" if any(one["scheduleTime"] is None for one in done) else ""
    return f"{size}; {len(done)} applied{nameless}, {len(failed)} failed"


@pytest.mark.parametrize("case", JOB["executions"], ids=lambda case: case["name"])
def test_an_execution_is_karmadas_or_a_listed_difference(case: Json) -> None:
    """The values of the target, and the number of recorded successes and failures."""
    expected = {name: ours for name, _, ours in listed("recorded execution of a rule")}

    assert here(case) == expected.get(case["name"], recorded(case))


def test_the_executions_that_differ_are_listed() -> None:
    differing = {
        (case["name"], recorded(case), here(case))
        for case in JOB["executions"]
        if here(case) != recorded(case)
    }

    assert {tuple(row) for row in listed("recorded execution of a rule")} == differing


def test_the_reconciles_that_differ_are_listed() -> None:
    """After each change of the spec: the rules that will fire, with the time of the next execution."""
    differing = set()
    histories: list[Json] = []
    for case in JOB["reconciles"]:
        owner = read_object(cron(case["rules"], DEPLOYMENT, histories, DUE))
        owner = msgspec.structs.replace(owner, edited=DUE)
        settled = settle(CronPlan([owner], None, ObservedTarget({"replicas": 1}), DUE + 60), DUE + 60)
        histories = write_histories(settled.states["c1"], [rule["name"] for rule in case["rules"]])
        theirs, ours = coming(case["executionHistories"]), coming(histories)
        if theirs != ours:
            differing.add((case["reconcile"], theirs, ours))

    assert {tuple(row) for row in listed("recorded reconcile of rules")} == differing


def coming(histories: list[Json]) -> str:
    return ", ".join(f"{one['ruleName']}: {one.get('nextExecutionTime', 'never')}" for one in histories)
