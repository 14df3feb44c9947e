"""Rules of the fields that Karmada does not have, fixed quirks of Karmada, and warnings."""

from __future__ import annotations

from typing import Any

import pytest

from fedhpa.admission.cronfederatedhpa import validate_cronfederatedhpa, warn_cronfederatedhpa
from fedhpa.admission.federatedhpa import validate_federatedhpa, warn_federatedhpa
from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.decode import decode
from fedhpa.api.federatedhpa import FederatedHPA
from fedhpa.api.fielderror import remedies

METADATA = {"name": "web", "namespace": "shop"}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
SCALED_FHPA = {"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "name": "web"}
EXTERNAL: dict[str, Any] = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "30"}},
}


def fhpa(**spec: Any) -> FederatedHPA:
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 10, **spec}
    return decode(FederatedHPA, {"metadata": METADATA, "spec": spec})


def errors(**spec: Any) -> list[str]:
    return [str(error) for error in validate_federatedhpa(fhpa(**spec))]


def warnings(**spec: Any) -> list[str]:
    return list(warn_federatedhpa(fhpa(**spec)))


def cron(**rule: Any) -> CronFederatedHPA:
    rule = {"name": "r", "schedule": "0 8 * * *", "targetReplicas": 3, "timeZone": "UTC", **rule}
    return decode(
        CronFederatedHPA, {"metadata": METADATA, "spec": {"scaleTargetRef": TARGET, "rules": [rule]}}
    )


def cron_errors(**rule: Any) -> list[str]:
    return [str(error) for error in validate_cronfederatedhpa(cron(**rule))]


def test_zero_is_admitted_beside_an_external_or_object_metric_only() -> None:
    """Only Object and External metrics have values without pods. The refusal has Karmada's message."""
    refused = ["spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"]

    assert errors(minReplicas=0, metrics=[EXTERNAL]) == []
    assert errors(minReplicas=0) == refused
    assert errors(minReplicas=-1, metrics=[EXTERNAL]) == [
        "spec.minReplicas: Invalid value: -1: must be greater than or equal to 1"
    ]
    assert warnings(minReplicas=0) == [
        "spec.minReplicas: 0 needs an Object or External metric, because no pod is left to measure"
    ]


def test_min_and_max_may_stand_under_their_other_names() -> None:
    """The federated aliases count as min and max, and errors name the field that the user wrote."""
    assert errors(maxReplicas=None, federatedMaxReplicas=5, federatedMinReplicas=2) == []
    assert errors(maxReplicas=None, federatedMaxReplicas=5, federatedMinReplicas=9) == [
        "spec.federatedMaxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`"
    ]
    assert errors(maxReplicas=None) == ["spec.maxReplicas: Invalid value: 0: must be greater than 0"]


