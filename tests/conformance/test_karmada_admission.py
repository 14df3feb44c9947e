"""Karmada's recorded answers to CronFederatedHPAs, replayed against this webhook; differences are listed.

Each reason in the list is a row of docs/explanation/differences.md, which a test looks for.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from fedhpa.admission import crd
from fedhpa.admission.cronfederatedhpa import validate_cronfederatedhpa
from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.decode import decode
from fedhpa.api.fielderror import aggregate
from tests.conformance.tables import table
from webhook.handlers import judge

TABLE = table("karmada_webhook_cron")
SCHEDULE: Final = "spec.rules[0].schedule: Invalid value: {}: invalid cron format"
ZONE: Final = 'spec.rules[0].timeZone: Invalid value: "{0}": unknown time zone {0}'

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "differences.md").read_text(encoding="utf-8")

# The beginnings of rows of docs/explanation/differences.md.
GRAMMAR: Final = "| schedules | six and seven fields, `L`, `W`, `#`, day or month `0`"
NEVER: Final = "| schedules | dates that never come are admitted"
HOST: Final = "| schedules | zones are those of the host's files"
TERMINATING: Final = "| admission | an object being deleted is validated like any other"

# Name of the run -> our message (None: allowed), and why.
DIFFERENCES: Final[dict[str, tuple[str | None, str]]] = {
    "schedule '@5minutes'": (SCHEDULE.format('"@5minutes"'), GRAMMAR),
    "schedule '0 0 0 * * *'": (SCHEDULE.format('"0 0 0 * * *"'), GRAMMAR),
    "schedule '0 0 L * *'": (SCHEDULE.format('"0 0 L * *"'), GRAMMAR),
    "schedule '0 0 * * FRI#2'": (SCHEDULE.format('"0 0 * * FRI#2"'), GRAMMAR),
    "schedule '0 0 31 2 *'": (SCHEDULE.format('"0 0 31 2 *"'), NEVER),
    "schedule '* * 0 * *'": (SCHEDULE.format('"* * 0 * *"'), GRAMMAR),
    "timeZone 'posix/UTC'": (ZONE.format("posix/UTC"), HOST),
    "timeZone 'localtime'": (ZONE.format("localtime"), HOST),
    "UPDATE of an object being deleted is validated too "
    "(old invalid stored object blocks finalizer removal)": (None, TERMINATING),
}


def post(run: dict[str, Any]) -> dict[str, Any]:
    request = {"uid": "0f3a", "operation": run["operation"], "object": run["object"]}
    if "oldObject" in run:
        request["oldObject"] = run["oldObject"]
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer: dict[str, Any] = json.loads(
        judge(run["path"], json.dumps(body).encode(), "application/json").encoded()
    )
    return answer


@pytest.mark.parametrize("run", TABLE["admissionRuns"], ids=lambda run: run["name"])
def test_an_admission_run_is_answered_as_karmada_does(run: dict[str, Any]) -> None:
    """Verdict, code, reason and message equal Karmada's byte for byte, except for the listed differences."""
    expected = run["expect"]
    if run["name"] in DIFFERENCES:
        message, _ = DIFFERENCES[run["name"]]
        assert (message is None) != expected["allowed"], "the row no longer differs: drop it from the list"
        expected = {"allowed": message is None, "code": 403 if message else 200}
        if message:
            expected |= {"reason": "Forbidden", "message": message}

    answer = post(run)
    status = answer["response"]["status"]

    assert answer["apiVersion"] == "admission.k8s.io/v1"
    assert answer["response"]["uid"] == "0f3a"
    assert answer["response"]["allowed"] == expected["allowed"]
    assert status["code"] == expected["code"]
    assert status.get("reason") == expected.get("reason")
    assert status.get("message") == expected.get("message")


def test_every_listed_difference_is_a_run_of_the_table_and_a_row_of_the_page() -> None:
    """Each listed difference refers to an existing run and is documented."""
    assert set(DIFFERENCES) <= {run["name"] for run in TABLE["admissionRuns"]}
    assert {reason for _, reason in DIFFERENCES.values() if reason not in PAGE} == set()


