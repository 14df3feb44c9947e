"""The placement of a Karmada policy as a FederatedHPA's assignment."""

from __future__ import annotations

from typing import Any

import pytest

from fedhpa.api.decode import decode
from fedhpa.api.federatedhpa import FederatedHPASpec
from fedhpa.api.json import convert_json
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.propagation import Placement, assignment_of, with_assignment
from fedhpa.decision.spec import placement_spec

TYPE = "federatedHPAAssignmentType"
DYNAMIC = {"dynamicWeight": "AvailableReplicas"}


def placement(**scheduling: Any) -> Placement:
    return convert_json({"replicaScheduling": scheduling}, Placement)


def divided(**scheduling: Any) -> Placement:
    return placement(replicaSchedulingType="Divided", **scheduling)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, "Duplicated"),
        (Placement(), "Duplicated"),
        (placement(), "Duplicated"),
        (placement(replicaSchedulingType="Duplicated", weightPreference=DYNAMIC), "Duplicated"),
        (divided(), "StaticWeighted"),
        (divided(replicaDivisionPreference="Weighted"), "StaticWeighted"),
        (divided(replicaDivisionPreference="Weighted", weightPreference={}), "StaticWeighted"),
        (divided(replicaDivisionPreference="Weighted", weightPreference=DYNAMIC), "DynamicWeighted"),
        (divided(replicaDivisionPreference="Aggregated"), "Aggregated"),
        (divided(replicaDivisionPreference="Aggregated", weightPreference=DYNAMIC), "Aggregated"),
    ],
)
def test_the_policy_gives_the_type(found: Placement | None, expected: str) -> None:
    assert assignment_of(found) == {TYPE: expected}


def test_of_several_weights_the_largest_counts_and_a_cluster_without_one_gets_0() -> None:
    """As in Karmada's scheduler, where the order of the list does not matter."""
    weights = [
        {"targetCluster": {"clusterNames": ["m1", "m2"]}, "weight": 1},
        {"targetCluster": {"clusterNames": ["m2"]}, "weight": 3},
        {"targetCluster": {"labelSelector": {"matchLabels": {"zone": "a"}}}, "weight": 2},
    ]
    found = divided(replicaDivisionPreference="Weighted", weightPreference={"staticWeightList": weights})
    spec = decode(FederatedHPASpec, {"federatedHPAAssignment": assignment_of(found)})
    clusters = [
        KnownCluster("m1"),
        KnownCluster("m2"),
        KnownCluster("m3", labels={"zone": "a"}),
        KnownCluster("m4"),
    ]

    preferred = placement_spec(spec).preferred(clusters)

    assert {name: each.weight for name, each in preferred.items()} == {"m1": 1, "m2": 3, "m3": 2, "m4": 0}


def test_the_type_of_the_object_comes_first() -> None:
    spec = {"maxReplicas": 5, "federatedHPAAssignment": {TYPE: "Prioritized"}}

    assert with_assignment(spec, divided()) == spec


def test_the_preferences_of_the_object_stay_without_a_type() -> None:
    """Only the type, and the weights of clusters without a preference, come from the policy."""
    own = {"targetCluster": {"clusterNames": ["m1"]}, "autoscalingMaxThreshold": 4}
    weight = {"targetCluster": {"clusterNames": ["m2"]}, "weight": 2}
    found = divided(weightPreference={"staticWeightList": [weight]})

    merged = with_assignment({"federatedHPAAssignment": {"clusterAutoscalingPreference": [own]}}, found)

    assert merged["federatedHPAAssignment"] == {
        TYPE: "StaticWeighted",
        "clusterAutoscalingPreference": [
            own,
            {"targetCluster": {"clusterNames": ["m2"]}, "staticWeight": 2},
            {"staticWeight": 0},
        ],
    }
