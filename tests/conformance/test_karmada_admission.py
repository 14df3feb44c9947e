"""What Karmada's webhook answered to CronFederatedHPAs, replayed against ours; differences are listed."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.decode import decode
from fedhpa.api.fielderror import aggregate
from fedhpa.cron.validation import validate_cronfederatedhpa
from tests.conformance.tables import table
from webhook.review import review

TABLE = table("karmada_webhook_cron")
SCHEDULE: Final = "spec.rules[0].schedule: Invalid value: {}: invalid cron format"
ZONE: Final = 'spec.rules[0].timeZone: Invalid value: "{0}": unknown time zone {0}'

GRAMMAR: Final = "docs/contracts.md section 4: what is admitted is what can run"
HOST: Final = "Karmada's verdict depends on the zone files of its host; ours knows the IANA names alone"
TERMINATING: Final = "quirk Q2 is fixed: an object being deleted may always lose its finalizer"

# Name of the run -> our message (None: allowed), and why.
DIFFERENCES: Final[dict[str, tuple[str | None, str]]] = {
    "schedule '@5minutes'": (SCHEDULE.format('"@5minutes"'), GRAMMAR),
    "schedule '0 0 0 * * *'": (SCHEDULE.format('"0 0 0 * * *"'), GRAMMAR),
    "schedule '0 0 L * *'": (SCHEDULE.format('"0 0 L * *"'), GRAMMAR),
    "schedule '0 0 * * FRI#2'": (SCHEDULE.format('"0 0 * * FRI#2"'), GRAMMAR),
    "schedule '0 0 31 2 *'": (SCHEDULE.format('"0 0 31 2 *"'), GRAMMAR),
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
    answer: dict[str, Any] = json.loads(review(run["path"], json.dumps(body).encode(), "application/json"))
    return answer


@pytest.mark.parametrize("run", TABLE["admissionRuns"], ids=lambda run: run["name"])
def test_an_admission_run_is_answered_as_karmada_does(run: dict[str, Any]) -> None:
    """Verdict, code, reason and message are Karmada's to the byte, but for the listed differences."""
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


def test_every_listed_difference_is_a_run_of_the_table() -> None:
    """The list of differences names no run that is gone."""
    assert set(DIFFERENCES) <= {run["name"] for run in TABLE["admissionRuns"]}


@pytest.mark.parametrize("case", TABLE["upstreamUnitTests"], ids=lambda case: case["name"])
def test_karmadas_unit_tests_of_the_spec_hold(case: dict[str, Any]) -> None:
    """Karmada's own table: validity and the whole message; they know no metadata."""
    raw = {"metadata": {"name": "c", "namespace": "ns"}, "spec": case["spec"]}

    errors = validate_cronfederatedhpa(decode(CronFederatedHPA, raw))

    assert (aggregate(errors) if errors else None) == case["actualMessage"]


RULES = [
    case for case in table("karmada_misc_unit")["cases"] if case["test"] == "TestCreateCronJobForExecutor"
]


@pytest.mark.parametrize("case", RULES, ids=lambda case: case["name"])
def test_a_rule_that_karmadas_controller_cannot_start_is_not_admitted(case: dict[str, Any]) -> None:
    """What fails when the controller starts a rule fails here at admission."""
    rule = {"targetReplicas": 1, **case["rule"], "timeZone": case["timeZone"]}
    raw = {
        "metadata": {"name": "c", "namespace": "ns"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "rules": [rule]},
    }

    errors = validate_cronfederatedhpa(decode(CronFederatedHPA, raw))

    assert bool(errors) == case["wantErr"]