def test_both_names_given_must_agree() -> None:
    """Two different numbers for one bound are an error; equal numbers are valid."""
    assert errors(maxReplicas=5, federatedMaxReplicas=5) == []
    assert errors(maxReplicas=5, federatedMaxReplicas=6) == [
        (
            "spec.federatedMaxReplicas: Invalid value: 6: "
            "is another name of maxReplicas, which is 5: give one of them"
        )
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"mode": "Half"},
            'spec.mode: Unsupported value: "Half": supported values: "Centralized", "Distributed"',
        ),
        (
            {"syncPeriodSeconds": 301},
            (
                "spec.syncPeriodSeconds: Invalid value: 301: "
                "must be greater than or equal to 1 and less than or equal to 300"
            ),
        ),
        (
            {"partialMetrics": {"policy": "Wait"}},
            (
                'spec.partialMetrics.policy: Unsupported value: "Wait": '
                'supported values: "Fallback", "Hold", "Proceed", "ScaleUpOnly"'
            ),
        ),
        (
            {"partialMetrics": {"policy": "Fallback"}},
            (
                "spec.partialMetrics.fallbackReplicas: Required value: "
                "policy Fallback needs the number to fall back to"
            ),
        ),
        (
            {"clusterHPAPreference": {"clusterName": "m1", "maxResourceUsage": 0}},
            (
                "spec.clusterHPAPreference[0].maxResourceUsage: Invalid value: 0: "
                "must be greater than 0 and less than or equal to 1"
            ),
        ),
        (
            {
                "federatedHPAAssignment": {
                    "clusterAutoscalingPreference": [
                        {"autoscalingMinThreshold": 5, "autoscalingMaxThreshold": 4}
                    ]
                }
            },
            (
                "spec.federatedHPAAssignment.clusterAutoscalingPreference[0].autoscalingMinThreshold: "
                "Invalid value: 5: must be less than or equal to autoscalingMaxThreshold, which is 4"
            ),
        ),
        (
            {"metrics": [EXTERNAL | {"external": {**EXTERNAL["external"], "aggregation": "Median"}}]},
            (
                'spec.metrics[0].external.aggregation: Unsupported value: "Median": '
                'supported values: "Average", "Max", "Min", "Sum"'
            ),
        ),
        ({"metrics": [EXTERNAL] * 65}, "spec.metrics: Too many: 65: must have at most 64 items"),
    ],
)
def test_a_field_of_ours_outside_its_bounds_is_refused(spec: dict[str, Any], expected: str) -> None:
    """Admission checks the bounds too, because a hub may have Karmada's CRD."""
    assert errors(**spec) == [expected]


def test_everything_of_ours_within_its_bounds_is_admitted() -> None:
    """Features that the controller does not support yet are admitted, such as mode Distributed."""
    assert (
        errors(
            mode="Distributed",
            dryRun=True,
            syncPeriodSeconds=1,
            partialMetrics={"policy": "Fallback", "fallbackReplicas": 0, "lostAfterSeconds": 60},
            clusterAffinity={"clusterNames": ["m1"], "exclude": ["m2"]},
            federatedHPAAssignment={
                "federatedHPAAssignmentType": "Prioritized",
                "minimumPolicy": "Exact",
                "rebalance": "Never",
                "clusterAutoscalingPreference": [{"targetCluster": {"clusterNames": ["m1"]}, "priority": 2}],
            },
            clusterHPAPreference=[{"clusterName": "m1", "maxResourceUsage": 0.5}],
            autoscaleMultiClusterDelay=0,
            scaleAssist=False,
            scalingToZero=True,
            behavior={
                "scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1}], "tolerance": 0}
            },
        )
        == []
    )


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (
            {"type": "AverageValue", "value": "1"},
            (
                "spec.metrics[0].object.target.averageValue: Required value: "
                "must be set when the target type is AverageValue"
            ),
        ),
        (
            {"type": "Value", "averageValue": "1"},
            "spec.metrics[0].object.target.value: Required value: must be set when the target type is Value",
        ),
    ],
)
def test_an_object_metric_must_set_what_its_type_names(target: dict[str, str], expected: str) -> None:
    """Karmada admits such an object, and its controller then dereferences nil."""
    metric = {
        "type": "Object",
        "object": {
            "describedObject": {"kind": "Service", "name": "s"},
            "metric": {"name": "rps"},
            "target": target,
        },
    }

    assert errors(metrics=[metric]) == [expected]


def test_what_hardly_means_well_is_admitted_with_a_warning() -> None:
    """A bad apiVersion, a wrong target type, a duplicate metric and a bad selector give warnings."""
    selector = {"matchLabels": {"a b": "c"}}
    metric = {
        "type": "Pods",
        "pods": {
            "metric": {"name": "rps", "selector": selector},
            "target": {"type": "Value", "averageValue": "1"},
        },
    }
    spec: dict[str, Any] = {
        "scaleTargetRef": {"kind": "Deployment", "name": "web"},
        "metrics": [metric, metric],
    }

    assert errors(**spec) == []
    found = warnings(**spec)
    assert found[0].startswith("spec.scaleTargetRef.apiVersion: ")
    assert (
        "spec.metrics[0].pods.target.type: Value does not go with averageValue; write AverageValue" in found
    )
    assert any(text.startswith("spec.metrics[0].pods.metric.selector: ") for text in found)
    assert (
        "spec.metrics[1]: is the same metric as spec.metrics[0]; only the lower target has an effect" in found
    )


