"""Refusals of the fields that Karmada does not have. Each names the field and the reason."""

from __future__ import annotations

from typing import Any

import pytest

from fedhpa.admission.federatedhpa import validate_federatedhpa
from fedhpa.api.decode import decode
from fedhpa.api.federatedhpa import FederatedHPA
from fedhpa.api.fielderror import aggregate

METADATA = {"name": "web", "namespace": "shop"}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
ASSIGNMENT = "spec.federatedHPAAssignment"
PREFERENCE = f"{ASSIGNMENT}.clusterAutoscalingPreference[0]"


def external(**more: Any) -> dict[str, Any]:
    body = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "30"}}
    return {"type": "External", "external": {**body, **more}}


def object_metric(**more: Any) -> dict[str, Any]:
    body = {
        "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "s"},
        "metric": {"name": "rps"},
        "target": {"type": "Value", "value": "30"},
    }
    return {"type": "Object", "object": {**body, **more}}


def errors(**spec: Any) -> list[str]:
    raw = {"metadata": METADATA, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 10, **spec}}
    return [str(error) for error in validate_federatedhpa(decode(FederatedHPA, raw), karmada=True)]


def preference(**fields: Any) -> dict[str, Any]:
    return {"federatedHPAAssignment": {"clusterAutoscalingPreference": [fields]}}


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        (1, []),
        (0, [f"{PREFERENCE}.staticWeight: Invalid value: 0: must be greater than or equal to 1"]),
        (-1, [f"{PREFERENCE}.staticWeight: Invalid value: -1: must be greater than or equal to 1"]),
    ],
)
def test_a_static_weight_is_above_zero(weight: int, expected: list[str]) -> None:
    """Weight 0 is refused: to keep a cluster empty, users exclude it."""
    assert errors(**preference(staticWeight=weight)) == expected


def test_thresholds_may_be_equal_but_not_crossed() -> None:
    """The message names the field, its value and the other bound."""
    crossed = preference(autoscalingMinThreshold=5, autoscalingMaxThreshold=4)

    assert errors(**preference(autoscalingMinThreshold=4, autoscalingMaxThreshold=4)) == []
    assert errors(**crossed) == [
        (
            f"{PREFERENCE}.autoscalingMinThreshold: Invalid value: 5: "
            "must be less than or equal to autoscalingMaxThreshold, which is 4"
        )
    ]


@pytest.mark.parametrize(
    ("preferences", "expected"),
    [
        ({"clusterName": "m1", "maxResourceUsage": 1}, []),
        (
            [{"maxResourceUsage": 0.5}],
            ["spec.clusterHPAPreference[0].clusterName: Required value: must name the cluster"],
        ),
        (
            [{"clusterName": "m1"}],
            [
                (
                    "spec.clusterHPAPreference[0].maxResourceUsage: Required value: "
                    "must say how much of the cluster may be used, above 0 and at most 1"
                )
            ],
        ),
        (
            [{"clusterName": "m1", "maxResourceUsage": 0.5}, {"clusterName": "m1", "maxResourceUsage": 0.6}],
            ['spec.clusterHPAPreference[1].clusterName: Duplicate value: "m1"'],
        ),
    ],
)
def test_a_cap_names_its_cluster_once_and_says_how_much(preferences: Any, expected: list[str]) -> None:
    """Two limits for one cluster would contradict each other."""
    assert errors(clusterHPAPreference=preferences) == expected


@pytest.mark.parametrize("path", ["spec.clusterAffinity", f"{PREFERENCE}.targetCluster"])
@pytest.mark.parametrize(
    ("affinity", "field", "expected"),
    [
        ({}, "", None),
        ({"clusterNames": ["m1"], "exclude": ["m2"]}, "", None),
        ({"clusterNames": ["m1", ""]}, ".clusterNames[1]", "Required value: must be the name of a cluster"),
        ({"exclude": [""]}, ".exclude[0]", "Required value: must be the name of a cluster"),
        (
            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            ".labelSelector.matchExpressions[0].values",
            "Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}},
            ".labelSelector.matchExpressions[0].values",
            "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        (
            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is", "values": ["b"]}]}},
            ".labelSelector.matchExpressions[0].operator",
            'Invalid value: "Is": not a valid selector operator',
        ),
        (
            {"labelSelector": {"matchLabels": {"/a": "b"}}},
            ".labelSelector.matchLabels",
            'Invalid value: "/a": prefix part must be non-empty',
        ),
        (
            {"fieldSelector": {"matchExpressions": [{"key": "name", "operator": "In", "values": ["b"]}]}},
            ".fieldSelector.matchExpressions[0].key",
            'Unsupported value: "name": supported values: "provider", "region", "zone"',
        ),
        (
            {"fieldSelector": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}},
            ".fieldSelector.matchExpressions[0].operator",
            'Unsupported value: "Exists": supported values: "In", "NotIn"',
        ),
        (
            {"fieldSelector": {"matchExpressions": [{"key": "zone", "operator": "NotIn"}]}},
            ".fieldSelector.matchExpressions[0].values",
            "Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
    ],
)
def test_an_affinity_can_be_read(
    path: str, affinity: dict[str, Any], field: str, expected: str | None
) -> None:
    """Invalid selectors are refused, with Kubernetes' messages where it has them."""
    spec = {"clusterAffinity": affinity} if "Assignment" not in path else preference(targetCluster=affinity)

    assert errors(**spec) == ([] if expected is None else [f"{path}{field}: {expected}"])