@pytest.mark.parametrize("case", TABLE["upstreamUnitTests"], ids=lambda case: case["name"])
def test_karmadas_unit_tests_of_the_spec_hold(case: dict[str, Any]) -> None:
    """Karmada's own table has the validity and the full message, but no metadata."""
    raw = {"metadata": {"name": "c", "namespace": "ns"}, "spec": case["spec"]}

    errors = validate_cronfederatedhpa(decode(CronFederatedHPA, raw))

    assert (aggregate(errors) if errors else None) == case["actualMessage"]


MISC: Final[list[dict[str, Any]]] = table("karmada_misc_unit")["cases"]


def rows(test: str) -> list[dict[str, Any]]:
    return [case for case in MISC if case["test"] == test]


# Rows that are no matter of admission: who runs them, or why there is nobody.
ELSEWHERE: Final = {
    "TestCronFHPAScaleTargetRefUpdates": "executors of Karmada's cron controller, which are no part of ours",
    "TestScaleFHPA": "what the cron controller writes",
    "TestFindExecutionHistory": "what the cron controller writes",
    "TestGetCronFederatedHPAKey": "a key of Karmada's cron controller, which is no part of ours",
    "TestPredicateFunc": "Karmada's deploymentReplicasSyncer, which stays Karmada's",
    "TestReconcile": "Karmada's deploymentReplicasSyncer, which stays Karmada's",
    "TestIsDeploymentStatusCollected": "Karmada's deploymentReplicasSyncer, which stays Karmada's",
}
LIMITS: Final = {
    "TestGetCronFederatedHPASuccessHistoryLimits": "successfulHistoryLimit",
    "TestGetCronFederatedHPAFailedHistoryLimits": "failedHistoryLimit",
}
START, SUSPEND = "TestCreateCronJobForExecutor", "TestIsCronFederatedHPARuleSuspend"


def test_each_row_is_run_or_said_to_be_elsewhere() -> None:
    """A new test in the table fails this test until it is handled."""
    assert {case["test"] for case in MISC} == {*ELSEWHERE, *LIMITS, START, SUSPEND}


@pytest.mark.parametrize("case", rows(START), ids=lambda case: case["name"])
def test_a_rule_that_karmadas_controller_cannot_start_is_not_admitted(case: dict[str, Any]) -> None:
    """Rules that fail in Karmada's controller are refused at admission here."""
    rule = {"targetReplicas": 1, **case["rule"], "timeZone": case["timeZone"]}
    raw = {
        "metadata": {"name": "c", "namespace": "ns"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "rules": [rule]},
    }

    errors = validate_cronfederatedhpa(decode(CronFederatedHPA, raw))

    assert bool(errors) == case["wantErr"]


def stored(rule: dict[str, Any]) -> dict[str, Any]:
    """Returns a rule with the CRD's defaults."""
    schema = crd.custom_resource_definition(crd.CRON_FEDERATED_HPA)["spec"]["versions"][0]["schema"]
    for part in ("openAPIV3Schema", "spec", "rules"):
        schema = schema[part] if part == "openAPIV3Schema" else schema["properties"][part]
    properties = schema["items"]["properties"]
    return {name: each["default"] for name, each in properties.items() if "default" in each} | rule


@pytest.mark.parametrize("case", rows(SUSPEND), ids=lambda case: case["name"])
def test_a_rule_rests_only_if_it_says_so(case: dict[str, Any]) -> None:
    """An absent value counts as false, also after the CRD's default."""
    raw = {"spec": {"rules": [case["rule"]]}}

    assert bool(decode(CronFederatedHPA, raw).spec.rules[0].suspend) == case["expected"]
    assert stored(case["rule"])["suspend"] == case["expected"]


@pytest.mark.parametrize(
    "case",
    [case for test in LIMITS for case in rows(test)],
    ids=lambda case: f"{case['test']} {case['name']}",
)
def test_a_history_keeps_what_the_rule_says(case: dict[str, Any]) -> None:
    """Three where it says nothing. (Zero of the successful ones is refused by the CRD, as by Karmada's.)"""
    assert stored(case["rule"])[LIMITS[case["test"]]] == case["expected"]