def test_a_tidy_object_has_no_warnings() -> None:
    """An ordinary object gets no warning."""
    external = {**EXTERNAL, "external": {**EXTERNAL["external"], "aggregation": "Max"}}

    assert warnings(metrics=[external]) == []
    assert list(warn_cronfederatedhpa(cron())) == []


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            {"schedule": "*/10 * * * *", "maxDelaySeconds": 600},
            (
                "spec.rules[0].maxDelaySeconds: Invalid value: 600: "
                "must be smaller than the shortest interval between two executions, which is 600 seconds"
            ),
        ),
        (
            {"maxDelaySeconds": 0},
            "spec.rules[0].maxDelaySeconds: Invalid value: 0: must be greater than or equal to 1",
        ),
        (
            {"duration": "soon"},
            (
                'spec.rules[0].duration: Invalid value: "soon": '
                "is no duration; write one such as 8h or 90m, or seconds"
            ),
        ),
        (
            {"duration": 30},
            (
                "spec.rules[0].duration: Invalid value: 30: "
                "is shorter than a minute; write 60 or more seconds, or 1m"
            ),
        ),
        (
            {"excludeDates": ["2026-12-25", "2026-02-29"]},
            (
                'spec.rules[0].excludeDates[1]: Invalid value: "2026-02-29": '
                "is no date of the calendar; write YYYY-MM-DD, such as 2026-12-25, a range of them as "
                "FROM/TO, or --MM-DD for each year"
            ),
        ),
        (
            {"startDate": "2026-02-29", "endDate": "2026-01-01"},
            (
                'spec.rules[0].startDate: Invalid value: "2026-02-29": '
                "is no date of the calendar; write YYYY-MM-DD, such as 2026-12-25"
            ),
        ),
        (
            {"startDate": "2026-12-02", "endDate": "2026-12-01"},
            'spec.rules[0].endDate: Invalid value: "2026-12-01": is before startDate 2026-12-02',
        ),
    ],
)
def test_a_cron_field_of_ours_outside_its_rule_is_refused(rule: dict[str, Any], expected: str) -> None:
    """Each message states the rule and what to write."""
    assert cron_errors(**rule) == [expected]


def test_cron_fields_of_ours_within_their_rules_are_admitted() -> None:
    """A delay below the interval, durations in both forms, and existing dates are valid."""
    assert cron_errors(maxDelaySeconds=86399, duration="8h", excludeDates=["2028-02-29"]) == []
    assert cron_errors(duration=28800) == []
    dates = ["2026-12-24/2027-01-06", "--02-29", "2026-05-01/2026-05-01"]
    assert cron_errors(startDate="2026-11-27", endDate="2026-11-27", excludeDates=dates, atLeast=True) == []


