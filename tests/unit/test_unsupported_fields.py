"""A field that this controller cannot act on is named, with the fields of Karmada to use instead."""

from __future__ import annotations

from typing import Any

import pytest

from controller.federatedhpa.clusters import unsupported_field


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
        (policy("Prioritized"), "Prioritized", "Karmada has no such policy, so leave the field out"),
        (policy("LoadWeighted"), "LoadWeighted", "or use --propagation=direct"),
        ({"clusterHPAPreference": [{}]}, "spec.clusterHPAPreference", "FederatedResourceQuota"),
        ({"autoscaleMultiClusterDelay": 60}, "spec.autoscaleMultiClusterDelay", "--unschedulable-threshold"),
    ],
)
def test_the_remedy_is_named(spec: dict[str, Any], field: str, remedy: str) -> None:
    """With Karmada the message has field, reason and remedy. With direct propagation all of it is built."""
    message = unsupported_field(spec, direct=False)

    assert message is not None
    assert field in message
    assert remedy in message
    assert "Karmada's scheduler divides the replicas" in message
    assert unsupported_field(spec, direct=True) is None


def test_what_karmada_does_is_supported() -> None:
    """A spec without these fields is acted on with both kinds of propagation."""
    for direct in (True, False):
        assert unsupported_field({"maxReplicas": 3, "mode": "Centralized"}, direct=direct) is None


def test_a_policy_that_bypassed_admission_is_shortened() -> None:
    """The message stays short, whatever the object holds."""
    message = unsupported_field(policy("x" * 10_000), direct=False)

    assert message is not None
    assert len(message) < 500
