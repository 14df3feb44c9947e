"""A field that this controller cannot act on is named, with the fields of Karmada to use instead."""

from __future__ import annotations

from typing import Any

import pytest

from controller.federatedhpa.karmada import unsupported_field


def policy(name: str) -> dict[str, Any]:
    """A spec with an assignment policy."""
    return {"federatedHPAAssignment": {"federatedHPAAssignmentType": name}}


WEIGHTED = "{replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: "


@pytest.mark.parametrize(
    ("spec", "field", "remedy"),
    [
        (policy("Duplicated"), "Duplicated", "replicaScheduling: {replicaSchedulingType: Duplicated}"),
        (policy("Aggregated"), "Aggregated", "replicaDivisionPreference: Aggregated}"),
        (policy("DynamicWeighted"), "DynamicWeighted", f"{WEIGHTED}{{dynamicWeight: AvailableReplicas}}}}"),
        (policy("StaticWeighted"), "StaticWeighted", f"{WEIGHTED}{{staticWeightList: ["),
        (
            policy("Prioritized"),
            "Prioritized",
            "write clusterAffinities: [{affinityName: first, clusterNames: [...], overflowAffinities: [{",
        ),
        (policy("Prioritized"), "Prioritized", "since Karmada v1.18"),
        (policy("LoadWeighted"), "LoadWeighted", "or use --propagation=direct"),
        (
            {"federatedHPAAssignment": {"rebalance": "WhenQuiet"}},
            "spec.federatedHPAAssignment.rebalance: WhenQuiet",
            "create a WorkloadRebalancer",
        ),
        ({"clusterHPAPreference": [{}]}, "spec.clusterHPAPreference", "FederatedResourceQuota"),
        ({"autoscaleMultiClusterDelay": 60}, "spec.autoscaleMultiClusterDelay", "--unschedulable-threshold"),
        (
            {"clusterAffinity": {"clusterNames": ["m1"], "exclude": ["m2"]}},
            "spec.clusterAffinity",
            'leave the field out, and write clusterAffinity: {"clusterNames": ["m1"], "exclude": ["m2"]} in',
        ),
    ],
)
def test_the_remedy_is_named(spec: dict[str, Any], field: str, remedy: str) -> None:
    """The message has field, reason and remedy."""
    message = unsupported_field(spec)

    assert message is not None
    assert field in message
    assert remedy in message
    assert "Karmada's scheduler divides the replicas" in message


def test_what_karmada_does_is_supported() -> None:
    """A spec without these fields is acted on."""
    assert unsupported_field({"maxReplicas": 3, "mode": "Centralized"}) is None
    assert unsupported_field({"federatedHPAAssignment": {"rebalance": "Never"}}) is None


def test_a_policy_that_bypassed_admission_is_shortened() -> None:
    """The message stays short, whatever the object holds."""
    affinity = {"clusterAffinity": {"exclude": ["x" * 512] * 1000}}
    for spec in (policy("x" * 10_000), affinity):
        message = unsupported_field(spec)

        assert message is not None
        assert len(message) < 500


def test_an_affinity_that_selects_all_is_what_karmada_does() -> None:
    """In mode Distributed the field narrows the placement, so it is supported there."""
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    excluding = {"clusterAffinity": {"exclude": ["m2"]}, "mode": "Distributed", "scaleTargetRef": deployment}
    specs: list[dict[str, Any]] = [{"clusterAffinity": {}}, {"clusterAffinity": None}, excluding]
    for spec in specs:
        assert unsupported_field(spec) is None
