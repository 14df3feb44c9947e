"""Values of the wrong JSON type: the messages of Go's decoder (k8s.io/api 0.36), and the remedies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedhpa.api.decode import WrongType, decode
from fedhpa.api.federatedhpa import FederatedHPA

FIELD = "json: cannot unmarshal {} into Go struct field {} of type {}"


@pytest.mark.parametrize(
    ("text", "value", "field", "type_"),
    [
        ('{"spec":[]}', "array", "FederatedHPA.spec", "v1alpha1.FederatedHPASpec"),
        ('{"metadata":[]}', "array", "FederatedHPA.metadata", "v1.ObjectMeta"),
        ('{"metadata":{"labels":{"a":1}}}', "number", "ObjectMeta.metadata.labels", "string"),
        ('{"metadata":{"labels":[]}}', "array", "ObjectMeta.metadata.labels", "map[string]string"),
        ('{"metadata":{"name":1.5}}', "number", "ObjectMeta.metadata.name", "string"),
        ('{"metadata":{"uid":1}}', "number", "ObjectMeta.metadata.uid", "types.UID"),
        ('{"metadata":{"generation":"1"}}', "string", "ObjectMeta.metadata.generation", "int64"),
        ('{"metadata":{"finalizers":[1]}}', "number", "ObjectMeta.metadata.finalizers", "string"),
        ('{"metadata":{"creationTimestamp":5}}', "number", "ObjectMeta.metadata.creationTimestamp", "string"),
        ('{"spec":{"maxReplicas":true}}', "bool", "FederatedHPASpec.spec.maxReplicas", "int32"),
        ('{"spec":{"maxReplicas":1.5}}', "number 1.5", "FederatedHPASpec.spec.maxReplicas", "int32"),
        (
            '{"spec":{"minReplicas":3000000000}}',
            "number 3000000000",
            "FederatedHPASpec.spec.minReplicas",
            "int32",
        ),
        ('{"spec":{"metrics":[1]}}', "number", "FederatedHPASpec.spec.metrics", "v2.MetricSpec"),
        (
            '{"spec":{"behavior":[]}}',
            "array",
            "FederatedHPASpec.spec.behavior",
            "v2.HorizontalPodAutoscalerBehavior",
        ),
        (
            '{"spec":{"behavior":{"scaleUp":{"selectPolicy":1}}}}',
            "number",
            "HPAScalingRules.spec.behavior.scaleUp.selectPolicy",
            "v2.ScalingPolicySelect",
        ),
        (
            '{"status":{"desiredReplicas":"x"}}',
            "string",
            "HorizontalPodAutoscalerStatus.status.desiredReplicas",
            "int32",
        ),
    ],
)
def test_a_wrong_type_is_reported_as_go_reports_it(text: str, value: str, field: str, type_: str) -> None:
    """The message names the struct of the field, its path without indices, and its type."""
    with pytest.raises(WrongType) as caught:
        decode(FederatedHPA, json.loads(text))

    assert str(caught.value) == FIELD.format(value, field, type_)


def test_the_remedy_names_the_item_and_what_it_takes() -> None:
    """The message has no indices, but the remedy has them."""
    raw = {
        "spec": {"metrics": [{"type": "Pods"}, {"type": "Pods", "pods": {"target": {"averageValue": []}}}]}
    }

    with pytest.raises(WrongType) as caught:
        decode(FederatedHPA, raw)

    assert caught.value.remedy == (
        "spec.metrics[1].pods.target.averageValue: write a quantity such as 500m or 2Gi"
    )


@pytest.mark.parametrize(
    ("spec", "remedy"),
    [
        ({"maxReplicas": "10"}, "spec.maxReplicas: write 10 without quotes"),
        ({"dryRun": "true"}, "spec.dryRun: write true without quotes"),
        ({"maxReplicas": "ten"}, "spec.maxReplicas: write an integer from -2147483648 to 2147483647"),
        ({"dryRun": "yes"}, "spec.dryRun: write true or false"),
        ({"mode": 10}, "spec.mode: write a text in quotes"),
    ],
)
def test_what_was_quoted_and_should_not_be_is_told(spec: dict[str, Any], remedy: str) -> None:
    """The most common mistake is a number or boolean in quotes."""
    with pytest.raises(WrongType) as caught:
        decode(FederatedHPA, {"spec": spec})

    assert caught.value.remedy == remedy


def test_null_is_absent_and_an_absent_scalar_is_zero() -> None:
    """Null counts as absent everywhere, also in lists and maps, as in Go."""
    raw = {
        "metadata": {"labels": {"a": None}, "finalizers": [None]},
        "spec": {"maxReplicas": None, "metrics": [None]},
    }

    fhpa = decode(FederatedHPA, raw)

    assert fhpa.metadata.labels == {"a": ""}
    assert fhpa.metadata.finalizers == ("",)
    assert fhpa.spec.max_replicas is None
    assert fhpa.spec.metrics[0].type == ""