def test_at_least_is_refused_for_a_federatedhpa() -> None:
    """Its bounds are no size. A minimum alone lowers nothing."""
    target = {"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "name": "web"}
    rule = {"name": "r", "schedule": "0 8 * * *", "targetMinReplicas": 2}

    def errors(at_least: bool) -> list[str]:
        rules = [{**rule, "atLeast": at_least}]
        raw = {"metadata": METADATA, "spec": {"scaleTargetRef": target, "rules": rules}}
        return [str(error) for error in validate_cronfederatedhpa(decode(CronFederatedHPA, raw))]

    assert errors(True) == [
        (
            "spec.rules[0].atLeast: Invalid value: true: is only for a target with a scale; "
            "for a FederatedHPA, targetMinReplicas alone lowers nothing"
        )
    ]
    assert errors(False) == []


def test_too_many_rules_are_refused_for_their_number_alone() -> None:
    """A thousand rules are checked one by one; a longer list is refused for its size alone."""
    rules = [{"name": "r", "schedule": "bad"}] * 1001
    raw = {"metadata": METADATA, "spec": {"scaleTargetRef": TARGET, "rules": rules}}

    found = validate_cronfederatedhpa(decode(CronFederatedHPA, raw))

    assert [str(error) for error in found] == ["spec.rules: Too many: 1001: must have at most 1000 items"]


def test_a_refused_schedule_and_zone_come_with_remedies() -> None:
    """The messages are Karmada's; the warnings say what to write instead."""
    bad = cron(schedule="0 0 L * *", timeZone="UTC+8")

    errors = validate_cronfederatedhpa(bad)
    assert [str(error) for error in errors] == [
        'spec.rules[0].schedule: Invalid value: "0 0 L * *": invalid cron format',
        'spec.rules[0].timeZone: Invalid value: "UTC+8": unknown time zone UTC+8',
    ]
    schedule, zone = remedies(errors)
    assert schedule.startswith("spec.rules[0].schedule: day-of-month: 'L'")
    assert "Etc/GMT-8" in zone


def test_a_rule_without_a_zone_is_told_that_it_runs_in_utc() -> None:
    """There is one warning, however many rules have no time zone."""
    assert list(warn_cronfederatedhpa(cron(timeZone=None))) == [
        (
            "spec.rules[0].timeZone: no zone is given, so the schedule runs in UTC; "
            "write a name such as Europe/Berlin, or UTC"
        )
    ]


@pytest.mark.parametrize(
    ("target", "rule", "expected"),
    [
        (
            {"kind": "Deployment", "name": "web"},
            {},
            'spec.scaleTargetRef.apiVersion: "" names no API group and version; write one such as apps/v1',
        ),
        (
            {"kind": "FederatedHPA", "name": "web"},
            {},
            (
                'spec.scaleTargetRef.apiVersion: "" is not that of a FederatedHPA; '
                "write autoscaling.karmada.io/v1alpha1"
            ),
        ),
        (
            SCALED_FHPA,
            {"targetMinReplicas": 2},
            (
                "spec.rules[0].targetReplicas: does not affect a FederatedHPA; "
                "write targetMinReplicas and targetMaxReplicas"
            ),
        ),
        (
            TARGET,
            {"targetMinReplicas": 2, "targetMaxReplicas": 3},
            (
                "spec.rules[0].targetMinReplicas: does not affect a workload (nor does 1 more field); "
                "write targetReplicas"
            ),
        ),
    ],
)
def test_a_calendar_is_told_what_has_no_effect_on_its_target(
    target: dict[str, str], rule: dict[str, Any], expected: str
) -> None:
    """The apiVersion of the target decides which sizes a rule has. A wrong one is admitted with a warning."""
    rules = [{"name": "r", "schedule": "0 8 * * *", "timeZone": "UTC", "targetReplicas": 3, **rule}]
    raw = {"metadata": METADATA, "spec": {"scaleTargetRef": target, "rules": rules}}
    calendar = decode(CronFederatedHPA, raw)

    assert validate_cronfederatedhpa(calendar) == []
    assert list(warn_cronfederatedhpa(calendar)) == [expected]


def test_fields_have_the_names_of_the_wire_alone() -> None:
    """A name in snake case is an unknown field, as in Karmada: it is ignored and not refused."""
    spec = {"scaleTargetRef": TARGET, "max_replicas": 10, "min_replicas": "x"}
    unknown = decode(FederatedHPA, {"metadata": METADATA, "spec": spec})

    assert [str(error) for error in validate_federatedhpa(unknown)] == [
        "spec.maxReplicas: Invalid value: 0: must be greater than 0"
    ]
    assert errors(min_replicas=20) == []


def test_admitted_objects_are_told_no_remedies() -> None:
    """An admitted object gets no remedies, but all other warnings."""
    doubtful = fhpa(metrics=[EXTERNAL, EXTERNAL])

    assert list(warn_federatedhpa(doubtful, admitted=True)) == list(warn_federatedhpa(doubtful)) != []
    assert list(warn_cronfederatedhpa(cron(schedule="5"))) == []
    assert list(remedies(validate_cronfederatedhpa(cron(schedule="5")))) != []