ALONE = "each cluster's HPA reads the metric in its own cluster, nothing is aggregated over clusters"


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (external(), []),
        (object_metric(), []),
        (
            external(aggregation="Sum"),
            [f"spec.metrics[0].external.aggregation: Forbidden: mode is Distributed: {ALONE}"],
        ),
        (
            object_metric(aggregation="Max"),
            [f"spec.metrics[0].object.aggregation: Forbidden: mode is Distributed: {ALONE}"],
        ),
        (
            object_metric(describedObject={"apiVersion": "a/b/c", "kind": "Service", "name": "s"}),
            [
                (
                    'spec.metrics[0].object.describedObject.apiVersion: Invalid value: "a/b/c": '
                    "unexpected GroupVersion string: a/b/c"
                )
            ],
        ),
    ],
)
def test_mode_distributed_refuses_a_metric_that_a_members_hpa_cannot_serve(
    metric: dict[str, Any], expected: list[str]
) -> None:
    """The same metric is admitted in mode Centralized, where the hub reads it."""
    assert errors(mode="Distributed", metrics=[metric]) == expected
    assert errors(mode="Centralized", metrics=[metric]) == errors(metrics=[metric]) == []


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (TARGET, []),
        ({"apiVersion": "v1", "kind": "ReplicationController", "name": "web"}, []),
        ({"kind": "ReplicationController", "name": "web"}, []),
        ({"kind": "Deployment", "name": "web"}, ['"": apiVersion must specify API group']),
        (
            {"apiVersion": "v1", "kind": "Deployment", "name": "web"},
            ['"v1": apiVersion must specify API group'],
        ),
        (
            {"apiVersion": "a/b/c", "kind": "Deployment", "name": "web"},
            ['"a/b/c": unexpected GroupVersion string: a/b/c'],
        ),
    ],
)
def test_mode_distributed_refuses_a_target_that_a_member_would_refuse(
    target: dict[str, Any], expected: list[str]
) -> None:
    """In mode Distributed members validate the apiVersion in their HPAs; mode Centralized ignores it."""
    found = errors(mode="Distributed", scaleTargetRef=target)

    assert found == [f"spec.scaleTargetRef.apiVersion: Invalid value: {text}" for text in expected]
    assert errors(scaleTargetRef=target) == []


def test_load_weights_are_for_mode_centralized() -> None:
    """LoadWeighted divides replicas, but mode Distributed divides limits."""
    assignment = {"federatedHPAAssignmentType": "LoadWeighted"}

    assert errors(federatedHPAAssignment=assignment) == []
    assert errors(mode="Distributed", federatedHPAAssignment=assignment) == [
        (
            f'{ASSIGNMENT}.federatedHPAAssignmentType: Invalid value: "LoadWeighted": mode is Distributed: '
            "LoadWeighted divides replicas, not bounds; write DynamicWeighted, or mode Centralized"
        )
    ]


@pytest.mark.parametrize("replicas", [0, 5, 10, 99])
def test_a_fallback_outside_the_bounds_is_no_error(replicas: int) -> None:
    """A cron rule may change the limits, so fallbackReplicas outside of them is valid."""
    assert errors(partialMetrics={"policy": "Fallback", "fallbackReplicas": replicas}) == []


def test_a_huge_value_is_shown_in_part() -> None:
    """The answer is bounded, whatever a hostile client sends."""
    name = "x" * 1_000_000 + "/"

    (text,) = errors(scaleTargetRef={**TARGET, "name": name})

    assert len(text) < 6000
    assert text.startswith('spec.scaleTargetRef.name: Invalid value: "xxxx')
    assert text.endswith("... (1000001 characters): may not contain '/'")


def test_many_owners_cost_no_more_than_they_are() -> None:
    """Each additional controller is an error that prints all owners; the total text is bounded."""
    owner = {"apiVersion": "v1", "kind": "A", "name": "a", "controller": True}
    owners = [{**owner, "uid": str(number)} for number in range(2000)]
    raw = {
        "metadata": {**METADATA, "ownerReferences": owners},
        "spec": {"scaleTargetRef": TARGET, "maxReplicas": 10},
    }

    text = aggregate(validate_federatedhpa(decode(FederatedHPA, raw)))

    assert "Only one reference can have Controller set to true" in text
    assert len(text) < 1_000_000


def test_an_aggregate_of_very_many_errors_says_how_many_are_not_shown() -> None:
    """A long list of errors is truncated, and the text counts the rest."""
    labels = {f"a b {number}": "" for number in range(20_000)}
    raw = {
        "metadata": {**METADATA, "labels": labels},
        "spec": {"scaleTargetRef": TARGET, "maxReplicas": 10},
    }

    text = aggregate(validate_federatedhpa(decode(FederatedHPA, raw)))

    assert text.startswith('[metadata.labels: Invalid value: "a b 0": ')
    assert text.endswith(" more]")
    assert len(text) < 1_000_000
