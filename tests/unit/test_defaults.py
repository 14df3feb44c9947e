"""The static defaults: what admission writes, and what the controller assumes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fedhpa.api.defaults import default_metrics, default_patch, default_scaling_rules, with_defaults
from fedhpa.api.federatedhpa import FederatedHPA

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
    """An object that speaks the proposals' names gets no second name it may later disagree with."""
    paths = [operation["path"] for operation in default_patch(fhpa(**{alias: 5}))]

    assert paths == ["/spec/metrics"]


@pytest.mark.parametrize("behavior", [{}, {"scaleUp": None}, {"scaleUp": {}, "scaleDown": {}}])
def test_a_present_behavior_has_both_directions_filled(behavior: dict[str, Any]) -> None:
    """However little it says, both directions hold the defaults afterwards."""
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
    """The patch of a patched object is empty, and what nobody knows survives."""
    once = patched(raw)

    assert default_patch(once) == []
    assert once["spec"].get("unknown") == (raw.get("spec") or {}).get("unknown")


def test_fields_of_ours_are_never_defaulted() -> None:
    """mode, partialMetrics and the like appear in no patch."""
    written = {operation["path"].split("/")[2] for operation in default_patch(fhpa(behavior={}))}

    assert written == {"minReplicas", "metrics", "behavior"}


def test_the_model_gets_the_same_defaults_as_the_stored_object() -> None:
    """Defaults applied to the model equal the model of the patched object."""
    raw = fhpa(behavior={"scaleDown": {"selectPolicy": "Disabled"}})

    assert with_defaults(FederatedHPA.model_validate(raw)) == FederatedHPA.model_validate(patched(raw))


def test_the_aliases_stand_in_for_min_and_max() -> None:
    """The controller reads one pair of bounds, whatever their name in the object."""
    spec = with_defaults(
        FederatedHPA.model_validate({"spec": {"federatedMinReplicas": 2, "federatedMaxReplicas": 7}})
    ).spec

    assert (spec.min_replicas, spec.max_replicas) == (2, 7)
