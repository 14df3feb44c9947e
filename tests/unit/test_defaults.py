"""The static defaults that admission writes and the controller applies."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fedhpa.admission import crd
from fedhpa.admission.defaults import default_patch
from fedhpa.api.default_values import default_metrics, default_scaling_rules
from fedhpa.decision import decode_object

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def fhpa(**spec: Any) -> dict[str, Any]:
    return {"spec": {"scaleTargetRef": TARGET, "maxReplicas": 10, **spec}}


def patched(raw: dict[str, Any]) -> dict[str, Any]:
    """Applies the `add` operations of a JSON patch to a copy."""
    result = copy.deepcopy(raw)
    for operation in default_patch(raw):
        assert operation["op"] == "add"
        *parents, last = operation["path"].split("/")[1:]
        node = result
        for parent in parents:
            node = node[parent]
        node[last] = operation["value"]
    return result


def test_an_object_that_says_nothing_gets_min_replicas_and_the_cpu_metric() -> None:
    """minReplicas 1 and cpu at 80 % are written, behavior stays absent."""
    assert default_patch(fhpa()) == [
        {"op": "add", "path": "/spec/minReplicas", "value": 1},
        {"op": "add", "path": "/spec/metrics", "value": default_metrics()},
    ]


@pytest.mark.parametrize("alias", ["federatedMinReplicas", "federatedMaxReplicas"])
def test_min_replicas_is_not_written_beside_a_federated_alias(alias: str) -> None:
    """An object with a federated alias gets no minReplicas, which might later contradict the alias."""
    paths = [operation["path"] for operation in default_patch(fhpa(**{alias: 5}))]

    assert paths == ["/spec/metrics"]


@pytest.mark.parametrize("behavior", [{}, {"scaleUp": None}, {"scaleUp": {}, "scaleDown": {}}])
def test_a_present_behavior_has_both_directions_filled(behavior: dict[str, Any]) -> None:
    """However incomplete the behavior is, both directions have the defaults afterwards."""
    assert patched(fhpa(behavior=behavior))["spec"]["behavior"] == default_scaling_rules()


def test_given_fields_of_a_direction_win_one_by_one() -> None:
    """A given window, select policy, list of policies and tolerance stay, the rest is filled in."""
    behavior = {"scaleUp": {"selectPolicy": "Min", "tolerance": "0.05"}, "scaleDown": {"policies": []}}

    result = patched(fhpa(behavior=behavior))["spec"]["behavior"]

    assert result["scaleUp"]["selectPolicy"] == "Min"
    assert result["scaleUp"]["tolerance"] == "0.05"
    assert result["scaleUp"]["stabilizationWindowSeconds"] == 0
    assert result["scaleDown"] == {"policies": [], "selectPolicy": "Max"}


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"spec": None},
        {"spec": {}},
        fhpa(minReplicas=None, metrics=None, behavior=None),
        fhpa(minReplicas=-3, metrics=[], behavior={"scaleDown": {"stabilizationWindowSeconds": 10}}),
        fhpa(federatedMinReplicas=2, unknown={"kept": [1]}, mode="Distributed"),
    ],
)
def test_applying_the_defaults_twice_changes_nothing(raw: dict[str, Any]) -> None:
    """The patch of a patched object is empty, and unknown fields survive."""
    once = patched(raw)

    assert default_patch(once) == []
    assert once["spec"].get("unknown") == (raw.get("spec") or {}).get("unknown")


def test_fields_of_ours_are_never_defaulted() -> None:
    """mode, partialMetrics and the like appear in no patch."""
    written = {operation["path"].split("/")[2] for operation in default_patch(fhpa(behavior={}))}

    assert written == {"minReplicas", "metrics", "behavior"}


OBJECTS: list[dict[str, Any]] = [
    fhpa(),
    fhpa(minReplicas=3, metrics=[]),
    fhpa(behavior={}),
    fhpa(behavior={"scaleDown": {"selectPolicy": "Disabled"}, "scaleUp": {"stabilizationWindowSeconds": 5}}),
    fhpa(behavior={"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1}]}}),
    fhpa(maxReplicas=None, federatedMaxReplicas=7),
    fhpa(maxReplicas=None, federatedMinReplicas=2, federatedMaxReplicas=7),
]


@pytest.mark.parametrize("raw", OBJECTS)
def test_a_decision_reads_an_object_as_if_admission_had_seen_it(raw: dict[str, Any]) -> None:
    """An object stored without the webhook has the same meaning as one with the defaults written."""
    assert decode_object(raw).spec == decode_object(patched(raw)).spec


@pytest.mark.parametrize("raw", OBJECTS)
def test_the_schema_defaults_what_admission_does_but_for_min_replicas(raw: dict[str, Any]) -> None:
    """After the API server's defaults, /mutate has only minReplicas left to write."""
    stored = copy.deepcopy(raw)
    schema = crd.custom_resource_definition(crd.FEDERATED_HPA)["spec"]["versions"][0]["schema"]
    default(stored, schema["openAPIV3Schema"])

    paths = {operation["path"] for operation in default_patch(stored)}

    # An empty list of metrics is a value to the schema.
    assert paths <= {"/spec/minReplicas"} | ({"/spec/metrics"} if raw["spec"].get("metrics") == [] else set())
    assert {**patched(stored)["spec"], "metrics": None} == {**patched(raw)["spec"], "metrics": None}


def default(value: Any, schema: dict[str, Any]) -> None:
    """Applies a schema's defaults as API servers do: a missing field first, then its nested fields."""
    if isinstance(value, dict):
        for name, inner in schema.get("properties", {}).items():
            if "default" in inner and value.get(name) is None:
                value[name] = copy.deepcopy(inner["default"])
            if name in value:
                default(value[name], inner)
    elif isinstance(value, list):
        for item in value:
            default(item, schema["items"])


def test_the_aliases_stand_in_for_min_and_max() -> None:
    """Decisions read one pair of limits, whichever names the object uses."""
    spec = decode_object({"spec": {"federatedMinReplicas": 2, "federatedMaxReplicas": 7}}).spec

    assert (spec.min_replicas, spec.max_replicas) == (2, 7)
